"""Verdicts: why an event passes a filter or not, condition by condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polycast.errors.failures import FAILURES
from polycast.filters.backends.interpreter import evaluate
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import render

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Verdict", "verdicts"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one condition of a filter about an event."""

    condition: str
    depth: int  # how many conditions it is a part of
    passes: bool | None  # None: it fails, or was not asked
    text: str

    def __str__(self) -> str:
        return f"{'  ' * self.depth}`{self.condition}` {self.text}"


def verdicts(node: nodes.Node, event: Any, *, depth: int = 0) -> Iterator[Verdict]:
    """The whole filter, then the evaluated parts of its `and`, `or` and `not`."""
    yield _verdict(node, event, depth)
    if isinstance(node, nodes.Not):
        yield from verdicts(node.operand, event, depth=depth + 1)
    if isinstance(node, nodes.And | nodes.Or):
        yield from _parts(node, event, depth + 1)


def _parts(node: nodes.And | nodes.Or, event: Any, depth: int) -> Iterator[Verdict]:
    decided = False
    for part in node.parts:
        if decided:
            yield Verdict(render(part), depth, None, "is not asked any more")
            continue
        found = list(verdicts(part, event, depth=depth))
        yield from found
        decided = found[0].passes is not isinstance(node, nodes.And)


def _verdict(node: nodes.Node, event: Any, depth: int) -> Verdict:
    text = render(node)
    try:
        value = evaluate(node, event, ())
        passes = bool(value)
    except FAILURES as error:
        return Verdict(text, depth, None, f"fails: {type(error).__name__}: {error}")
    shown = "" if value is passes else f" ({value!r:.60})"
    return Verdict(text, depth, passes, f"is {passes}{shown}")
