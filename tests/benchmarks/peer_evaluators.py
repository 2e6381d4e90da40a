"""What the rules of each peer mean, as slowly and plainly as its documentation says it."""

from __future__ import annotations

import operator
import re
from typing import Any

COMPARED = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt}
COMPARED[">="] = operator.ge


def values(event: Any, path: list[str]) -> list[Any]:
    """All values at a path; an array is each of its elements."""
    if isinstance(event, list):
        return [value for each in event for value in values(each, path)]
    if not path:
        return [event]
    return values(event[path[0]], path[1:]) if path[0] in event else []


def nested(rule: dict[str, Any], event: dict[str, Any], above: tuple[str, ...] = ()) -> bool:
    """The form of event-ruler: arrays of what may be there, in objects."""
    return all(
        nested(inner, event, (*above, name))
        if isinstance(inner, dict)
        else any(_fits(each, v) for each in inner for v in values(event, [*above, name]))
        for name, inner in rule.items()
    )


def _fits(wanted: Any, value: Any) -> bool:
    if not isinstance(wanted, dict):
        return type(wanted) is type(value) and bool(wanted == value)
    ((kind, argument),) = wanted.items()
    match kind:
        case "numeric":
            pairs = zip(argument[::2], argument[1::2], strict=True)
            return all(COMPARED[sign](value, bound) for sign, bound in pairs)
        case "anything-but":
            return value not in argument
        case "prefix":
            return bool(value.startswith(argument))
        case "suffix":
            return bool(value.endswith(argument))
        case "wildcard":
            return _starred(argument, value)
    raise AssertionError(f"no such kind: {kind}")


def _starred(pattern: str, value: str) -> bool:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(expression, value) is not None
