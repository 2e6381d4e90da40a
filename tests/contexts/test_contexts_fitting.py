"""What is copied by name has to fit: tuples place by place, dicts with their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import make_dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.contexts.inheritance import settle
from polycast.contexts.reflective import reflect

FITTING = [
    (tuple[int, str], tuple[int, str]),
    (tuple[int, str], tuple[float, str | None]),
    (tuple[int, int], tuple[int, ...]),
    (tuple[int, str], tuple),
    (tuple[int, str] | None, Any),
    (dict[str, int], Mapping[str, float]),
    (dict[str, int], dict[Any, int]),
    (dict[str, int], dict),
]
NOT_FITTING = [
    (tuple[int, str], tuple[str, str]),
    (tuple[int, str], tuple[int, str, str]),
    (tuple[int, str], tuple[int, ...]),
    (tuple[int, ...], tuple[int, int]),
    (list[tuple[int, str]], list[tuple[str, str]]),
    (dict[int, float], dict[str, float]),
]


def copying(held: Any, wanted: Any, *rules: str, default: Any = ...) -> tuple[pc.Context, Any, Any]:
    """A context with a mapping of one attribute, its source and its target."""
    source = make_dataclass("Source", [("x", held)], frozen=True)
    given = () if default is ... else (default,)
    target = make_dataclass("Target", [("x", wanted, *given)], frozen=True)
    root = pc.Context("root", types=[source])
    us = pc.Context("us", parent=root, types=[target])
    us.map(source, target, "?")
    for each in rules:
        us.rule(each, pc.identity)
    return us, source, target


@pytest.mark.parametrize(("held", "wanted"), FITTING)
def test_what_fits_is_copied(held: Any, wanted: Any) -> None:
    us, source, target = copying(held, wanted)
    value = {"a": 1} if "dict" in str(held) else (1, 2)
    federation = pc.Federation(us.root)
    federation.add(us)
    assert federation.translate(source(value), target=us) == target(value)
    assert reflect(settle(us), "?", source(value)) == target(value)


@pytest.mark.parametrize(("held", "wanted"), NOT_FITTING)
def test_what_does_not_fit_is_found_ahead(held: Any, wanted: Any) -> None:
    us, _, _ = copying(held, wanted)
    assert [each.code for each in us.check().errors] == ["nothing-produces"]


@pytest.mark.parametrize(("held", "wanted"), NOT_FITTING[:3])
def test_a_tuple_that_does_not_fit_does_not_fit_by_identity_either(held: Any, wanted: Any) -> None:
    us, _, _ = copying(held, wanted, "Source.x")
    assert [each.code for each in us.check().errors] == ["bad-result"]


@pytest.mark.parametrize(("held", "wanted"), NOT_FITTING)
def test_a_default_stands_in_for_what_does_not_fit(held: Any, wanted: Any) -> None:
    us, source, target = copying(held, wanted, default=None)
    value = {1: 2.0} if "dict" in str(held) else [(1, "a")] if "list" in str(held) else (1, "a")
    federation = pc.Federation(us.root)
    federation.add(us)
    assert federation.translate(source(value), target=us) == target()
    assert reflect(settle(us), "?", source(value)) == target()


def test_the_keys_are_told() -> None:
    us, _, _ = copying(dict[int, float], dict[str, float])
    (error,) = us.check().errors
    assert "'x' holds elements, and dict[str, float] is wanted, not dict by int" in error.text
