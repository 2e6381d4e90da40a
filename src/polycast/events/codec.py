"""Events to bytes and back, in JSON and in MessagePack."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from polycast.errors import BadOptionError, NotDecodableError, NotSerialisableError, PolycastError
from polycast.events.decoder import ObjectDecoder
from polycast.events.encoder import ObjectEncoder, Writing
from polycast.events.record import Named
from polycast.events.wire_forms import Malformed, UnencodableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.events.wire_forms import Form
    from polycast.typesystem import Registry


class HasPayload(Named, Protocol):
    """What decoding needs: a `Record` has it, and so has an `Encoded`."""

    @property
    def payload(self) -> bytes:
        """The event itself."""


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """An event as bytes, with the name of its class."""

    name: str
    version: int
    hash: str
    codec: Literal["json", "msgpack"]
    payload: bytes


class EncodedRun(msgspec.Struct, frozen=True, gc=False):
    """Events of one class as bytes."""

    name: str
    version: int
    hash: str
    payloads: list[bytes]


class Codec:
    """A codec for events of every supported class, without loss."""

    def __init__(self, form: Form) -> None:
        self.form: Form = form
        self._module: Any = msgspec.json if form == "json" else msgspec.msgpack
        self._encode: Callable[[Any], bytes] = self._module.Encoder().encode
        self._decode: Callable[[bytes], Any] = self._module.Decoder().decode
        self._writer, self._reader = f"{form} writer", f"{form} reader"

    def __repr__(self) -> str:
        return f"Codec({self.form!r})"

    def encode(self, event: object, *, registry: Registry) -> Encoded:
        """Encode an event; its class, and those of all its parts, are bound in the registry."""
        try:
            writing = registry.attached[self._writer].known[id(type(event))]
            payload = self._encode(writing.quick(event))
        except (OverflowError, ValueError, RecursionError, LookupError, UnencodableError):
            # The first event of its class, or something that msgspec cannot write.
            writing, payload = self._encoded_with_care(event, registry)
        return Encoded(writing.name, writing.version, writing.hash, self.form, payload)

    def encode_runs(self, events: Iterable[object], *, registry: Registry) -> list[EncodedRun]:
        """Encode several events; consecutive ones of one class are grouped."""
        runs: list[EncodedRun] = []
        for _, alike in groupby(events, type):
            same = list(alike)
            try:
                writing = registry.attached[self._writer].known[id(type(same[0]))]
                quick, encode = writing.quick, self._encode
                payloads = [encode(quick(event)) for event in same]
            except (OverflowError, ValueError, RecursionError, LookupError, UnencodableError):
                each = [self._encoded_with_care(event, registry) for event in same]
                writing, payloads = each[0][0], [payload for _, payload in each]
            runs.append(EncodedRun(writing.name, writing.version, writing.hash, payloads))
        return runs

    def decode(self, encoded: HasPayload, *, registry: Registry) -> Any:
        """Decode an event, to its class or one made from its description."""
        try:
            return registry.derived[self._reader].quick[encoded.hash](encoded.payload)
        except (Malformed, UnencodableError, *_DAMAGE):
            # The first event of its class, or a mark somewhere.
            return self._decoded_with_care(encoded, registry)

    def glance(
        self, encoded: HasPayload, names: frozenset[str], *, registry: Registry
    ) -> Callable[[HasPayload], Any]:
        """Return a decoder for some attributes of the events of one class.

        If all of the class was made from descriptions, other attributes are left unread: they are
        `UNSET`, and nobody notices if they are broken. Any other event is decoded as a whole.
        """
        quick = self._reading(registry).glance(encoded.name, encoded.hash, names)
        whole = partial(self.decode, registry=registry)
        return whole if quick is None else partial(_glanced, quick, whole)

    def _reading(self, registry: Registry) -> ObjectDecoder:
        reader: ObjectDecoder | None = registry.derived.get(self._reader)
        if reader is None:
            reader = registry.derived[self._reader] = ObjectDecoder(self.form, registry)
        return reader

    def _decoded_with_care(self, encoded: HasPayload, registry: Registry) -> Any:
        reader = self._reading(registry)
        try:
            data = self._decode(encoded.payload)
            return reader.lift(data, encoded.name, encoded.version, encoded.hash)
        except NotDecodableError:
            raise
        except Malformed as malformed:
            raise NotDecodableError(_title(encoded), why=str(malformed)) from None
        except UnencodableError as refused:
            raise NotDecodableError(_title(encoded), why=refused.why) from None
        except _DAMAGE as error:
            why = f"{type(error).__name__}: {error}"
            raise NotDecodableError(_title(encoded), why=why) from error

    def _encoded_with_care(self, event: object, registry: Registry) -> tuple[Writing, bytes]:
        writer = registry.attached.get(self._writer)
        if writer is None:
            writer = registry.attached.setdefault(self._writer, ObjectEncoder(self.form, registry))
        try:
            writing = writer.writing(event)
            return writing, self._encode(writing.natural(event, set()))
        except UnencodableError as refused:
            path = type(event).__name__ + "".join(reversed(refused.path))
            raise NotSerialisableError(refused.value, path=path, why=refused.why) from None
        except (OverflowError, ValueError, RecursionError) as error:
            raise NotSerialisableError(event, path=type(event).__name__, why=str(error)) from None


def _glanced(
    quick: Callable[[bytes], Any], whole: Callable[[HasPayload], Any], encoded: HasPayload
) -> Any:
    try:
        return quick(encoded.payload)
    except (Malformed, UnencodableError, *_DAMAGE):  # a mark somewhere, or something is missing
        return whole(encoded)


def _title(encoded: HasPayload) -> str:
    return f"an event of class {encoded.name!r} version {encoded.version}"


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
    """Return the codec that a record names."""
    if form not in ("json", "msgpack"):
        raise BadOptionError.choice("codec", form, ("json", "msgpack"))
    return JSON if form == "json" else MSGPACK
