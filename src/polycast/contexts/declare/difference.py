"""Describes how two declarations of a context differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.contexts.declare.context_state import read_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polycast.contexts.declare.context_state import ContextState, FunctionState, TypeState


def differences(there: bytes, here: bytes) -> list[str]:
    """The differences between the stored declaration and the local one, line by line."""
    old, new = read_state(there), read_state(here)
    lines = [
        *_changed("", {"parents": ", ".join(old.parents)}, {"parents": ", ".join(new.parents)}),
        *_changed("", {"strict": str(old.strict)}, {"strict": str(new.strict)}),
        *_changed("type ", _types(old), _types(new), _OTHER_FORM),
        *_changed("mapping ", _mappings(old), _mappings(new)),
        *_changed("rule ", _rules(old), _rules(new)),
        *_changed("whole ", _wholes(old), _wholes(new)),
    ]
    return lines or ["the same lines are in another order"]


_OTHER_FORM = "its attributes are others"


def _changed(
    what: str, there: Mapping[str, str], here: Mapping[str, str], otherwise: str = ""
) -> list[str]:
    lines = []
    for key in dict.fromkeys((*there, *here)):
        old, new = there.get(key), here.get(key)
        if old == new:
            continue
        if old is None or new is None:
            lines.append(f"{what}{key}: only {'here' if old is None else 'in the store'}")
        elif otherwise:
            lines.append(f"{what}{key}: {otherwise}")
        else:
            lines.append(f"{what}{key}: {old or 'none'} in the store, {new or 'none'} here")
    return lines


def _types(state: ContextState) -> dict[str, str]:
    return {_named(cls): cls.hash for cls in state.types}


def _mappings(state: ContextState) -> dict[str, str]:
    return {f"{_named(m.source)} {m.direction}": _named(m.target) for m in state.mappings}


def _rules(state: ContextState) -> dict[str, str]:
    return {rule.pattern: _function(rule.function) for rule in state.rules}


def _wholes(state: ContextState) -> dict[str, str]:
    return {_named(whole.source): _function(whole.function) for whole in state.wholes}


def _named(given: TypeState) -> str:
    return given.name if given.version == 1 else f"{given.name} version {given.version}"


def _function(given: FunctionState) -> str:
    name = given.name or f"the expression {given.tree}"
    marks = [mark for mark, holds in _marks(given) if holds]
    return f"{name} ({', '.join(marks)})" if marks else name


def _marks(given: FunctionState) -> list[tuple[str, bool]]:
    is_named = bool(given.name)  # an expression is always taken unchecked
    return [("unchecked", given.unchecked and is_named), ("impure", given.impure)]
