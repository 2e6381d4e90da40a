"""Measures what attacks of one tenant do to another one at the same broker.

python benchmarks/attacks.py                       # about 16 minutes
python benchmarks/attacks.py --quick               # tries a few of them out; nothing is written
python benchmarks/attacks.py --only "wrong tokens" # one of them; nothing is written

The victim publishes a hundred events a second and gets them back; how long each takes is measured
without an attack, and while each attack goes on. It takes a machine with at least two cores.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from attacks_made import ATTACKS
from attacks_setting import Attacker, House, Victim
from broker_latency import percentile
from broker_setting import BROKER_CORES, CLIENT_CORES, Report, child
from measure import duration, setting
from tables import Table, show

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "attacks.json"
FACTOR, MORE = 2.0, 0.050  # the goal: at most so many times as long, and so many seconds more
A_FEW = ("a text times a number", "ten thousand reads in a frame, without rights", "wrong tokens")

Found = dict[str, list[float]]
ALONE = "no attack"


def measure(names: list[str], seconds: float, report: Report) -> tuple[Found, dict[str, int]]:
    """The victim's latencies: without an attack, and during each, at a broker of its own.

    And how many events each attack has published meanwhile.
    """
    found: Found = {ALONE: []}
    more = {ALONE: 0}
    for number, name in enumerate(names, 1):
        report(f"{number} of {len(names)}: {name}")
        with child(House, cores=BROKER_CORES) as house:
            url, secrets = house.ask("open")
            with (
                child(Victim, url, secrets.shop, cores=CLIENT_CORES) as victim,
                child(Attacker, url, secrets, cores=CLIENT_CORES) as attacker,
            ):
                victim.ask("latencies", seconds / 4)  # all is loaded now
                found[ALONE] += victim.ask("latencies", seconds / 2)
                attacker.ask("begin", name)
                time.sleep(seconds / 8)
                before = house.ask("published")
                found[name] = victim.ask("latencies", seconds)
                more[name] = house.ask("published") - before - len(found[name])
                attacker.ask("end")
    found[ALONE].sort()
    return found, more


def bound(found: Found) -> float:
    """What the victim's p99 may be."""
    return FACTOR * percentile(found[ALONE], 0.99) + MORE


def table(found: Found, published: dict[str, int]) -> Table:
    """How the victim fares, the worst first."""
    most = bound(found)
    order = sorted(found, key=lambda name: -percentile(found[name], 0.99))
    rows = [
        (
            name,
            *(duration(percentile(found[name], share)) for share in (0.5, 0.99, 1.0)),
            f"{len(found[name]):,}",
            f"{published[name]:,}",
            "" if name == ALONE else "yes" if percentile(found[name], 0.99) <= most else "NO",
        )
        for name in order
    ]
    columns = (
        "attack",
        "p50",
        "p99",
        "longest",
        "measured",
        "attacker's events",
        "p99 within the bound",
    )
    title = f"From when a victim's event is due to its callback; the bound is {duration(most)}"
    return Table(title, columns, rows)


def main() -> None:
    """Measure, write, show."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try a few; nothing is written")
    parser.add_argument("--only", choices=[*ATTACKS], action="append", help="only this attack")
    parser.add_argument("--seconds", type=float, default=6.0, help="for which an attack lasts")
    options = parser.parse_args()
    from in_process import progress  # here, so that the processes that measure load no peers

    names = options.only or list(A_FEW if options.quick else ATTACKS)
    with progress() as report:
        found, published = measure(names, 1.0 if options.quick else options.seconds, report)
    shown = table(found, published)
    if not options.quick and not options.only:
        plain = {
            name: [percentile(each, q) for q in (0.5, 0.99, 1.0)] for name, each in found.items()
        }
        content = {"setting": setting(), "seconds": plain, "bound": bound(found)}
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(content | {"table": shown.plain()}, indent=1) + "\n")
    show([shown])


if __name__ == "__main__":
    main()
