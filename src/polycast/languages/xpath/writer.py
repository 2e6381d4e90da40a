"""Trees as XPath text, where they have such a form: those that XPath filters become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.errors import FilterError
from polycast.filters.tree import nodes
from polycast.languages.xpath.syntax import literal, number
from polycast.languages.xpath.tree_translator import tree_of

if TYPE_CHECKING:
    from polycast.filters.filter import Filter

_SIGNS = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def xpath_text(where: Filter[Any]) -> str:
    """A filter as XPath, to be read by `pc.parse_filter(text, "xpath")`; FilterError if it cannot.

    Parts that fail where something is missing have no such form: that is all of Python's. Neither
    has what would be beyond the limits of the language.
    """
    text = _text(where.tree)
    try:
        same = tree_of(text) == where.tree
    except FilterError as error:
        raise FilterError(f"the filter has no XPath form: {error}") from None
    return text if same else _refuse(where.tree)


def _text(node: nodes.Node) -> str:
    match node:
        case nodes.And(parts):
            return " and ".join(_bracketed(part, nodes.Or) for part in parts)
        case nodes.Or(parts):
            return " or ".join(map(_text, parts))
        case nodes.Not(operand):
            return f"not({_text(operand)})"
        case nodes.Constant(bool() as value):
            return "true()" if value else "false()"
        case nodes.Compare(left, ((sign, right),)):
            return _comparison(node, left, sign, right)
        case nodes.Applied("xpath", "holds", (nodes.Event(), nodes.Constant(str() as text))):
            return text
        case nodes.Applied("xpath", "differs_at", (*_, nodes.Constant(float() as value))):
            return f"{_path(node)} != {number(value)}"
        case nodes.Applied("xpath", "includes_at", (*_, nodes.Constant(str() as value))):
            path, kind = _constants(node)
            items = "/".join((_way(path), "array", "data", "value", *((kind,) if kind else ())))
            return f"{items} = {literal(value)}"
        case nodes.Call(term, "startswith", (nodes.Constant(str() as prefix),)):
            return f"starts-with({_string(term)}, {literal(prefix)})"
    return _refuse(node)


def _bracketed(node: nodes.Node, kind: type[nodes.Node]) -> str:
    return f"({_text(node)})" if isinstance(node, kind) else _text(node)


def _comparison(node: nodes.Node, left: nodes.Node, sign: str, right: nodes.Node) -> str:
    value = right.value if isinstance(right, nodes.Constant) else None
    match left, sign, value:
        case nodes.Applied("xpath", "text_at"), "==", str():
            return f"{_path(left)} = {literal(value)}"
        case nodes.Applied("xpath", "text_at"), "not in", (None, str(text)):
            return f"{_path(left)} != {literal(text)}"
        case nodes.Applied("xpath", "string_at"), ("==" | "!="), str():
            return f"string({_path(left)}) {_SIGNS[sign]} {literal(value)}"
        case nodes.Applied("xpath", "number_at"), "!=", float():
            return f"number({_path(left)}) != {number(value)}"
        case nodes.Applied("xpath", "number_at"), _, float() if sign in _SIGNS:
            return f"{_path(left)} {_SIGNS[sign]} {number(value)}"
        case nodes.Applied("xpath", "kind_at"), ("is not" | "=="), (None | str()):
            return _existence(left, sign, value)
        case nodes.Function("len", (term,)), _, float() if sign in _SIGNS:
            return f"string-length({_string(term)}) {_SIGNS[sign]} {number(value)}"
        case nodes.Constant(str() as part), "in", _:
            return f"contains({_string(right)}, {literal(part)})"
    return _refuse(node)


def _existence(term: nodes.Applied, sign: str, value: str | None) -> str:
    kind = _constants(term)[1]
    if (sign == "is not" and not kind) or (sign == "==" and kind and kind == value):
        return _path(term)
    return _refuse(term)


def _string(term: nodes.Node) -> str:
    match term:
        case nodes.Applied("xpath", "string_at"):
            return _path(term)
    return _refuse(term)


def _constants(term: nodes.Applied) -> tuple[Any, Any]:
    match term.arguments:
        case (nodes.Event(), nodes.Constant(tuple() as path), nodes.Constant(str() as kind), *_):
            return path, kind
    return _refuse(term), None


def _path(term: nodes.Applied) -> str:
    """`("order", 2), "int"` as `/struct/member[name="order"]/value/array/data/value[2]/int`."""
    path, kind = _constants(term)
    if not path and not kind:
        return "/*"
    return f"{_way(path)}/{kind}" if kind else _way(path)


def _way(path: tuple[str | int, ...]) -> str:
    text = ""
    for step in path:
        if isinstance(step, str):
            text += f"/struct/member[name={literal(step)}]/value"
        else:
            text += f"/array/data/value[{step}]"
    return text


def _refuse(node: nodes.Node) -> str:
    from polycast.filters.tree.canonical_text import render

    why = "only what `pc.parse_filter` makes of XPath has"
    raise FilterError(f"`{render(node)[:200]}` has no XPath form: {why}")
