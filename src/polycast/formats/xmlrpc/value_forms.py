"""What a Python value is in XML-RPC: its element, its text, its members.

Nothing is built: who looks at an event asks for what it needs. A value that has no form raises
`NoForm` when somebody looks at it.
"""

from __future__ import annotations

import binascii
import datetime
import decimal
import enum
import uuid
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, ref

import msgspec

from polycast.events.instances import Anatomy, anatomy_of, base_value, value_base
from polycast.events.wire_forms import UnencodableError
from polycast.typesystem import describe
from polycast.typesystem.type_expressions import is_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.typesystem import TypeExpression


DATE = "dateTime.iso8601"
FILTERABLE = "filterable"
SCALARS = frozenset({"string", "int", "double", "boolean", "base64", "nil", DATE})
_HEAP_TYPE = 1 << 9
MISSING: Any = type("Missing", (), {"__slots__": ()})()


class NoForm(Exception):
    """Raised for a value that XML-RPC cannot express."""

    def __init__(self, value: object, why: str) -> None:
        self.value, self.why = value, why
        super().__init__(f"a {type(value).__name__} has no XML-RPC form: {why}")


# -- the parts of an event -------------------------------------------------------------------------


def is_level_3(event: object) -> bool:
    """Whether an event is a level-3 event: a dict with the member `filterable`."""
    return isinstance(event, dict) and FILTERABLE in event


def filterable(event: Any) -> Any:
    """The part of an event that filters look at."""
    return event[FILTERABLE] if isinstance(event, dict) and FILTERABLE in event else event


# -- kinds -----------------------------------------------------------------------------------------

_KINDS: dict[type, str] = {
    str: "string",
    int: "int",
    float: "double",
    bool: "boolean",
    bytes: "base64",
    bytearray: "base64",
    type(None): "nil",
    datetime.datetime: DATE,
    datetime.date: DATE,
    list: "array",
    tuple: "array",
    set: "array",
    frozenset: "array",
    dict: "struct",
    decimal.Decimal: "string",
    uuid.UUID: "string",
    datetime.time: "string",
    datetime.timedelta: "double",
}


_EXTENDED = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)
_NO_STRUCTS = (*_EXTENDED, enum.Enum, type, BaseException)


def form_of(value: Any) -> tuple[str, Any]:
    """The element of a value, and the value as it stands there: of a class that is known."""
    kind = _KINDS.get(type(value))
    return (kind, value) if kind is not None else _form_of_other(value)


def _form_of_other(value: Any) -> tuple[str, Any]:
    cls = type(value)
    if ref(cls) in _shapes:
        return "struct", value
    if isinstance(value, enum.Enum):
        inner = value.value  # as plain as what a description says of it
        return form_of(inner if is_plain(inner) and inner is not None else value.name)
    if cls.__module__ == "xmlrpc.client":
        return _form_of_wire(value)
    if isinstance(value, _EXTENDED):
        return next((kind, value) for known, kind in _KINDS.items() if isinstance(value, known))
    base = _plain_base(cls)
    if base is not None:
        return _KINDS[base], base_value(value, base)
    if _shape_of(cls) is None:
        raise NoForm(value, "it has no attributes that are data")
    return "struct", value


def _plain_base(cls: type) -> type | None:
    """The built-in class of which its objects have the form."""
    base = value_base(cls)
    return base if base in _KINDS and not hasattr(cls, "_fields") else None


def _form_of_wire(value: Any) -> tuple[str, Any]:
    """What `xmlrpc.client` gives: a date keeps the text that it came with."""
    if type(value).__name__ == "DateTime":
        return DATE, value
    if type(value).__name__ == "Binary":
        return "base64", bytes(value.data)
    raise NoForm(value, "of xmlrpc.client only DateTime and Binary are values")


# -- texts -----------------------------------------------------------------------------------------


def scalar_text(value: Any) -> str:
    """The text in the element of a value that is no array and no struct."""
    write = _TEXTS.get(type(value))
    if write is None:
        write = next(
            (writer for kind, writer in _TEXTS.items() if isinstance(value, kind)), _wire_text
        )
    try:
        return write(value)
    except ValueError as error:  # an int of very many digits, a timedelta of centuries
        raise NoForm(value, str(error)) from None


def _wire_text(value: Any) -> str:
    return str(value.value)


def _base64(value: Any) -> str:
    return binascii.b2a_base64(value, newline=False).decode("ascii")


def _time_text(value: datetime.datetime) -> str:
    """As XML-RPC writes it; a fraction of a second and a zone follow if there are any."""
    text = f"{value.year:04}{value.month:02}{value.day:02}T{value.hour:02}:{value.minute:02}"
    text += f":{value.second:02}"
    if value.microsecond:
        text += f".{value.microsecond:06}"
    zone = value.isoformat()[19 + (7 if value.microsecond else 0) :] if value.tzinfo else ""
    return text + zone


def _seconds_text(value: datetime.timedelta) -> str:
    seconds = value.total_seconds()
    try:
        same = datetime.timedelta(seconds=seconds) == value
    except OverflowError:
        same = False
    if not same:
        raise ValueError("a double of its seconds has no room for its microseconds")
    return repr(seconds)


_TEXTS: dict[type, Callable[[Any], str]] = {
    str: lambda value: value,
    bool: lambda value: "1" if value else "0",
    int: str,
    float: repr,
    bytes: _base64,
    bytearray: _base64,
    type(None): lambda value: "",
    datetime.datetime: _time_text,
    datetime.date: lambda value: value.isoformat(),
    decimal.Decimal: str,
    uuid.UUID: str,
    datetime.time: lambda value: value.isoformat(),
    datetime.timedelta: _seconds_text,
}


