"""The judge of contexts: the rules of federation applied word by word, slowly, on plain data.

Nothing is kept between calls and nothing is clever. Where the rules leave a choice, a comment says
which one is made here.
"""

from __future__ import annotations

import copy
import dataclasses
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from page_types import (
    NONE,
    alternatives,
    attributes,
    class_of,
    classes,
    derived,
    element,
    fits,
    is_a,
    is_own,
    make,
)

from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.standard_types import is_machinery, is_standard

DISABLED = "-"
CANNOT_LEAVE = "cannot leave"  # a result that is no event
Types = tuple[type, ...]
Names = tuple[str, ...]
Row = tuple[Types, Names, str, bool]


class Refused(Exception):
    """The context has an error that this pattern or this event shows."""


class _NoWay(Exception):
    """Nothing produces a value here; a default may still help."""


def identity(value: Any) -> Any:
    """The value itself; whoever compares passes the real one to `World`."""
    return value


@dataclasses.dataclass
class ContextData:
    """What is written in one context."""

    parents: list[str] = dataclasses.field(default_factory=list)
    types: list[type] = dataclasses.field(default_factory=list)
    mappings: list[tuple[type, type, str]] = dataclasses.field(default_factory=list)
    rules: list[tuple[str, Any]] = dataclasses.field(default_factory=list)
    wholes: list[tuple[type, Any]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class World:
    """The root types and all contexts; a context without parents is a child of the root."""

    root_types: list[type]
    contexts: dict[str, ContextData]
    identity: Callable[[Any], Any] = identity
    witnesses: Callable[[type, list[type]], Iterable[Any]] = lambda cls, there: ()
    """Objects of a class that show, if any do, that something is wrong with it."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A qualifier, types filled in; without an attribute it is a type qualifier."""

    attribute: str | None
    types: frozenset[type]


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A pattern, types filled in: what makes two patterns identical."""

    head: type
    steps: tuple[Step, ...]


Rules = dict[Pattern, tuple[str, Any]]


def ancestors(world: World, name: str) -> list[str]:
    """A context and all it specialises, without the root."""
    found = [name]
    for context in found:
        found += [parent for parent in world.contexts[context].parents if parent not in found]
    return found


def known(world: World, name: str) -> list[type]:
    """The types a context knows."""
    found = list(world.root_types)
    for ancestor in ancestors(world, name):
        data = world.contexts[ancestor]
        found += data.types
        found += [end for mapping in data.mappings for end in mapping[:2]]
    found = list(dict.fromkeys(found))
    for cls in found:
        held = [part for hint in attributes(cls).values() for part in classes(hint)]
        held += [] if is_standard(cls) else [b for b in cls.__mro__ if not is_machinery(b)]
        found += [held_type for held_type in dict.fromkeys(held) if held_type not in found]
    return found


def met_types(types_known: list[type], hint: Any) -> list[type]:
    """What can be met at an attribute: the declared types and their known subtypes."""
    found: list[type] = []
    for cls in classes(hint):
        found.append(cls)
        if not is_standard(cls):
            found += [known for known in types_known if cls in known.__mro__]
    return list(dict.fromkeys(found))


def mappings(world: World, name: str, direction: str) -> dict[type, type]:
    """The mappings in a direction; own ones override, then the first parent's are taken."""
    found: dict[type, type] = {}
    for parent in world.contexts[name].parents:
        found = mappings(world, parent, direction) | found
    own = world.contexts[name].mappings
    return found | {source: target for source, target, way in own if way == direction}


def wholes(world: World, name: str) -> dict[type, Any]:
    """The functions of whole events, by the source of the mapping they belong to."""
    found: dict[type, Any] = {}
    for parent in world.contexts[name].parents:
        found = wholes(world, parent) | found
    return found | dict(world.contexts[name].wholes)


def written_rules(world: World, name: str) -> Rules:
    """All rules by pattern, own ones over those of the first parent over those of the next.

    A disabled pattern stays in the table, so that among parents the first one's word counts.
    """
    found: Rules = {}
    for parent in world.contexts[name].parents:
        found = written_rules(world, parent) | found
    own, there = world.contexts[name].rules, known(world, name)
    return found | {parse(there, text): (text, function) for text, function in own}


def rules(world: World, name: str) -> Rules:
    """The rules that stand."""
    found = written_rules(world, name)
    return {key: value for key, value in found.items() if value[1] != DISABLED}


def parse(there: list[type], text: str) -> Pattern:
    """Read a pattern among known types and fill in its own, or say why it is not valid."""
    first, *rest = text.split(".")
    head = _type_named(there, first, text)
    written, prefix, steps = [head], frozenset([head]), []
    for number, part in enumerate(rest, 1):
        step, narrowed = _qualifier(there, part, prefix, text)
        if step.attribute is None:
            _require_type(there, prefix, step.types, is_last=number == len(rest), text=text)
        written += narrowed
        prefix = step.types
        steps.append(step)
    if len(set(written)) < len(written):
        raise Refused(f"{text}: a type is named twice")
    return Pattern(head, tuple(steps))


def _qualifier(
    there: list[type], part: str, prefix: frozenset[type], text: str
) -> tuple[Step, list[type]]:
    word, _, narrowing = part.removesuffix(")").partition("(")
    declared = [attributes(cls)[word] for cls in prefix if word in attributes(cls)]
    if declared:
        found = frozenset(cls for hint in declared for cls in classes(hint))
        if not narrowing:
            return Step(word, found), []
        narrow = _type_named(there, narrowing, text)
        if not is_a(narrow, found):
            raise Refused(f"{text}: {narrowing} is no subtype at {word}")
        return Step(word, frozenset([narrow])), [narrow]
    if narrowing:
        raise Refused(f"{text}: no attribute {word}")
    named = _type_named(there, word.removeprefix(":"), text)
    return Step(None, frozenset([named])), [named]


def _require_type(
    there: list[type], prefix: frozenset[type], named: frozenset[type], *, is_last: bool, text: str
) -> None:
    """A middle type is met at an attribute of its prefix; the last one somewhere below."""
    below = _directly_below(there, prefix)
    if is_last:
        for subtype in below:
            deeper = _directly_below(there, frozenset([subtype]))
            below += [cls for cls in deeper if cls not in below]
    if not any(is_a(met, named) for met in below):
        raise Refused(f"{text}: the type is not met there")


def _directly_below(there: list[type], prefix: frozenset[type]) -> list[type]:
    hints = [hint for cls in prefix for hint in attributes(cls).values()]
    return list(dict.fromkeys(met for hint in hints for met in met_types(there, hint)))


def _type_named(there: list[type], word: str, text: str) -> type:
    for cls in there:
        if cls.__name__ == word:
            return cls
    raise Refused(f"{text}: unknown name {word}")


def matches(pattern: Pattern, met: Types, names: Names) -> bool:
    """Whether a pattern applies at a path; never at the event itself."""
    last = len(names)
    if last == 0:
        return False
    if not pattern.steps:
        return is_a(met[last], frozenset([pattern.head]))
    count = len(pattern.steps)
    if pattern.head not in met[0].__mro__ or last < count:
        return False
    *middle, final = pattern.steps
    if not all(_fits_step(step, met[i], names[i - 1]) for i, step in enumerate(middle, 1)):
        return False
    if final.attribute is not None and last != count:
        return False
    return _fits_step(final, met[last], names[last - 1])


def _fits_step(step: Step, met: type, name: str) -> bool:
    return step.attribute in (None, name) and is_a(met, step.types)


def sort_key(pattern: Pattern, met: Types) -> Any:
    """Smaller is stronger. The patterns compared all apply at the same path."""
    last = len(met) - 1
    whole = [Step(None, frozenset([pattern.head])), *pattern.steps]
    named: dict[int, Step] = dict(enumerate(whole[:-1])) | {last: whole[-1]}
    left = tuple(
        (0, derived(met[i], named[i].types), named[i].attribute is None)
        if i in named
        else (1, (0, 0), False)
        for i in range(last)
    )
    final = named[last]
    # Left open: `a` of type `A | B` against `a(A)` where an A is met. Here the narrower one wins.
    width = tuple(len(named[i].types) if i in named else 0 for i in reversed(range(last + 1)))
    return (derived(met[last], final.types), left, final.attribute is None, width)


def winner(world: World, name: str, met: Types, names: Names) -> str | None:
    """The pattern, as written, of the rule that wins at a path."""
    found = winning(rules(world, name), met, names)
    return found[0] if found else None


def winning(standing: Rules, met: Types, names: Names) -> tuple[str, Any] | None:
    """The rule that wins at a path."""
    applying = [pattern for pattern in standing if matches(pattern, met, names)]
    if not applying:
        return None
    return standing[min(applying, key=lambda pattern: sort_key(pattern, met))]


def rows(world: World, name: str, cls: type) -> list[Row]:
    """Every path in an event at which a rule wins, and whether one further out shadows it."""
    return list(_rows(known(world, name), rules(world, name), (cls,), (), shadowed=False))


def _rows(
    there: list[type], standing: Rules, met: Types, names: Names, *, shadowed: bool
) -> Iterator[Row]:
    for attribute, hint in attributes(met[-1]).items():
        for cls in met_types(there, hint):
            path = ((*met, cls), (*names, attribute))
            won = winning(standing, *path)
            if won is not None:
                yield (*path, won[0], shadowed)
            if cls not in met:  # exploration stops at a repeated type
                yield from _rows(there, standing, *path, shadowed=shadowed or won is not None)


def translate(world: World, event: Any, source: str | None, target: str | None) -> Any:
    """An event of one context in another: straight to the root, straight from it."""
    if source == target:
        return event
    if source is not None:
        event = way_through(world, source, "!").cross(event)
    if target is not None and event is not CANNOT_LEAVE:
        event = way_through(world, target, "?").cross(event)
    return event


def way_through(world: World, name: str, direction: str) -> Translation:
    """The mappings and rules for events that come into a context, or leave it."""
    table = mappings(world, name, direction)
    return Translation(world, known(world, name), rules(world, name), table, wholes(world, name))


@dataclasses.dataclass
class Translation:
    """One direction of one context."""

    world: World
    there: list[type]
    standing: Rules
    table: dict[type, type]
    wholes: dict[type, Any]

    def cross(self, event: Any) -> Any:
        """The event as the other side sees it, by its most derived mapping if there is one."""
        cls = type(event)
        sources = [source for source in self.table if source in cls.__mro__]
        if sources:
            best = most_derived(cls, sources)
            view = self.view(cls, best, lambda value: self.mapped(best, value, (cls,), ()))
            return self.mapped(best, event, (view,), ())
        is_listed = any(cls in data.types for data in self.world.contexts.values())
        return event if cls in self.world.root_types or not is_listed else CANNOT_LEAVE

    def view(self, cls: type, above: type, translate: Callable[[Any], Any]) -> type:
        """What an object is taken for: its class, or a supertype if nobody knew the class and it
        would not have passed the check."""
        if cls in self.there:
            return cls
        try:
            for witness in self.world.witnesses(cls, self.there):
                translate(witness)
        except (Refused, _NoWay):
            known = [base for base in self.there if base in cls.__mro__]
            return most_derived(cls, [base for base in known if above in base.__mro__])
        return cls

    def mapped(self, mapping: type, value: Any, met: Types, names: Names) -> Any:
        """An object of a mapping's target: a function of whole events makes all of it."""
        target, whole = self.table[mapping], self.wholes.get(mapping)
        if whole is None:
            return self.build(target, value, met, names)
        hints = typing.get_type_hints(whole)
        if not fits(hints["return"], target):
            raise Refused(f"{hints['return']} does not fit {target}")
        if not fits(met[-1], hints["x"]):
            raise Refused(f"{met[-1]} does not fit {hints['x']}")
        return whole(copy.deepcopy(value))

    def build(self, target: type, source: Any, met: Types, names: Names) -> Any:
        """An object of the target type; the source itself if it is that already."""
        given, needed = attributes(met[-1]), attributes(target)
        values = {}
        for attribute, hint in needed.items():
            if is_own(target, attribute):
                continue
            try:
                if attribute not in given:
                    raise _NoWay
                held = getattr(source, attribute)
                at = (*names, attribute)
                values[attribute] = self.value(held, given[attribute], hint, met, at)
            except _NoWay:
                default = declared_defaults(target)[attribute]
                if default is None:
                    raise Refused(f"nothing produces {target.__name__}.{attribute}") from None
                values[attribute] = default.make()
        if target is type(source) and all(values[key] is getattr(source, key) for key in values):
            return source
        return make(target, values)

    def value(self, value: Any, hint: Any, needed: Any, met: Types, names: Names) -> Any:
        """The value of an attribute, whatever its shape."""
        if value is None and hint is not Any:
            return _require(None, fits(NONE, needed))
        for part in alternatives(hint):
            inner = element(part)
            if inner is not None and type(value) is inner[0]:
                return self.container(value, part, needed, met, names)
            declared = class_of(part)
            if declared is not None and fits(type(value), declared):
                # Built-in classes have no known subtypes: an int in a float is met as a float.
                if is_standard(declared):
                    return self.single(value, declared, part, needed, met, names)
                cls = self.view(
                    type(value),
                    declared,
                    lambda new: self.single(new, type(new), type(new), needed, met, names),
                )
                return self.single(value, cls, cls, needed, met, names)
        return _require(value, fits(hint, needed))

    def container(self, value: Any, hint: Any, needed: Any, met: Types, names: Names) -> Any:
        """Element by element into the same kind of container."""
        kind, inner = element(hint) or (object, Any)
        for part in alternatives(needed):
            there = (kind, Any) if part is Any else element(part)
            if there is None or there[0] is not kind:
                continue
            if kind is dict:
                keys = Any if part is Any else typing.get_args(part)[0]
                _require(None, fits(typing.get_args(hint)[0], keys))
                pairs = value.items()
                new: Any = {k: self.value(v, inner, there[1], met, names) for k, v in pairs}
            else:
                new = kind(self.value(item, inner, there[1], met, names) for item in value)
            return value if _is_unchanged(new, value) else new
        raise _NoWay

    def single(
        self, value: Any, cls: type, held: Any, needed: Any, met: Types, names: Names
    ) -> Any:
        """One object at a path: by the rule that wins, by a mapping, as it is, or not at all.

        Its class is what is met; of a tuple of fixed length, more is known about what is held.
        """
        met = (*met, cls)
        won = winning(self.standing, met, names)
        if won is not None:
            return self.apply(won[1], value, held, needed)
        if cls in met[:-1]:  # a repeated type folds back to where it was met first
            first = met.index(cls)
            met, names = met[: first + 1], names[:first]
        table = self.table
        ways = [way for way in table if way in cls.__mro__ and fits(table[way], needed)]
        if ways:
            return self.mapped(most_derived(cls, ways), value, met, names)
        _require(None, fits(held, needed))
        return self.build(cls, value, met, names) if attributes(cls) else value

    def apply(self, function: Any, value: Any, held: Any, needed: Any) -> Any:
        """The result of a rule; one whose type does not fit is an error, not a reason to go on."""
        keeps = function is self.world.identity
        returned = held if keeps else typing.get_type_hints(function)["return"]
        if not fits(returned, needed):
            raise Refused(f"{returned} does not fit {needed}")
        return value if keeps else function(copy.deepcopy(value))


def most_derived(met: type, named: list[type]) -> type:
    """Of several supertypes of a type, the one that counts."""
    return min(named, key=lambda types: derived(met, frozenset([types])))


def _require(value: Any, holds: bool) -> Any:
    if not holds:
        raise _NoWay
    return value


def _is_unchanged(new: Any, old: Any) -> bool:
    if isinstance(new, dict):
        return all(new[key] is old[key] for key in old)
    if isinstance(new, set | frozenset):
        return {id(pair) for pair in new} == {id(pair) for pair in old}
    return all(a is b for a, b in zip(new, old, strict=True))
