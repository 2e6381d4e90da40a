"""What clients say of types: for all, if they may; else for their own subscriptions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from polycast.broker.wire.frames import decode_description
from polycast.errors import LimitReachedError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    import msgspec

    from polycast.broker.server.authorization import Guard
    from polycast.broker.server.type_ancestry import Vocabulary
    from polycast.broker.server.usage import Using
    from polycast.typesystem import Description

__all__ = ["Heard", "Private", "read_descriptions"]

LARGEST = 300_000  # bytes of a description: some 2,000 fields
MOST = 2_000  # descriptions in one message, and of those that are private to one client
SMALL = 2_000  # bytes of a description after which others need no turn


class Heard(NamedTuple):
    """What becomes of some descriptions."""

    public: list[Description]
    """Those to keep, for all to go by."""
    private: list[str]
    """The hashes of those that nobody else goes by."""


class Private:
    """Descriptions of one client that it may not give to all.

    They say what its subscriptions mean by their types. No right and no route of anybody else goes
    by them, and no event can be of them.
    """

    def __init__(self) -> None:
        self.descriptions: dict[str, Description] = {}

    def heard(
        self,
        descriptions: Sequence[Description],
        guard: Guard,
        vocabulary: Vocabulary,
        using: Using,
    ) -> Heard:
        """Sort out what is for all; what is known already is neither."""
        new = vocabulary.unknown(descriptions)
        allowed = guard.describable(new)
        public = [each for each in new if each.hash in allowed]
        private = [each for each in new if each.hash not in allowed]
        many = len(self.descriptions.keys() | {each.hash for each in private})
        if many > MOST:
            text = (
                f"{len(private)} more descriptions without a describe grant that covers their "
                f"names, such as {private[-1].name!r}; {len(self.descriptions)} are there, up to "
                f"{MOST} are accepted from one connection"
            )
            raise LimitReachedError("types", text, {"limit": MOST})
        using.hold(guard.who, "types", many)
        guard.check_types(public)
        self.descriptions.update({each.hash: each for each in private})
        vocabulary.add(public)
        return Heard(public, [each.hash for each in private])


def read_descriptions(raw: Sequence[msgspec.Raw]) -> Generator[None, None, list[Description]]:
    """Decode descriptions one at a time, and take their hashes; yields between two of them."""
    if len(raw) > MOST:
        text = f"{len(raw):,} descriptions at once; up to {MOST:,} are accepted"
        raise LimitReachedError("types", text, {"limit": MOST})
    found: list[Description] = []
    for data in raw:
        size = memoryview(data).nbytes
        if size > LARGEST:
            text = f"a description of {size:,} bytes; up to {LARGEST:,} are accepted"
            raise LimitReachedError("types", text, {"limit": LARGEST})
        found.append(decode_description(data))
        _ = found[-1].hash  # which costs as much as reading it
        if size > SMALL:
            yield
    return found
