"""Kernel, index, interpreter and calling the filters agree: on all that was found, and at random.

`POLYCAST_FUZZ` is for how many seconds of the processor, 30 unless told; `POLYCAST_FUZZ_SEED` is
where chance begins, so that a run can be repeated. `make torture` has hours. What is found is made
small, shown, and written to `POLYCAST_FUZZ_FOUND`; in `corpus/` it is asked in every run.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from random import Random

import pytest
from agreement import Add, Ask, Learn, Remove, Rivals, Scenario, asked, disagreement
from agreement_drawing import scenario
from agreement_shrinking import shrunk
from agreement_text import read, written

SECONDS = float(os.environ.get("POLYCAST_FUZZ", "30"))
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.txt"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_was_once_wrong_is_right(path: Path) -> None:
    known = read(path.read_text(encoding="utf-8"))
    assert any(isinstance(step, Ask) and step.events for step in known.steps)
    assert disagreement(known) is None


@pytest.mark.slow
def test_all_ways_agree_on_what_chance_brings(tmp_path: Path) -> None:
    seed = os.environ.get("POLYCAST_FUZZ_SEED") or secrets.token_hex(4)
    end = time.process_time() + SECONDS
    number = 0
    while number == 0 or time.process_time() < end:
        found = scenario(Random(f"{seed}/{number}"))
        if _is_wrong(found):
            pytest.fail(_kept(found, f"POLYCAST_FUZZ_SEED={seed}, scenario {number}", tmp_path))
        number += 1


def _is_wrong(found: Scenario) -> bool:
    """An exception is as wrong as an answer."""
    try:
        return disagreement(found) is not None
    except Exception:
        return True


def _kept(found: Scenario, origin: str, tmp_path: Path) -> str:
    small = shrunk(found, _is_wrong)
    try:
        wrong = str(disagreement(small))
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    text = f"# {wrong}\n# {origin}\n{written(small)}"
    folder = Path(os.environ.get("POLYCAST_FUZZ_FOUND", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{origin.replace('POLYCAST_FUZZ_SEED=', '').replace(', scenario ', '-')}.txt"
    path.write_text(text, encoding="utf-8")
    return f"{text}\nwritten to {path}; once it is understood it belongs in tests/matching/corpus/"


# -- the guard itself ------------------------------------------------------------------------------


def test_a_way_that_lost_a_filter_is_found() -> None:
    rivals = Rivals(None)
    rivals.add(1, "0 < event.p < 1")
    rivals.matchers["matcher in Python"].remove(1)
    wrong = asked(rivals, 0, ("Item(p=0.5)",), ())
    assert wrong is not None
    assert str(wrong) == (
        "matcher in Python, one by one, step 0: calling the filters gives event 0: [1], "
        "and it says []"
    )


def test_what_fails_is_made_small() -> None:
    large = scenario(Random(7))
    steps = (*large.steps, Add(999, "event.q > 1 and (event.p < 2 or not event.r == 3)"))
    steps += (Ask(("Item(p=1, q=2)", "Item(r=3)")),)

    def fails(found: Scenario) -> bool:
        texts = [step.text for step in found.steps if isinstance(step, Add)]
        events = [each for step in found.steps if isinstance(step, Ask) for each in step.events]
        return any("event.r == 3" in text for text in texts) and "Item(r=3)" in events

    small = shrunk(Scenario("small", "scalar", steps), fails)
    assert small == Scenario("usual", "best", (Add(999, "event.r == 3"), Ask(("Item(r=3)",))))


@pytest.mark.parametrize("seed", range(20))
def test_a_scenario_is_what_its_text_says(seed: int) -> None:
    known = scenario(Random(seed))
    assert read(written(known)) == known


def test_every_kind_of_step_has_a_text() -> None:
    steps = (Add(1, "@between(0, 1)"), Learn(9, ("Item(p=1)",)), Ask(("Item(p=1)",)), Remove(1))
    typed = Ask(("Item(p=1, q='a, b: c')",), (("p", "int8"), ("q", "string")))
    known = Scenario("small", "scalar", (*steps, typed))
    assert read(f"# why\n\n{written(known)}") == known


def test_a_line_that_is_no_step_is_refused() -> None:
    with pytest.raises(ValueError, match="'forget 1' is no step: add, remove, learn"):
        read("forget 1")
