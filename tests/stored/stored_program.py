"""A subscriber in a process of its own: it prints what it gets, and does as it is told.

`python stored_program.py URL JOB` with a job as JSON. Each line of its output is a JSON list.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from stored_events import Sale

import polycast as pc

__all__ = ["DEADLINE", "Program"]

DEADLINE = 10.0  # only a broken program reaches it


class Program:
    """A subscriber that runs elsewhere."""

    def __init__(self, url: str, job: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), url, json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._said: queue.Queue[list[Any]] = queue.Queue()
        self.heard: list[list[Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            self.heard.append(said)
            self._said.put(said)

    def hear(self, what: str) -> list[Any]:
        """Wait until it says something of a kind; the rest of the line."""
        while True:
            said = self._said.get(timeout=DEADLINE)
            if said[0] == what:
                return said[1:]

    def got(self) -> list[int]:
        """The numbers of the events it has handled so far."""
        return [said[1] for said in self.heard if said[0] == "got"]

    def tell(self, what: str) -> None:
        """Tell it to do something: go, flush, close."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """Let it stand still."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """It is gone, without a word."""
        self._process.kill()
        self._process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def ended(self) -> None:
        """Wait until it has ended by itself."""
        self._process.wait(DEADLINE)

    def end(self) -> None:
        """Close its bus, and wait for its end."""
        self.tell("close")
        assert self._process.wait(DEADLINE) == 0


def _say(*what: Any) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def main(url: str, job: dict[str, Any]) -> None:
    """Subscribe, then do what is asked."""
    held, go = set(job.pop("hold", [])), threading.Event()
    alive = job.pop("heartbeat_timeout", 10.0)
    bus = pc.Bus(url, publisher=job.pop("publisher", "elsewhere"), heartbeat_timeout=alive)

    deadly = job.pop("deadly", -1)

    def handle(sale: Sale, delivery: pc.Delivery) -> None:
        if sale.number == deadly:
            os._exit(1)
        if sale.number in held:
            _say("began", sale.number, delivery.token)
            go.wait(DEADLINE)
        if job.get("ack") == "manual":
            try:
                delivery.ack()
            except pc.NotSettledError as error:
                _say("refused", sale.number, str(error))
                return
        _say("got", sale.number, delivery.token, delivery.count)

    try:
        bus.subscribe(Sale, handle, **job)
    except pc.DurableChangedError as error:
        _say("changed", error.difference)
        bus.close()
        return
    _say("ready")
    for line in sys.stdin:
        match line.strip():
            case "go":
                go.set()
            case "flush":
                _say("flushed", bus.flush(DEADLINE))
            case "close":
                break
    bus.close()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
