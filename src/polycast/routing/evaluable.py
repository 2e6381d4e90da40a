"""Which parts of a filter can be asked where classes are made from descriptions.

A class that was made has the fields of the real one and nothing else: no methods, no properties, no
way of its own to be compared. A part that may need one of those is for who has the class. This goes
by names alone, so some parts are left that could be asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from polycast.errors import FilterTooCostlyError
from polycast.filters.cost import EVENT, cost_of, is_plain, kind_of_type
from polycast.filters.normal_form.disjunction import conjunctions
from polycast.filters.normal_form.ordered_domains import Interval, Points
from polycast.filters.tree import nodes
from polycast.filters.tree.projection import attributes_read
from polycast.typesystem import Description, Registry, TypeExpression, describe

VARIABLE = ""
"""What stands for the variables of a filter among names: it is the name of nothing else."""

USUAL = 4_096  # bytes of an event for which a filter is judged
MOST_STEPS = 200_000  # that it may take then
AT_ONCE = 1 / 16  # of a step, for a byte of a text that is compared or searched
READING = 0.5  # steps for each byte of an event whose parts are read
HASHING = 4e-4  # steps for each two bytes of an event whose numbers may all have one hash
OPEN = 1_000  # steps for what no index looks up: to compile it, and to ask it of every event
_ENUMS = ("enum", "flag")
_ALONE = frozenset(  # what is no container
    {
        *("builtins.str", "builtins.bytes", "builtins.int", "builtins.bool", "builtins.float"),
        *("decimal.Decimal", "uuid.UUID", "datetime.datetime", "datetime.date", "datetime.time"),
        "datetime.timedelta",
    }
)
_OF_TEXTS = frozenset({"builtins.str", "builtins.bytes"})  # whose hashes nobody can foresee
_SEQUENCES = ("builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset")


class Effort(NamedTuple):
    """The steps that asking takes at most, by the size of an event: sums for many filters."""

    constant: float = 0.0
    linear: float = 0.0
    square: float = 0.0
    reading: float = 0.0
    """How many filters look at what has parts, which are read one by one."""
    hashing: float = 0.0
    """How many look at what is put into a set or a dict to be read."""

    def plus(self, other: Effort, times: int = 1) -> Effort:
        """Both, or with -1 what is left."""
        return Effort(*(one + times * more for one, more in zip(self, other, strict=True)))

    def at(self, size: int) -> float:
        """What it is for an event of so many bytes."""
        linear = self.linear + (READING if self.reading else 0.0)
        square = self.square + (HASHING if self.hashing else 0.0)
        return self.constant + linear * size + square * size * size


NO_EFFORT = Effort()


class NameMeanings:
    """What the names in a filter may stand for, where some classes are missing."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.versions: Counter[str] = Counter()  # how many descriptions each name has
        self.several: set[str] = set()  # classes that are missing, in several versions
        self.behaving: set[str] = set()
        self.objects: set[str] = set()  # fields with objects, alone or in containers
        self.sequences: set[str] = set()  # of these, those that are containers for sure
        self.open: set[str] = set()  # fields that may have anything
        self._here: set[str] = set()
        self._missing: Counter[str] = Counter()
        self._made: set[str] = set()
        self._would_be_open: set[str] = set()
        self._parts: dict[str, dict[str, bool]] = {}  # by the names of their types
        self._types: dict[str, TypeExpression] = {}  # what a field of a name may be, in any class
        for description in registry.descriptions():
            self.add(description)

    def add(self, description: Description) -> frozenset[str]:
        """One more is known; the names that may stand for something else now."""
        had_sequences = bool(self.sequences)
        changed = {description.name, *description.aliases}
        name = description.name
        self.versions[name] += 1
        if self._registry.resolve(name) is not None:
            self._here.add(name)
        else:
            self._missing[name] += 1
            if self._missing[name] > 1:
                self.several.add(name)
            fields = description.attribute_names  # what objects of the class offer besides
            offered = (part.name for part in description.members if part.name not in fields)
            changed |= _joining(self.behaving, offered)
            if description.kind not in _ENUMS and name not in self._made:
                self._made.add(name)
                changed |= _joining(self.open, self._would_be_open)
                for part, is_sequence in self._parts.get(name, {}).items():
                    changed |= self._have_object(part, is_sequence=is_sequence)
        for attribute in description.attributes:
            changed |= self._see(attribute.name, attribute.type)
        if bool(self.sequences) != had_sequences:
            changed.add(VARIABLE)
        return frozenset(changed)

    def _see(self, part: str, of: TypeExpression) -> set[str]:
        changed: set[str] = set()
        known = self._types.get(part)
        self._types[part] = _either(known, of)
        new = self._types[part]
        if known is not None and kind_of_type(known) != kind_of_type(new):
            changed.add(part)
        if _is_hashed(known) != _is_hashed(new):
            changed.add(part)
        if _is_open(of):
            self._would_be_open.add(part)
            if self._made:
                changed |= _joining(self.open, [part])
        is_sequence = of.name in _SEQUENCES
        for name in _names(of):
            parts = self._parts.setdefault(name, {})
            parts[part] = parts.get(part, False) or is_sequence
            if name in self._made:
                changed |= self._have_object(part, is_sequence=is_sequence)
        return changed

    def _have_object(self, part: str, *, is_sequence: bool) -> set[str]:
        changed = _joining(self.objects, [part])
        return changed | _joining(self.sequences, [part]) if is_sequence else changed

    def are_outdated(self) -> bool:
        """Whether a class has gone that was here."""
        return any(self._registry.resolve(name) is None for name in self._here)

    def unlike(self, other: NameMeanings) -> frozenset[str]:
        """The names that stand for something else than they did."""
        kinds = ("several", "behaving", "objects", "sequences", "open", "_here")
        changed = {name for kind in kinds for name in getattr(self, kind) ^ getattr(other, kind)}
        if bool(self.sequences) != bool(other.sequences):
            changed.add(VARIABLE)
        known = self._types.keys() | other._types.keys()
        changed |= {name for name in known if self._types.get(name) != other._types.get(name)}
        return frozenset(changed)

    def can_ask(self, tree: nodes.Node) -> bool:
        """Whether a tree means the same with the classes that are here as with the real ones."""
        # An object by itself may have a way of its own to be true.
        doubtful = _is_object(tree, self) or any(
            _is_doubtful(node, self) for node in nodes.walk(tree)
        )
        return not doubtful and self.is_affordable(tree)

    def is_affordable(self, tree: nodes.Node) -> bool:
        """Whether asking it takes little time, whatever the fields of its names are.

        What is more is left to the subscriber, who asks it of fewer events and harms nobody else.
        """
        if is_plain(tree):
            return True
        try:
            return cost_of(tree, fields=self._types.get).at(USUAL) <= MOST_STEPS
        except FilterTooCostlyError:
            return False

    def effort(self, tree: nodes.Node) -> Effort:
        """What asking a tree takes that is affordable."""
        asked = attributes_read(tree)
        types = None if asked is None else [self._types.get(name) for name in asked]
        parts = types is None or any(map(_has_parts, types))
        hashed = types is None or any(map(_is_hashed, types))
        cost = cost_of(tree, fields=self._types.get)
        rows = conjunctions(tree)
        looked_up = (any(isinstance(part.form, Points | Interval) for part in row) for row in rows)
        constant = cost.constant + OPEN * (len(rows) - sum(looked_up))
        linear, square = cost.linear.get(EVENT, 0.0), cost.square.get(EVENT, 0.0)
        if is_plain(tree) and not parts:  # many bytes of a text are looked at at once
            linear *= AT_ONCE
        return Effort(constant, linear, square, float(parts), float(hashed))


