"""What happened, one JSON line per operation, written so that `kill -9` tears at most the last."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from polycast.events import Identity

__all__ = ["History", "Op", "Payload", "digest", "merged", "read_history"]

Payload = dict[str, Any]

Kind = Literal[
    "attempted",  # before publishing: key, type, payload
    "accepted",  # key, identity, position
    "unknown",  # a timeout: key, identity
    "refused",  # an error: nothing was stored
    "log",  # read from the log afterwards: key, type, payload, identity, position
    "subscribed",  # subscription
    "detached",  # subscription
    "ended",  # its lease ran out, or it was cancelled or taken over
    "begun",  # a delivery: subscription, identity, position, count, token
    "effect",  # the same and the digest of what was seen
    "failed",  # its callback raised: why
    "settled",  # its acknowledgement was accepted
    "buried",  # it is in the dead letters: subscription, identity
]


class Op(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of one operation in one process; `at` is monotonic and common to the host."""

    kind: Kind
    process: str
    at: int
    subscription: str = ""
    key: str = ""  # names an event before it has an identity
    identity: Identity | None = None
    position: int = 0
    count: int = 0
    token: int = 0
    type: str = ""
    payload: Payload | None = None
    digest: str = ""
    why: str = ""


def digest(payload: Payload) -> str:
    """What tells one payload from another."""
    ordered = msgspec.json.encode(payload, order="deterministic")
    return hashlib.blake2b(ordered, digest_size=8).hexdigest()


class History:
    """The lines of one process, one `write` each, appended."""

    def __init__(self, path: Path, process: str) -> None:
        self._process = process
        self._encode = msgspec.json.Encoder().encode
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if path.stat().st_size:
            os.write(self._file, b"\n")  # a predecessor that was killed may have torn its last

    def write(self, kind: Kind, **fields: Any) -> None:
        """Note an operation now."""
        op = Op(kind, self._process, time.monotonic_ns(), **fields)
        os.write(self._file, self._encode(op) + b"\n")

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def read_history(path: Path) -> list[Op]:
    """The whole lines of a file; what a kill has torn is left out."""
    decoder = msgspec.json.Decoder(Op)
    found = []
    for line in path.read_bytes().split(b"\n"):
        try:
            found.append(decoder.decode(line))
        except msgspec.DecodeError:
            continue
    return found


def merged(histories: Iterable[Iterable[Op]]) -> list[Op]:
    """All operations in the order in which they ended; each process's own order is kept."""
    return sorted((op for history in histories for op in history), key=lambda op: op.at)
