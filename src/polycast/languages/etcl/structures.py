"""Compound values in ETCL: structs, unions, sequences, lists of properties, structured events.

A struct is any object with fields, or a dictionary; what has no such part raises.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from weakref import ref

from msgspec import UNSET

from polycast.events.structured_event import StructuredEvent, TaggedUnion
from polycast.languages.etcl.values import AbsentError, Character, Mismatch, elements_of, equal
from polycast.typesystem import wire_name
from polycast.typesystem.attributes import declared_defaults

if TYPE_CHECKING:
    from polycast.config import Clock


NOTIFICATION = "IDL:omg.org/CosNotification"
SCALARS = (
    *(type(None), bool, int, float, complex, str, bytes, bytearray, Decimal, enum.Enum),
    *(list, tuple, set, frozenset, type, types.ModuleType, types.FunctionType, types.MethodType),
    *(types.BuiltinFunctionType, types.GeneratorType, types.CoroutineType, types.FrameType),
    *(types.AsyncGeneratorType, types.CodeType, types.TracebackType),
)
FORMAL = 122_192_928_000_000_000  # hundreds of nanoseconds from 1582-10-15 to 1970-01-01


class StructView:
    """A part of a structured event that has no object of its own in Python: a small struct."""

    __slots__ = ("fields", "repository", "type_name")

    def __init__(self, type_name: str, fields: dict[str, Any], *, of: str = NOTIFICATION) -> None:
        self.type_name, self.fields = type_name, fields
        self.repository = f"{of}/{type_name}:1.0"


class Properties:
    """Properties by name, which are a sequence of names and values."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: dict[str, Any]) -> None:
        self.pairs = pairs

    def __etcl_elements__(self) -> tuple[StructView, ...]:
        pairs = self.pairs.items()
        return tuple(
            StructView("Property", {"name": name, "value": value}) for name, value in pairs
        )


# -- structured events -----------------------------------------------------------------------------


def _event_type(event: StructuredEvent) -> StructView:
    fields = {"domain_name": event.domain_name, "type_name": event.type_name}
    return StructView("EventType", fields)


def _fixed_header(event: StructuredEvent) -> StructView:
    fields = {"event_type": _event_type(event), "event_name": event.event_name}
    return StructView("FixedEventHeader", fields)


def _header(event: StructuredEvent) -> StructView:
    properties = Properties(event.variable_header)
    fields = {"fixed_header": _fixed_header(event), "variable_header": properties}
    return StructView("EventHeader", fields)


TOP: dict[str, Callable[[StructuredEvent], Any]] = {
    "header": _header,
    "filterable_data": lambda event: Properties(event.filterable_data),
    "remainder_of_body": lambda event: event.remainder_of_body,
}
"""The members of a structured event, in order."""
WELL_KNOWN: dict[str, Callable[[StructuredEvent], Any]] = {
    "domain_name": lambda event: event.domain_name,
    "type_name": lambda event: event.type_name,
    "event_name": lambda event: event.event_name,
    "event_type": _event_type,
    "fixed_header": _fixed_header,
    "variable_header": lambda event: Properties(event.variable_header),
    **TOP,
}
AT_EVENT = ("domain_name", "type_name", "event_name", "variable_header")
"""The attributes that make the header of a structured event."""
UNTYPED = {
    "domain_name": "",
    "type_name": "%ANY",
    "event_type": StructView("EventType", {"domain_name": "", "type_name": "%ANY"}),
}
"""What an event of any other form is said to be, if it does not say so itself."""


def variable(event: Any, name: str) -> Any:
    """`$name`: the fixed header, then the variable header, then the filterable data, then `.name`.

    Of any other event: its member, or the property of that name if it is a list of properties.
    """
    if isinstance(event, StructuredEvent):
        known = WELL_KNOWN.get(name)
        if known is not None:
            return known(event)
        for properties in (event.variable_header, event.filterable_data):
            if name in properties:
                return properties[name]
        raise AbsentError(f"no variable {name}")
    for find in (member, property_named):
        try:
            return find(event, name)
        except (AbsentError, Mismatch):
            pass
    if name in UNTYPED:
        return UNTYPED[name]
    raise AbsentError(f"no variable {name}")


