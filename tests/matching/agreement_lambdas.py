"""Filters as users write them: functions with constants around them, lifted and called."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from agreement_values import value_of

__all__ = ["LAMBDAS", "lambda_of"]

Where = Callable[[Any], object]
Maker = Callable[[Any, Any], Where]


def between(low: Any, high: Any) -> Where:
    return lambda e: low < e.p < high


def within(low: Any, high: Any) -> Where:
    return lambda e: low <= e.p <= high


def from_to(low: Any, high: Any) -> Where:
    return lambda e: low <= e.p < high


def downward(low: Any, high: Any) -> Where:
    return lambda e: high > e.p > low


def above_and_below(low: Any, high: Any) -> Where:
    return lambda e: e.p > low and e.p < high


def between_with(low: Any, high: Any) -> Where:
    return lambda e: low < e.p < high and e.q == low


def not_between(low: Any, high: Any) -> Where:
    return lambda e: not low < e.p < high


def outside(low: Any, high: Any) -> Where:
    return lambda e: e.p < low or e.p > high


def neither(low: Any, high: Any) -> Where:
    return lambda e: not (e.p <= low or e.p >= high)


def equals(low: Any, high: Any) -> Where:
    return lambda e: e.p == low or e.q == high


def among(low: Any, high: Any) -> Where:
    return lambda e: e.p in (low, high)


def not_among(low: Any, high: Any) -> Where:
    return lambda e: e.p not in (low, high)


def differs(low: Any, high: Any) -> Where:
    return lambda e: e.p != low and high != e.q


def across(low: Any, high: Any) -> Where:
    return lambda e: low < e.p <= e.q < high


def smaller(low: Any, high: Any) -> Where:
    return lambda e: e.p < e.q and (e.r > low or e.r == high)


def is_there(low: Any, high: Any) -> Where:
    return lambda e: e.p is not None and (not e.q or e.p >= low)


def nested(low: Any, high: Any) -> Where:
    return lambda e: (e.p < low or e.q > high) and not (e.r == low and e.p != high)


LAMBDAS: dict[str, Maker] = {
    each.__name__: each
    for each in (
        between, within, from_to, downward, above_and_below, between_with, not_between, outside,
        neither, equals, among, not_among, differs, across, smaller, is_there, nested,
    )
}  # fmt: skip


def lambda_of(text: str) -> Where:
    """The function that `between(0, 1)` describes."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"{text} names none of {', '.join(LAMBDAS)}")
    low, high = (value_of(ast.unparse(each)) for each in call.args)
    return LAMBDAS[call.func.id](low, high)