def _has_parts(declared: TypeExpression | None) -> bool:
    """Whether it is read piece by piece; an attribute that nobody has is not read at all."""
    if declared is None or declared.form == "none" or declared.name in _ALONE:
        return False
    return declared.form != "union" or any(map(_has_parts, declared.arguments))


def _is_hashed(declared: TypeExpression | None) -> bool:
    """Whether to read it means to hash numbers that others chose: all may have one hash."""
    if declared is None or declared.form == "none" or declared.name in _ALONE:
        return False
    if declared.form == "union":
        return any(map(_is_hashed, declared.arguments))
    if declared.name in ("builtins.list", "builtins.tuple"):
        return not declared.arguments or any(map(_is_hashed, declared.arguments))
    first = declared.arguments[0].name if declared.arguments else ""
    if declared.name in ("builtins.set", "builtins.frozenset"):
        return first not in _OF_TEXTS
    if declared.name == "builtins.dict" and first in _OF_TEXTS:
        return any(map(_is_hashed, declared.arguments[1:]))
    return True


def _either(one: TypeExpression | None, other: TypeExpression) -> TypeExpression:
    if one is None or one == other:
        return other
    parts = one.arguments if one.form == "union" else (one,)
    return one if other in parts else TypeExpression("union", arguments=(*parts, other))


def _joining(known: set[str], names: Iterable[str]) -> set[str]:
    """Have names among those that are known; those that were not."""
    new = {name for name in names if name not in known}
    known |= new
    return new


def is_ambiguous(digest: str, registry: Registry, versions: Counter[str]) -> bool:
    """Whether events of a description may be read as another version of it, where the class is.

    That may have attributes, with defaults, that a class made from the description has not.
    """
    described, seen = registry.described(digest), set[str]()
    waiting = [] if described is None else [described.name]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if versions[name] > 1 and registry.resolve(name) is None:
            return True
        known = registry.describe(name)
        if known is not None:
            waiting += known.supertypes
            waiting += [held for part in known.attributes for held in _names(part.type)]
    return False


def _is_doubtful(node: nodes.Node, names: NameMeanings) -> bool:
    if isinstance(node, nodes.Opaque):
        return True
    if isinstance(node, nodes.Attribute | nodes.Reach):
        return node.name in names.behaving or node.name in names.open
    if isinstance(node, nodes.Call):
        return node.method in names.behaving or any(_is_object(e, names) for e in node.arguments)
    if isinstance(node, nodes.InstanceOf):
        described = map(describe, node.classes)
        return any(
            description.kind == "protocol" or description.name in names.several
            for description in described
        )
    if isinstance(node, nodes.Quantified | nodes.Item):
        over = node.over if isinstance(node, nodes.Quantified) else node.of
        is_sequence = isinstance(over, nodes.Attribute) and over.name in names.sequences
        return _is_object(over, names) and not is_sequence
    return any(_is_object(child, names) for child in node.children())


def _is_object(node: nodes.Node, names: NameMeanings) -> bool:
    """Whether a part may be an object that has a way of its own to be compared."""
    if isinstance(node, nodes.Variable):
        return bool(names.sequences)
    if isinstance(node, nodes.Item):
        return _is_object(node.of, names)
    return isinstance(node, nodes.Attribute) and node.name in names.objects


def _names(expression: TypeExpression) -> set[str]:
    names = {expression.name}
    for argument in expression.arguments:
        names |= _names(argument)
    return names


def _is_open(expression: TypeExpression) -> bool:
    return expression.form == "any" or any(map(_is_open, expression.arguments))
