"""Events to bytes and back, in JSON and in MessagePack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from polycast.errors import BadOption, NotDecodable, NotSerialisable, PolycastError
from polycast.events.decoding import Reader
from polycast.events.encoding import Writer
from polycast.events.forms import CONTAINERS, SCALARS, Malformed, Refused
from polycast.typesystem import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.events.encoding import Writing
    from polycast.events.forms import Form
    from polycast.typesystem import Description, Registry

__all__ = ["JSON", "MSGPACK", "Codec", "Encoded", "HasPayload", "codec_for"]


class HasPayload(Protocol):
    """What decoding needs to know: a `Record` has it, an `Encoded` too."""

    @property
    def name(self) -> str:
        """The wire name of the class."""

    @property
    def version(self) -> int:
        """The version of the class."""

    @property
    def hash(self) -> str:
        """The hash of the class's description."""

    @property
    def payload(self) -> bytes:
        """The event itself."""


class Encoded(msgspec.Struct, frozen=True):
    """An event as bytes, with what names its class."""

    name: str
    version: int
    hash: str
    codec: Literal["json", "msgpack"]
    payload: bytes


class Codec:
    """One way to write events: every supported class, and nothing sliced off."""

    def __init__(self, form: Form) -> None:
        self.form: Form = form
        module = msgspec.json if form == "json" else msgspec.msgpack
        self._encode: Callable[[Any], bytes] = module.Encoder().encode
        self._decode: Callable[[bytes], Any] = module.Decoder().decode
        self._writer, self._reader = f"{form} writer", f"{form} reader"

    def __repr__(self) -> str:
        return f"Codec({self.form!r})"

    def encode(self, event: object, *, registry: Registry) -> Encoded:
        """The bytes of an event; binds its class, and those of all it holds, in the registry."""
        writer = registry.derived.get(self._writer)
        if writer is None:
            writer = registry.derived[self._writer] = Writer(self.form, registry)
        try:
            description, payload = self._payload(event, writer)
        except Refused as refused:
            path = type(event).__name__ + "".join(reversed(refused.path))
            raise NotSerialisable(refused.value, path=path, why=refused.why) from None
        except (RecursionError, UnicodeEncodeError) as error:
            raise NotSerialisable(event, path=type(event).__name__, why=str(error)) from None
        return Encoded(description.name, description.version, description.hash, self.form, payload)

    def decode(self, encoded: HasPayload, *, registry: Registry) -> Any:
        """The event again, of the class known here or of one made from its description."""
        reader = registry.derived.get(self._reader)
        if reader is None:
            reader = registry.derived[self._reader] = Reader(self.form, registry)
        what = f"an event of class {encoded.name!r} version {encoded.version}"
        try:
            data = self._decode(encoded.payload)
            return reader.lift(data, encoded.name, encoded.version, encoded.hash)
        except NotDecodable:
            raise
        except Malformed as malformed:
            raise NotDecodable(what, why=str(malformed)) from None
        except Refused as refused:
            raise NotDecodable(what, why=refused.why) from None
        except _DAMAGE as error:
            raise NotDecodable(what, why=f"{type(error).__name__}: {error}") from error

    def _payload(self, event: Any, writer: Writer) -> tuple[Description, bytes]:
        if type(event) in _BUILT_IN:
            return describe(type(event)), self._encode(writer.lower(event))
        writing = writer.writing(event)
        quick = self._quick(event, writing) if writing.closed is not None else None
        return writing.description, quick or self._encode(writing.natural(event, set()))

    def _quick(self, event: Any, writing: Writing) -> bytes | None:
        source = event if writing.whole else event.__dict__
        try:
            values = writing.pick(source)
            if (writing.whole or len(source) == len(values)) and writing.closed.fits(values):  # type: ignore[union-attr]
                return self._encode(source)
        except (AttributeError, KeyError, OverflowError, ValueError):
            pass  # not set, or too large: the long way knows what to do, or what to say
        return None


_BUILT_IN = frozenset((*SCALARS.values(), *CONTAINERS.values()))
_DAMAGE = (
    msgspec.DecodeError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    PolycastError,
)

JSON = Codec("json")
MSGPACK = Codec("msgpack")


def codec_for(form: str) -> Codec:
    """The codec a record names."""
    if form not in ("json", "msgpack"):
        raise BadOption.choice("codec", form, ("json", "msgpack"))
    return JSON if form == "json" else MSGPACK
