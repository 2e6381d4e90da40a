"""What a Python value is in XML-RPC: its element, text and members; events in that form.

Nothing is built for who looks at an event: it asks for what it needs. A value that has no form
raises `NoForm` when somebody looks at it, and NotSerialisableError, with its place, when written.
"""

from __future__ import annotations

import binascii
import datetime
import decimal
import enum
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar
from weakref import ref

import msgspec

from polycast.errors import NotSerialisableError
from polycast.events.instances import Anatomy, anatomy_of, base_value, value_base
from polycast.events.wire_forms import UnencodableError
from polycast.typesystem import TypeExpression, describe
from polycast.typesystem.type_expressions import is_plain

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
            attributes = describe(cls).attributes
            hidden = (attribute.name for attribute in attributes if _is_marked(attribute.type))
            shape = _AttributeForm(anatomy_of(cls), frozenset(hidden))
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


def _is_marked(kind: TypeExpression) -> bool:
    """Whether an attribute is opaque, also as `Annotated[str, pc.Opaque] | None`."""
    several = kind.arguments if kind.form == "union" else ()
    return Opaque in kind.notes or any(map(_is_marked, several))


# -- events that are written -----------------------------------------------------------------------

T = TypeVar("T")
DEEPEST = 64  # arrays and structs in each other
OPAQUE = "opaque"
_IMPOSSIBLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})


def to_xmlrpc(event: object) -> dict[str, Any]:
    """An event as a level-3 struct (API 4.3) of values that XML-RPC libraries take.

    Its member `filterable` is what filters see, its member `opaque` what is marked as
    `pc.Opaque`, on every level. A dict with a member `filterable` is such an event already.
    """
    blocks = dict(_members(event, "event")) if is_level_3(event) else {}
    path = FILTERABLE if blocks else "event"
    found = {FILTERABLE: _value(filterable(event), path, 0)}
    for name, part in blocks.items():
        if name != FILTERABLE:
            found[_checked(name, "event")] = _value(part, name, 0, whole=True)
    hidden = _hidden(filterable(event), path, 0)
    if hidden is not None and OPAQUE in found:
        why = f"it has a member {OPAQUE!r} of its own"
        raise NotSerialisableError(event, path="event", why=why)
    return found if hidden is None else {**found, OPAQUE: hidden}


def filterable_xml(event: object) -> str:
    """The document that XPath filters look at, as XML text."""
    return "".join(_xml(filterable(event), "event", 0))


def _value(value: Any, path: str, depth: int, *, whole: bool = False) -> Any:
    """A value of `xmlrpc.client`'s own types; `whole` is with what is opaque."""
    kind, plain = _form(value, path, depth)
    if kind == "struct":
        members = dict(_members(plain, path)) | (opaque_members(plain) if whole else {})
        return {
            _checked(name, path): _value(part, f"{path}.{name}", depth + 1, whole=whole)
            for name, part in members.items()
        }
    if kind == "array":
        parts = enumerate(items_of(plain))
        return [_value(part, f"{path}[{n}]", depth + 1, whole=whole) for n, part in parts]
    return _scalar(kind, plain, path)


def _hidden(value: Any, path: str, depth: int) -> Any:
    """The opaque parts of a value, in its structure; None if there are none."""
    kind, plain = _form(value, path, depth)
    if kind == "struct":
        found = {
            _checked(name, path): _value(part, f"{path}.{name}", depth + 1, whole=True)
            for name, part in opaque_members(plain).items()
        }
        for name, part in _members(plain, path):
            if (below := _hidden(part, f"{path}.{name}", depth + 1)) is not None:
                found[name] = below
        return found or None
    if kind == "array":
        items = [_hidden(part, f"{path}[{n}]", depth + 1) for n, part in enumerate(items_of(plain))]
        return items if any(item is not None for item in items) else None
    return None


def _scalar(kind: str, plain: Any, path: str) -> Any:
    if kind == DATE:
        from xmlrpc.client import DateTime

        return DateTime(_text(plain, path))
    if kind == "base64":
        return bytes(plain)
    text = _text(plain, path)  # very long ints have none
    if kind == "double":
        return float(text)
    return text if kind == "string" else plain


def _xml(value: Any, path: str, depth: int) -> Iterator[str]:
    kind, plain = _form(value, path, depth)
    if kind in SCALARS:
        text = _text(plain, path).translate(_ESCAPES)
        yield f"<{kind}>{text}</{kind}>" if text else f"<{kind}/>"
        return
    yield f"<{kind}>"
    if kind == "struct":
        for name, part in _members(plain, path):
            yield f"<member><name>{_checked(name, path).translate(_ESCAPES)}</name><value>"
            yield from _xml(part, f"{path}.{name}", depth + 1)
            yield "</value></member>"
    else:
        yield "<data>"
        for number, part in enumerate(items_of(plain)):
            yield "<value>"
            yield from _xml(part, f"{path}[{number}]", depth + 1)
            yield "</value>"
        yield "</data>"
    yield f"</{kind}>"


def _form(value: Any, path: str, depth: int) -> tuple[str, Any]:
    kind, plain = _asked(form_of, value, path)
    if depth >= DEEPEST and kind not in SCALARS:
        raise NotSerialisableError(value, path=path, why=f"it is more than {DEEPEST} levels deep")
    return kind, plain


def _members(value: Any, path: str) -> list[tuple[str, Any]]:
    return list(_asked(members_of, value, path).items())


def _text(plain: Any, path: str) -> str:
    return _checked(_asked(scalar_text, plain, path), path)


def _asked(question: Callable[[Any], T], value: Any, path: str) -> T:
    """What a value is in XML-RPC; NotSerialisableError says where it has no form."""
    try:
        return question(value)
    except NoForm as error:
        raise NotSerialisableError(value, path=path, why=error.why) from None


def _checked(text: str, path: str) -> str:
    if found := _IMPOSSIBLE.search(text):
        why = f"XML has no character U+{ord(found[0]):04X}; send it as bytes"
        raise NotSerialisableError(text, path=path, why=why)
    return str.__str__(text)
