"""The filter languages: how each is read and written, and what is known of its functions.

A filter of such a language is a tree like any other. What that language does in its own way, such
as comparing strictly, is a function here, and `nodes.Applied` in the tree. The languages are built
upon filters: this module says what a language provides, and loads them when the first is needed.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polycast.config import Clock
    from polycast.filters.backends.python import SourceWriter
    from polycast.filters.checking.inference import Kinds
    from polycast.filters.checking.mistakes import Places
    from polycast.filters.checking.walker import Walker
    from polycast.filters.cost.operation_costs import FunctionCost
    from polycast.filters.filter import Filter
    from polycast.filters.normal_form.ordered_domains import Form
    from polycast.filters.tree.nodes import Applied, Node


class Insight:
    """How an index and generated code use a language's functions without calling them."""

    def asked(self, node: Applied, *, wanted: bool) -> tuple[Node, Form] | None:
        """The term and the predicate that an index looks up; None if it has to be evaluated."""
        del node, wanted
        return None

    def written(self, node: Applied, writer: SourceWriter) -> str | None:
        """A faster Python expression than calling the function."""
        del node, writer
        return None

    def folded(self, node: Applied, cls: type) -> Node:
        """The same for events of exactly one class."""
        del cls
        return node

    def slot(self, node: Applied, cls: type) -> str | tuple[str, ...] | None:
        """The slot of its value in events of exactly one class (see `slots`), if it has one."""
        del node, cls
        return None

    def attributes(self, node: Applied) -> frozenset[str] | None:
        """The attributes that it reads of the event, its argument; None if it may read any."""
        del node
        return None

    def check(self, node: Applied) -> None:
        """Raise FilterError if an untrusted filter may not call it like this."""


class Component(Protocol):
    """A part of an event as a language names it, for the checker: `$.venue.name`."""

    language: str
    """The name of the language, for messages."""

    def kinds(self, walker: Walker) -> Kinds:
        """What it may be; report a member that no class on the way can have."""

    def guarded(self, condition: str) -> str:
        """The text of a condition that is asked only of events that have the component."""

    def has_members(self, cls: type) -> bool:
        """Whether the language finds members in objects of a class."""


@dataclass(frozen=True, slots=True, eq=False)
class FilterLanguage:
    """One language. Its functions are pure, of values; what they cannot do, they raise."""

    name: str
    functions: Mapping[str, Callable[..., Any]]
    costs: Mapping[str, FunctionCost]
    insight: Insight
    parse: Callable[[str, Clock | None], Node]
    """The tree of a text; the clock tells the time that the text asks for."""
    write: Callable[[Filter[Any]], str]
    """The text of a filter; FilterError if it has a part that the language cannot say."""
    component: Callable[[Applied], Component | None] = lambda node: None
    """The component that a function takes from the event; None if it does something else."""
    places: Callable[[Node], Places | None] = lambda tree: None
    """The places of parts in the language's text of a tree; None if there is no such text."""

    def check_call(self, function: str, arguments: int) -> None:
        """Raise if there is no such function, or none that takes so many arguments."""
        called = self.functions.get(function)
        if called is None:
            known = ", ".join(sorted(self.functions))
            raise ValueError(f"{self.name} has no function {function}, only {known}")
        inspect.signature(called).bind(*range(arguments))


@cache
def languages() -> Mapping[str, FilterLanguage]:
    """Every language by its name."""
    from polycast.languages.etcl import ETCL
    from polycast.languages.xpath import XPATH

    return {language.name: language for language in (ETCL, XPATH)}


def language_of(node: Applied) -> FilterLanguage:
    """The language that a function belongs to."""
    return languages()[node.language]


def insight_of(node: Applied) -> Insight:
    """What the language of a function knows of it."""
    return languages()[node.language].insight
