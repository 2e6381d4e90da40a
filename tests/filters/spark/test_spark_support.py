"""The table of what is supported is what the compiler does, and leaves nothing out."""

from __future__ import annotations

import contextlib

from spark_support import METHOD_EXAMPLES, SampleEvent, Support, support

from polycast.errors import FilterError, NoSparkFormError
from polycast.filters.backends.spark import compiled
from polycast.filters.backends.spark.methods import METHODS
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import parse, render
from polycast.filters.tree.operators import ARITHMETIC, BUILTINS, COMPARISONS, SIGNS

ROWS = support()


def row(group: str, name: str) -> Support:
    return next(row for row in ROWS if (row.group, row.name) == (group, name))


def test_everything_that_a_filter_may_contain_has_a_row() -> None:
    known = [cls for cls in nodes.Node.__subclasses__() if cls.__module__ == nodes.__name__]
    classes = {cls.__name__ for cls in known}
    assert {row.name for row in ROWS if row.group == "node"} == classes
    for group, table in [
        ("comparison", COMPARISONS),
        ("arithmetic", ARITHMETIC),
        ("sign", SIGNS),
        ("function", BUILTINS),
    ]:
        assert [row.name for row in ROWS if row.group == group] == list(table)
    assert METHOD_EXAMPLES.keys() == METHODS.keys()


def test_a_row_says_what_the_compiler_says() -> None:
    readable = 0
    for row in ROWS:
        assert row.accepted or row.refused
        for text, why in [*((text, None) for text in row.accepted), *row.refused]:
            with contextlib.suppress(FilterError):  # of an opaque part, say, there is no text
                tree = parse(text)
                readable += 1
                assert refusal(tree) == why
    assert readable > 200


def refusal(tree: nodes.Node) -> str | None:
    """Why it has no column."""
    try:
        compiled(tree, SampleEvent)
    except NoSparkFormError as error:
        return error.why
    return None


def test_verdicts() -> None:
    assert row("node", "Not").verdict == "always"
    assert row("node", "Opaque").verdict == "never"
    assert row("arithmetic", "**").verdict == "never"
    assert row("arithmetic", "/").verdict == "sometimes"
    assert row("method", "str.lower").verdict == "always"
    assert render(parse("event.count < event.count")) in row("comparison", "<").accepted
