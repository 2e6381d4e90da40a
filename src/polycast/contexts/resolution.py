"""Which rule applies at each path of an event (FOS, section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polycast.contexts.priorities import Path, deciding_priority, strength

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.contexts.functions import Function
    from polycast.contexts.lines import Rule
    from polycast.contexts.vocabulary import Vocabulary

__all__ = ["Node", "Resolver", "Row", "TooManyPaths"]

MOST_PATHS = 50_000  # of one event type


class TooManyPaths(Exception):
    """Types that contain each other in so many ways that nobody could check them all."""


@dataclass(frozen=True)
class Row:
    """A path at which a rule applies, and why that one."""

    types: tuple[type, ...]
    attributes: tuple[str, ...]
    pattern: str
    function: Function
    reason: str
    """The priority that decided, P1 to P6; `only` if there was nothing to decide."""
    runner_up: str | None
    """The pattern that would have been next."""
    shadowed: bool
    """Whether a rule further out ends the descent before this one is reached."""
    shadowed_by: str | None
    rule: Rule

    def __str__(self) -> str:
        path = ".".join((self.types[0].__name__, *self.attributes))
        why = self.reason if self.runner_up is None else f"{self.reason} over {self.runner_up}"
        return f"{path} ({self.types[-1].__name__}): {self.pattern} > {self.function.name} ({why})"


class Node:
    """A path, with the rule that wins there."""

    __slots__ = ("_children", "_resolver", "parent", "path", "reason", "runner_up", "winner")

    def __init__(self, resolver: Resolver, path: Path, parent: Node | None) -> None:
        self._resolver, self.path, self.parent = resolver, path, parent
        self._children: dict[tuple[str, type], Node] = {}
        self.winner: Rule | None = None
        self.runner_up: Rule | None = None
        self.reason = "only"
        if parent is not None:  # a rule never applies to the event itself
            self._choose()

    def _choose(self) -> None:
        keys = [
            (key, rule)
            for rule in self._resolver.rules
            if (key := strength(rule.pattern, self.path)) is not None
        ]
        if not keys:
            return
        best = min(keys, key=lambda each: each[0])
        self.winner = best[1]
        others = [each for each in keys if each is not best]
        if others:
            second = min(others, key=lambda each: each[0])
            self.runner_up = second[1]
            self.reason = deciding_priority(best[0], second[0])

    @property
    def met(self) -> type:
        """The type that is met there."""
        return self.path.types[-1]

    def child(self, attribute: str, met: type) -> Node:
        """One step further, where a type is met."""
        found = self._children.get((attribute, met))
        if found is None:
            self._resolver.count()
            found = Node(self._resolver, self.path.to(attribute, met), self)
            self._children[attribute, met] = found
        return found

    @property
    def first(self) -> Node | None:
        """The first occurrence of the type that is met here, if this is not it."""
        node, found = self.parent, None
        while node is not None:
            if node.met is self.met:
                found = node
            node = node.parent
        return found

    def all_children(self) -> Iterator[Node]:
        """All paths one step further; none where a type comes again."""
        types = self._resolver.types
        if not types.has_attributes(self.met) or self.first is not None:
            return
        for attribute, shape in types.shapes(self.met).items():
            declared = shape.all_classes()
            for met in dict.fromkeys(met for each in declared for met in types.subtypes(each)):
                yield self.child(attribute, met)
            if shape.opaque:  # nobody knows what it holds
                yield self.child(attribute, object)


class Resolver:
    """Resolves rules for the paths of one event type after the other."""

    def __init__(self, rules: tuple[Rule, ...], types: Vocabulary) -> None:
        self.rules, self.types = rules, types
        self._roots: dict[type, Node] = {}
        self._count = 0

    def count(self) -> None:
        """One path more."""
        self._count += 1
        if self._count > MOST_PATHS:
            raise TooManyPaths(
                f"more than {MOST_PATHS:,} paths: its types contain each other in too many ways"
            )

    def root(self, cls: type) -> Node:
        """An event of a class."""
        found = self._roots.get(cls)
        if found is None:
            self._count = 0
            found = self._roots[cls] = Node(self, Path((cls,)), None)
        return found

    def rows(self, cls: type) -> list[Row]:
        """All paths of an event type at which a rule wins, those it never gets to included."""
        return list(self._rows(self.root(cls), None))

    def _rows(self, node: Node, outer: Rule | None) -> Iterator[Row]:
        for child in node.all_children():
            if child.winner is not None:
                yield _row(child, child.winner, outer)
            yield from self._rows(child, outer or child.winner)


def _row(node: Node, rule: Rule, outer: Rule | None) -> Row:
    assert rule.function is not None
    return Row(
        node.path.types,
        node.path.attributes,
        str(rule.pattern),
        rule.function,
        node.reason,
        None if node.runner_up is None else str(node.runner_up.pattern),
        outer is not None,
        None if outer is None else str(outer.pattern),
        rule,
    )
