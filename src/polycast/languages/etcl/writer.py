"""A tree that ETCL can say, as ETCL text: reading it again gives the same tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.errors import BadOptionError, FilterError
from polycast.filters.filter import Filter
from polycast.filters.tree import nodes
from polycast.languages.etcl.functions import path_in
from polycast.languages.etcl.grammar import OPERATORS
from polycast.languages.etcl.scanner import quoted, written_name

if TYPE_CHECKING:
    from polycast.languages.etcl.grammar import Operator

BY_FUNCTION = {known.function: known for known in OPERATORS.values() if known.function}
NEGATION, FACTOR = 8, 9  # levels above those of the binary operators


def etcl_text(where: Filter[Any]) -> str:
    """The filter in ETCL; FilterError if it has a part that ETCL cannot say."""
    if not isinstance(where, Filter):
        raise BadOptionError("where", where, accepted="a pc.Filter, as pc.parse_filter makes one")
    return written(where.tree)


def written(tree: nodes.Node) -> str:
    """The tree in ETCL; FilterError if it has a part that ETCL cannot say."""
    return _written(tree, 1)


def _written(node: nodes.Node, lowest: int) -> str:
    """A node, in parentheses where it binds less tightly than it has to."""
    level, text = _leveled(node)
    return text if level >= lowest else f"({text})"


def _leveled(node: nodes.Node) -> tuple[int, str]:
    match node:
        case nodes.And(parts):
            return 2, " and ".join(_boolean(part, 3) for part in parts)
        case nodes.Or(parts):
            return 1, " or ".join(_boolean(part, 2) for part in parts)
        case nodes.Not(operand):
            return NEGATION, f"not {_boolean(operand, FACTOR)}"
        case nodes.Constant(value):
            return FACTOR, _literal(value)
        case nodes.Applied("etcl"):
            return _applied(node)
    raise _unsayable(node)


def _boolean(node: nodes.Node, lowest: int) -> str:
    """An operand of `and`, `or`, `not`: what asks a component for a boolean is not written."""
    if isinstance(node, nodes.Applied) and node.name == "component":
        raise _unsayable(node)  # in ETCL its value would have to be a boolean
    return _written(node, lowest)


def _applied(node: nodes.Applied) -> tuple[int, str]:
    path = path_in(node)
    if path is not None and isinstance(node.arguments[0], nodes.Event):
        word = {"exists": "exist ", "default": "default "}.get(node.name, "")
        return FACTOR, f"{word}{path.text}"
    match node:
        case nodes.Applied(_, "truth", (nodes.Applied(_, "component") as inner,)):
            return _applied(inner)
        case nodes.Applied(_, "character", (nodes.Constant(value),)) if len(value) == 1:
            return FACTOR, quoted(value)
        case nodes.Applied(_, "label", (nodes.Constant(name),)):
            return FACTOR, written_name(name)
        case nodes.Applied(_, name, (left, right)) if name in BY_FUNCTION:
            return _operation(BY_FUNCTION[name], left, right)
    raise _unsayable(node)


def _operation(operator: Operator, left: nodes.Node, right: nodes.Node) -> tuple[int, str]:
    level = operator.level
    first = _written(left, level if operator.repeats else level + 1)
    return level, f"{first} {operator.sign} {_written(right, level + 1)}"


def _literal(value: Any) -> str:
    if type(value) is bool:
        return str(value).upper()
    if type(value) is str and len(value) != 1:
        return quoted(value)
    if type(value) in (int, float) and abs(value) < float("inf"):
        return repr(value)
    raise _unsayable(nodes.Constant(value))


def _unsayable(node: nodes.Node) -> FilterError:
    from polycast.filters.tree.canonical_text import render

    return FilterError(f"`{render(node)[:200]}` cannot be said in ETCL")
