"""Events as data: identity, record and envelope, codecs."""

from polycast.events.codec import JSON, MSGPACK, Codec, Encoded, EncodedRun, HasPayload, codec_for
from polycast.events.record import (
    CONTEXT_FORMAT,
    FORMAT,
    Identity,
    Record,
    Root,
    decode_record,
    encode_record,
    record_encoder,
    rooted_encoder,
)
from polycast.events.structured_event import StructuredEvent, TaggedUnion

__all__ = [
    "CONTEXT_FORMAT",
    "FORMAT",
    "JSON",
    "MSGPACK",
    "Codec",
    "Encoded",
    "EncodedRun",
    "HasPayload",
    "Identity",
    "Record",
    "Root",
    "StructuredEvent",
    "TaggedUnion",
    "codec_for",
    "decode_record",
    "encode_record",
    "record_encoder",
    "rooted_encoder",
]
