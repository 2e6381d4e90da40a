"""Events that contain themselves, or are nested too deep."""

from __future__ import annotations

import collections.abc
from typing import TYPE_CHECKING, Any

from polycast.contexts.resolve.attribute_shapes import attribute_hints, has_attributes
from polycast.errors import EventTooDeepError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEP = 100  # less deep events do not fill a stack


def check_depth(event: object) -> None:
    """Raise `EventTooDeepError` if an event contains itself or is nested too deep."""
    path: list[str] = [type(event).__name__]
    within = {id(event): None}  # what contains the current part, outermost first
    seen, deepest = {id(event)}, 0
    names: dict[type, tuple[str, ...]] = {}
    waiting = [_parts(event, names)]
    while waiting:
        name, part = next(waiting[-1], ("", None))
        if not name:
            waiting.pop()
            path.pop()
            within.popitem()
            continue
        if id(part) in within:
            raise EventTooDeepError(event, cycle="".join((*path, name)))
        if id(part) in seen:
            continue
        seen.add(id(part))
        path.append(name)
        within[id(part)] = None
        waiting.append(_parts(part, names))
        deepest = max(deepest, len(waiting))
    if deepest > _DEEP:
        raise EventTooDeepError(event, cycle=None)


def _parts(value: Any, names: dict[type, tuple[str, ...]]) -> Iterator[tuple[str, Any]]:
    """The parts of a value, each with the text that selects it; `names` caches attributes."""
    cls = type(value)
    if isinstance(value, collections.abc.Mapping):
        for key, item in value.items():
            yield f"[{key!r}]", item
    elif isinstance(value, collections.abc.Collection) and not isinstance(value, str | bytes):
        for place, item in enumerate(value):
            yield f"[{place}]", item
    else:
        if cls not in names:
            names[cls] = tuple(attribute_hints(cls)) if has_attributes(cls) else ()
        for name in names[cls]:
            if hasattr(value, name):
                yield f".{name}", getattr(value, name)
