"""Which rule applies at each path of an event (FOS, section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polycast.contexts.resolve.derivation import is_subtype
from polycast.contexts.resolve.priorities import EventPath, deciding_priority, progress, strength

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.contexts.declare.local_types import KnownTypes
    from polycast.contexts.declare.rule_functions import RuleFunction
    from polycast.contexts.declare.statements import Rule

__all__ = ["FEW_PATHS", "PathNode", "ResolvedRule", "Resolver", "TooManyPaths"]

MOST_PATHS = 10_000  # of one event type
FEW_PATHS = 1_000  # up to here, every path is followed on its own


class TooManyPaths(Exception):
    """Types that contain each other in so many ways that nobody could check them all."""


@dataclass(frozen=True)
class ResolvedRule:
    """A path at which a rule applies, and why that one."""

    types: tuple[type, ...]
    attributes: tuple[str, ...]
    pattern: str
    function: RuleFunction
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


class PathNode:
    """A path, with the rule that wins there.

    Of types that contain each other in very many ways, those paths are one node after which all is
    the same: no rule tells them apart any more (`scope` has them, by the type met).
    """

    __slots__ = (
        "_children",
        "_resolver",
        "_scopes",
        "parent",
        "path",
        "reason",
        "rules",
        "runner_up",
        "scope",
        "winner",
    )

    def __init__(
        self, resolver: Resolver, path: EventPath, parent: PathNode | None, rules: tuple[Rule, ...]
    ) -> None:
        self._resolver, self.path, self.parent, self.rules = resolver, path, parent, rules
        self._children: dict[tuple[str, type], PathNode] = {}
        self._scopes: dict[object, dict[type, PathNode]] = {}
        self.scope: dict[type, PathNode] | None = None
        self.winner: Rule | None = None
        self.runner_up: Rule | None = None
        self.reason = "only"
        if parent is not None:  # a rule never applies to the event itself
            self._choose()

    def _choose(self) -> None:
        keys = [
            (key, rule)
            for rule in self.rules
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

    def child(self, attribute: str, met: type) -> PathNode:
        """One step further, where a type is met."""
        found = self._children.get((attribute, met))
        if found is None:
            found = None if self.scope is None else self.scope.get(met)
            if found is None:
                found = self._resolver.step(self, attribute, met)
            self._children[attribute, met] = found
        return found

    @property
    def first(self) -> PathNode | None:
        """The first occurrence of the type that is met here, if this is not it."""
        if self.met not in self.path.types[:-1]:
            return None
        node, found = self.parent, None
        while node is not None:
            # In a scope, a type that comes again is the same node by itself.
            if node.met is self.met and node.scope is None:
                found = node
            node = node.parent
        return found

    def enter_scope(self) -> None:
        """From here on, paths are told apart by the type met only, if no rule tells them apart."""
        outer = self.parent
        if outer is not None and outer.scope is not None:
            self.scope = outer.scope
            self.scope.setdefault(self.met, self)
            return
        found = [(rule, progress(rule.pattern, self.path)) for rule in self.rules]
        alive = [(rule, each) for rule, each in found if each is not None]
        if all(each.is_decided for _, each in alive):
            place = self if outer is None else outer
            key = tuple((rule.pattern, each.steps) for rule, each in alive)
            self.scope = place._scopes.setdefault(key, {})

    def all_children(self) -> Iterator[tuple[str, PathNode]]:
        """All paths one step further, by attribute; none where a type comes again."""
        types = self._resolver.types
        if not types.has_attributes(self.met) or self.first is not None:
            return
        for attribute, shape in types.shapes(self.met).items():
            declared = shape.all_classes()
            for met in dict.fromkeys(met for each in declared for met in types.subtypes(each)):
                yield attribute, self.child(attribute, met)
            if shape.holds_opaque():  # nobody knows what it holds
                yield attribute, self.child(attribute, object)


class Resolver:
    """Resolves rules for the paths of one event type after the other.

    If there are more than a few, those that no rule tells apart are one; with None, never.
    """

    def __init__(
        self, rules: tuple[Rule, ...], types: KnownTypes, *, few: int | None = FEW_PATHS
    ) -> None:
        self.rules, self.types = rules, types
        self._few = few
        self._roots: dict[type, PathNode] = {}
        self._folded: set[type] = set()
        self._count = 0

    def root(self, cls: type) -> PathNode:
        """An event of a class."""
        found = self._roots.get(cls)
        if found is None:
            self._count = 0
            rules = tuple(each for each in self.rules if _may_concern(each, cls))
            found = self._roots[cls] = PathNode(self, EventPath((cls,)), None, rules)
            if self._few is not None and not self._has_few_paths(cls, self._few):
                self._folded.add(cls)
                found.enter_scope()
        return found

    def step(self, node: PathNode, attribute: str, met: type) -> PathNode:
        """A node that was not there before."""
        self._count += 1
        if self._count > MOST_PATHS:
            raise TooManyPaths(
                f"more than {MOST_PATHS:,} paths: its types contain each other in too many ways"
            )
        made = PathNode(self, node.path.to(attribute, met), node, node.rules)
        if node.path.types[0] in self._folded:
            made.enter_scope()
        return made

    def _has_few_paths(self, cls: type, few: int) -> bool:
        """Whether all paths of an event type can be followed, each until a type comes again."""
        count, waiting = 0, [(cls, frozenset[type]())]
        while waiting:
            met, above = waiting.pop()
            if met in above or not self.types.has_attributes(met):
                continue
            further = above | {met}
            for shape in self.types.shapes(met).values():
                for declared in dict.fromkeys(shape.all_classes()):
                    waiting += [(each, further) for each in self.types.subtypes(declared)]
            count += 1
            if count + len(waiting) > few:
                return False
        return True

    def rows(self, cls: type) -> list[ResolvedRule]:
        """All paths of an event type at which a rule wins, those it never gets to included."""
        return list(self._rows(self.root(cls)))

    def _rows(self, root: PathNode) -> Iterator[ResolvedRule]:
        seen: set[tuple[PathNode, bool]] = set()
        waiting: list[tuple[PathNode, Iterator[tuple[str, PathNode]], Rule | None]] = []
        waiting.append((root, root.all_children(), None))
        while waiting:
            node, children, outer = waiting[-1]
            attribute, child = next(children, ("", None))
            if child is None:
                waiting.pop()
                continue
            if child.winner is not None:
                yield _row(node.path.to(attribute, child.met), child, child.winner, outer)
            if (child, outer is None) not in seen:
                if child.scope is not None:
                    seen.add((child, outer is None))
                waiting.append((child, child.all_children(), outer or child.winner))


def _may_concern(rule: Rule, cls: type) -> bool:
    """Whether a pattern could apply in events of a class."""
    return not rule.pattern.qualifiers or is_subtype(cls, rule.pattern.head)


def _row(path: EventPath, node: PathNode, rule: Rule, outer: Rule | None) -> ResolvedRule:
    assert rule.function is not None
    return ResolvedRule(
        path.types,
        path.attributes,
        str(rule.pattern),
        rule.function,
        node.reason,
        None if node.runner_up is None else str(node.runner_up.pattern),
        outer is not None,
        None if outer is None else str(outer.pattern),
        rule,
    )
