"""Which rule applies at each path of an event (FOS, sections 3.6 and 5.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from polycast.typesystem.class_cache import cached_by_class
from polycast.typesystem.describe import supertypes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.contexts.declare.patterns import Pattern, Qualifier
    from polycast.contexts.declare.rule_functions import RuleFunction
    from polycast.contexts.declare.statements import Rule
    from polycast.contexts.resolve.attribute_shapes import KnownTypes


# -- how far apart types are, by what they declare; not Python's order -----------------------------


class Distance(NamedTuple):
    """How far a named type is above the type that is met; smaller is stronger."""

    chain: int
    """The longest chain of declared supertypes from the type met up to the named one (P3)."""
    place: int
    """The position of the named type in a breadth-first walk of the declared supertypes (P4)."""


FARTHEST = Distance(1_000_000, 1_000_000)  # `object`, which no class declares


def is_subtype(met: type, named: type) -> bool:
    """Whether a class declares another as a supertype, or is it."""
    return named in met.__mro__


def distance(met: type, named: type) -> Distance:
    """The distance from the type that is met up to one of its supertypes."""
    return _distances(met).get(named, FARTHEST)


def most_derived(met: type, candidates: list[type]) -> list[type]:
    """The candidates that are supertypes of the type met, the most derived first."""
    supertypes = [candidate for candidate in candidates if is_subtype(met, candidate)]
    return sorted(supertypes, key=lambda supertype: distance(met, supertype))


@cached_by_class
def _distances(met: type) -> dict[type, Distance]:
    places: dict[type, int] = {met: 0}
    waiting = [met]
    for cls in waiting:
        for supertype in supertypes_of(cls):
            if supertype not in places:
                places[supertype] = len(places)
                waiting.append(supertype)
    chains: dict[type, int] = {}
    _climb(met, 0, chains)
    return {cls: Distance(chains[cls], place) for cls, place in places.items()}


def _climb(cls: type, length: int, chains: dict[type, int]) -> None:
    if chains.get(cls, -1) < length:
        chains[cls] = length
        for supertype in supertypes_of(cls):
            _climb(supertype, length + 1, chains)


# -- how strong a pattern is: one sort key for each (FOS, section 3.6) -----------------------------


class EventPath(NamedTuple):
    """Where a value is in an event: the attributes on the way, and the type met at each end."""

    types: tuple[type, ...]
    """One more than there are attributes: the first is the type of the event."""
    attributes: tuple[str, ...] = ()

    def to(self, attribute: str, met: type) -> EventPath:
        """The path one attribute further."""
        return EventPath((*self.types, met), (*self.attributes, attribute))

    def __str__(self) -> str:
        return ".".join((self.types[0].__name__, *self.attributes))


class StepStrength(NamedTuple):
    """How strongly a pattern names one step; smaller is stronger."""

    unnamed: bool
    distance: Distance
    by_type: bool


_UNNAMED = StepStrength(unnamed=True, distance=FARTHEST, by_type=True)


@dataclass(frozen=True, order=True)
class Strength:
    """The key: the last type, then the steps from the event on, then attribute over type."""

    last: Distance
    steps: tuple[StepStrength, ...]
    by_type: bool
    breadth: tuple[int, ...]
    """How many types are named at each step, the last one first: an attribute of a union names
    several, and where nothing else decides, one that is narrowed is the stronger."""


def strength(pattern: Pattern, path: EventPath) -> Strength | None:
    """How strong a pattern is at a path; None if it does not apply there."""
    count, length = len(pattern.qualifiers), len(path.attributes)
    if count == 0:
        nearest = _nearest(path.types[-1], (pattern.head,))
        if nearest is None:
            return None
        return Strength(nearest, (_UNNAMED,) * length, by_type=True, breadth=(1,) * (length + 1))
    last = pattern.qualifiers[-1]
    if length < count or (last.attribute is not None and length > count):
        return None
    nearest = _matched(last, path.attributes[-1], path.types[-1])
    steps = None if nearest is None else _steps_before_last(pattern, path)
    if nearest is None or steps is None:
        return None
    steps += [_UNNAMED] * (length - count)
    named = [len(qualifier.types) for qualifier in reversed(pattern.qualifiers)]
    breadth = (named[0], *[1] * (length - count), *named[1:], 1)
    return Strength(nearest, tuple(steps), last.attribute is None, breadth)


class PatternProgress(NamedTuple):
    """How much of a pattern is matched on the way to a path."""

    steps: tuple[StepStrength, ...]
    is_decided: bool
    """Whether it applies to the same types at all depths further in."""


def progress(pattern: Pattern, path: EventPath) -> PatternProgress | None:
    """How much of a pattern a path matches; None if the pattern applies nowhere further in."""
    count, length = len(pattern.qualifiers), len(path.attributes)
    if count == 0:
        return PatternProgress((), is_decided=True)
    by_type = pattern.qualifiers[-1].attribute is None
    steps = _steps_before_last(pattern, path)
    if steps is None or (not by_type and length >= count):
        return None
    return PatternProgress(tuple(steps), by_type and length >= count - 1)


def leads_past(pattern: Pattern, path: EventPath) -> bool:
    """Whether a path agrees with a pattern as far as it goes, the last qualifier aside."""
    return not pattern.qualifiers or _steps_before_last(pattern, path) is not None


def _steps_before_last(pattern: Pattern, path: EventPath) -> list[StepStrength] | None:
    """The steps of a path that a pattern names, but the last; None if one of them differs."""
    head = _nearest(path.types[0], (pattern.head,))
    if head is None:
        return None
    steps = [StepStrength(unnamed=False, distance=head, by_type=True)]
    on_the_way = zip(pattern.qualifiers[:-1], path.attributes, path.types[1:], strict=False)
    for qualifier, attribute, met in on_the_way:
        nearest = _matched(qualifier, attribute, met)
        if nearest is None:
            return None
        steps.append(StepStrength(False, nearest, qualifier.attribute is None))
    return steps


def _matched(qualifier: Qualifier, attribute: str, met: type) -> Distance | None:
    if qualifier.attribute is not None and qualifier.attribute != attribute:
        return None
    return _nearest(met, qualifier.types)


def _nearest(met: type, named: tuple[type, ...]) -> Distance | None:
    distances = [distance(met, cls) for cls in named if is_subtype(met, cls)]
    return min(distances, default=None)


def deciding_priority(winner: Strength, other: Strength) -> str:
    """Which of the paper's priorities makes one pattern stronger than another."""
    decided, rest = _first_difference(winner, other)
    if decided == "P2" and "P1" in rest:
        return "P5"  # an instance against a deeper nesting level
    if decided == "P3" and rest & {"P1", "P2"}:
        return "P6"  # a subtype against an instance or a deeper nesting level
    return decided


