"""Events of other systems: XML-RPC values or XML, read into objects as annotations say.

Several types of Python have one form. So a value that more than one type of a union could have been
is refused, not guessed.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import re
import types
import typing
import uuid
from collections.abc import Iterable
from typing import Any, TypeVar, overload

import msgspec

from polycast.errors import BadOptionError, NotDecodableError
from polycast.events.instances import anatomy_of, rebuild
from polycast.events.wire_forms import Malformed, UnencodableError
from polycast.formats.xmlrpc.value_forms import FILTERABLE, OPAQUE, is_level_3
from polycast.formats.xmlrpc.xml_parser import WHAT, parse_xml
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.type_expressions import hints_of, is_plain

_COMPACT = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(T.*)?", re.DOTALL)
_DATE = "dateTime"
_SENT_AS: dict[Any, Any] = {
    **{cls: cls for cls in (str, int, float, bool, bytes)},
    **dict.fromkeys((decimal.Decimal, uuid.UUID, datetime.time), str),
    **dict.fromkeys((datetime.datetime, datetime.date), _DATE),
    bytearray: bytes,
    datetime.timedelta: float,
}
_ITEMS = (list, set, frozenset, tuple)


def convert(value: Any, hint: Any, *, exact: bool = False) -> Any:
    """A value of XML-RPC as an annotation says; ValueError if it is none.

    `exact` takes only what that type is sent as, not what can be read as such, too.
    """
    while typing.get_origin(hint) is typing.Annotated or isinstance(hint, typing.NewType):
        hint = getattr(hint, "__supertype__", None) or typing.get_args(hint)[0]
    if hint is Any or hint is object:
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, value, exact=exact)
    if typing.is_typeddict(hint):
        return _typed_dict(hint, value, exact=exact)
    if origin in _ITEMS and isinstance(value, list | tuple) and arguments != ((),):
        return origin(_items(value, arguments, exact=exact))
    if origin is dict and isinstance(value, dict):
        key, part = arguments
        return {convert(k, key): _at(k, v, part, exact=exact) for k, v in value.items()}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _member_of_enum(hint, value)
    if isinstance(hint, type) and declared_defaults(hint):
        return _object(hint, value, exact=exact)
    return _scalar(value, hint, exact=exact)


def without_wrappers(value: Any) -> Any:
    """The same with bytes where `xmlrpc.client` has its own class for them."""
    if isinstance(value, dict):
        return {name: without_wrappers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [without_wrappers(part) for part in value]
    return bytes(value.data) if _is_wire(value, "Binary") else value


# -- parts -----------------------------------------------------------------------------------------


def _at(place: Any, value: Any, hint: Any, *, exact: bool) -> Any:
    try:
        return convert(value, hint, exact=exact)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _items(value: Any, arguments: tuple[Any, ...], *, exact: bool) -> Iterable[Any]:
    if len(arguments) == 1 or arguments[-1] is ...:
        hints = [arguments[0]] * len(value)
    elif len(arguments) == len(value):
        hints = list(arguments)
    else:
        raise ValueError(f"it has {len(value)} items, not {len(arguments)}")
    return [_at(n, *pair, exact=exact) for n, pair in enumerate(zip(value, hints, strict=True))]


def _one_of(hints: tuple[Any, ...], value: Any, *, exact: bool) -> Any:
    """As the one type of a union that it can have been."""
    found, problems = _tried(hints, value, exact=True)
    if not found and not exact:
        found, problems = _tried(hints, value, exact=False)
    if not found:
        raise ValueError("; ".join(problems))
    if any(type(item) is not type(found[0]) or item != found[0] for item in found[1:]):
        kinds = " or ".join(type(item).__name__ for item in found)
        raise ValueError(f"{value!r:.60} may have been {kinds}")
    return found[0]


def _tried(hints: tuple[Any, ...], value: Any, *, exact: bool) -> tuple[list[Any], list[str]]:
    found, problems = [], []
    for hint in hints:
        try:
            found.append(convert(value, hint, exact=exact))
        except ValueError as error:
            problems.append(str(error))
    return found, problems


def _object(cls: type, value: Any, *, exact: bool) -> Any:
    """An object with the attributes that were sent, and the defaults of the others."""
    if isinstance(value, cls):
        return value
    if issubclass(cls, tuple) and isinstance(value, list | tuple):
        return _scalar(value, cls, exact=exact)
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.60} has no members")
    hints, state = hints_of(cls), {}
    for name, default in declared_defaults(cls).items():
        if name in value:
            state[name] = _at(name, value[name], hints.get(name, Any), exact=exact)
        elif default is not None:
            state[name] = default.make()
        else:
            raise ValueError(f"it has no member {name!r}, which {cls.__name__} must have")
    if unknown := [name for name in value if name not in state]:
        raise ValueError(f"{cls.__name__} has no attribute {unknown[0]!r:.60}")
    return rebuild(cls, anatomy_of(cls), state, {})


def _typed_dict(cls: Any, value: Any, *, exact: bool) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.60} has no members")
    for name in cls.__required_keys__ - value.keys():
        raise ValueError(f"it has no member {name!r}, which {cls.__name__} must have")
    for name in value.keys() - hints.keys():
        raise ValueError(f"{cls.__name__} has no member {name!r:.60}")
    return {name: _at(name, part, hints[name], exact=exact) for name, part in value.items()}


def _member_of_enum(cls: type[enum.Enum], value: Any) -> enum.Enum:
    """By its value, or by its name if that is no plain value."""
    named = cls.__members__.get(value) if isinstance(value, str) else None
    try:
        found = cls(value)
    except ValueError:
        if named is None:
            raise
        return named
    if named is not None and named is not found and not is_plain(named.value):
        raise ValueError(f"{value!r:.60} may have been {named} or {found}")
    return found


# -- scalars ---------------------------------------------------------------------------------------


def _scalar(value: Any, hint: Any, *, exact: bool) -> Any:
    if _is_wire(value, getattr(hint, "__name__", "")):
        return value  # a date that is to keep its text
    if exact and hint in _SENT_AS and _kind(value) is not _SENT_AS[hint]:
        raise ValueError(f"{value!r:.60} is no {hint.__name__}")
    if hint is datetime.timedelta and type(value) is float:
        return _seconds(value)
    plain = _simple(value)
    try:
        try:
            return msgspec.convert(plain, hint, strict=True, dec_hook=_other)
        except msgspec.ValidationError:
            if exact:
                raise
            return msgspec.convert(plain, hint, strict=False, dec_hook=_other)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _kind(value: Any) -> Any:
    dated = isinstance(value, datetime.date) or _is_wire(value, "DateTime")
    return _DATE if dated else bytes if _is_wire(value, "Binary") else type(value)


def _is_wire(value: Any, name: str) -> bool:
    return type(value).__module__ == "xmlrpc.client" and type(value).__name__ == name


def _seconds(value: float) -> datetime.timedelta:
    try:
        return datetime.timedelta(seconds=value)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def _other(cls: type, value: Any) -> Any:
    """A class that msgspec does not know: another event, or what is in one."""
    if isinstance(value, cls):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.60} is no {cls.__name__}")
    if declared_defaults(cls):
        return _object(cls, value, exact=False)
    if value:
        raise ValueError(f"{cls.__name__} declares no attributes")
    return rebuild(cls, anatomy_of(cls), {}, {})


def _simple(value: Any) -> Any:
    """With dates as ISO texts, which become whatever the annotation says."""
    if isinstance(value, dict):
        return {name: _simple(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_simple(part) for part in value]
    if isinstance(value, datetime.date):
        return value.isoformat()
    if _is_wire(value, "DateTime"):
        return _iso(str(value.value).strip())
    return bytes(value.data) if _is_wire(value, "Binary") else value


def _iso(text: str) -> str:
    """`20070401T00:00:00` as `2007-04-01T00:00:00`."""
    found = _COMPACT.fullmatch(text)
    return "-".join(found.group(1, 2, 3)) + (found[4] or "") if found else text


# -- events ----------------------------------------------------------------------------------------


T = TypeVar("T")
EXTENSION = "pubsub.ext."  # of pub/sub systems: subscribers never see these (API 4.3.2)


@overload
def from_xmlrpc(source: str | bytes | dict[str, Any], *, of: None = None) -> Any: ...
@overload
def from_xmlrpc(source: str | bytes | dict[str, Any], *, of: type[T]) -> T: ...
def from_xmlrpc(source: Any, *, of: Any = None) -> Any:
    """The event of XML-RPC values or XML: an object `of` a class, or the values as they are.

    Of a level-3 struct, an object is made of `filterable`, `opaque` and all other blocks that are
    no extensions. Dates among plain values are `xmlrpc.client.DateTime`, which keeps their text.
    """
    if not isinstance(source, str | bytes | dict):
        raise BadOptionError("source", source, accepted="XML as str or bytes, or a dict of values")
    if of is not None and not isinstance(of, type):
        raise BadOptionError("of", of, accepted="the class of the event, or None")
    what = WHAT if of is None else f"{WHAT} as {of.__name__}"
    values = source if isinstance(source, dict) else parse_xml(source)
    try:
        if of is None:
            return without_wrappers(values)
        return convert(_whole(values) if is_level_3(values) else values, of)
    except (Malformed, UnencodableError, TypeError, ValueError, ArithmeticError) as error:
        raise NotDecodableError(what, why=str(error)) from None
    except RecursionError:
        raise NotDecodableError(what, why="it is nested too deeply") from None


def _whole(event: dict[str, Any]) -> Any:
    """Merge the parts of a level-3 event into one value."""
    found = event[FILTERABLE]
    if OPAQUE in event:
        found = _merged(found, event[OPAQUE], OPAQUE)
    for name, part in event.items():
        if name in (FILTERABLE, OPAQUE) or str(name).startswith(EXTENSION):
            continue
        if not isinstance(found, dict) or name in found:
            raise ValueError(f"{name!r:.60} is beside the filterable part, and cannot be in it")
        found = {**found, name: part}
    return found


def _merged(seen: Any, hidden: Any, path: str) -> Any:
    """Values with their opaque parts, as `to_xmlrpc` leaves them out: item by item of an array."""
    if isinstance(seen, dict) and isinstance(hidden, dict):
        both = {
            name: _merged(seen[name], part, f"{path}.{name}") if name in seen else part
            for name, part in hidden.items()
        }
        return {**seen, **both}
    if isinstance(seen, list) and isinstance(hidden, list) and len(seen) == len(hidden):
        pairs = enumerate(zip(seen, hidden, strict=True))
        return [
            one if other is None else _merged(one, other, f"{path}[{n}]")
            for n, (one, other) in pairs
        ]
    raise ValueError(f"{path} does not go with the filterable part")