# -- arrays and structs ----------------------------------------------------------------------------


def items_of(value: Any) -> list[Any] | tuple[Any, ...]:
    """The items of an array; those of a set in an order that does not depend on the process."""
    if isinstance(value, list | tuple):
        return value
    return sorted(value, key=lambda item: (type(item).__name__, repr(item)))


def item_at(value: Any, number: int) -> Any:
    """The item at a place of an array, counted from 1, or MISSING."""
    kind, plain = form_of(value)
    if kind != "array" or not 1 <= number <= len(plain):
        return MISSING
    return items_of(plain)[number - 1]


def members_of(value: Any) -> dict[str, Any]:
    """The members of a struct: the items of a dict, the filterable attributes of an object."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise NoForm(value, f"the name of a member is a string, not {key!r:.40}")
        return value
    shape = _shape_of(type(value))
    assert shape is not None  # else it had no form
    found = shape.members(value)
    return {name: part for name, part in found.items() if name not in shape.hidden}


def opaque_members(value: Any) -> dict[str, Any]:
    """The attributes of an object that are not filterable."""
    kind, plain = form_of(value)
    shape = _shapes.get(ref(type(plain))) if kind == "struct" else None
    if shape is None or not shape.hidden:
        return {}
    return {name: part for name, part in shape.members(value).items() if name in shape.hidden}


def member_of(value: Any, name: str) -> Any:
    """One member of a struct, or MISSING; so it is for a value that is none."""
    if type(value) is dict:
        return value.get(name, MISSING)
    shape = _shapes.get(ref(type(value)))
    if shape is not None:
        if name in shape.seen:
            found = getattr(value, name, MISSING)
            return MISSING if found is msgspec.UNSET else found
        return shape.other_member(value, name)
    kind, plain = form_of(value)
    if kind != "struct":
        return MISSING
    return member_of(plain, name)  # it is a dict now, or has a shape


def member_reader(name: str) -> Callable[[Any], Any]:
    """One member of the filterable part of events, or MISSING, as a function of the event."""

    def read(event: Any) -> Any:
        cls = type(event)
        if cls is dict and FILTERABLE not in event:
            return event.get(name, MISSING)
        shape = _shapes.get(ref(cls))
        if shape is not None and name in shape.seen:  # as in member_of, without a call
            found = getattr(event, name, MISSING)
            return MISSING if found is msgspec.UNSET else found
        return member_of(filterable(event), name)

    return read


def is_seen(cls: type, name: str) -> bool:
    """Whether a filterable member of the objects of a class is just the attribute of that name."""
    shape = _shape_of(cls)
    return shape is not None and name in shape.seen


class _AttributeForm:
    """How the attributes of the objects of a class are found."""

    __slots__ = ("_anatomy", "hidden", "seen")

    def __init__(self, anatomy: Anatomy, hidden: frozenset[str]) -> None:
        self._anatomy, self.hidden = anatomy, hidden
        declared = frozenset(anatomy.names) | anatomy.slots
        self.seen = frozenset(name for name in declared - hidden if _is_there(name, None))
        """The filterable attributes that are declared: they need not look at the others."""

    def members(self, value: Any) -> dict[str, Any]:
        """All attributes, declared ones first."""
        found = self._anatomy.take_apart(value)
        if self._anatomy.kind == "pydantic":
            found.update(value.__pydantic_extra__ or {})
        return {name: part for name, part in found.items() if _is_there(name, part)}

    def other_member(self, value: Any, name: str) -> Any:
        """A filterable attribute that is not declared."""
        if name in self.hidden or not self._anatomy.has_dictionary:
            return MISSING
        return self.members(value).get(name, MISSING)


def _is_there(name: str, value: Any) -> bool:
    return value is not msgspec.UNSET and name != "_attrs_cached_hash"


# Of classes that are structs, until they are gone; a WeakKeyDictionary takes twice as long.
_shapes: dict[ref[type], _AttributeForm] = {}


def _shape_of(cls: type) -> _AttributeForm | None:
    """How the objects of a class are structs; None if they have another form, or none."""
    shape = _shapes.get(ref(cls))
    if shape is None:
        written_in_c = not cls.__flags__ & _HEAP_TYPE  # and keeps what it holds to itself
        if written_in_c or issubclass(cls, _NO_STRUCTS) or cls.__module__ == "xmlrpc.client":
            return None
        if _plain_base(cls) is not None:
            return None
        try:
            shape = _AttributeForm(anatomy_of(cls), opaque_names(cls))
        except UnencodableError:
            return None
        _shapes[ref(cls, _shapes.pop)] = shape
    return shape


# -- opaque attributes -----------------------------------------------------------------------------


class _Note(str):
    """Keeps an attribute out of the filterable part: `text: Annotated[str, pc.Opaque]`."""

    __slots__ = ()


# A string, because the strings of an annotation are in the description of a class: so who has only
# that knows it, too.
Opaque: Final = _Note("polycast.opaque")

_known: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()


def opaque_names(cls: type) -> frozenset[str]:
    """The attributes of a class that are marked as opaque."""
    found = _known.get(cls)
    if found is None:
        attributes = describe(cls).attributes
        found = frozenset(attribute.name for attribute in attributes if _is_marked(attribute.type))
        _known[cls] = found
    return found


def _is_marked(kind: TypeExpression) -> bool:
    """The mark may be on one of several types, `Annotated[str, pc.Opaque] | None`."""
    several = kind.arguments if kind.form == "union" else ()
    return Opaque in kind.notes or any(map(_is_marked, several))