def variable_reader(name: str) -> Callable[[Any], Any]:
    """The same as a function of the event: most are properties of structured events."""
    if name in WELL_KNOWN:
        return lambda event: variable(event, name)

    def read(event: Any) -> Any:
        if type(event) is StructuredEvent:
            properties = event.variable_header
            if name in properties:
                return properties[name]
            properties = event.filterable_data
            if name in properties:
                return properties[name]
        return variable(event, name)

    return read


def time_told(clock: Clock) -> StructView:
    """`$curtime`: the time of the clock, in the units of the time service."""
    time = round(clock.time() * 1_000_000) * 10 + FORMAL
    fields = {"time": time, "inacclo": 0, "inacchi": 0, "tdf": 0}
    return StructView("UtcT", fields, of="IDL:omg.org/TimeBase")


# -- structs ---------------------------------------------------------------------------------------


class _ClassStructure(NamedTuple):
    """What objects of a class have inside, and how a member of them is read."""

    kind: str  # "scalar", "mapping", "struct", "special"
    read: Callable[[Any, str], Any]  # of a member that is no field; UNSET if there is none
    fields: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()  # the same


# Of classes, until they are gone; a WeakKeyDictionary takes twice as long.
_shapes: dict[ref[type], _ClassStructure] = {}


def _shape(cls: type) -> _ClassStructure:
    try:
        return _shapes[ref(cls)]
    except KeyError:
        return _shapes.setdefault(ref(cls, _shapes.pop), _shape_of(cls))


def _shape_of(cls: type) -> _ClassStructure:
    for special, read in _SPECIAL.items():
        if issubclass(cls, special):
            return _ClassStructure("special", read)
    if issubclass(cls, Mapping):
        return _ClassStructure("mapping", lambda value, name: value.get(name, UNSET))
    fields = tuple(declared_defaults(cls))
    if issubclass(cls, SCALARS) and not (issubclass(cls, tuple) and fields):
        return _ClassStructure("scalar", _no_member)
    return _ClassStructure("struct", _attribute, fields, frozenset(fields))


def _no_member(value: Any, name: str) -> NoReturn:
    raise Mismatch(f"a {type(value).__name__} has no members")


def _attribute(value: Any, name: str) -> Any:
    found = UNSET if name.startswith("__") else getattr(value, name, UNSET)
    return UNSET if callable(found) else found


_SPECIAL: dict[type, Callable[[Any, str], Any]] = {
    StructuredEvent: lambda value, name: TOP[name](value) if name in TOP else UNSET,
    StructView: lambda value, name: value.fields.get(name, UNSET),
    TaggedUnion: lambda value, name: value.value if name == value.member else UNSET,
    Properties: _no_member,
}


def fields_of(cls: type) -> tuple[str, ...]:
    """The fields of a struct in order; none if its objects have other ways to be asked."""
    return _shape(cls).fields


def member(value: Any, name: str) -> Any:
    """`.name`: a member of a struct, or the active member of a union."""
    cls = type(value)
    if cls is dict:
        found = value.get(name, UNSET)
    else:
        shape = _shapes.get(ref(cls)) or _shape(cls)
        known = name in shape.known
        found = getattr(value, name, UNSET) if known else shape.read(value, name)
    if found is UNSET:
        raise AbsentError(f"no {name} in a {type(value).__name__}")
    return found


def position(value: Any, place: int) -> Any:
    """`.0`: a member of a struct by its position; of a union, if that one is active."""
    if isinstance(value, TaggedUnion):
        names = value.members()
        if place < len(names) and names[place] == value.member:
            return value.value
        raise AbsentError(f"member {place} is not active")
    if isinstance(value, Mapping):
        if place >= len(value):
            raise AbsentError(f"no member {place}")
        return next(islice(value.values(), place, None))
    names = _names(value)
    if place >= len(names):
        raise AbsentError(f"no member {place}")
    return member(value, names[place])


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, StructuredEvent):
        return tuple(TOP)
    if isinstance(value, StructView):
        return tuple(value.fields)
    shape = _shape(type(value))
    if shape.kind != "struct":
        _no_member(value, "")
    return shape.fields or _own_names(value)


