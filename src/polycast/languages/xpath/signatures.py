"""The functions of XPath's core library that are here, and what kind of value they give."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from polycast.languages.xpath import syntax

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})


class Signature(NamedTuple):
    """How many arguments a function takes, and what it gives."""

    gives: str
    least: int = 0
    most: int = 0
    takes_nodes: bool = False

    @property
    def arity(self) -> str:
        """How many arguments, in words."""
        if self.least == self.most:
            return f"{self.least}"
        return f"{self.least} to {self.most}" if self.most < 100 else f"{self.least} or more"


SIGNATURES: Mapping[str, Signature] = {
    "boolean": Signature("boolean", 1, 1),
    "ceiling": Signature("number", 1, 1),
    "concat": Signature("string", 2, 1_000),
    "contains": Signature("boolean", 2, 2),
    "count": Signature("number", 1, 1, takes_nodes=True),
    "false": Signature("boolean"),
    "floor": Signature("number", 1, 1),
    "last": Signature("number"),
    "local-name": Signature("string", 0, 1, takes_nodes=True),
    "name": Signature("string", 0, 1, takes_nodes=True),
    "normalize-space": Signature("string", 0, 1),
    "not": Signature("boolean", 1, 1),
    "number": Signature("number", 0, 1),
    "position": Signature("number"),
    "round": Signature("number", 1, 1),
    "starts-with": Signature("boolean", 2, 2),
    "string": Signature("string", 0, 1),
    "string-length": Signature("number", 0, 1),
    "substring": Signature("string", 2, 3),
    "substring-after": Signature("string", 2, 2),
    "substring-before": Signature("string", 2, 2),
    "sum": Signature("number", 1, 1, takes_nodes=True),
    "translate": Signature("string", 3, 3),
    "true": Signature("boolean"),
}


def kind_of(node: syntax.Expression) -> str:
    """What kind of value an expression always has: a node-set, boolean, number or string."""
    match node:
        case syntax.LocationPath() | syntax.Filtered():
            return "node-set"
        case syntax.Connective(operator, _):
            return "node-set" if operator == "|" else "boolean"
        case syntax.Binary(operator, _, _):
            return "boolean" if operator in COMPARISONS else "number"
        case syntax.Literal():
            return "string"
        case syntax.FunctionCall(name, _):
            return SIGNATURES[name].gives
        case _:
            return "number"
