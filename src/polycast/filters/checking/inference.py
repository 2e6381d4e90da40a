"""What a value may be, as far as annotations and constants tell."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import weakref
from types import NoneType
from typing import TYPE_CHECKING

from polycast.filters.checking.samples import SAMPLES, PlainEnum
from polycast.typesystem import is_interface, wire_name
from polycast.typesystem.standard_types import STANDARD
from polycast.typesystem.type_expressions import TypeExpression, classes_in, expression_of

if TYPE_CHECKING:
    from collections.abc import Iterable


MOST = 24  # alternatives; beyond them it is anything


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One thing that a value may be. Classes are held weakly: they may go while this is kept."""

    ref: weakref.ref[type]
    elements: Kinds = None  # what iterating over it gives
    values: Kinds = None  # what a subscript gives
    also: tuple[weakref.ref[type], ...] = ()  # classes that its object is of as well

    def classes(self) -> tuple[type, ...]:
        """The classes its object is of; none if they are gone."""
        found = [ref() for ref in (self.ref, *self.also)]
        return () if None in found else tuple(found)  # type: ignore[arg-type]

    def operand(self) -> type | None:
        """The built-in type that it does everything like; None for a user's class."""
        cls = self.ref()
        if cls is None or self.also:
            return None
        if cls in SAMPLES:
            return cls
        return int if cls is bool else PlainEnum if is_plain_enum(cls) else None


Kinds = tuple[Kind, ...] | None  # the alternatives; None: anything


def joined(many: Iterable[Kinds]) -> Kinds:
    """Any of these; no alternative at all means anything: a condition has ruled all of them out."""
    many = list(many)
    if len(many) == 1:  # mostly
        return many[0] or None
    found: dict[Kind, None] = {}
    for kinds in many:
        if kinds is None:
            return None
        found.update(dict.fromkeys(kinds))
    return tuple(found) if 0 < len(found) <= MOST else None


def is_data(kinds: Kinds) -> bool:
    """Whether every alternative behaves like a built-in type."""
    return kinds is not None and all(kind.operand() is not None for kind in kinds)


def kinds_of(*classes: type) -> Kinds:
    """An object of one of these classes."""
    if len(classes) == 1 and classes[0] in _ALONE:
        return _ALONE[classes[0]]
    return tuple(_SINGLE.get(cls) or Kind(weakref.ref(cls)) for cls in classes)


_SINGLE = {cls: Kind(weakref.ref(cls)) for cls in (*SAMPLES, bool)}
_SINGLE[str] = Kind(weakref.ref(str), (_SINGLE[str],), (_SINGLE[str],))
_SINGLE[bytes] = Kind(weakref.ref(bytes), (_SINGLE[int],), (_SINGLE[int],))
_ALONE: dict[type, Kinds] = {cls: (kind,) for cls, kind in _SINGLE.items()}


def of_value(value: object) -> Kinds:
    """What a constant is."""
    cls = type(value)
    if cls not in (list, tuple, set, frozenset):
        return kinds_of(cls)
    elements: collections.abc.Collection[object] = value  # type: ignore[assignment]
    classes = {type(element) for element in elements}
    inner = joined(map(kinds_of, classes)) if classes <= _SINGLE.keys() else None
    return (Kind(weakref.ref(cls), inner, inner),)


# -- annotations -----------------------------------------------------------------------------------

_WIDER: dict[type, tuple[type, ...]] = {
    float: (float, int),
    complex: (complex, float, int),
    datetime.date: (datetime.date, datetime.datetime),  # its subclass
}
_abc = collections.abc
_COLLECTIONS = {list, set, frozenset, _abc.Sequence, _abc.MutableSequence, _abc.Set}
_COLLECTIONS |= {_abc.MutableSet, _abc.Collection, _abc.Iterable}
_MAPPINGS = {dict, _abc.Mapping, _abc.MutableMapping}


def declared(hint: object) -> Kinds:
    """What an annotation, resolved, allows; anything if it cannot be told."""
    if isinstance(hint, dataclasses.InitVar):
        return None  # it says what is given, not what is kept
    try:
        named: dict[str, type] = {}
        for cls in classes_in(hint):
            if named.setdefault(wire_name(cls), cls) is not cls:
                return None
        return _allowed(expression_of(hint), named)
    except Exception:  # an odd metaclass, or an annotation that is no type
        return None


def _allowed(expression: TypeExpression, named: dict[str, type]) -> Kinds:
    match expression.form:
        case "none":
            return kinds_of(NoneType)
        case "union" | "literal":
            return joined(_allowed(part, named) for part in expression.arguments)
        case "class":
            cls = STANDARD.get(expression.name) or named.get(expression.name)
            inner = [_allowed(part, named) for part in expression.arguments if part.form != "..."]
            return None if cls is None else _of_class(cls, inner)
    return None


def _of_class(cls: type, inner: list[Kinds]) -> Kinds:
    if cls in _WIDER:
        return kinds_of(*_WIDER[cls])
    if cls is tuple:
        elements = joined(inner) if inner else None
        return (Kind(weakref.ref(cls), elements, elements),)
    if cls in _COLLECTIONS and len(inner) == 1:
        return (Kind(weakref.ref(cls), inner[0], inner[0]),)
    if cls in _MAPPINGS and len(inner) == 2:
        return (Kind(weakref.ref(cls), inner[0], inner[1]),)
    # Whoever is declared by an interface may be of any class, with any attributes.
    return None if cls is object or is_interface(cls) else kinds_of(cls)


# -- enums -----------------------------------------------------------------------------------------

_OPERATORS = frozenset(
    f"__{prefix}{name}__"
    for prefix in ("", "r")
    for name in (  # noqa: SIM905
        "lt le gt ge add sub mul matmul truediv floordiv mod pow and or xor lshift rshift neg pos "
        "invert abs len iter contains getitem getattr getattribute call index float complex"
    ).split()
)


def is_plain_enum(cls: type) -> bool:
    """Whether a class is an enum with members, which has no subclasses, without operators."""
    if not isinstance(cls, enum.EnumMeta) or type(cls) is not enum.EnumMeta:
        return False
    if not cls._member_map_ or issubclass(cls, enum.Flag):
        return False
    own = [base for base in cls.__mro__ if base not in (enum.Enum, object)]
    return not any(base in STANDARD.values() or _OPERATORS & base.__dict__.keys() for base in own)


# -- telling ---------------------------------------------------------------------------------------


def shown(kinds: Kinds) -> str:
    """The alternatives as one would write them."""
    if kinds is None:
        return "anything"
    return " | ".join(dict.fromkeys(_name(kind) for kind in kinds))


def _name(kind: Kind) -> str:
    return " & ".join("None" if cls is NoneType else cls.__name__ for cls in kind.classes())
