"""What is known about the values of an expression before any row is seen."""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import inspect
import types
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from polycast.errors import NoSparkFormError
from polycast.filters.tree.canonical_text import render
from polycast.typesystem import wire_name
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import kind_of as kind_of_class
from polycast.typesystem.type_expressions import TypeExpression, classes_in, expression_of
from polycast.typesystem.type_hints import hints_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.filters.tree import nodes


LOW, HIGH = -(2**63), 2**63 - 1  # what a 64-bit column holds


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A Python type as far as rows can hold it."""

    name: str
    nullable: bool = False
    low: int = LOW  # bounds of an int
    high: int = HIGH
    cls: type | None = None  # of an enum or an object
    element: ColumnKind | None = None  # of a container, of a dict its values

    def __str__(self) -> str:
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"

    @property
    def is_sequence(self) -> bool:
        """Whether it is an array that keeps Python's order."""
        return self.name in ("list", "tuple")

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return self.name in ("list", "tuple", "set", "frozenset")

    def or_none(self) -> ColumnKind:
        """The same kind, or None."""
        return replace(self, nullable=True)

    def without_none(self) -> ColumnKind:
        """The same kind without None."""
        return replace(self, nullable=False)


# The classes that a value of a kind may have: a column of ints holds True as 1.
CLASSES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int, bool),
    "float": (float, int, bool),
    "str": (str,),
    "bytes": (bytes,),
    "decimal": (decimal.Decimal,),
    "date": (datetime.date,),
    "datetime": (datetime.datetime,),
    "uuid": (uuid.UUID,),
    "list": (list,),
    "tuple": (tuple,),
    "set": (set,),
    "frozenset": (frozenset,),
    "dict": (dict,),
    "none": (type(None),),
}
_BY_NAME = {wire_name(classes[0]): name for name, classes in CLASSES.items()} | {
    "pydantic.types.AwareDatetime": "datetime",
    "pydantic.types.NaiveDatetime": "datetime",
}
_CONTAINERS = ("list", "tuple", "set", "frozenset", "dict")
_WITH_ATTRIBUTES = ("dataclass", "attrs", "struct", "pydantic", "class", "protocol")
_ACCEPTED = (
    "bool, int, float, str, bytes, Decimal, date, datetime, UUID, enums, classes with declared "
    "attributes, list[X], tuple[X, ...], set[X], frozenset[X], dict[str, X], each of them or None"
)


def kind_of(hint: object) -> ColumnKind:
    """The kind of an annotation; NoColumnError if no column can hold its values exactly."""
    classes = {wire_name(cls): cls for cls in classes_in(hint)}
    return _kind(expression_of(hint), classes)


def _kind(expression: TypeExpression, classes: dict[str, type]) -> ColumnKind:
    if expression.form in ("union", "literal"):
        return _union(expression, classes)
    if expression.form != "class":
        raise NoColumnError(f"{expression} does not say which values there are", accepted=_ACCEPTED)
    name = _BY_NAME.get(expression.name)
    if name in _CONTAINERS:
        return ColumnKind(name, element=_element(expression, classes))
    return ColumnKind(name) if name else _own_class(expression, classes)


def _union(expression: TypeExpression, classes: dict[str, type]) -> ColumnKind:
    parts = [part for part in expression.arguments if part.form != "none"]
    if len(parts) != 1:
        raise NoColumnError(f"{expression} is of several types", accepted=_ACCEPTED)
    found = _kind(parts[0], classes)
    return found if len(expression.arguments) == 1 else found.or_none()


def _element(expression: TypeExpression, classes: dict[str, type]) -> ColumnKind:
    arguments = expression.arguments
    name = _BY_NAME[expression.name]
    if name == "dict":
        fits = len(arguments) == 2 and arguments[0] == expression_of(str)
    elif name == "tuple":
        fits = len(arguments) == 2 and arguments[1].form == "..."
    else:
        fits = len(arguments) == 1
    if not fits:
        raise NoColumnError(f"{expression} has no one type of elements", accepted=_ACCEPTED)
    return _kind(arguments[1 if name == "dict" else 0], classes)


def _own_class(expression: TypeExpression, classes: dict[str, type]) -> ColumnKind:
    cls = classes.get(expression.name)
    kind = kind_of_class(cls) if cls is not None else ""
    if kind == "enum":
        return ColumnKind("enum", cls=cls)
    if kind in _WITH_ATTRIBUTES and cls is not None and declared_defaults(cls):
        return ColumnKind("object", cls=cls)
    raise NoColumnError(f"{expression} has no form as columns", accepted=_ACCEPTED)


# -- attributes ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def attribute_kind(cls: type, name: str) -> ColumnKind:
    """The kind of a declared attribute; NoColumnError if it is not declared, or not plain."""
    declared = declared_defaults(cls)
    accepted = f"the declared attributes of {cls.__name__}: {', '.join(declared) or 'none'}"
    if name not in declared:
        raise NoColumnError(f"{cls.__name__} declares no attribute {name!r}", accepted=accepted)
    if not _is_plain(cls, name):
        raise NoColumnError(f"{name!r} is computed, not kept in a column", accepted=accepted)
    for other in declared:
        if other != name and other.upper().lower() == name.upper().lower():
            why = f"{name!r} and {other!r} differ by case alone, and a session may not care"
            raise NoColumnError(why, accepted="names that differ by more than case")
    hint = hints_of(cls).get(name, Any)
    try:
        return kind_of(hint)
    except NoColumnError as refusal:
        why = f"attribute {name!r}: {refusal.why}"
        raise NoColumnError(why, accepted=refusal.accepted) from None


def _is_plain(cls: type, name: str) -> bool:
    """Whether reading the attribute runs no code of the class."""
    getters = (vars(base).get("__getattribute__") for base in cls.__mro__)
    if any(isinstance(getter, types.FunctionType) for getter in getters):
        return False
    found = inspect.getattr_static(cls, name, None)
    return isinstance(found, types.MemberDescriptorType) or not hasattr(type(found), "__get__")


def subclasses(cls: type) -> Iterator[type]:
    """A class and every subclass in this process."""
    yield cls
    below: list[type] = type.__subclasses__(cls)
    for subclass in below:
        yield from subclasses(subclass)


def members(kind: ColumnKind) -> list[enum.Enum]:
    """The members of an enum, without aliases."""
    assert kind.cls is not None
    assert issubclass(kind.cls, enum.Enum)
    return list(kind.cls)


# -- refusals --------------------------------------------------------------------------------------


class NoColumnError(Exception):
    """Why a part has no column; whoever knows the part adds it to the message."""

    def __init__(self, why: str, *, accepted: str) -> None:
        self.why, self.accepted = why, accepted
        super().__init__(f"{why}; accepted: {accepted}")


def no_form(node: nodes.Node, *, why: str, accepted: str) -> NoSparkFormError:
    """The error for a part of a filter."""
    try:
        part = render(node)
    except RecursionError:
        part = f"{type(node).__name__}(...)"
    return NoSparkFormError(part, node=node, why=why, accepted=accepted)
