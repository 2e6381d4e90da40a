"""Slots: where events of one class hold the value of a term, so that nothing has to be called.

It is an attribute; or a key, and the attributes whose dictionaries are asked for it in turn: none,
if the event itself is the dictionary. Who looks there has to ask the term itself if such an
attribute is no plain dictionary, or if what stands there is `msgspec.UNSET`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.filters.tree.language_registry import insight_of
from polycast.filters.tree.nodes import Applied, Attribute, Constant, Event, Item

if TYPE_CHECKING:
    from polycast.filters.tree.nodes import Node

__all__ = ["Slot", "slot_of"]

Slot = str | tuple[str, ...]


def slot_of(term: Node, cls: type) -> Slot | None:
    """The slot of a term in events of exactly one class; None if it has none."""
    match term:
        case Attribute(Event(), name):
            return name
        case Item(Attribute(Event(), name), Constant(key)) if type(key) is str:
            return (key, name)
        case Item(Event(), Constant(key)) if type(key) is str and cls is dict:
            return (key,)
        case Applied(_, _, (Event(), *_)):
            return insight_of(term).slot(term, cls)
    return None
