"""Where a command prints: text or JSON, questions, progress."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from polycast.config import SystemClock
from polycast.errors import BadOptionError, BrokerRefusedError, PolycastError
from polycast.errors.root import code_of as kind_code
from polycast.plain_text import plain, plain_json, plain_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.config import Clock

__all__ = ["Refused", "Terminal", "code_of"]

_EVERY = 0.2  # seconds between two lines of progress
_SWITCH = re.compile(r"\b([a-z_]+)=True\b")


class Refused(Exception):
    """Something that was asked in a way that cannot be done: exit status 2."""


class Terminal:
    """Text for a person, or exactly one JSON document for a program."""

    def __init__(self, *, as_json: bool = False, clock: Clock | None = None) -> None:
        self.as_json = as_json
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.options: frozenset[str] = frozenset()
        """The options of the command, as they are written."""
        self._shown = 0.0
        self._width = 0

    def show(self, data: Any, lines: Iterable[str]) -> None:
        """Print the result: as data, or as lines."""
        if self.as_json:
            self.line(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
            return
        for line in lines:
            self.line(line)

    def line(self, text: str) -> None:
        """Print a line, or a JSON document; a terminal obeys nothing in it."""
        self._clear()
        safe = plain_json(text) if self.as_json else plain(text)
        # Not every terminal can show every character, and a name must not end the command.
        encoding = sys.stdout.encoding or "utf-8"
        print(safe.encode(encoding, "backslashreplace").decode(encoding))

    def flush(self) -> None:
        """Let whoever reads have it now."""
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Say something beside the result."""
        self._clear()
        print(plain_lines(text), file=sys.stderr)

    def fail(self, error: BaseException) -> None:
        """Say what went wrong, with a code that programs can go by."""
        text, code = self._in_options(error), code_of(error)
        if not isinstance(error, Refused | PolycastError | OSError):
            kind = type(error).__name__
            text = f"{kind}: {error}. If the store may be damaged, run `polycast doctor` on it"
        if self.as_json:
            data = {"error": {"code": code, "message": text}}
            self.line(msgspec.json.encode(data).decode())
        else:
            first, *more = text.splitlines() or [""]
            # Indented, so that no line of an error looks like the beginning of another.
            rest = [line if line.startswith("  ") else f"  {line}" for line in more]
            self.note("\n".join([f"error: {first} [{code}]", *rest]))

    def _in_options(self, error: BaseException) -> str:
        """What an error says, with options where it names arguments of Python."""
        text = str(error)
        if isinstance(error, BadOptionError) and (option := self._option(error.option)):
            text = text.replace(f"{error.option}=", f"{option} ", 1)
        if isinstance(error, PolycastError):
            text = _SWITCH.sub(lambda found: self._option(found[1]) or found[0], text)
        return text

    def _option(self, argument: str) -> str:
        option = f"--{argument.replace('_', '-')}"
        return option if option in self.options else ""

    # -- with a person -----------------------------------------------------------------------------

    def confirm(self, what: str, *, yes: bool) -> bool:
        """Whether to go on: as said before, or by asking; refused where nobody can be asked."""
        if yes:
            return True
        if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
            raise Refused(f"{what}. Nothing was done; say --yes to do it without being asked")
        self._clear()
        print(f"{plain(what)}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how far it is, if somebody watches."""
        now = time.monotonic()
        if self.as_json or now - self._shown < _EVERY or not _is_terminal(sys.stderr):
            return
        self._shown = now
        part = f"{done / total:.0%}" if total else "..."
        self._clear()
        text = f"{plain(what)}: {part}"
        print(f"\r{text}", end="", file=sys.stderr, flush=True)
        self._width = len(text)

    def _clear(self) -> None:
        if self._width:
            print(f"\r{' ' * self._width}\r", end="", file=sys.stderr, flush=True)
            self._width = 0


def code_of(error: BaseException) -> str:
    """The code of an error: that of the broker, or its name, as in `not-a-store`."""
    if isinstance(error, Refused):
        return "usage"
    if isinstance(error, BrokerRefusedError):
        return error.code
    if not isinstance(error, PolycastError):
        return "io" if isinstance(error, OSError) else "failed"
    return kind_code(type(error))


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
