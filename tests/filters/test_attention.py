"""What a filter looks at in an event."""

from __future__ import annotations

from typing import Any

import pytest

import polycast as pc
from polycast.filters.tree.projection import attributes_read


def looks_into(event: Any) -> bool:
    found = event.names
    return bool(found)


SOME: list[tuple[Any, set[str]]] = [
    (lambda e: e.price > 3, {"price"}),
    (lambda e: e.customer.name == "x", {"customer"}),
    (lambda e: e.lines[0].price < e.limit, {"lines", "limit"}),
    (lambda e: any(line.price > e.limit for line in e.lines), {"lines", "limit"}),
    (lambda e: e.name.startswith("a") and not e.tags, {"name", "tags"}),
    (lambda e: len(e.tags) + 1 in (2, e.n), {"tags", "n"}),
    (lambda e: isinstance(e.data, int), {"data"}),
    (pc.conditions.Equals("/customer/name", "x"), {"customer"}),
    (lambda e: True, set()),
]
WHOLE: list[Any] = [
    lambda e: e == 3,
    lambda e: e,
    lambda e: isinstance(e, int),
    lambda e: e.price > 3 or e is None,
    lambda e: e.total() > 3,
    lambda e: len(e) > 3,
    lambda e: e[0] == 3,
    lambda e: any(x == e for x in e.lines),
    lambda e: e.__dict__["price"] > 3,
    lambda e: e.price > 3 and looks_into(e),
    looks_into,
]


@pytest.mark.parametrize(("function", "names"), SOME)
def test_the_attributes_of_the_event_itself_are_what_is_asked_for(
    function: Any, names: set[str]
) -> None:
    assert attributes_read(pc.Filter(function).tree) == names


@pytest.mark.parametrize("function", WHOLE)
def test_who_takes_the_event_as_a_whole_may_ask_for_anything(function: Any) -> None:
    assert attributes_read(pc.Filter(function).tree) is None
