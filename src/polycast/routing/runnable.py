"""Which parts of a filter can be asked where classes are made from descriptions.

A class that was made has the fields of the real one and nothing else: no methods, no properties, no
way of its own to be compared. A part that may need one of those is for who has the class. This goes
by names alone, so some parts are left that could be asked.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from polycast.filters.nodes import (
    Attribute,
    Call,
    InstanceOf,
    Item,
    Node,
    Opaque,
    Quantified,
    Reach,
    Variable,
    walk,
)
from polycast.typesystem import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.typesystem import Description, Registry, TypeExpression

__all__ = ["is_ambiguous", "runnable_by"]

_ENUMS = ("enum", "flag")
_SEQUENCES = ("builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset")


class _Names:
    """What the names in a filter may stand for, where some classes are missing."""

    def __init__(self, registry: Registry) -> None:
        known = registry.descriptions()
        missing = [each for each in known if registry.resolve(each.name) is None]
        made = {each.name for each in missing if each.kind not in _ENUMS}
        versions = Counter(each.name for each in missing)
        self.several = {name for name, count in versions.items() if count > 1}
        self.behaving = {name for each in missing for name in _behaviour(each)}
        self.objects: set[str] = set()  # fields with objects, alone or in containers
        self.sequences: set[str] = set()  # of these, those that are containers for sure
        self.open: set[str] = set()  # fields that may have anything
        for part in (part for each in known for part in each.attributes):
            if made and _is_open(part.type):
                self.open.add(part.name)
            if _names(part.type) & made:
                self.objects.add(part.name)
                if part.type.name in _SEQUENCES:
                    self.sequences.add(part.name)


def runnable_by(registry: Registry) -> Callable[[Node], bool]:
    """Tells whether a tree means the same with the classes of a registry as with the real ones."""
    names = _Names(registry)

    def can_ask(tree: Node) -> bool:
        # An object by itself may have a way of its own to be true.
        doubtful = _is_object(tree, names) or any(_is_doubtful(each, names) for each in walk(tree))
        return not doubtful

    return can_ask


def is_ambiguous(digest: str, registry: Registry) -> bool:
    """Whether events of a description may be read as another version of it, where the class is.

    That may have attributes, with defaults, that a class made from the description has not.
    """
    found, seen = registry.described(digest), set[str]()
    versions = Counter(each.name for each in registry.descriptions())
    waiting = [] if found is None else [found.name]
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
            waiting += [each for part in known.attributes for each in _names(part.type)]
    return False


def _behaviour(description: Description) -> Iterator[str]:
    """What objects of a class offer besides their fields."""
    fields = description.attribute_names
    return (each.name for each in description.members if each.name not in fields)


def _is_doubtful(node: Node, names: _Names) -> bool:
    if isinstance(node, Opaque):
        return True
    if isinstance(node, Attribute | Reach):
        return node.name in names.behaving or node.name in names.open
    if isinstance(node, Call):
        return node.method in names.behaving or any(_is_object(e, names) for e in node.arguments)
    if isinstance(node, InstanceOf):
        described = map(describe, node.classes)
        return any(each.kind == "protocol" or each.name in names.several for each in described)
    if isinstance(node, Quantified | Item):
        over = node.over if isinstance(node, Quantified) else node.of
        return _is_object(over, names) and not _is_sequence(over, names)
    return any(_is_object(each, names) for each in node.children())


def _is_object(node: Node, names: _Names) -> bool:
    """Whether a part may be an object that has a way of its own to be compared."""
    if isinstance(node, Variable):
        return bool(names.sequences)
    if isinstance(node, Item):
        return _is_object(node.of, names)
    return isinstance(node, Attribute) and node.name in names.objects


def _is_sequence(node: Node, names: _Names) -> bool:
    return isinstance(node, Attribute) and node.name in names.sequences


def _names(expression: TypeExpression) -> set[str]:
    found = {expression.name}
    for each in expression.arguments:
        found |= _names(each)
    return found


def _is_open(expression: TypeExpression) -> bool:
    return expression.form == "any" or any(map(_is_open, expression.arguments))
