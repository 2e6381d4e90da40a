"""Types whose values the codecs carry as they are, so that msgspec may do all the work."""

from __future__ import annotations

import math
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from polycast.events.forms import Form
    from polycast.typesystem import TypeExpression

    Check = Callable[[Any], bool]

__all__ = ["Closed", "closed_over"]

_NATIVE: dict[str, type] = {
    "builtins.bool": bool,
    "builtins.int": int,
    "builtins.float": float,
    "builtins.str": str,
}
_ARRAYS: dict[str, type] = {
    "builtins.list": list,
    "builtins.tuple": tuple,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
}
_MOST_VERDICTS = 256


class Closed:
    """Decides at a glance whether all attributes hold what they were declared to hold."""

    def __init__(self, accepted: list[frozenset[type]], checks: list[tuple[int, Check]]) -> None:
        self._accepted = accepted
        self._checks = checks
        self._verdicts: dict[tuple[type, ...], bool] = {}

    def fits(self, values: Sequence[Any]) -> bool:
        """Whether these values have exactly their declared types, at any depth."""
        found = tuple(map(type, values))
        verdict = self._verdicts.get(found)
        if verdict is None:
            verdict = self._learn(found)
        if not verdict:
            return False
        for at, check in self._checks:  # noqa: SIM110 - a generator costs as much as the checks
            if not check(values[at]):
                return False
        return True

    def _learn(self, found: tuple[type, ...]) -> bool:
        # Only built-in classes are remembered: no other class may be kept alive by a verdict.
        pairs = zip(found, self._accepted, strict=True)
        verdict = all(cls in accepted for cls, accepted in pairs)
        if verdict and len(self._verdicts) < _MOST_VERDICTS:
            self._verdicts[found] = verdict
        return verdict


def closed_over(
    expressions: Iterable[TypeExpression], form: Form, *, arrays: bool
) -> Closed | None:
    """A decision for these types, or None if one of them leaves something open.

    With `arrays`, tuples and sets count too: they can be written as they are, but not read.
    """
    accepted: list[frozenset[type]] = []
    checks: list[tuple[int, Check]] = []
    for at, expression in enumerate(expressions):
        found = _closed(expression, form, arrays=arrays)
        if found is None:
            return None
        accepted.append(found[0])
        if found[1] is not None:
            checks.append((at, found[1]))
    return Closed(accepted, checks)


_Found = tuple[frozenset[type], "Check | None"]


def _closed(expression: TypeExpression, form: Form, *, arrays: bool) -> _Found | None:
    if expression.form == "union":
        return _union(expression, form, arrays=arrays)
    native = _native(expression, form)
    if native is not None:
        return native
    if expression.form != "class" or not expression.arguments:
        return None
    cls = _ARRAYS.get(expression.name)
    if cls is not None and (arrays or cls is list):
        return _array(cls, expression, form)
    return _mapping(expression, form) if expression.name == "builtins.dict" else None


def _native(expression: TypeExpression, form: Form) -> _Found | None:
    if expression.form == "none":
        return frozenset((types.NoneType,)), None
    cls = _NATIVE.get(expression.name) if expression.form == "class" else None
    if cls is None:
        return None
    return frozenset((cls,)), math.isfinite if cls is float and form == "json" else None


def _union(expression: TypeExpression, form: Form, *, arrays: bool) -> _Found | None:
    parts = [_closed(part, form, arrays=arrays) for part in expression.arguments]
    found = [part for part in parts if part is not None]
    if len(found) != len(parts):
        return None
    optional = len(found) == 2 and frozenset((types.NoneType,)) in [part[0] for part in found]
    if not optional and any(cls not in _SIMPLE for part in found for cls in part[0]):
        return None
    checks = {cls: part[1] for part in found for cls in part[0] if part[1] is not None}
    accepted = frozenset().union(*(part[0] for part in found))
    return accepted, _by_class(checks) if checks else None


_SIMPLE = frozenset((*_NATIVE.values(), types.NoneType))


def _by_class(checks: dict[type, Check]) -> Check:
    def check(value: Any) -> bool:
        wanted = checks.get(type(value))
        return wanted is None or wanted(value)

    return check


def _array(cls: type, expression: TypeExpression, form: Form) -> _Found | None:
    if cls is tuple and (len(expression.arguments) != 2 or expression.arguments[1].form != "..."):
        return None
    item = _native(expression.arguments[0], form)
    if item is None:
        return None
    accepted, each = item

    def check(value: Any) -> bool:
        return accepted.issuperset(map(type, value)) and (each is None or all(map(each, value)))

    return frozenset((cls,)), check


def _mapping(expression: TypeExpression, form: Form) -> _Found | None:
    key, value_type = expression.arguments
    item = _native(value_type, form)
    if key.name != "builtins.str" or item is None:
        return None
    accepted, each = item
    keys = frozenset((str,))

    def check(value: Any) -> bool:
        if "$" in value or not keys.issuperset(map(type, value)):
            return False
        held = value.values()
        return accepted.issuperset(map(type, held)) and (each is None or all(map(each, held)))

    return frozenset((dict,)), check
