"""Names that attackers would try, and what shows that none of them was followed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MODULE = "hostile_shop"

# What can be reached from a module of the operator, and from Python itself.
HOSTILE = (
    "builtins:exec",
    "builtins:eval",
    "builtins:print",
    "builtins:open",
    "builtins:getattr",
    "builtins:__import__",
    "builtins:breakpoint",
    "os:system",
    "posix:system",
    "subprocess:run",
    "subprocess:Popen",
    "this:s",
    "antigravity:webbrowser.open",
    f"{MODULE}:os.system",
    f"{MODULE}:os.path.os.system",
    f"{MODULE}:subprocess.run",
    f"{MODULE}:system",
    f"{MODULE}:run",
    f"{MODULE}:Popen",
    f"{MODULE}:partial",
    f"{MODULE}:half",
    f"{MODULE}:cached",
    f"{MODULE}:runner",
    f"{MODULE}:runner.__call__",
    f"{MODULE}:importlib.import_module",
    f"{MODULE}:_wipe",
    f"{MODULE}:__builtins__",
    f"{MODULE}:__plan__",
    f"{MODULE}:__loader__.load_module",
    f"{MODULE}:is_urgent.__globals__",
    f"{MODULE}:is_urgent.__call__",
    f"{MODULE}:is_urgent.__class__",
    f"{MODULE}:Spec.os",
    f"{MODULE}:Spec.os.system",
    f"{MODULE}:Spec.tool",
    f"{MODULE}:Spec.shell",
    f"{MODULE}:Spec.static",
    f"{MODULE}:Spec._hidden",
    f"{MODULE}:Spec.half",
    f"{MODULE}:Spec.mro",
    f"{MODULE}:Spec.__init__",
    f"{MODULE}:Spec.__subclasses__",
    f"{MODULE}:Spec.to_us.__globals__",
    f"{MODULE}:Reader.check_returncode",
    f"{MODULE}.os:system",
    f"{MODULE}.os.system",
    f"{MODULE}::system",
    f"{MODULE}:",
    ":system",
    "",
    ":",
    f"{MODULE}:is_urgent:os.system",
    f"{MODULE}:is_urgent\x00",
    f" {MODULE}:is_urgent",
    "../hostile_shop:is_urgent",
    "polycast.names:imported",
    "polycast:names.imported",
    "polycast.cli.operands:import_modules",
    "x" * 100_000,
)
# Of the modules that these name, the ones that a test run has no other reason to load.
NEVER = ("this", "antigravity")


@contextmanager
def nothing_happens() -> Iterator[list[str]]:
    """No module is imported and no program is run while names are tried."""
    seen: list[str] = []
    for name in NEVER:
        sys.modules.pop(name, None)
    before = set(sys.modules)
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)
    assert set(sys.modules) == before
    assert seen == []


# An audit hook cannot be taken off; without somebody watching it does nothing.
_watching: list[list[str]] = []
_RUNS = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "import", "exec")


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if _watching and event in _RUNS and not _is_ours(event, args):
        for seen in _watching:
            seen.append(f"{event} {args!r:.200}")


def _is_ours(event: str, args: tuple[Any, ...]) -> bool:
    """Generated code is run under a label of polycast, dataclasses and msgspec generate too."""
    return event == "exec"


sys.addaudithook(_hear)


def shell(place: os.PathLike[str]) -> str:
    """A program that leaves a trace."""
    return f"touch {os.fspath(place)}"
