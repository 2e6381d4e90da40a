"""Events of other systems: XML-RPC values or XML, read into objects or plain values."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from polycast.errors import BadOptionError, NotDecodableError
from polycast.events.wire_forms import Malformed, UnencodableError
from polycast.formats.xmlrpc.event_writer import OPAQUE
from polycast.formats.xmlrpc.typed_values import convert, without_wrappers
from polycast.formats.xmlrpc.value_forms import FILTERABLE, is_level_3
from polycast.formats.xmlrpc.xml_parser import WHAT, parse_xml

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
