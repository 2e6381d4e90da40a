"""Events to bytes and back, in JSON and in MessagePack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from polycast.errors import BadOption, NotDecodable, NotSerialisable, PolycastError
from polycast.events.decoding import Reader
from polycast.events.encoding import Writer
from polycast.events.forms import Malformed, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self._module: Any = msgspec.json if form == "json" else msgspec.msgpack
        self._encode: Callable[[Any], bytes] = self._module.Encoder().encode
        self._decode: Callable[[bytes], Any] = self._module.Decoder().decode
        self._writer, self._reader = f"{form} writer", f"{form} reader"

    def __repr__(self) -> str:
        return f"Codec({self.form!r})"

    def encode(self, event: object, *, registry: Registry) -> Encoded:
        """The bytes of an event; binds its class, and those of all it holds, in the registry."""
        writer = registry.derived.get(self._writer)
        if writer is None:
            writer = registry.derived[self._writer] = Writer(self.form, registry)
        try:
            description, data = writer.lower(event)
            payload = self._encode(data)
        except (OverflowError, ValueError):
            # A number or a text somewhere that msgspec cannot write: the long way finds where.
            description, payload = self._with_care(event, registry)
        except Refused as refused:
            raise _not_serialisable(event, refused) from None
        except RecursionError as error:
            raise NotSerialisable(event, path=type(event).__name__, why=str(error)) from None
        return Encoded(description.name, description.version, description.hash, self.form, payload)

    def decode(self, encoded: HasPayload, *, registry: Registry) -> Any:
        """The event again, of the class known here or of one made from its description."""
        reader = registry.derived.get(self._reader)
        if reader is None:
            reader = registry.derived[self._reader] = Reader(self.form, registry)
        try:
            whole = reader.whole(encoded.hash)
            if (
                whole is not None
                and (event := self._made_whole(encoded.payload, whole)) is not None
            ):
                return event
            data = self._decode(encoded.payload)
            return reader.lift(data, encoded.name, encoded.version, encoded.hash)
        except NotDecodable:
            raise
        except Malformed as malformed:
            raise NotDecodable(_title(encoded), why=str(malformed)) from None
        except Refused as refused:
            raise NotDecodable(_title(encoded), why=refused.why) from None
        except _DAMAGE as error:
            why = f"{type(error).__name__}: {error}"
            raise NotDecodable(_title(encoded), why=why) from error

    def _made_whole(self, payload: bytes, cls: type) -> Any:
        try:
            return self._module.decode(payload, type=cls)
        except (msgspec.DecodeError, TypeError, NameError):
            return None  # a mark somewhere, or annotations that msgspec does not take

    def _with_care(self, event: object, registry: Registry) -> tuple[Description, bytes]:
        writer = Writer(self.form, registry, shortcuts=False)
        try:
            description, data = writer.lower(event)
            return description, self._encode(data)
        except Refused as refused:
            raise _not_serialisable(event, refused) from None
        except ValueError as error:
            raise NotSerialisable(event, path=type(event).__name__, why=str(error)) from None


def _title(encoded: HasPayload) -> str:
    return f"an event of class {encoded.name!r} version {encoded.version}"


def _not_serialisable(event: object, refused: Refused) -> NotSerialisable:
    path = type(event).__name__ + "".join(reversed(refused.path))
    return NotSerialisable(refused.value, path=path, why=refused.why)


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