def _own_names(value: Any) -> tuple[str, ...]:
    """The attributes of an object whose class declares none, in the order they were set."""
    slots = [slot for cls in type(value).__mro__[::-1] for slot in _slots(cls)]
    own = dict.fromkeys((*slots, *getattr(value, "__dict__", ())))
    return tuple(name for name in own if not name.startswith("_"))


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


# -- unions ----------------------------------------------------------------------------------------


def _union(value: Any) -> TaggedUnion:
    if not isinstance(value, TaggedUnion):
        raise Mismatch(f"a {type(value).__name__} is no union")
    return value


def tagged(value: Any, tag: Any) -> Any:
    """`.(3)`: the active member, if its discriminator is exactly that; a number is an ordinal."""
    union = _union(value)
    if union.member is None:
        raise AbsentError("no member is active")
    mine = union.tag
    if isinstance(mine, enum.Enum) and type(tag) is int:
        mine = list(type(mine)).index(mine)
    try:
        if equal(_tag(mine), tag):
            return union.value
    except Mismatch:
        pass
    raise AbsentError("another member is active")


def _tag(tag: Any) -> Any:
    return Character(tag) if type(tag) is str and len(tag) == 1 else tag


def default_member(value: Any, _: None = None) -> Any:
    """`.()`: the default member, if it is active."""
    if active_default(value):
        return _union(value).value
    raise AbsentError("the default member is not active")


def active_default(value: Any) -> bool:
    """Whether a union has a default member, and that is the active one."""
    union = _union(value)
    return union.default_member is not None and union.member == union.default_member


def discriminator(value: Any, _: None = None) -> Any:
    """`._d`."""
    return _tag(_union(value).tag)


# -- sequences -------------------------------------------------------------------------------------


def element(value: Any, place: int) -> Any:
    """`[3]`."""
    elements = elements_of(value)
    if place >= len(elements):
        raise AbsentError(f"no element {place}")
    return elements[place]


def length(value: Any, _: None = None) -> int:
    """`._length`: of arrays and sequences, not of strings."""
    return len(elements_of(value))


def property_named(value: Any, name: str) -> Any:
    """`(name)`: the first value of that name in a dictionary or a list of names and values."""
    pairs = value.pairs if isinstance(value, Properties) else value
    if isinstance(pairs, Mapping):
        if name in pairs:
            return pairs[name]
        raise AbsentError(f"no property {name}")
    for pair in elements_of(pairs):
        first, second = _pair(pair)
        if isinstance(first, str) and first == name:
            return second
    raise AbsentError(f"no property {name}")


def _pair(value: Any) -> tuple[Any, Any]:
    if isinstance(value, list | tuple):
        parts = list(value)
    elif isinstance(value, Mapping):
        parts = list(value.values())
    else:
        parts = [member(value, name) for name in _names(value)]
    if len(parts) != 2:
        raise Mismatch(f"a {type(value).__name__} is no name and value")
    return parts[0], parts[1]


# -- types -----------------------------------------------------------------------------------------


def type_id(value: Any, _: None = None) -> str:
    """`._type_id`: the name of the type alone."""
    if isinstance(value, StructView):
        return value.type_name
    if isinstance(value, TaggedUnion):
        return _known(value.type_id)
    return "StructuredEvent" if isinstance(value, StructuredEvent) else _class(value).__name__


def repository_id(value: Any, _: None = None) -> str:
    """`._repos_id`: the name of the type among all types."""
    if isinstance(value, StructView):
        return value.repository
    if isinstance(value, TaggedUnion):
        return _known(value.repos_id)
    if isinstance(value, StructuredEvent):
        return f"{NOTIFICATION}/StructuredEvent:1.0"
    return wire_name(_class(value))


def _known(name: str) -> str:
    if not name:
        raise AbsentError("the type of the union is not known")
    return name


def _class(value: Any) -> type:
    """The class of a struct or of a member of an enumeration; other types have no name."""
    cls = type(value)
    if isinstance(value, enum.Enum):
        return cls
    if _shape(cls).kind != "struct":
        raise AbsentError(f"the type of a {cls.__name__} has no name")
    return cls
