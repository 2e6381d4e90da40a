"""Fuzzes what reads bytes of others, guided by coverage; `make torture` does, for a while.

python tests/fuzzing/fuzz.py                       # each target for a minute
python tests/fuzzing/fuzz.py --seconds 600 etcl    # one of them, for longer
python tests/fuzzing/fuzz.py --merge etcl          # keep what the runs found that covers more

It needs atheris, which is installed on demand: pip install 'polycast[fuzz]'. New inputs go to
build/fuzzing/; one that breaks a target is told with its name, to be
kept in tests/fuzzing/corpus/ with the mended code.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
MISSING = (
    "fuzzers: not run, as atheris is not installed; "
    "in the environment of the Makefile: .venv/bin/pip install -e '.[fuzz]'"
)
CORPUS = HERE / "corpus"
FOUND = HERE.parents[1] / "build" / "fuzzing"
SLOWEST, LARGEST = 10, 2_048  # seconds for one input, megabytes of a process
SMALLEST = 400  # bytes of what is kept by --merge: the corpus is read by people, too


def run_one(name: str, seconds: int, seed: int) -> None:
    """Fuzz one target in this process, which ends when the time is up or something breaks."""
    import atheris

    with atheris.instrument_imports(include=["polycast"]):
        from fuzz_targets import LONGEST, TARGETS
    found = FOUND / name
    for folder in (found, FOUND / "broken"):
        folder.mkdir(parents=True, exist_ok=True)
    limits = [f"-timeout={SLOWEST}", f"-rss_limit_mb={LARGEST}", f"-max_len={LONGEST}"]
    where = f"-artifact_prefix={FOUND / 'broken' / name}-"
    ends = [f"-max_total_time={seconds}", f"-seed={seed}", "-print_final_stats=1"]
    folders = [str(found), str(CORPUS / name)]
    atheris.Setup([sys.argv[0], *limits, where, *ends, *folders], TARGETS[name])
    atheris.Fuzz()


def fuzz(name: str, seconds: int, seed: int) -> bool:
    """Fuzz one target in a process of its own; whether nothing broke."""
    own = [sys.executable, str(Path(__file__).resolve()), "--here", name]
    begun = time.monotonic()
    run = subprocess.run(
        [*own, "--seconds", str(seconds), "--seed", str(seed)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    count = _stat(run.stderr, "stat::number_of_executed_units:")
    verdict = "nothing broke" if run.returncode == 0 else "BROKEN"
    print(
        f"{name:12} {count:>10} inputs in {time.monotonic() - begun:.0f} s, seed {seed}: {verdict}"
    )
    if run.returncode != 0:
        print(run.stdout, *run.stderr.splitlines()[-12:], sep="\n")
    return run.returncode == 0


def _stat(text: str, name: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith(name)]
    return f"{int(lines[-1].split()[-1]):,}" if lines else "?"


def merge(name: str) -> None:
    """Copy into the corpus what reaches code that nothing there reaches."""
    import atheris

    with atheris.instrument_imports(include=["polycast"]):
        from fuzz_targets import TARGETS
    small = f"-max_len={SMALLEST}"
    arguments = ["-merge=1", small, str(CORPUS / name), str(FOUND / name)]
    atheris.Setup([sys.argv[0], *arguments], TARGETS[name])
    atheris.Fuzz()


def main() -> int:
    """Fuzz the targets that were asked for, or all."""
    names = sorted(each.name for each in CORPUS.iterdir())
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", choices=[*names, []], help="default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each; default: %(default)s")
    parser.add_argument("--hours", type=float, help="for all together, instead of --seconds")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**6)
    parser.add_argument("--merge", metavar="TARGET", choices=names)
    parser.add_argument("--here", metavar="TARGET", choices=names, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if find_spec("atheris") is None:
        print(MISSING)
        return 0 if options.hours is not None else 1  # what else `make torture` does goes on
    if options.merge:
        merge(options.merge)
    elif options.here:
        run_one(options.here, options.seconds, options.seed)
    else:
        targets = options.targets or names
        seconds = options.seconds
        if options.hours is not None:
            seconds = max(1, round(options.hours * 3600 / len(targets)))
        done = [fuzz(name, seconds, options.seed) for name in targets]
        return 0 if all(done) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
