"""Descriptions of types from clients: for everybody if granted, else for their own use only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.broker.wire.frames import decode_description
from polycast.errors import LimitReachedError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    import msgspec

    from polycast.broker.server.authorization import Authorization
    from polycast.broker.server.type_catalog import TypeCatalog
    from polycast.broker.server.usage import ConnectionUsage
    from polycast.typesystem import Description

__all__ = ["PrivateDescriptions", "read_descriptions"]

LARGEST = 300_000  # bytes of a description: some 2,000 fields
MOST = 2_000  # descriptions in one message, and of those that are private to one client
SMALL = 2_000  # bytes of a description that needs no turn of its own


class PrivateDescriptions:
    """Descriptions that one client may not publish for everybody.

    They describe the types of its own subscriptions. They affect no other client's rights and
    routes, and no event can be published with them.
    """

    def __init__(self) -> None:
        self.descriptions: dict[str, Description] = {}

    def sort(
        self,
        descriptions: Sequence[Description],
        authorization: Authorization,
        catalog: TypeCatalog,
        usage: ConnectionUsage,
    ) -> tuple[list[Description], list[str]]:
        """New public descriptions, and the hashes of new private ones."""
        new = catalog.unknown(descriptions)
        allowed = authorization.types.describable(new)
        public = [description for description in new if description.hash in allowed]
        private = [description for description in new if description.hash not in allowed]
        hashes = [description.hash for description in private]
        many = len(self.descriptions.keys() | set(hashes))
        if many > MOST:
            text = (
                f"{len(private)} more descriptions without a describe grant that covers their "
                f"names, such as {private[-1].name!r}; {len(self.descriptions)} are there, up to "
                f"{MOST} are accepted from one connection"
            )
            raise LimitReachedError("types", text, {"limit": MOST})
        usage.hold(authorization.principal, "types", many)
        authorization.types.check_quota(public)
        self.descriptions.update(zip(hashes, private, strict=True))
        catalog.add(public)
        return public, hashes


def read_descriptions(raw: Sequence[msgspec.Raw]) -> Generator[None, None, list[Description]]:
    """Decode and hash descriptions one at a time; yields between two of them."""
    if len(raw) > MOST:
        text = f"{len(raw):,} descriptions at once; up to {MOST:,} are accepted"
        raise LimitReachedError("types", text, {"limit": MOST})
    descriptions: list[Description] = []
    for data in raw:
        size = memoryview(data).nbytes
        if size > LARGEST:
            text = f"a description of {size:,} bytes; up to {LARGEST:,} are accepted"
            raise LimitReachedError("types", text, {"limit": LARGEST})
        descriptions.append(decode_description(data))
        _ = descriptions[-1].hash  # hashing costs as much as decoding
        if size > SMALL:
            yield
    return descriptions
