"""Functions that were typed into a real interpreter on a real terminal."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

pty = pytest.importorskip("pty")
pytest.importorskip("readline")

PROMPT, MORE = b">>> ", b"... "
SECONDS = 60
TYPED = [
    "import polycast as pc",
    "f = lambda t: t.a > 1",
    "def g(t):",
    "    return (t.a > 3  # a comment",
    "      and t.b)",
    "",
    "class C:",
    "    def m(self, t): return t.__x == 'é'",
    "",
    "x = 5",
    "print('f', pc.lift(f), pc.lift(g), sep=' -> ')",
    "print('m', pc.lift(C().m), pc.lift(lambda t: t.c == x), sep=' -> ')",
]


class Shell:
    """An interpreter on a terminal of its own."""

    def __init__(self, folder: Path, *, basic: bool) -> None:
        self.terminal, inside = pty.openpty()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") or "PATH" in k}
        own = {"HOME": str(folder), "TERM": "dumb" if basic else "xterm", "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen(
            [sys.executable, "-q"],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env={**kept, **own},
            start_new_session=True,
        )
        os.close(inside)
        self.shown = b""

    def wait_for(self, mark: bytes, seen: int) -> int:
        end = time.monotonic() + SECONDS
        while mark not in self.shown[seen:]:
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            assert ready, self.shown.decode(errors="replace")
            self.shown += os.read(self.terminal, 65536)
        return len(self.shown)

    def type(self, lines: list[str]) -> str:
        seen = self.wait_for(PROMPT, 0)
        inside = False
        for line in lines:
            inside = bool(line) and (inside or line.endswith(":"))
            os.write(self.terminal, f"{line}\n".encode())
            seen = self.wait_for(MORE if inside else PROMPT, seen)
        return self.shown.decode(errors="replace")

    def close(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)
        os.close(self.terminal)


def shown_after(folder: Path, typed: list[str], *, basic: bool) -> str:
    shell = Shell(folder, basic=basic)
    try:
        return shell.type(typed)
    finally:
        shell.close()


def test_what_was_typed_is_lifted(tmp_path: Path) -> None:
    shown = shown_after(tmp_path, TYPED, basic=True)
    assert "f -> event.a > 1 -> (event.a > 3) and event.b" in shown
    assert "m -> event._C__x == 'é' -> event.c == 5" in shown


@pytest.mark.skipif(sys.version_info < (3, 13), reason="older shells are all the basic one")
def test_what_was_typed_into_the_newer_shell_is_lifted(tmp_path: Path) -> None:
    # It indents by itself, hence no blocks; and it paints its prompt again for every key.
    shell = Shell(tmp_path, basic=False)
    try:
        shell.type([*TYPED[:2], "x = 5"])
        os.write(shell.terminal, b"print(pc.lift(f), pc.lift(lambda t: t.c == x), sep=' -> ')\n")
        shell.wait_for(b"event.a > 1 -> event.c == 5", 0)
    finally:
        shell.close()
