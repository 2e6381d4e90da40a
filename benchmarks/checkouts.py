"""Whether another checkout of polycast is faster or slower than this one.

`python benchmarks/checkouts.py FOLDER` has both do the same, each with the interpreter of its own
`.venv`: one slice of time the one, one slice the other, and so on, so that what else the machine
does hits both. A ratio over 1 means that this checkout is slower.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from checkouts_work import WORK
from in_process import progress
from measure import QUICK, Effort, Run, Sample, duration, race
from tables import Table, show

HERE = Path(__file__).parent
BEFORE, NOW = "before", "now"
EFFORT = Effort(rounds=25, slice=0.1, longest=20.0)
TRIED = ("in memory, in-line, 1 subscriber", "file, durable", "broker, durable")
INTERPRETER = Path(".venv") / "bin" / "python"


@dataclass
class Checkout:
    """Where polycast is, and what runs it."""

    folder: Path
    interpreter: Path

    @classmethod
    def at(cls, folder: Path) -> Checkout:
        """One that was set up."""
        interpreter = folder.absolute() / INTERPRETER
        if not interpreter.exists():
            raise SystemExit(f"{folder} has no {INTERPRETER}: run `make test` or `make demo` there")
        return cls(folder, interpreter)


@contextmanager
def worker(checkout: Checkout, name: str, folder: Path) -> Iterator[Run]:
    """Some work in a process of its own."""
    folder.mkdir()
    command = [str(checkout.interpreter), str(HERE / "checkouts_work.py"), name, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield partial(_ask, process, f"{name!r} in {checkout.folder}")
        assert process.stdin is not None
        process.stdin.close()


def _ask(process: subprocess.Popen[str], what: str, count: int) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(f"{count}\n")
    process.stdin.flush()
    told = process.stdout.readline()
    if not told:
        raise SystemExit(f"{what} has failed:\n{process.stderr.read()}")
    return float(told)


def raced(checkouts: Mapping[str, Checkout], name: str, effort: Effort) -> dict[str, Sample]:
    """Both in turn."""
    with TemporaryDirectory(dir=HERE) as made, ExitStack() as opened:
        runs = {
            who: opened.enter_context(worker(checkout, name, Path(made) / who))
            for who, checkout in checkouts.items()
        }
        return race(runs, effort)


def table(found: Mapping[str, Mapping[str, Sample]]) -> Table:
    """A row for each kind of work."""
    rows = [
        [name, *(duration(samples[who].median) for who in (BEFORE, NOW)), _ratio(samples)]
        for name, samples in found.items()
    ]
    note = "Medians. Ratios: the median of the rounds, and what eight in ten of them lie between."
    return Table("This checkout and another", ["", BEFORE, NOW, "now / before"], rows, note)


def _ratio(samples: Mapping[str, Sample]) -> str:
    ratio = samples[NOW].over(samples[BEFORE])
    return f"{ratio.median:.3f} ({ratio.low:.2f}-{ratio.high:.2f})"


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path, nargs="?", help="the other checkout, set up")
    parser.add_argument("--quick", action="store_true", help="try it out, on this one alone")
    parser.add_argument("--only", choices=[*WORK], action="append", help="only this work")
    options = parser.parse_args()
    if options.before is None and not options.quick:
        parser.error("the folder of another checkout is missing; --quick needs none")
    here = Checkout(HERE.parent, Path(sys.executable))
    before = here if options.before is None else Checkout.at(options.before)
    effort = QUICK if options.quick else EFFORT
    found = {}
    with progress() as report:
        for name in options.only or (TRIED if options.quick else WORK):
            report(name)
            found[name] = raced({BEFORE: before, NOW: here}, name, effort)
    show([table(found)])


if __name__ == "__main__":
    main()
