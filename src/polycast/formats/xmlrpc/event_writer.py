"""Events as values that any XML-RPC library takes, and as XML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from polycast.errors import NotSerialisableError
from polycast.formats.xmlrpc.value_forms import (
    DATE,
    FILTERABLE,
    SCALARS,
    NoForm,
    filterable,
    form_of,
    is_level_3,
    items_of,
    members_of,
    opaque_members,
    scalar_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        raise NotSerialisableError(
            event, path="event", why=f"it has a member {OPAQUE!r} of its own"
        )
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
