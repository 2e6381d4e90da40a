"""Where the parts of a tree stand in its canonical text."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import render

if TYPE_CHECKING:
    from collections.abc import Callable

_MARK = nodes.Opaque(bool, "\0here")  # its text is in no other: a constant would escape it


def rebuilt(node: nodes.Node, change: Callable[[nodes.Node], nodes.Node | None]) -> nodes.Node:
    """The same tree of new nodes, those replaced that `change` has something for."""
    found = change(node)
    if found is not None:
        return found
    values = {field.name: _again(getattr(node, field.name), change) for field in fields(node)}  # type: ignore[arg-type]
    return type(node)(**values)


def _again(value: Any, change: Callable[[nodes.Node], nodes.Node | None]) -> Any:
    if isinstance(value, nodes.Node):
        return rebuilt(value, change)
    return tuple(_again(element, change) for element in value) if type(value) is tuple else value


def deeper(path: nodes.Node) -> nodes.Node:
    """A path as it is called within one more quantifier."""

    def change(node: nodes.Node) -> nodes.Node | None:
        return nodes.Variable(node.depth + 1) if isinstance(node, nodes.Variable) else None

    return rebuilt(path, change)


class Places:
    """The text of a tree in which no node occurs twice.

    `mark` tells what may stand in the place of a part, and has a text that is in no other.
    """

    def __init__(
        self,
        tree: nodes.Node,
        *,
        write: Callable[[nodes.Node], str] = render,
        mark: Callable[[nodes.Node], nodes.Node] = lambda part: _MARK,
    ) -> None:
        self._tree, self._write, self._mark = tree, write, mark
        self.text = write(tree)

    def span(self, first: nodes.Node, last: nodes.Node | None = None) -> tuple[int, int]:
        """From where to where one node stands, or two of them and what is between."""
        start, end = self._outer(first)
        if last is not None and last is not first:
            return start, self._outer(last)[1]
        # In the whole it may be in parentheses, and its variables have other names.
        inside = self.text[start:end].count("(") > self._write(first).count("(")
        return (start + 1, end - 1) if inside else (start, end)

    def of(self, first: nodes.Node, last: nodes.Node | None = None) -> str:
        """The text of that place."""
        start, end = self.span(first, last)
        return self.text[start:end]

    def _outer(self, part: nodes.Node) -> tuple[int, int]:
        here = self._mark(part)
        marked = self._write(rebuilt(self._tree, lambda node: here if node is part else None))
        mark = self._write(here)
        start = marked.index(mark)
        return start, len(self.text) - (len(marked) - start - len(mark))
