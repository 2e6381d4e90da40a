"""Where a command prints: text or JSON, questions, progress; and how it is stopped."""

from __future__ import annotations

import queue
import re
import signal
import sys
import threading
import time
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from polycast.cli.formatting import Line, RichText
    from polycast.cli.pager import Pager
    from polycast.config import Clock

# What is heavy is imported where it is used: help and versions are printed without it.
_EVERY = 0.2  # seconds between two lines of progress
_SWITCH = re.compile(r"\b([a-z_]+)=True\b")


class UsageError(Exception):
    """A command line that cannot be understood or carried out: exit status 2."""


class Terminal:
    """Text for a person, or exactly one JSON document for a program."""

    def __init__(self, *, as_json: bool = False, clock: Clock | None = None) -> None:
        self.as_json = as_json
        if clock is not None:
            self.clock = clock
        self.options: frozenset[str] = frozenset()
        """The options of the command, as they are written."""
        self._shown = 0.0
        self._width = 0
        self._pager: Pager | None = None

    @cached_property
    def clock(self) -> Clock:
        """The clock that commands go by."""
        from polycast.config import SystemClock

        return SystemClock()

    def show(self, data: Any, lines: Iterable[Line], *, paged: bool = False) -> None:
        """Print the result: as data, or as lines and tables; a long list through the pager."""
        if self.as_json:
            import msgspec

            self.line(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
            return
        with self.pages(paged=paged):
            for line in lines:
                self.line(line)

    def line(self, line: Line) -> None:
        """Print a line, a table, or a JSON document; a terminal obeys nothing in it."""
        self._clear()
        text = self._rendered(line)
        # Not every terminal can show every character, and a name must not end the command.
        encoding = sys.stdout.encoding or "utf-8"
        text = text.encode(encoding, "backslashreplace").decode(encoding)
        print(text, file=self._pager or sys.stdout)

    def report(self, data: Any, text: str) -> None:
        """Print one of several results, on a line: as data, or as text."""
        if self.as_json:
            import msgspec

            text = msgspec.json.encode(data).decode()
        self.line(text)

    def _rendered(self, line: Line) -> str:
        from polycast.plain_text import plain, plain_json

        if self.as_json:
            return plain_json(str(line))
        if isinstance(line, str):
            return plain(line)
        if self._rich is not None:
            return self._rich.rendered(line)
        return "\n".join(map(plain, line.lines()))

    @cached_property
    def _rich(self) -> RichText | None:
        """What draws tables and colours: on a terminal, where `rich` is installed."""
        if not is_terminal(sys.stdout):
            return None
        try:
            from polycast.cli.formatting import RichText

            return RichText(sys.stdout)
        except ImportError:  # plain lines will do
            return None

    @contextmanager
    def pages(self, *, paged: bool = True) -> Iterator[None]:
        """Show what is longer than the screen through the user's pager."""
        if not paged or self.as_json or not is_terminal(sys.stdout):
            yield
            return
        from polycast.cli.pager import PagerLeft, pager_for

        self._pager = pager = pager_for(sys.stdout)
        try:
            yield
        except PagerLeft:
            pass
        finally:
            self._pager = None
            if pager is not None:
                pager.close()

    def flush(self) -> None:
        """Let whoever reads have it now."""
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Say something beside the result."""
        from polycast.plain_text import plain_lines

        self._clear()
        print(plain_lines(text), file=sys.stderr)

    def fail(self, error: BaseException) -> None:
        """Say what went wrong, with a code that programs can go by."""
        from polycast.errors import PolycastError

        text, code = self._in_options(error), code_of(error)
        if not isinstance(error, UsageError | PolycastError | OSError):
            kind = type(error).__name__
            text = f"{kind}: {error}. If the store may be damaged, run `polycast doctor` on it"
        if self.as_json:
            self.report({"error": {"code": code, "message": text}}, text)
        else:
            first, *more = text.splitlines() or [""]
            # Indented, so that no line of an error looks like the beginning of another.
            rest = [line if line.startswith("  ") else f"  {line}" for line in more]
            self.note("\n".join([f"error: {first} [{code}]", *rest]))

    def _in_options(self, error: BaseException) -> str:
        """What an error says, with options where it names arguments of Python."""
        from polycast.errors import BadOptionError, PolycastError

        text = str(error)
        if isinstance(error, BadOptionError) and (option := self._option(error.option)):
            text = text.replace(f"{error.option}=", f"{option} ", 1)
        if isinstance(error, PolycastError):
            text = _SWITCH.sub(lambda switch: self._option(switch[1]) or switch[0], text)
        return text

    def _option(self, argument: str) -> str:
        option = f"--{argument.replace('_', '-')}"
        return option if option in self.options else ""

    # -- with a person -----------------------------------------------------------------------------

    def confirm(self, what: str, *, yes: bool) -> bool:
        """Whether to go on: as said before, or by asking; refused where nobody can be asked."""
        from polycast.plain_text import plain

        if yes:
            return True
        if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
            raise UsageError(f"{what}. Nothing was done; say --yes to do it without being asked")
        self._clear()
        print(f"{plain(what)}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how far it is, if somebody watches."""
        now = time.monotonic()
        if self.as_json or now - self._shown < _EVERY or not is_terminal(sys.stderr):
            return
        from polycast.plain_text import plain

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
    from polycast.errors import BrokerRefusedError, PolycastError
    from polycast.errors.root import code_of as kind_code

    if isinstance(error, UsageError):
        return "usage"
    if isinstance(error, BrokerRefusedError):
        return error.code
    if not isinstance(error, PolycastError):
        return "io" if isinstance(error, OSError) else "failed"
    return kind_code(type(error))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at a stream."""
    return stream is not None and not stream.closed and stream.isatty()


# -- being stopped ---------------------------------------------------------------------------------

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether somebody wants it to stop; until `listen`, a signal interrupts at once.

    After it the first signal is only noted, and the second one interrupts.
    """

    def __init__(self) -> None:
        self.is_made = False
        self._made: queue.SimpleQueue[None] = queue.SimpleQueue()  # which a handler may fill
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            interrupt = signal.default_int_handler
            self._before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
        return self

    def listen(self) -> None:
        """Note the next signal instead of being interrupted, whoever has set handlers since."""
        for number in self._before:
            signal.signal(number, self._note)

    def wait(self, seconds: float) -> bool:
        """Whether it is made, after this time at most."""
        try:
            self._made.get(timeout=seconds)
        except queue.Empty:
            pass
        return self.is_made

    def _note(self, number: int, frame: object) -> None:
        if self.is_made:
            raise KeyboardInterrupt
        self.is_made = True
        self._made.put(None)

    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