def _first_difference(winner: Strength, other: Strength) -> tuple[str, set[str]]:
    """The priority that decides, and those by which the other pattern would be the stronger."""
    decided, against = "", set()
    for (label, one), (_, two) in zip(_criteria(winner), _criteria(other), strict=True):
        if one == two:
            continue
        if not decided:
            decided = label
        elif two < one:
            against.add(label)
    return decided, against


def _criteria(key: Strength) -> list[tuple[str, int]]:
    criteria = _distance_criteria(key.last)
    for step in key.steps:
        criteria += [("P1", step.unnamed), *_distance_criteria(step.distance)]
        criteria.append(("P2", step.by_type))
    return [*criteria, ("P2", key.by_type), *(("P3", count) for count in key.breadth)]


def _distance_criteria(distance: Distance) -> list[tuple[str, int]]:
    return [("P3", distance.chain), ("P4", distance.place)]


# -- paths -----------------------------------------------------------------------------------------

MOST_PATHS = 10_000  # of one event type
FEW_PATHS = 1_000  # up to here, every path is followed on its own


class TooManyPaths(Exception):
    """Types contain each other in so many ways that their paths cannot all be checked."""


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
    """The pattern that comes second."""
    shadowed: bool
    """Whether a rule further out ends the descent before this one is reached."""
    shadowed_by: str | None
    rule: Rule

    @property
    def path(self) -> EventPath:
        """Where it applies."""
        return EventPath(self.types, self.attributes)

    def __str__(self) -> str:
        why = self.reason if self.runner_up is None else f"{self.reason} over {self.runner_up}"
        rule = f"{self.pattern} > {self.function.name}"
        return f"{self.path} ({self.types[-1].__name__}): {rule} ({why})"


