"""A broker in a process of its own, which has none of the classes of a test."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Self

__all__ = ["BrokerProcess"]


class BrokerProcess:
    """`polycast serve`, until the block ends."""

    def __init__(self, store: str, *options: str, listen: str = "127.0.0.1:0") -> None:
        command = [sys.executable, "-m", "polycast", "serve", "--json", "--store", store]
        self._process = subprocess.Popen(
            [*command, "--listen", listen, *options], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.ready = json.loads(self._process.stdout.readline())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        return str(self.ready["url"])

    def kill(self) -> None:
        """It is gone, without a word."""
        self._process.kill()
        self._process.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()
