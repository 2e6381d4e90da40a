"""Events of other systems: XML-RPC values or XML, read into objects or plain values."""

from __future__ import annotations

import binascii
import datetime
import enum
import re
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from polycast.errors import BadOption, NotDecodable
from polycast.events.forms import Malformed, Refused
from polycast.events.instances import anatomy_of, rebuild
from polycast.events.xmlrpc.values import DATE, FILTERABLE, is_level_3
from polycast.events.xmlrpc.writing import DEEPEST, OPAQUE
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.hints import hints_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["from_xmlrpc"]

T = TypeVar("T")
LONGEST = 16 * 1024 * 1024  # bytes of XML
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)(T.*)?", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_ODD_DOUBLES = frozenset({"nan", "inf", "-inf"})
WHAT = "an XML-RPC event"


@overload
def from_xmlrpc(source: str | bytes | dict[str, Any], *, of: None = None) -> Any: ...
@overload
def from_xmlrpc(source: str | bytes | dict[str, Any], *, of: type[T]) -> T: ...
def from_xmlrpc(source: Any, *, of: Any = None) -> Any:
    """The event of XML-RPC values or XML: an object `of` a class, or the values as they are.

    Of a level-3 struct, an object is made of `filterable` and `opaque`. Dates among plain values
    are `xmlrpc.client.DateTime`, which keeps their text.
    """
    if not isinstance(source, str | bytes | dict):
        raise BadOption("source", source, accepted="XML as str or bytes, or a dict of values")
    values = source if isinstance(source, dict) else _parsed(source)
    if of is None:
        return values
    if not isinstance(of, type):
        raise BadOption("of", of, accepted="the class of the event, or None")
    if is_level_3(values):
        opaque = values.get(OPAQUE)
        values, more = values[FILTERABLE], opaque if isinstance(opaque, dict) else {}
        values = {**values, **more} if isinstance(values, dict) else values
    try:
        return _made(of, values)
    except (msgspec.ValidationError, Malformed, Refused, TypeError, ValueError) as error:
        raise NotDecodable(f"{WHAT} as {of.__name__}", why=str(error)) from None
    except RecursionError:
        raise NotDecodable(f"{WHAT} as {of.__name__}", why="it is nested too deeply") from None


# -- objects ---------------------------------------------------------------------------------------


def _made(cls: type, values: Any) -> Any:
    """An object with the attributes that were sent, and the defaults of the others."""
    defaults = declared_defaults(cls)
    if not isinstance(values, dict) or not defaults:
        if defaults:
            raise ValueError(f"{values!r:.60} has no members")
        return _converted(values, cls)
    hints, state = hints_of(cls), {}
    for name, default in defaults.items():
        if name in values:
            state[name] = _converted(values[name], hints.get(name, Any), name)
        elif default is not None:
            state[name] = default.make()
        else:
            raise ValueError(f"it has no member {name!r}, which {cls.__name__} must have")
    if unknown := [name for name in values if name not in state]:
        raise ValueError(f"{cls.__name__} has no attribute {unknown[0]!r:.60}")
    return rebuild(cls, anatomy_of(cls), state, {})


def _converted(value: Any, hint: Any, name: str = "") -> Any:
    if hint is Any or hint is object:
        return value
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _member_of_enum(hint, value)
    if isinstance(hint, type) and isinstance(value, dict) and declared_defaults(hint):
        return _made(hint, value)
    try:
        return msgspec.convert(_simple(value), hint, strict=False, dec_hook=_nested)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: {error}" if name else str(error)) from None


def _member_of_enum(cls: type[enum.Enum], value: Any) -> enum.Enum:
    """By its value, or by its name if that is no plain value."""
    try:
        return cls(value)
    except ValueError:
        if isinstance(value, str) and value in cls.__members__:
            return cls.__members__[value]
        raise


def _nested(cls: type, value: Any) -> Any:
    """A class that msgspec does not know: another event, or what is in one."""
    if isinstance(value, cls):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.60} is no {cls.__name__}")
    return _made(cls, value)


