"""What is copied by name has to fit: tuples place by place, dicts with their keys, literals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import make_dataclass
from typing import Any, Literal

import pytest
from reflective import reflect

import polycast as pc
from polycast.contexts.resolve.inheritance import settle

FITTING = [
    (tuple[int, str], tuple[int, str]),
    (tuple[int, str], tuple[float, str | None]),
    (tuple[int, int], tuple[int, ...]),
    (tuple[int, str], tuple),
    (tuple[int, str] | None, Any),
    (dict[str, int], Mapping[str, float]),
    (dict[str, int], dict[Any, int]),
    (dict[str, int], dict),
    (Literal["a"], str),
    (Literal["a"], Literal["b", "a"]),
    (Literal["a", 1] | None, Literal["a"] | int | None),
    (list[Literal["a"]], list[Literal["a", "b"]]),
    (Literal["a", None], Literal["a"] | None),
]
NOT_FITTING = [
    (tuple[int, str], tuple[str, str]),
    (tuple[int, str], tuple[int, str, str]),
    (tuple[int, str], tuple[int, ...]),
    (tuple[int, ...], tuple[int, int]),
    (list[tuple[int, str]], list[tuple[str, str]]),
    (dict[int, float], dict[str, float]),
    (str, Literal["a"]),
    (str | None, Literal["a"] | None),
    (Literal["a", "b"], Literal["a"]),
    (Literal[1], Literal[True]),
    (list[str], list[Literal["a"]]),
    (Literal["a", None], Literal["a"]),
]


def copying(held: Any, wanted: Any, *rules: str, default: Any = ...) -> tuple[pc.Context, Any, Any]:
    """A context with a mapping of one attribute, its source and its target."""
    source = make_dataclass("Source", [("x", held)], frozen=True)
    given = () if default is ... else (default,)
    target = make_dataclass("Target", [("x", wanted, *given)], frozen=True)
    root = pc.Context("root", types=[source])
    us = pc.Context("us", parent=root, types=[target])
    us.map(source, target, "?")
    for pattern in rules:
        us.rule(pattern, pc.rules.identity)
    return us, source, target


def sample(held: Any, mapping: dict[Any, Any], pair: tuple[Any, ...]) -> Any:
    """A value of an annotation."""
    text = str(held)
    value: Any = mapping if "dict" in text else pair
    if "tuple" not in text and "dict" not in text:
        value = 1 if held == Literal[1] else "b" if "'b'" in text or "str" in text else "a"
    return [value] if text.startswith("list") else value


@pytest.mark.parametrize(("held", "wanted"), FITTING)
def test_what_fits_is_copied(held: Any, wanted: Any) -> None:
    us, source, target = copying(held, wanted)
    value = sample(held, {"a": 1}, (1, 2))
    federation = pc.Federation(us.root)
    federation.add(us)
    assert federation.translate(source(value), target=us) == target(value)
    assert reflect(settle(us), "?", source(value)) == target(value)


@pytest.mark.parametrize(("held", "wanted"), NOT_FITTING)
def test_what_does_not_fit_is_found_ahead(held: Any, wanted: Any) -> None:
    us, _, _ = copying(held, wanted)
    assert [error.code for error in us.check().errors] == ["nothing-produces"]


@pytest.mark.parametrize(("held", "wanted"), NOT_FITTING[:3])
def test_a_tuple_that_does_not_fit_does_not_fit_by_identity_either(held: Any, wanted: Any) -> None:
    us, _, _ = copying(held, wanted, "Source.x")
    assert [error.code for error in us.check().errors] == ["bad-result"]


@pytest.mark.parametrize(("held", "wanted"), NOT_FITTING)
def test_a_default_stands_in_for_what_does_not_fit(held: Any, wanted: Any) -> None:
    us, source, target = copying(held, wanted, default=None)
    value = sample(held, {1: 2.0}, (1, "a"))
    if held == Literal["a", None]:
        value = None
    federation = pc.Federation(us.root)
    federation.add(us)
    assert federation.translate(source(value), target=us) == target()
    assert reflect(settle(us), "?", source(value)) == target()


def test_the_keys_are_told() -> None:
    us, _, _ = copying(dict[int, float], dict[str, float])
    (error,) = us.check().errors
    assert "'x' holds elements, and dict[str, float] is wanted, not dict by int" in error.text


def test_a_literal_that_does_not_fit_is_told() -> None:
    us, _, _ = copying(Literal["a", "b"], Literal["a"])
    (error,) = us.check().errors
    assert "Literal['a', 'b'] is there, and Literal['a'] is wanted" in error.text


@pytest.mark.parametrize("rules", [(), ("Source.x",), ("str",)])
def test_a_literal_that_fits_stays_by_identity(rules: tuple[str, ...]) -> None:
    us, _, _ = copying(Literal["a"], Literal["a", "b"], *rules)
    assert not us.check().errors


def give_text(text: str) -> str:
    return text


def give_letter(text: str) -> Literal["a"]:
    return "a"


@pytest.mark.parametrize(("function", "fits"), [(give_text, False), (give_letter, True)])
@pytest.mark.parametrize("wanted", [Literal["a"], Literal["a"] | None, Literal["a", 1] | int])
def test_what_a_rule_gives_has_to_be_one_of_the_values(
    wanted: Any, function: Any, fits: bool
) -> None:
    us, _, _ = copying(str, wanted)
    us.rule("Source.x", function)
    assert [error.code for error in us.check().errors] == ([] if fits else ["bad-result"])
