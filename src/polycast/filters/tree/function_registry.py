"""The functions of other filter languages: what they do with values, by their names.

A filter of such a language is a tree like any other. What that language does in its own way, such
as comparing strictly, is a function here, and `nodes.Applied` in the tree.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from polycast.languages.etcl import functions as etcl
from polycast.languages.xpath import functions as xpath

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polycast.filters.backends.python import Writer
    from polycast.filters.normal_form.predicate_kinds import Form
    from polycast.filters.tree.nodes import Applied, Node

__all__ = ["VOCABULARIES", "Insight", "Vocabulary", "insight_of"]


class Insight(Protocol):
    """What a language knows of its own functions, for those who run filters fast."""

    def asked(self, node: Applied, *, wanted: bool) -> tuple[Node, Form] | None:
        """A term, and what is asked of its value; None if it has to be evaluated."""

    def written(self, node: Applied, writer: Writer) -> str | None:
        """A faster Python expression than calling the function."""

    def folded(self, node: Applied, cls: type) -> Node:
        """The same for events of exactly one class."""

    def seat(self, node: Applied, cls: type) -> str | tuple[str, ...] | None:
        """Where its value just stands in events of exactly one class (see `slots`)."""

    def attributes(self, node: Applied) -> frozenset[str] | None:
        """Which attributes of the event it asks for, if the event is its argument; None: any."""

    def check(self, node: Applied) -> None:
        """Raise FilterError if a filter from outside may not say so."""


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The functions of one language: pure, of values; what they cannot do, they raise."""

    name: str
    functions: Mapping[str, Callable[..., Any]]
    insight: Insight

    def check(self, name: str, arguments: int) -> None:
        """Raise if there is no such function, or none that takes so many arguments."""
        function = self.functions.get(name)
        if function is None:
            known = ", ".join(sorted(self.functions))
            raise ValueError(f"{self.name} has no function {name}, only {known}")
        inspect.signature(function).bind(*range(arguments))


VOCABULARIES: Mapping[str, Vocabulary] = {
    "etcl": Vocabulary("etcl", etcl.FUNCTIONS, etcl.Etcl()),
    "xpath": Vocabulary("xpath", xpath.FUNCTIONS, xpath.Xpath()),
}


def insight_of(node: Applied) -> Insight:
    """What the language of a function knows of it."""
    return VOCABULARIES[node.language].insight
