"""All faults at length: `python tests/proof/torture.py --kills 300 --states 5000 --seed 1`.

Ends with a table of figures; the exit status is 1 if any guarantee was broken. A seed that is named
with a violation reproduces it.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw
from proof_broker import HURTS, Company, flooded_over_a_broker
from proof_checker import check
from proof_disk import FailAt, FullAfter, Ran, run_on
from proof_flips import CLASSES, STATE, flips
from proof_kills import Troupe, careless, flooded
from proof_model import FAULTS, good_run
from proof_pipeline import AIMED, JVM, PLANNER, TREATMENTS, Works
from proof_pipeline_driver import MOMENTS
from proof_power import NAME, losses, record_run
from proof_vfs import TapeVFS

from polycast.stores.contract import Store
from polycast.stores.sqlite import SqliteStore

Step = Callable[[str], None]
STATES_PER_RUN = 100
DISTURBANCES_PER_RUN = 25
LIVES_PER_RUN = 8  # of a pipeline
APPENDS = 600  # enough for any of the faults to happen
FLOOD_SIZE = 20_000  # bytes of an event
MISLEADING = ("not explained", "silent", "wrong record")  # neither harmless nor told as damage


@dataclass
class Part:
    """One kind of fault: its figures and what was broken."""

    name: str
    figures: dict[str, int | float | str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0


def open_store(path: Path, layer: str) -> Store:
    return SqliteStore(str(path), vfs=layer)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


# -- the parts -----------------------------------------------------------------------------------


def planted(asked: argparse.Namespace, part: Part, step: Step) -> None:
    """The checker finds what is planted, and nothing else."""
    found = 0
    faults = [(rule, fault) for rule, each in FAULTS.items() for fault in each]
    for seed in range(asked.seed, asked.seed + asked.histories):
        run = good_run(seed)
        part.broken += [f"in a good history: {each}" for each in check(run.ops, run.expected)]
        for rule, fault in faults:
            rules = {each.rule for each in check(fault(random.Random(seed), run), run.expected)}
            found += rule in rules
            if rule not in rules:
                part.broken.append(f"{fault.__name__} was not found by {rule} (seed {seed})")
        step("histories")
    part.figures |= {
        "histories": asked.histories,
        "kinds of faults": len(faults),
        "planted": asked.histories * len(faults),
        "found": found,
    }


def power(asked: argparse.Namespace, part: Part, step: Step) -> None:
    """Loss of power at random moments of many runs."""
    done, syncs, seed = 0, 0, asked.seed
    while done < asked.states:
        with scratch() as folder:
            (folder / "run").mkdir()
            tape = record_run(folder / "run", open_store, seed=seed)
            syncs += sum(type(each).__name__ == "Sync" for each in tape.entries)
            states = min(STATES_PER_RUN, asked.states - done)
            for wrong in losses(tape, folder, open_store, seed=seed, states=states):
                part.broken += [wrong] if wrong else []
                done += 1
                step("states")
        seed += 1
    part.figures |= {"states": done, "runs": seed - asked.seed, "syncs": syncs}
    part.figures["found when syncs are left out"] = _lying(asked.seed)


def _lying(seed: int) -> str:
    """The same on a disk that lies: what the run would find."""
    with scratch() as folder:
        (folder / "run").mkdir()
        tape = record_run(folder / "run", open_store, seed=seed, lies="-wal")
        found = losses(tape, folder, open_store, seed=seed, states=50)
        return f"{sum(each is not None for each in found)} of 50"


def syncs(asked: argparse.Namespace, part: Part, step: Step) -> None:
    """Each of the first syncs fails once."""
    runs = []
    for number in range(1, asked.syncs + 1):
        fault = FailAt("sync", number, apsw.SQLITE_IOERR_FSYNC)
        runs.append(_failing(fault, part, appends=number + 5, seed=asked.seed + number))
        step("failed syncs")
    _tell(part, runs, "failed syncs")


def full(asked: argparse.Namespace, part: Part, step: Step) -> None:
    """The disk is full after so many bytes."""
    dice, runs = random.Random(asked.seed), []
    for number in range(asked.fulls):
        fault = FullAfter(dice.randrange(400_000 if number % 2 else 6_000_000))
        runs.append(_failing(fault, part, appends=APPENDS, seed=asked.seed + number))
        step("full disks")
    _tell(part, runs, "full disks")


def writes(asked: argparse.Namespace, part: Part, step: Step) -> None:
    """A write fails."""
    dice, runs = random.Random(asked.seed), []
    for number in range(asked.fulls):
        chosen = dice.randrange(1, 300 if number % 2 else 4_000)
        fault = FailAt("write", chosen, apsw.SQLITE_IOERR_WRITE)
        runs.append(_failing(fault, part, appends=APPENDS, seed=asked.seed + number))
        step("failed writes")
    _tell(part, runs, "failed writes")


def _failing(fault: FailAt | FullAfter, part: Part, *, appends: int, seed: int) -> Ran:
    with scratch() as folder:
        ran = run_on(fault, folder / "x", open_store, appends=appends, seed=seed)
    part.broken += [f"seed {seed}: {each}" for each in ran.wrong]
    ran.checkpointing = ran.opened and fault.happened == NAME
    if not fault.happened:
        part.broken.append(f"seed {seed}: the fault did not happen")
    return ran


def _tell(part: Part, runs: list[Ran], name: str) -> None:
    part.figures |= {
        name: len(runs),
        "refused when opened": sum(not ran.opened for ran in runs),
        "stopped": sum(ran.opened and ran.refused is not None for ran in runs),
        "of these in a checkpoint": sum(ran.checkpointing for ran in runs),
        "acknowledged and kept": sum(len(ran.kept) for ran in runs),
        "errors without a name of ours": sum(ran.unexplained for ran in runs),
    }


def flipped(asked: argparse.Namespace, part: Part, step: Step) -> None:
    """Bits of a closed store, of its state, and of the write-ahead log of one that was not."""
    layer, aimed = TapeVFS(), asked.flips // 10
    for name, tables, count in ((NAME, (), asked.flips), (NAME + "-wal", (), aimed)):
        _flip(asked, part, step, layer, name, tables, count)
    state = Part("")
    _flip(asked, state, step, layer, NAME, STATE, aimed)
    part.figures |= {f"in the state: {key}": number for key, number in state.figures.items()}
    part.broken += state.broken
    layer.unregister()


def _flip(
    asked: argparse.Namespace,
    part: Part,
    step: Step,
    layer: TapeVFS,
    name: str,
    tables: tuple[str, ...],
    count: int,
) -> None:
    classes: Counter[str] = Counter()
    with scratch() as folder:
        for kind, told in flips(
            folder,
            lambda path: open_store(path, layer.name),
            part=name,
            seed=asked.seed,
            count=count,
            tables=tables,
        ):
            classes[kind] += 1
            part.broken += [told] if kind in MISLEADING else []
            step("flips")
    place = "write-ahead log: " if name != NAME else ""
    part.figures[f"{place}flips"] = count
    part.figures |= {f"{place}{each}": classes[each] for each in CLASSES if classes[each]}


def kills(asked: argparse.Namespace, part: Part, step: Step) -> None:
    """Processes are killed and paused."""
    total: Counter[str] = Counter()
    seed = asked.seed
    while total["kills"] < asked.kills:
        with scratch() as folder, Troupe(folder, seed=seed) as troupe:
            for _ in range(DISTURBANCES_PER_RUN):
                before = troupe.verdict.figures["kills"]
                if total["kills"] + before >= asked.kills:
                    break
                troupe.disturb()
                for _ in range(troupe.verdict.figures["kills"] - before):
                    step("kills")
            verdict = troupe.finish()
        total += verdict.figures
        told = [*verdict.problems, *map(str, verdict.violations)]
        part.broken += [f"seed {seed}: {each}" for each in told]
        seed += 1
    names = {
        "kills": "kills",
        "publisher": "of a publisher",
        "subscriber": "of a subscriber",
        "both": "of both",
        "all": "of all",
        "paused": "pauses past the lease",
        "counted as dead": "times that a process noticed that it had counted as dead",
        "handed over": "events that another member of the group began",
        "accepted": "events accepted",
        "maybe": "events that may be there",
        "effect": "effects",
        "repeated effects": "repeated, where that may be",
        "doubted": "that counted as repeats and were none",
    }
    part.figures |= {"runs": seed - asked.seed}
    part.figures |= {name: total[key] for key, name in names.items()}
    with scratch() as folder:
        part.figures["violations found in a set without transactions"] = careless(
            folder, asked.seed
        )


def flood(asked: argparse.Namespace, part: Part, step: Step) -> None:
    """A publisher at full speed against a slow subscriber."""
    with scratch() as folder:
        verdict = flooded(folder, seed=asked.seed, events=asked.flood, size=FLOOD_SIZE)
    step("floods")
    part.broken += [*verdict.problems, *map(str, verdict.violations)]
    figures = verdict.figures
    part.figures |= {
        "events accepted": figures["accepted"],
        "MB published": asked.flood * FLOOD_SIZE // 1_000_000,
        "effects": figures["effect"],
        "times as fast as they were handled": figures["times as fast"],
        "KiB that the publisher grew by": figures["p1 grew by KiB"],
        "KiB that the subscriber grew by": figures["slow grew by KiB"],
    }


def brokers(asked: argparse.Namespace, part: Part, step: Step) -> None:
    """Brokers, their clients and the network between them are hurt; then comes a flood."""
    total: Counter[str] = Counter()
    seed = asked.seed
    while total["kills"] < asked.brokers:
        with scratch() as folder, Company(folder, seed=seed) as company:
            for _ in range(DISTURBANCES_PER_RUN):
                before = company.verdict.figures["kills"]
                if total["kills"] + before >= asked.brokers:
                    break
                company.disturb()
                for _ in range(company.verdict.figures["kills"] - before):
                    step("kills")
            verdict = company.finish()
        total += verdict.figures
        told = [*verdict.problems, *map(str, verdict.violations)]
        part.broken += [f"seed {seed}: {each}" for each in told]
        seed += 1
    names = {"kills": "kills", "kills of a broker": "of these of a broker"}
    names |= {key: f"times: {key}" for key in HURTS}
    names |= {
        "connections": "connections",
        "handed over": "events that another member of the group began",
        "accepted": "events accepted",
        "maybe": "events that may be there",
        "effect": "effects",
        "repeated effects": "repeated, where that may be",
        "doubted": "that counted as repeats and were none",
    }
    part.figures |= {"runs": seed - asked.seed}
    part.figures |= {name: total[key] for key, name in names.items()}
    with scratch() as folder:
        verdict = flooded_over_a_broker(
            folder, seed=asked.seed, events=asked.flood, size=FLOOD_SIZE
        )
    part.broken += [*verdict.problems, *map(str, verdict.violations)]
    grown = max(verdict.figures[f"{name} grew by KiB"] for name in ("b1", "b2"))
    part.figures["MB of a flood"] = asked.flood * FLOOD_SIZE // 1_000_000
    part.figures["KiB that the broker grew by"] = grown


WAYS: list[tuple[Callable[[Works], None], int]] = [
    *((lambda works, moment=moment: works.die_at(moment), 4) for moment in AIMED),
    (Works.die_at_random, 4),
    (Works.die_early, 3),
    (lambda works: works.lose_workers(2), 4),
    (Works.lose_a_worker_too_often, 2),
    (lambda works: works.lose(JVM), 2),
    (lambda works: works.lose(PLANNER), 2),
    (Works.be_taken_over, 1),
]
"""How a pipeline is hurt, and how often in so many."""


def pipelines(asked: argparse.Namespace, part: Part, step: Step) -> None:
    """The driver of a pipeline and its workers are killed, and its checkpoint is damaged."""
    dice, total, seed = random.Random(asked.seed), Counter[str](), asked.seed
    deck: list[Callable[[Works], None]] = []
    while total["kills"] < asked.pipelines:
        with scratch() as folder, Works(folder, seed=seed) as works:
            for _ in range(LIVES_PER_RUN):
                before = works.verdict.figures["kills"]
                if total["kills"] + before >= asked.pipelines:
                    break
                if not deck:
                    deck = [way for way, times in WAYS for _ in range(times)]
                    dice.shuffle(deck)
                deck.pop()(works)
                _meanwhile(works, dice)
                for _ in range(works.verdict.figures["kills"] - before):
                    step("kills")
            verdict = works.finish()
        total += verdict.figures
        told = [*verdict.problems, *map(str, verdict.violations)]
        part.broken += [f"seed {seed}: {each}" for each in told]
        seed += 1
    part.figures |= {"runs": seed - asked.seed} | _in_words(total)


def _meanwhile(works: Works, dice: random.Random) -> None:
    """What else may happen: to the checkpoint of one that does not run, and to the others."""
    if not works.is_running() and dice.random() < 0.6:
        name = dice.choice([*TREATMENTS, "elsewhere"])
        works.move() if name == "elsewhere" else works.treat(name)
    if dice.random() < 0.5:
        works.kill([dice.choice([*works.subscribers, *works.publishers])], counted_as="others")


def _in_words(total: Counter[str]) -> dict[str, int | float | str]:
    names = {f"killed: {moment}": f"of the driver {told}" for moment, told in MOMENTS.items()}
    names |= {"killed: at random": "of the driver at random"}
    for key in ("a worker", "every worker", "the JVM", "the process that plans"):
        names[f"killed: {key}"] = f"of {key}"
    names |= {
        "taken over": "times taken over by another pipeline",
        "others": "kills of publishers and subscribers meanwhile",
        "found: in a batch that is not kept": "found with a batch that was not kept",
        "found: in a batch that is kept": "found with a batch that was kept and not committed",
        "refused": "checkpoints refused",
    }
    names |= {f"checkpoint {name}": f"checkpoints {name}" for name in [*TREATMENTS, "elsewhere"]}
    names |= {key: key for key in ("events", "routes")}
    names |= {"pairs": "pairs of event and route", "effect": "effects in subscribers"}
    names |= {key: f"pairs {key}" for key in ("lost", "duplicated", "wrong")}
    return {"kills": total["kills"]} | {name: total[key] for key, name in names.items()}


PARTS: dict[str, tuple[str, Callable[[argparse.Namespace, Part, Step], None]]] = {
    "checker": ("the checker itself", planted),
    "power": ("loss of power", power),
    "syncs": ("failed syncs", syncs),
    "writes": ("failed writes", writes),
    "full": ("full disk", full),
    "flips": ("flipped bits", flipped),
    "kills": ("kill -9 and pauses", kills),
    "flood": ("flood", flood),
    "brokers": ("kill -9 of brokers, and a failing network", brokers),
    "pipelines": ("kill -9 of a pipeline", pipelines),
}


# -- the command ---------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Run what is asked for, and tell."""
    asked = _asked(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all processes are ended
    print(f"seed {asked.seed}", flush=True)
    done = []
    with _progress() as step:
        for key in asked.only or PARTS:
            name, run = PARTS[key]
            part, began = Part(name), time.monotonic()
            run(asked, part, lambda what, name=name: step(f"{name}: {what}"))
            part.seconds = time.monotonic() - began
            done.append(part)
            print(_table([part]), flush=True)
    if asked.markdown:
        asked.markdown.write_text(_markdown(done, asked.seed), encoding="utf-8")
    for part in done:
        for broken in part.broken[:20]:
            print(f"BROKEN, {part.name}: {broken}")
    return 1 if any(part.broken for part in done) else 0


def _asked(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (
        ("histories", 50),
        ("states", 5_000),
        ("syncs", 200),
        ("fulls", 100),
        ("flips", 1_000),
        ("kills", 300),
        ("flood", 6_000),
        ("brokers", 300),
        ("pipelines", 50),
        ("seed", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), metavar="PART")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    return parser.parse_args(arguments)


@contextmanager
def _progress() -> Iterator[Step]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stdout.isatty():
        yield lambda what: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed}"))
    with Progress(*columns, TimeElapsedColumn(), transient=True) as progress:
        tasks = {}

        def step(what: str) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=None)
            progress.advance(tasks[what])

        yield step


def _table(parts: list[Part]) -> str:
    lines = []
    for part in parts:
        verdict = f"{len(part.broken)} violations" if part.broken else "no violation"
        lines.append(f"\n{part.name}: {verdict}, {part.seconds:.0f} s")
        lines += [f"  {_number(number):>12}  {name}" for name, number in part.figures.items()]
    return "\n".join(lines)


def _markdown(parts: list[Part], seed: int) -> str:
    lines = ["| fault | figures | violations |", "|---|---|---|"]
    for part in parts:
        figures = ", ".join(f"{_number(number)} {name}" for name, number in part.figures.items())
        lines.append(f"| {part.name} | {figures} | {len(part.broken)} |")
    return "\n".join([*lines, "", f"Seed {seed}.", ""])


def _number(number: float | str) -> str:
    return number if isinstance(number, str) else f"{number:,}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
