"""One test as a lambda, in ETCL and in XPath: what each language costs, and beside lxml.

Each filter is run as the code that a bus generates for events of one class, as the code for any
class, and by the interpreter; XPath also by lxml. Then come reading the text of a filter, and
many filters in one index.

python benchmarks/languages.py             # two minutes
python benchmarks/languages.py --quick     # tries it out; nothing is written
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

import ready10
from languages_figures import tables
from languages_setting import (
    CLASSES,
    CONSTANTS,
    DICT,
    ETCL,
    ETCL_TEXTS,
    FORMS,
    FROM_XML,
    LAMBDA,
    LAMBDAS,
    MADE,
    READY_TREE,
    STRUCTURED,
    TAGS,
    TESTS,
    TYPED,
    XPATH,
    XPATH_TEXTS,
    Test,
    filter_of,
    languages,
    unwanted,
    wanted,
    ways,
)
from measure import QUICK, Effort, Run, Samples, apart, cpu_time, race, setting
from tables import Table, show

import polycast as pc

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "languages.json"

COMPILING = "lxml"
COUNTS = (1_000, 10_000)
FEW = (500,)  # where it is only tried out
READY10_KINDS = ((LAMBDA, TYPED), (ETCL, TYPED), (ETCL, STRUCTURED), (ETCL, DICT))
READY10_EVENTS = 5_000
NO_LXML = "lxml is not installed: XPath is not measured beside it. Accepted: pip install lxml"

Found = dict[str, dict[Any, Samples]]


# -- one filter ------------------------------------------------------------------------------------


def _asking(test: Test, event: Any) -> Run:
    def run(repeats: int) -> float:
        start = cpu_time()
        for _ in range(repeats):
            test(event)
        return cpu_time() - start

    return run


def _by_lxml(test: str, form: str) -> dict[str, tuple[Test, Any]]:
    """What lxml is asked, and the event as it is given to it."""
    if form == STRUCTURED or find_spec("lxml") is None:
        return {}
    from lxml import etree

    holds = etree.XPath(f"boolean({XPATH_TEXTS[test]})")
    parser = etree.fromstring
    return {
        READY_TREE: (holds, lambda event: parser(pc.filterable_xml(event))),
        FROM_XML: (lambda event: holds(parser(pc.filterable_xml(event))), lambda event: event),
    }


def contenders(form: str, test: str) -> dict[str, Run]:
    """All ways of all languages; they agree about every event."""
    event, runs = wanted(form), {}
    for language in languages(form):
        for way, ask in ways(filter_of(language, form, test), form).items():
            _check(f"{language}, {way}", ask, lambda each: each, form, test)
            runs[f"{language}, {way}"] = _asking(ask, event)
    for name, (ask, given) in _by_lxml(test, form).items():
        _check(name, ask, given, form, test)
        runs[name] = _asking(ask, given(event))
    return runs


def _check(name: str, ask: Test, given: Test, form: str, test: str) -> None:
    by_hand = LAMBDAS[form][test]
    for event in (wanted(form), *unwanted(form)):
        if bool(ask(given(event))) is not bool(by_hand(event)):
            raise AssertionError(f"{test}: {name} differs from the lambda on {event}")


def one(form: str, test: str, effort: Effort) -> Samples:
    """All contenders of one test, timed."""
    return race(contenders(form, test), effort)


# -- reading a filter ------------------------------------------------------------------------------


def _reading(read: Callable[[str], object], text: str, constant: str) -> Run:
    """Each time another text, since parts of texts are remembered."""
    numbers = count()

    def run(repeats: int) -> float:
        several = islice(numbers, repeats)
        texts = [text.replace(constant, f"{constant}{number}") for number in several]
        start = cpu_time()
        for each in texts:
            read(each)
        return cpu_time() - start

    return run


def _lifting(function: Test) -> Run:
    def run(repeats: int) -> float:
        start = cpu_time()
        for _ in range(repeats):
            pc.Filter(function)
        return cpu_time() - start

    return run


def parsing(test: str, effort: Effort) -> Samples:
    """Reading one test in all languages."""
    etcl, xpath, constant = ETCL_TEXTS[test], XPATH_TEXTS[test], CONSTANTS[test]
    runs = {
        LAMBDA: _lifting(LAMBDAS[TYPED][test]),
        ETCL: _reading(lambda text: pc.parse_filter(text, "etcl"), etcl, constant),
        XPATH: _reading(lambda text: pc.parse_filter(text, "xpath"), xpath, constant),
    }
    if find_spec("lxml") is not None:
        from lxml import etree

        runs[COMPILING] = _reading(etree.XPath, xpath, constant)
    return race(runs, effort)


# -- many filters ----------------------------------------------------------------------------------


def _numbered(language: str, form: str, number: int) -> pc.Filter[Any]:
    """A filter that one cause of so many passes."""
    cause = f"cause {number}"
    if language == ETCL:
        return pc.parse_filter(f"$cause == '{cause}' and $severity >= 3", "etcl")
    if language == XPATH:
        named = '/struct/member[name="{}"]/value'.format
        text = f'{named("cause")} = "{cause}" and {named("severity")} >= 3'
        return pc.parse_filter(text, "xpath")
    if form == TYPED:
        return pc.Filter(lambda event: event.cause == cause and event.severity >= 3)
    if form == DICT:
        return pc.Filter(lambda event: event["cause"] == cause and event["severity"] >= 3)
    return pc.Filter(
        lambda event: (
            event.filterable_data["cause"] == cause and event.filterable_data["severity"] >= 3
        )
    )


def _matching(language: str, form: str, size: int) -> Run:
    matcher: pc.Matcher[int] = pc.Matcher()
    for number in range(size):
        matcher.add(number, CLASSES[form], _numbered(language, form, number))
    several = range(0, size, size // 500)
    events = [MADE[form](f"cause {number}", 4, "Rome", TAGS) for number in several]
    match = matcher.match
    for number, event in zip(several, events, strict=True):
        if list(match(event)) != [number]:
            raise AssertionError(f"{language}: {event} does not match filter {number} alone")
    return _stream(matcher, events)


def _stream(matcher: pc.Matcher[int], events: list[Any]) -> Run:
    stream, match = cycle(events), matcher.match

    def run(repeats: int) -> float:
        start = cpu_time()
        for event in islice(stream, repeats):
            match(event)
        return cpu_time() - start

    return run


def many(form: str, size: int, effort: Effort) -> Samples:
    """An index of so many filters, in all languages."""
    runs = {language: _matching(language, form, size) for language in languages(form)}
    return race(runs, effort)


def _ready10(form: str, language: str, size: int) -> tuple[pc.Matcher[int], list[Any]]:
    """Who subscribes in a language, and events in a form."""
    matcher: pc.Matcher[int] = pc.Matcher()
    subscriptions, events = ready10.subscriptions(size), ready10.events(READY10_EVENTS)
    component = "$" if form == STRUCTURED else "$."
    if language == LAMBDA:
        filters: list[pc.Filter[Any]] = list(ready10.filters(subscriptions))
    else:
        texts = [ready10.etcl_text(each, component) for each in subscriptions]
        filters = [pc.parse_filter(text, "etcl") for text in texts]
    made: dict[str, Callable[[Any], Any]] = {
        TYPED: lambda event: event,
        DICT: asdict,
        STRUCTURED: lambda event: pc.StructuredEvent(filterable_data=asdict(event)),
    }
    classes = {TYPED: ready10.Quote10, DICT: dict, STRUCTURED: pc.StructuredEvent}
    for number, each in enumerate(filters):
        matcher.add(number, classes[form], each)
    return matcher, [made[form](event) for event in events]


def crowd(size: int, effort: Effort) -> Samples:
    """The subscriptions of ready10, as lambdas and in ETCL."""
    runs: dict[str, Run] = {}
    expected: list[list[int]] = []
    for language, form in READY10_KINDS:
        matcher, events = _ready10(form, language, size)
        for _ in range(2):  # the second time it has learnt from the first
            found = [sorted(matcher.match(event)) for event in events]
        expected = expected or found
        if found != expected:
            raise AssertionError(f"{language} of a {form} finds others than the lambda")
        runs[f"{language}, {form}"] = _stream(matcher, events)
    return race(runs, effort)


# -- all of it -------------------------------------------------------------------------------------


def measure(effort: Effort, report: Callable[[str], None]) -> Found:
    """Everything, in order."""
    single, reading, crowds = {}, {}, {}
    counts = FEW if effort.is_quick else COUNTS
    for form in FORMS:
        for test in TESTS:
            report(f"{form}: {test}")
            single[form, test] = apart(one, form, test, effort)
    for test in TESTS:
        report(f"reading: {test}")
        reading[test] = apart(parsing, test, effort)
    for form in FORMS:
        for size in counts:
            report(f"{form}: {size:,} filters")
            crowds[form, size] = apart(many, form, size, effort)
    ten = {}
    for size in counts:
        report(f"ready10: {size:,} filters")
        ten[size] = apart(crowd, size, effort)
    return {"one": single, "reading": reading, "many": crowds, "ten": ten}


def write(found: Found, shown: list[Table]) -> None:
    """All rounds, and the tables made of them."""
    content = {
        "setting": {**setting(), "lxml": version("lxml") if find_spec("lxml") else None},
        **{name: _plain(each) for name, each in found.items()},
        "tables": [table.plain() for table in shown],
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _plain(found: dict[Any, Samples]) -> list[dict[str, object]]:
    return [
        {
            "what": what,
            "seconds": {name: list(each.times) for name, each in samples.items()},
        }
        for what, samples in found.items()
    ]


def main() -> None:
    """Measure, write, show."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try it out; nothing is written")
    effort = QUICK if parser.parse_args().quick else Effort()
    from in_process import progress  # here, so that the processes that measure load no peers

    if find_spec("lxml") is None:
        print(NO_LXML)
    with progress() as report:
        found = measure(effort, report)
    shown = tables(**found)
    if not effort.is_quick:
        write(found, shown)
    show(shown)


if __name__ == "__main__":
    main()
