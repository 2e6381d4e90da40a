"""Static types of ETCL expressions."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from polycast.filters.tree.nodes import Node

__all__ = ["ExpressionKind", "Typed", "compares", "computed", "is_number", "is_text"]


class ExpressionKind(enum.Enum):
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
    kind: ExpressionKind
    begin: int
    depth: int = 1


WHOLE = frozenset({ExpressionKind.BOOLEAN, ExpressionKind.INTEGER, ExpressionKind.CHARACTER})
NUMBERS = WHOLE | {ExpressionKind.FLOAT, ExpressionKind.NUMBER}
TEXTS = frozenset({ExpressionKind.TEXT, ExpressionKind.CHARACTER})


def is_number(kind: ExpressionKind) -> bool:
    """Whether it may be a number."""
    return kind is ExpressionKind.UNKNOWN or kind in NUMBERS


def is_text(kind: ExpressionKind) -> bool:
    """Whether it may be a text."""
    return kind is ExpressionKind.UNKNOWN or kind in TEXTS


def compares(left: ExpressionKind, right: ExpressionKind, *, ordered: bool) -> bool:
    """Whether two kinds may be compared; labels have no order."""
    kinds = {left, right}
    if ExpressionKind.LABEL in kinds:
        return not ordered and kinds <= {ExpressionKind.LABEL, ExpressionKind.UNKNOWN}
    return ExpressionKind.UNKNOWN in kinds or kinds <= NUMBERS or kinds <= TEXTS


def computed(left: ExpressionKind, right: ExpressionKind) -> ExpressionKind:
    """The kind of what arithmetic makes of two numbers."""
    kinds = {left, right}
    if ExpressionKind.FLOAT in kinds:
        return ExpressionKind.FLOAT
    return ExpressionKind.INTEGER if kinds <= WHOLE else ExpressionKind.NUMBER
