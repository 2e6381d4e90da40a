"""Long output on a terminal, shown by the user's pager."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from typing import TextIO

_DEFAULT = "less"
_LESS = "FRX"  # as git has it: end if all fits, show colours, leave the text on the screen


class PagerLeft(Exception):
    """Whoever reads has left the pager before the end."""


def pager_for(screen: TextIO) -> Pager | None:
    """Return the pager in $PAGER, else `less`; None if there is none, or it is `cat`."""
    try:
        words = shlex.split(os.environ.get("PAGER", _DEFAULT))
    except ValueError:  # a quote that nothing ends
        return None
    program = shutil.which(words[0]) if words else None
    if program is None or words == ["cat"]:
        return None
    return Pager([program, *words[1:]], screen, shutil.get_terminal_size().lines - 1)


class Pager:
    """Holds text back until it is longer than the screen, and then gives it to a program."""

    def __init__(self, command: list[str], screen: TextIO, height: int) -> None:
        self._command, self._screen, self._height = command, screen, height
        self._held: list[str] = []
        self._lines = 0
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, text: str) -> None:
        """Show text, or hold it back; `PagerLeft` once nobody reads."""
        self._held.append(text)
        self._lines += text.count("\n")
        if self._process is None and self._lines > self._height:
            self._process = subprocess.Popen(  # noqa: S603  (the pager of whoever runs this)
                self._command,
                stdin=subprocess.PIPE,
                env={**os.environ, "LESS": os.environ.get("LESS", _LESS)},
            )
        if self._process is not None:
            self._send()

    def _send(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        text, self._held = "".join(self._held), []
        try:
            self._process.stdin.write(text.encode(errors="backslashreplace"))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PagerLeft from None

    def close(self) -> None:
        """Show what was held back, or wait until the pager ends."""
        if self._process is None:
            self._screen.write("".join(self._held))
            self._screen.flush()
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        while True:
            try:
                self._process.wait()
                return
            except KeyboardInterrupt:  # it is for the pager
                continue
