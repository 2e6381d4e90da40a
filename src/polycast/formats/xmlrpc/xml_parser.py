"""The parser of XML-RPC, which accepts no other XML."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from typing import Any

from polycast.errors import NotDecodableError
from polycast.formats.xmlrpc.value_forms import DATE, DEEPEST

LONGEST = 16 * 1024 * 1024  # bytes of XML
WHAT = "an XML-RPC event"
_SPACE = " \t\r\n"  # as XML has it
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_ODD_DOUBLES = frozenset({"nan", "inf", "-inf"})


def parse_xml(source: str | bytes) -> Any:
    """The value that an XML text holds; NotDecodableError if it is none."""
    from xml.parsers import expat

    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(data) > LONGEST:
        raise NotDecodableError(WHAT, why=f"it is longer than {LONGEST} bytes")
    reader = _XmlRpcReader()
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
        raise NotDecodableError(WHAT, why=f"it is not XML: {error}") from None
    except NotDecodableError:
        raise
    except (LookupError, ValueError) as error:  # an encoding that does not exist, or is not for XML
        raise NotDecodableError(WHAT, why=f"its encoding: {error}") from None
    finally:
        parser.StartElementHandler = parser.EndElementHandler = None
        parser.CharacterDataHandler = parser.StartDoctypeDeclHandler = None
    return reader.result


def _refuse_types(*_: object) -> None:
    raise NotDecodableError(WHAT, why="it has a document type; entities are not accepted")


class _Element:
    """An element that is open: its text so far, and what was in it."""

    __slots__ = ("name", "parts", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text: list[str] = []
        self.parts: list[tuple[str, Any]] = []

    def only(self, *names: str, text: bool = False) -> None:
        """Refuse other children, and text beside the expected child."""
        for name, _ in self.parts:
            if name not in names:
                raise NotDecodableError(WHAT, why=f"<{name:.60}> cannot be in <{self.name}>")
        if (self.parts or not text) and "".join(self.text).strip(_SPACE):
            raise NotDecodableError(WHAT, why=f"<{self.name}> has text beside elements")


class _XmlRpcReader:
    """Builds values from elements as they end."""

    def __init__(self) -> None:
        self._open: list[_Element] = []
        self._levels = 0
        self.result: Any = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self._levels += name in _NESTING
        # An event of as many levels as can be written has one more around its parts.
        if self._levels > DEEPEST + 1 or len(self._open) > 4 * DEEPEST:
            raise NotDecodableError(WHAT, why=f"it is more than {DEEPEST} levels deep")
        if attributes:
            raise NotDecodableError(WHAT, why=f"<{name:.60}> has attributes; XML-RPC has none")
        self._open.append(_Element(name))

    def characters(self, text: str) -> None:
        """Text in the element that is open."""
        self._open[-1].text.append(text)

    def end(self, name: str) -> None:
        """An element ends: what it holds is a value."""
        element = self._open.pop()
        self._levels -= name in _NESTING
        make = _MAKERS.get(name)
        if make is None:
            accepted = ", ".join(sorted(_MAKERS))
            why = f"<{name:.60}> is no element of XML-RPC, only {accepted}"
            raise NotDecodableError(WHAT, why=why)
        value = make(element)
        if self._open:
            self._open[-1].parts.append((name, value))
        elif name in ("member", "name", "data"):
            raise NotDecodableError(WHAT, why=f"<{name:.60}> is no value by itself")
        else:
            self.result = value


def _struct(element: _Element) -> dict[str, Any]:
    element.only("member")
    found: dict[str, Any] = {}
    for _, (name, value) in element.parts:
        if name in found:
            raise NotDecodableError(WHAT, why=f"a struct has two members {name!r:.60}")
        found[name] = value
    return found


def _member(element: _Element) -> tuple[str, Any]:
    element.only("name", "value")
    if [name for name, _ in element.parts] != ["name", "value"]:
        raise NotDecodableError(WHAT, why="a <member> is one <name> and one <value>")
    return element.parts[0][1], element.parts[1][1]


def _any_value(element: _Element) -> Any:
    """A value without an element is a string."""
    element.only(*_TYPES, text=True)
    if len(element.parts) > 1:
        raise NotDecodableError(WHAT, why="a <value> holds one element")
    return element.parts[0][1] if element.parts else "".join(element.text)


def _array(element: _Element) -> list[Any]:
    element.only("data")
    if len(element.parts) != 1:
        raise NotDecodableError(WHAT, why="an <array> is one <data>")
    return element.parts[0][1]  # type: ignore[no-any-return]


def _data(element: _Element) -> list[Any]:
    element.only("value")
    return [value for _, value in element.parts]


def _plain(read: Callable[[str], Any]) -> Callable[[_Element], Any]:
    def make(element: _Element) -> Any:
        element.only(text=True)
        text = "".join(element.text)
        try:
            return read(text)
        except (ValueError, binascii.Error) as error:
            raise NotDecodableError(WHAT, why=f"<{element.name}>: {error}") from None

    return make


def _read_boolean(text: str) -> bool:
    if text.strip(_SPACE) not in ("0", "1"):
        raise ValueError(f"{text!r:.60} is neither 0 nor 1")
    return text.strip(_SPACE) == "1"


def _read_double(text: str) -> float:
    number = text.strip(_SPACE)
    if number not in _ODD_DOUBLES and not _NUMBER.fullmatch(number):
        raise ValueError(f"{text!r:.60} is no number")
    return float(number)


def _read_int(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip(_SPACE)):
        raise ValueError(f"{text!r:.60} is no whole number")
    return int(text)


def _read_bytes(text: str) -> bytes:
    return binascii.a2b_base64("".join(text.split()), strict_mode=True)


def _read_date(text: str) -> Any:
    from xmlrpc.client import DateTime

    return DateTime(text.strip(_SPACE))  # white space around it is of the layout, not of the date


def _read_nothing(text: str) -> None:
    if text.strip(_SPACE):
        raise ValueError(f"{text!r:.60} is not nothing")


_NESTING = frozenset({"struct", "array"})
_TYPES: dict[str, Callable[[_Element], Any]] = {
    "string": _plain(str),
    **dict.fromkeys(("int", "i4", "i8"), _plain(_read_int)),
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