def _simple(value: Any) -> Any:
    """With dates as ISO texts, which become whatever the annotation says."""
    if isinstance(value, dict):
        return {name: _simple(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_simple(part) for part in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if type(value).__module__ == "xmlrpc.client":
        return value.data if type(value).__name__ == "Binary" else _iso(value.value)
    return value


def _iso(text: str) -> str:
    """`20070401T00:00:00` as `2007-04-01T00:00:00`."""
    found = _COMPACT.fullmatch(text.strip())
    return "-".join(found.group(1, 2, 3)) + (found[4] or "") if found else text.strip()


# -- XML -------------------------------------------------------------------------------------------


def _parsed(source: str | bytes) -> Any:
    from xml.parsers import expat

    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(data) > LONGEST:
        raise NotDecodable(WHAT, why=f"it is longer than {LONGEST} bytes")
    reader = _Reader()
    # A text says itself what it is; bytes may begin with a declaration.
    parser = expat.ParserCreate("utf-8" if isinstance(source, str) else None)
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = _refuse_types
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise NotDecodable(WHAT, why=f"it is not XML: {error}") from None
    except LookupError as error:  # an encoding that does not exist
        raise NotDecodable(WHAT, why=str(error)) from None
    finally:
        parser.StartElementHandler = parser.EndElementHandler = None
        parser.CharacterDataHandler = parser.StartDoctypeDeclHandler = None
    return reader.result


def _refuse_types(*_: object) -> None:
    raise NotDecodable(WHAT, why="it has a document type; entities are not accepted")


class _Element:
    """An element that is open: its text so far, and what was in it."""

    __slots__ = ("name", "parts", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text: list[str] = []
        self.parts: list[tuple[str, Any]] = []

    def only(self, *names: str) -> None:
        """Refuse anything else below, and text beside it."""
        for name, _ in self.parts:
            if name not in names:
                raise NotDecodable(WHAT, why=f"<{name}> cannot be in <{self.name}>")
        if self.parts and "".join(self.text).strip():
            raise NotDecodable(WHAT, why=f"<{self.name}> has text beside elements")


class _Reader:
    """Makes values of elements as they end."""

    def __init__(self) -> None:
        self._open: list[_Element] = []
        self.result: Any = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        if len(self._open) > 4 * DEEPEST:
            raise NotDecodable(WHAT, why=f"it is more than {DEEPEST} levels deep")
        if attributes:
            raise NotDecodable(WHAT, why=f"<{name}> has attributes; XML-RPC has none")
        self._open.append(_Element(name))

    def characters(self, text: str) -> None:
        """Text in the element that is open."""
        self._open[-1].text.append(text)

    def end(self, name: str) -> None:
        """An element ends: what it holds is a value."""
        element = self._open.pop()
        make = _MAKERS.get(name)
        if make is None:
            accepted = ", ".join(sorted(_MAKERS))
            raise NotDecodable(WHAT, why=f"<{name}> is no element of XML-RPC, only {accepted}")
        value = make(element)
        if self._open:
            self._open[-1].parts.append((name, value))
        elif name in ("member", "name", "data"):
            raise NotDecodable(WHAT, why=f"<{name}> is no value by itself")
        else:
            self.result = value


def _struct(element: _Element) -> dict[str, Any]:
    element.only("member")
    found: dict[str, Any] = {}
    for _, (name, value) in element.parts:
        if name in found:
            raise NotDecodable(WHAT, why=f"a struct has two members {name!r:.60}")
        found[name] = value
    return found


def _member(element: _Element) -> tuple[str, Any]:
    element.only("name", "value")
    if [name for name, _ in element.parts] != ["name", "value"]:
        raise NotDecodable(WHAT, why="a <member> is one <name> and one <value>")
    return element.parts[0][1], element.parts[1][1]


def _any_value(element: _Element) -> Any:
    """A value without an element is a string."""
    element.only(*_TYPES)
    if len(element.parts) > 1:
        raise NotDecodable(WHAT, why="a <value> holds one element")
    return element.parts[0][1] if element.parts else "".join(element.text)


def _array(element: _Element) -> list[Any]:
    element.only("data")
    if len(element.parts) != 1:
        raise NotDecodable(WHAT, why="an <array> is one <data>")
    return element.parts[0][1]  # type: ignore[no-any-return]


def _data(element: _Element) -> list[Any]:
    element.only("value")
    return [value for _, value in element.parts]


def _plain(read: Callable[[str], Any]) -> Callable[[_Element], Any]:
    def make(element: _Element) -> Any:
        element.only()
        text = "".join(element.text)
        try:
            return read(text)
        except (ValueError, binascii.Error) as error:
            raise NotDecodable(WHAT, why=f"<{element.name}>: {error}") from None

    return make


def _read_boolean(text: str) -> bool:
    if text.strip() not in ("0", "1"):
        raise ValueError(f"{text!r:.60} is neither 0 nor 1")
    return text.strip() == "1"


def _read_double(text: str) -> float:
    if text.strip() not in _ODD_DOUBLES and not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text!r:.60} is no number")
    return float(text)


def _read_int(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
        raise ValueError(f"{text!r:.60} is no whole number")
    return int(text)


def _read_bytes(text: str) -> bytes:
    return binascii.a2b_base64("".join(text.split()), strict_mode=True)


def _read_date(text: str) -> Any:
    from xmlrpc.client import DateTime

    return DateTime(text)


def _read_nothing(text: str) -> None:
    if text.strip():
        raise ValueError(f"{text!r:.60} is not nothing")


_TYPES: dict[str, Callable[[_Element], Any]] = {
    "string": _plain(str),
    "int": _plain(_read_int),
    "i4": _plain(_read_int),
    "i8": _plain(_read_int),
    "double": _plain(_read_double),
    "boolean": _plain(_read_boolean),
    "base64": _plain(_read_bytes),
    "nil": _plain(_read_nothing),
    DATE: _plain(_read_date),
    "struct": _struct,
    "array": _array,
}
_MAKERS: dict[str, Callable[[_Element], Any]] = {
    **_TYPES,
    "member": _member,
    "name": _plain(str),
    "value": _any_value,
    "data": _data,
}
