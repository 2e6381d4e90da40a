"""Structured events by the names of their domain and type, with `*` anywhere in either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import BadOptionError
from polycast.events.structured_event import StructuredEvent
from polycast.filters import Filter
from polycast.filters.tree import nodes
from polycast.matching.selectors import Selector

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["structured"]

EVERY = ("", "*")
ALL = "%ALL"


def structured(domain_name: str, type_name: str, /) -> Selector[StructuredEvent]:
    """Structured events of a domain and a type: `*` is any characters, "" is any name."""
    for option, given in (("domain_name", domain_name), ("type_name", type_name)):
        if not isinstance(given, str):
            raise BadOptionError(option, given, accepted="a string, in which * is any characters")
    if type_name == ALL:
        if domain_name not in EVERY:
            accepted = f"{ALL} with the domain '' or '*'; else a name, or '*'"
            raise BadOptionError("type_name", type_name, accepted=accepted)
        type_name = "*"
    parts = (*_asked("domain_name", domain_name), *_asked("type_name", type_name))
    if not parts:
        return Selector((StructuredEvent,))
    return Selector((StructuredEvent,), implied=Filter(nodes.And(parts)))


def _asked(attribute: str, pattern: str) -> Iterator[nodes.Node]:
    """What a pattern asks of a name, so that an index finds as much of it as possible."""
    name = nodes.Attribute(nodes.Event(), attribute)
    first, *middle, last = pattern.split("*") if "*" in pattern else (pattern, pattern)
    if pattern and "*" not in pattern:
        yield nodes.Compare(name, (("==", nodes.Constant(pattern)),))
        return
    if first:
        yield nodes.Call(name, "startswith", (nodes.Constant(first),))
    if any(middle):
        yield nodes.Applied("etcl", "fits", (name, nodes.Constant(pattern)))
        return
    if last:
        yield nodes.Call(name, "endswith", (nodes.Constant(last),))
    if first and last:
        length = nodes.Constant(len(first) + len(last))
        yield nodes.Compare(nodes.Function("len", (name,)), ((">=", length),))
