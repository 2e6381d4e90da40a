"""The tables of languages.py."""

from __future__ import annotations

from typing import Any

from languages_setting import (
    ETCL,
    FROM_XML,
    INTERPRETED,
    KNOWN,
    LAMBDA,
    READY_TREE,
    TYPED,
    UNKNOWN,
    WAYS,
    XPATH,
    languages,
)
from measure import Sample, Samples, duration, figures
from tables import Table

GOAL_GENERATED = 5.0  # times as fast as the interpreter
GOAL_TYPED = 2.0  # times the lambda, at most

Found = dict[Any, Samples]


def tables(one: Found, reading: Found, many: Found, ten: Found) -> list[Table]:
    """What each language costs; the goals come last."""
    beside = [_beside_lxml(one)] if any(READY_TREE in each for each in one.values()) else []
    crowds = [_matching(many), _ready10(ten)]
    return [_evaluating(one), *beside, _reading(reading), *crowds, _goals(one)]


def _of(samples: Samples, language: str, way: str) -> Sample:
    return samples[f"{language}, {way}"]


def _evaluating(one: Found) -> Table:
    rows = []
    for (form, test), samples in one.items():
        for language in languages(form):
            known, unknown, slow = (_of(samples, language, way) for way in WAYS)
            rows.append(
                (
                    *(form, test, language),
                    *(duration(each.median) for each in (known, unknown, slow)),
                    str(known.over(_of(samples, LAMBDA, KNOWN))),
                    str(slow.over(known)),
                    str(slow.over(unknown)),
                )
            )
    columns = (
        *("event", "test", "language", *WAYS),
        *("over the lambda", "interpreted over known", "interpreted over unknown"),
    )
    return Table("Languages: evaluating one filter", columns, rows)


def _beside_lxml(one: Found) -> Table:
    rows = []
    for (form, test), samples in one.items():
        if READY_TREE not in samples:
            continue
        ours = _of(samples, XPATH, KNOWN)
        ready, written = samples[READY_TREE], samples[FROM_XML]
        times = (duration(each.median) for each in (ours, ready, written))
        rows.append((form, test, *times, str(ready.over(ours)), str(written.over(ours))))
    columns = ("event", "test", "polycast's XPath", READY_TREE, FROM_XML)
    ratios = ("ready tree over polycast", "writing and parsing over polycast")
    return Table("XPath beside lxml", (*columns, *ratios), rows)


def _reading(reading: Found) -> Table:
    names = tuple(next(iter(reading.values())))
    rows = [
        (
            test,
            *(duration(samples[name].median) for name in names),
            *(str(samples[name].over(samples[LAMBDA])) for name in (ETCL, XPATH)),
        )
        for test, samples in reading.items()
    ]
    shown = (f"{name}, reading" for name in names)
    columns = ("test", *shown, "ETCL over the lambda", "XPath over the lambda")
    return Table("Languages: reading a filter", columns, rows)


def _matching(many: Found) -> Table:
    rows = [
        (
            *(form, f"{size:,}", language, duration(sample.median), figures(1 / sample.median)),
            str(sample.over(samples[LAMBDA])),
        )
        for (form, size), samples in many.items()
        for language, sample in samples.items()
    ]
    columns = ("event", "filters", "language", "time per event", "events/s", "over the lambda")
    return Table("Languages: one match among many filters", columns, rows)


def _ready10(ten: Found) -> Table:
    rows = []
    for size, samples in ten.items():
        first = next(iter(samples.values()))
        for name, sample in samples.items():
            times = (duration(sample.median), figures(1 / sample.median))
            rows.append((f"{size:,}", name, *times, str(sample.over(first))))
    columns = ("filters", "what", "time per event", "events/s", "over the lambda")
    return Table("Languages: ready10", columns, rows)


# -- goals -----------------------------------------------------------------------------------------


def _goals(one: Found) -> Table:
    """One line per language and goal; the worst test decides."""
    rows = []
    for language in (ETCL, XPATH):
        for way in (KNOWN, UNKNOWN):
            ratios = {
                (form, test): _of(samples, language, INTERPRETED).over(_of(samples, language, way))
                for (form, test), samples in one.items()
                if language in languages(form)
            }
            least = {what: ratio.median for what, ratio in ratios.items()}
            claim = f"generated, {way}: times as fast as interpreted"
            rows.append(_row(language, claim, GOAL_GENERATED, least, at_least=True))
    typed = {
        (form, test): _of(samples, ETCL, KNOWN).over(_of(samples, LAMBDA, KNOWN)).median
        for (form, test), samples in one.items()
        if form == TYPED
    }
    rows.append(_row(ETCL, "dataclass: times the lambda", GOAL_TYPED, typed, at_least=False))
    columns = ("language", "what", "goal", "best", "worst", "worst at", "met in")
    return Table("Languages, against the goals", columns, rows)


def _row(
    language: str, claim: str, goal: float, ratios: dict[Any, float], *, at_least: bool
) -> tuple[str, ...]:
    worst = (min if at_least else max)(ratios, key=lambda what: ratios[what])
    best = (max if at_least else min)(ratios.values())
    met = sum(each >= goal if at_least else each <= goal for each in ratios.values())
    bound = f"at {'least' if at_least else 'most'} {goal:.0f}"
    shown = (figures(best), figures(ratios[worst]), ", ".join(worst))
    return (language, claim, bound, *shown, f"{met} of {len(ratios)}")
