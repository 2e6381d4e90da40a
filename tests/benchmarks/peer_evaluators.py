"""What the rules of each peer mean, as slowly and plainly as its documentation says it."""

from __future__ import annotations

import operator
import re
from typing import Any

COMPARED = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt}
COMPARED[">="] = operator.ge
NAMED = {"eq": "=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def values(event: Any, path: list[str]) -> list[Any]:
    """All values at a path; an array is each of its elements."""
    if isinstance(event, list):
        return [value for each in event for value in values(each, path)]
    if not path:
        return [event]
    return values(event[path[0]], path[1:]) if path[0] in event else []


def nested(rule: dict[str, Any], event: dict[str, Any], above: tuple[str, ...] = ()) -> bool:
    """The form of event-ruler and Quamina: arrays of what may be there, in objects."""
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
        case "wildcard" | "shellstyle":
            return _starred(argument, value)
    raise AssertionError(f"no such kind: {kind}")


def _starred(pattern: str, value: str) -> bool:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(expression, value) is not None


def flat(rule: dict[str, Any], event: dict[str, Any]) -> bool:
    """The form of hypermatch: a pattern for each dotted path, and no case."""
    return all(_holds(pattern, values(event, path.split("."))) for path, pattern in rule.items())


def _holds(pattern: dict[str, Any], found: list[Any]) -> bool:
    ((kind, argument),) = pattern.items()
    match kind:
        case "anyOf":
            return any(_holds(each, found) for each in argument)
        case "allOf":
            return all(_holds(each, found) for each in argument)
        case "anythingBut":
            return bool(found) and not any(_holds(each, found) for each in argument)
        case "between":
            return any(all(_holds(each, [value]) for each in argument) for value in found)
        case "equals" | "prefix" | "suffix" | "wildcard":
            return any(_says(kind, argument.lower(), str(value).lower()) for value in found)
    return any(COMPARED[NAMED[kind]](value, argument) for value in found)


def _says(kind: str, argument: str, value: str) -> bool:
    stars = {"prefix": "{}*", "suffix": "*{}", "wildcard": "{}", "equals": "{}"}[kind]
    return _starred(stars.format(argument), value)
