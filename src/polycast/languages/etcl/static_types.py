"""What can be known of the type of an ETCL expression before there is an event."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from polycast.filters.tree.nodes import Node

__all__ = ["Kind", "Typed", "compares", "computed", "is_number", "is_text"]


class Kind(enum.Enum):
    """Kinds of expressions, as an error message calls them."""

    BOOLEAN = "a boolean"
    INTEGER = "a whole number"
    FLOAT = "a floating-point number"
    NUMBER = "a number"
    TEXT = "a string"
    CHARACTER = "a character"
    LABEL = "a label of an enumeration"
    UNKNOWN = "a component"


class Typed(NamedTuple):
    """An expression, what is known of its type, where it stands, and how deep it is."""

    node: Node
    kind: Kind
    begin: int
    depth: int = 1


WHOLE = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.CHARACTER})
NUMBERS = WHOLE | {Kind.FLOAT, Kind.NUMBER}
TEXTS = frozenset({Kind.TEXT, Kind.CHARACTER})


def is_number(kind: Kind) -> bool:
    """Whether it may be a number."""
    return kind is Kind.UNKNOWN or kind in NUMBERS


def is_text(kind: Kind) -> bool:
    """Whether it may be a text."""
    return kind is Kind.UNKNOWN or kind in TEXTS


def compares(left: Kind, right: Kind, *, ordered: bool) -> bool:
    """Whether two kinds may be compared; labels have no order."""
    kinds = {left, right}
    if Kind.LABEL in kinds:
        return not ordered and kinds <= {Kind.LABEL, Kind.UNKNOWN}
    return Kind.UNKNOWN in kinds or kinds <= NUMBERS or kinds <= TEXTS


def computed(left: Kind, right: Kind) -> Kind:
    """The kind of what arithmetic makes of two numbers."""
    kinds = {left, right}
    if Kind.FLOAT in kinds:
        return Kind.FLOAT
    return Kind.INTEGER if kinds <= WHOLE else Kind.NUMBER