@dataclass(eq=False, slots=True)
class PathNode:
    """A path, with the rule that wins there.

    If types contain each other in very many ways, paths that no rule tells apart any more share one
    node for each type met; `scope` has these nodes.
    """

    _resolver: Resolver
    path: EventPath
    parent: PathNode | None
    rules: tuple[Rule, ...]
    scope: dict[type, PathNode] | None = None
    winner: Rule | None = None
    runner_up: Rule | None = None
    reason: str = "only"
    _children: dict[tuple[str, type], PathNode] = field(default_factory=dict)
    _scopes: dict[object, dict[type, PathNode]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.parent is not None:  # a rule never applies to the event itself
            self._choose()

    def _choose(self) -> None:
        keys = [
            (key, rule)
            for rule in self.rules
            if (key := strength(rule.pattern, self.path)) is not None
        ]
        if not keys:
            return
        best = min(keys, key=lambda pair: pair[0])
        self.winner = best[1]
        others = [pair for pair in keys if pair is not best]
        if others:
            second = min(others, key=lambda pair: pair[0])
            self.runner_up = second[1]
            self.reason = deciding_priority(best[0], second[0])

    @property
    def met(self) -> type:
        """The type that is met at its end."""
        return self.path.types[-1]

    def child(self, attribute: str, met: type) -> PathNode:
        """The node one attribute further, where a type is met."""
        child = self._children.get((attribute, met))
        if child is None:
            child = None if self.scope is None else self.scope.get(met)
            if child is None:
                child = self._resolver.step(self, attribute, met)
            self._children[attribute, met] = child
        return child

    @property
    def first(self) -> PathNode | None:
        """The outermost node on the path with the same type; None if this is the only one."""
        if self.met not in self.path.types[:-1]:
            return None
        node, first = self.parent, None
        while node is not None:
            # In a scope, a type that comes again is the same node anyway.
            if node.met is self.met and node.scope is None:
                first = node
            node = node.parent
        return first

    def enter_scope(self) -> None:
        """From here on, tell paths apart only by the type met, if no rule tells them apart."""
        outer = self.parent
        if outer is not None and outer.scope is not None:
            self.scope = outer.scope
            self.scope.setdefault(self.met, self)
            return
        progresses = [(rule, progress(rule.pattern, self.path)) for rule in self.rules]
        alive = [(rule, reached) for rule, reached in progresses if reached is not None]
        if all(reached.is_decided for _, reached in alive):
            place = self if outer is None else outer
            key = tuple((rule.pattern, reached.steps) for rule, reached in alive)
            self.scope = place._scopes.setdefault(key, {})

    def all_children(self) -> Iterator[tuple[str, PathNode]]:
        """All nodes one attribute further, by attribute; none where a type comes again."""
        types = self._resolver.types
        if not types.has_attributes(self.met) or self.first is not None:
            return
        for attribute, shape in types.shapes(self.met).items():
            declared = shape.all_classes()
            for met in dict.fromkeys(met for cls in declared for met in types.subtypes(cls)):
                yield attribute, self.child(attribute, met)
            if shape.holds_opaque():  # it may hold anything
                yield attribute, self.child(attribute, object)


class Resolver:
    """Resolves rules for the paths of one event type after the other.

    An event type with more than `few` paths is folded: paths that no rule tells apart share nodes.
    With None, no event type is.
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
        """The node for an event of a class."""
        root = self._roots.get(cls)
        if root is None:
            self._count = 0
            rules = tuple(rule for rule in self.rules if _may_concern(rule, cls))
            root = self._roots[cls] = PathNode(self, EventPath((cls,)), None, rules)
            if self._few is not None and not self._has_few_paths(cls, self._few):
                self._folded.add(cls)
                root.enter_scope()
        return root

    def step(self, node: PathNode, attribute: str, met: type) -> PathNode:
        """A new node one attribute further."""
        self._count += 1
        if self._count > MOST_PATHS:
            why = "its types contain each other in too many ways"
            raise TooManyPaths(f"more than {MOST_PATHS:,} paths: {why}")
        child = PathNode(self, node.path.to(attribute, met), node, node.rules)
        if node.path.types[0] in self._folded:
            child.enter_scope()
        return child

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
                    waiting += [(subtype, further) for subtype in self.types.subtypes(declared)]
            count += 1
            if count + len(waiting) > few:
                return False
        return True

    def rows(self, cls: type) -> list[ResolvedRule]:
        """All paths of an event type at which a rule wins, shadowed ones included."""
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
