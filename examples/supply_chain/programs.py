"""Programs of their own: how the demo starts them, and how they talk with it.

Each line that a program prints is a JSON object; each line that it is sent is a command. It ends
when its input ends, so nothing is left behind when the demo is gone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

__all__ = ["Job", "Program", "commands", "job", "say"]

PATIENCE = 20.0  # seconds for a program to end by itself


class Job(msgspec.Struct, frozen=True):
    """What all programs have to know."""

    url: str
    folder: str
    events: int
    subscriptions: int
    seed: int
    engine: str
    rate: float
    party: str = ""

    @property
    def warm(self) -> int:
        """How many events come first, until everything is up: enough for every worker of Spark."""
        return self.events // 20

    @property
    def steady(self) -> int:
        """Up to which event the stream is steady; the rest is the rush."""
        return self.warm + self.events * 6 // 10

    @property
    def turn(self) -> int:
        """At which event the US have a new rate."""
        return (self.warm + self.steady) // 2


def job() -> Job:
    """What this program was started with."""
    return msgspec.json.decode(sys.argv[1], type=Job)


def say(**facts: Any) -> None:
    """Tell the demo."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def commands() -> Iterator[str]:
    """What the demo asks for, until it is over."""
    return (line.strip() for line in sys.stdin)


class Program:
    """One program, as the demo sees it."""

    def __init__(self, module: str, job: Job, hear: Callable[[dict[str, Any]], None]) -> None:
        self.module, self._hear = module, hear
        self.heard: dict[str, Any] = {}
        command = [
            sys.executable,
            *(f"-W{warnoption}" for warnoption in sys.warnoptions),
            "-m",
            module,
        ]
        self._process = subprocess.Popen(
            [*command, msgspec.json.encode(job).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for the demo, which then ends its programs
        )
        self._complaints: list[str] = []
        self._threads = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._read_complaints, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            facts = json.loads(line)
            self.heard.update(facts)
            self._hear(facts)

    def _read_complaints(self) -> None:
        assert self._process.stderr is not None
        self._complaints.extend(self._process.stderr)

    def send(self, command: str) -> None:
        assert self._process.stdin is not None
        try:
            print(command, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            self.check()

    def check(self) -> None:
        """Raise what ended it, if it has ended before its time."""
        code = self._process.poll()
        if code:
            self._threads[1].join(1.0)
            told = "".join(self._complaints[-30:]).strip() or "it said nothing"
            raise RuntimeError(f"{self.module} ended with {code}:\n{told}")

    @property
    def complaints(self) -> list[str]:
        """What it wrote to its standard error: warnings, and what went wrong."""
        return list(self._complaints)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Let it end, and see to it that it does; at once if something went wrong."""
        if kind is not None:
            self._process.terminate()
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(5.0)
