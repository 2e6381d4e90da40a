"""Opaque attributes: filters of other systems do not see them (API 4.3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from polycast.typesystem import describe

if TYPE_CHECKING:
    from polycast.typesystem import TypeExpression

__all__ = ["Opaque", "opaque_names"]


class _Note(str):
    """Keeps an attribute out of the filterable part: `text: Annotated[str, pc.Opaque]`."""

    __slots__ = ()


# A string, because the strings of an annotation are in the description of a class: so who has only
# that knows it, too.
Opaque: Final = _Note("polycast.opaque")

_known: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()


def opaque_names(cls: type) -> frozenset[str]:
    """The attributes of a class that are marked as opaque."""
    found = _known.get(cls)
    if found is None:
        attributes = describe(cls).attributes
        found = frozenset(attribute.name for attribute in attributes if _is_marked(attribute.type))
        _known[cls] = found
    return found


def _is_marked(kind: TypeExpression) -> bool:
    """The mark may be on one of several types, `Annotated[str, pc.Opaque] | None`."""
    several = kind.arguments if kind.form == "union" else ()
    return Opaque in kind.notes or any(map(_is_marked, several))
