"""Events on their way: identity, record and envelope, codecs."""

from polycast.events.codec import JSON, MSGPACK, Codec, Encoded, EncodedRun, HasPayload, codec_for
from polycast.events.identity import Identity
from polycast.events.record import FORMAT, Record, decode_record, encode_record, record_encoder

__all__ = [
    "FORMAT",
    "JSON",
    "MSGPACK",
    "Codec",
    "Encoded",
    "EncodedRun",
    "HasPayload",
    "Identity",
    "Record",
    "codec_for",
    "decode_record",
    "encode_record",
    "record_encoder",
]
