"""The contenders: polycast and a peer that is fetched when it is first needed.

What is fetched and built stays in build/peers_matching. A peer that cannot be had is left out with
one line that says why.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import matching_ours
import matching_rules
from matching_rules import Rule

HERE = Path(__file__).parent
SOURCES = HERE / "peers_matching"
CACHE = HERE.parent / "build" / "peers_matching"
ADDRESS = re.compile(r"https?://\S+?(?=:? |:?$)")
FETCHING = 300.0  # seconds that fetching and building a peer may take

POLYCAST, POLYCAST_JSON = "polycast, objects", "polycast, JSON"
RULER = "event-ruler"
NAMES = (POLYCAST, POLYCAST_JSON, RULER)

Command = list[str]


class LeftOut(Exception):
    """A contender cannot be had, or does not end in time."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What is fetched, how it is built, and how it writes a rule."""

    name: str
    version: str
    tools: tuple[str, ...]
    build: Callable[[Peer, Path], Command]
    write: Callable[[Rule], str]
    kept: str  # what is there once it has been fetched

    def command(
        self, *, find: Callable[[str], str | None] = shutil.which, fetch: bool = True
    ) -> Command:
        """How it is started; it is fetched first, if it is not there, and built."""
        lacking = [tool for tool in self.tools if find(tool) is None]
        if lacking:
            raise LeftOut(f"not installed: {', '.join(lacking)}")
        folder = CACHE / f"{self.name}-{self.version}"
        if not (fetch or (folder / self.kept).exists()):
            raise LeftOut("it has not been fetched: that takes a run without --quick")
        folder.mkdir(parents=True, exist_ok=True)
        return self.build(self, folder)


def left_out(name: str, why: object) -> str:
    """The one line about a contender that is not measured."""
    return f"left out: {name}; {why}"


def asked(command: Command, folder: Path, *, limit: float = FETCHING) -> None:
    """Run a tool; if it fails, the last line it says is the reason."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        raise LeftOut(f"`{' '.join(command[:2])}` took more than {limit:.0f} s") from None
    except OSError as error:
        raise LeftOut(f"`{command[0]}` cannot be started: {error}") from None
    if done.returncode:
        said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        why = next((line for line in said if _tells(line)), said[-1] if said else "it says nothing")
        raise LeftOut(f"`{' '.join(command[:2])}` failed: {ADDRESS.sub('the registry', why)}")


def _tells(line: str) -> bool:
    return line.startswith(("[ERROR]", "error:")) and ":" in line


POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>benchmark</groupId><artifactId>benchmark</artifactId><version>1</version>
<dependencies><dependency>
<groupId>software.amazon.event.ruler</groupId><artifactId>event-ruler</artifactId>
<version>{version}</version>
</dependency></dependencies>
</project>
"""


def _with_maven(peer: Peer, folder: Path) -> Command:
    jars, source = folder / "lib", SOURCES / "event_ruler" / "Peer.java"
    if not jars.exists():
        (folder / "pom.xml").write_text(POM.format(version=peer.version))
        fetched = folder / "fetched"
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
        asked(["mvn", "-q", "-B", *copy], folder)
        fetched.rename(jars)  # whole, or not there
    path = f"{jars}/*"
    asked(["javac", "-cp", path, "-d", str(folder), str(source)], folder)
    return ["java", "-Xms1g", "-Xmx6g", "-XX:+UseSerialGC", "-cp", f"{folder}:{path}", "Peer"]


PEERS = (
    Peer(RULER, "2.1.0", ("java", "javac", "mvn"), _with_maven, matching_rules.event_ruler, "lib"),
)


def ours(name: str, workload: str, size: int) -> Command:
    """How polycast is started."""
    way = matching_ours.OBJECTS if name == POLYCAST else matching_ours.JSON
    return [sys.executable, str(HERE / "matching_ours.py"), workload, str(size), way]


def pinned(command: Command) -> Command:
    """On one core, the same for all: they take turns."""
    if shutil.which("taskset") is None:
        return command
    return ["taskset", "-c", str(max(os.sched_getaffinity(0))), *command]


class Running:
    """A contender that has been started, and obeys one command after the other."""

    def __init__(self, name: str, command: Command, *, limit: float) -> None:
        self.name, self._limit, self._rest = name, limit, b""
        self.failed = False
        self.spent: list[tuple[int, float, float]] = []  # events, wall, CPU
        self._process = subprocess.Popen(
            pinned(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            self.built = self._answer()
        except LeftOut:
            self.close()
            raise

    def counts(self, events: int) -> list[int]:
        """How many rules the first events match, each."""
        return [int(each) for each in self._ask(f"count {events}")]

    def run(self, events: int) -> float:
        """The CPU time of so many events."""
        wall, cpu = time.perf_counter(), self._cpu()
        self._ask(f"run {events}")
        cpu, wall = self._cpu() - cpu, time.perf_counter() - wall
        self.spent.append((events, wall, cpu))
        return cpu

    def _cpu(self) -> float:
        """What all its threads have used, also a compiler's or a collector's: seen from outside.

        The clock of a process is the one that clock_getcpuclockid(3) names; only Linux lets
        others read it, and elsewhere the clock on the wall stands in.
        """
        if sys.platform != "linux":
            return time.perf_counter()
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def _ask(self, command: str) -> list[str]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure(self._last_words()) from None
        return self._answer()

    def _answer(self) -> list[str]:
        """The words of the next line, within the limit."""
        output, deadline = self._process.stdout, time.monotonic() + self._limit
        assert output is not None
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._failure(f"more than {self._limit:.0f} s")
                read = os.read(output.fileno(), 1 << 16)
                if not read:
                    raise self._failure(self._last_words())
                self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode().split()

    def _failure(self, why: str) -> LeftOut:
        self.failed = True
        return LeftOut(why)

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode(errors="replace").split("\n")
        return f"it ended: {next((line for line in said if line.strip()), 'without a word')}"

    def close(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, trace: TracebackType | None
    ) -> None:
        self.close()
