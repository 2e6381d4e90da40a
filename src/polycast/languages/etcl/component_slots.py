"""The slots of components: most are a member, a property or a variable of the event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.events.structured_event import StructuredEvent
from polycast.languages.etcl.structures import UNTYPED, WELL_KNOWN, fields_of

if TYPE_CHECKING:
    from polycast.languages.etcl.components import EtclPath

__all__ = ["slot_of_path"]

_HEADERS = ("$.header", "$header")
_FIXED_HEADERS = (*(f"{header}.fixed_header" for header in _HEADERS), "$fixed_header")
_EVENT_TYPES = (*(f"{header}.event_type" for header in _FIXED_HEADERS), "$event_type")
_ATTRIBUTES = {
    **{
        f"{event_type}.{name}": name
        for event_type in _EVENT_TYPES
        for name in ("domain_name", "type_name")
    },
    **{f"{header}.event_name": "event_name" for header in _FIXED_HEADERS},
    **{f"${name}": name for name in ("domain_name", "type_name", "event_name")},
}
"""The fixed header of a structured event, by the texts of paths."""
_DICTIONARIES = {
    **{f"{header}.variable_header": "variable_header" for header in _HEADERS},
    "$variable_header": "variable_header",
    **dict.fromkeys(("$.filterable_data", "$filterable_data"), "filterable_data"),
}
"""Its lists of properties."""
_VARIABLES = ("variable_header", "filterable_data")  # in which `$name` is looked up


def slot_of_path(path: EtclPath, cls: type) -> str | tuple[str, ...] | None:
    """The slot of a path in events of exactly one class, if following it is a single look-up."""
    if not path.steps or path.asks_time:
        return None
    *before, last = path.steps
    kind, name = last
    if issubclass(cls, StructuredEvent):
        if kind == "variable" and name not in WELL_KNOWN:
            return (name, *_VARIABLES)
        owner = _DICTIONARIES.get(path.text.removesuffix(str(last)))
        return _ATTRIBUTES.get(path.text) if kind != "property" else owner and (name, owner)
    simple = kind in ("member", "property") or (kind == "variable" and name not in UNTYPED)
    if before or not simple:
        return None
    if cls is dict:
        return (name,)
    return name if kind != "property" and name in fields_of(cls) else None
