"""The states in which a loss of power may leave files, made from a tape.

What was synced stays. Of what was written since, each sector of 512 bytes has any of its versions;
names and sizes that were not synced are the new ones or the old ones.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field

from proof_vfs import Failed, Inode, Link, Sync, Tape, Truncate, Unlink, Write

__all__ = ["SECTOR", "Replay"]

SECTOR = 512
Change = Write | Truncate


@dataclass
class _Disk:
    """One file: what is safe, and what is not yet, with where on the tape it is."""

    safe: bytearray
    loose: list[tuple[int, Change]] = field(default_factory=list)

    def sync(self, began: int) -> None:
        for at, change in self.loose:
            if at < began:
                _apply(self.safe, change)
        self.loose = [(at, change) for at, change in self.loose if at >= began]

    def fail(self, began: int) -> None:
        self.loose = [(at, change) for at, change in self.loose if at >= began]

    def after_power_loss(self, dice: random.Random) -> bytes:
        changes = [change for _, change in self.loose]
        how = dice.choice(("none", "all", "first", "sectors", "sectors"))
        if how == "none":
            changes = []
        elif how == "first":
            changes = changes[: dice.randint(0, len(changes))]
        elif how == "sectors":
            changes = _some_sectors(dice, changes)
        left = bytearray(self.safe)
        for change in changes:
            _apply(left, change)
        return bytes(left)


class Replay:
    """The tape, played up to any point and on."""

    def __init__(self, tape: Tape) -> None:
        self._entries = tape.entries
        self._at = 0
        self._disks: dict[Inode, _Disk] = {}
        self._names: dict[str, Inode | None] = dict(tape.before)
        self._loose: list[tuple[int, str, Inode | None]] = []
        for inode in tape.before.values():
            self._disks[inode] = _Disk(bytearray(inode.before))

    def advance(self, upto: int) -> None:
        """Play all before a place on the tape."""
        for at in range(self._at, upto):
            self._play(at)
        self._at = max(self._at, upto)

    def states(self, dice: random.Random) -> dict[str, bytes]:
        """The files that may be there if the power is lost now."""
        names = dict(self._names)
        by_name: dict[str, list[Inode | None]] = defaultdict(list)
        for _, name, inode in self._loose:
            by_name[name].append(inode)
        for name, changes in by_name.items():
            kept = changes[: dice.randint(0, len(changes))]
            if kept:
                names[name] = kept[-1]
        return {
            name: self._disks[inode].after_power_loss(dice)
            for name, inode in sorted(names.items())
            if inode is not None
        }

    def _play(self, at: int) -> None:
        entry = self._entries[at]
        if isinstance(entry, Write | Truncate):
            self._disks[entry.file].loose.append((at, entry))
        elif isinstance(entry, Sync):
            self._disks[entry.file].sync(entry.began)
            if entry.names:
                self._sync_names(entry.began)
        elif isinstance(entry, Failed):
            self._disks[entry.file].fail(entry.began)
        elif isinstance(entry, Link):
            self._disks[entry.file] = _Disk(bytearray())
            self._loose.append((at, entry.name, entry.file))
        elif isinstance(entry, Unlink):
            self._loose.append((at, entry.name, None))
            if entry.synced:
                self._sync_names(at + 1)

    def _sync_names(self, began: int) -> None:
        for at, name, inode in self._loose:
            if at < began:
                self._names[name] = inode
        self._loose = [each for each in self._loose if each[0] >= began]


def _apply(content: bytearray, change: Change) -> None:
    if isinstance(change, Write):
        _grow(content, change.offset)
        content[change.offset : change.offset + len(change.data)] = change.data
    elif change.size < len(content):
        del content[change.size :]
    else:
        _grow(content, change.size)


def _grow(content: bytearray, size: int) -> None:
    if size > len(content):
        content.extend(bytes(size - len(content)))


def _some_sectors(dice: random.Random, changes: list[Change]) -> list[Change]:
    """For each sector the first few of its versions; truncations happen or not."""
    pieces = [piece for change in changes for piece in _pieces(change)]
    versions: dict[int, int] = defaultdict(int)
    for piece in pieces:
        if isinstance(piece, Write):
            versions[piece.offset // SECTOR] += 1
    whole = dice.random()
    for sector, count in versions.items():
        versions[sector] = count if dice.random() < whole else dice.randint(0, count)
    kept: list[Change] = []
    for piece in pieces:
        if isinstance(piece, Truncate):
            if dice.random() < 0.5:
                kept.append(piece)
        elif versions[piece.offset // SECTOR] > 0:
            versions[piece.offset // SECTOR] -= 1
            kept.append(piece)
    return kept


def _pieces(change: Change) -> list[Change]:
    if isinstance(change, Truncate):
        return [change]
    found: list[Change] = []
    start, end = change.offset, change.offset + len(change.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        piece = change.data[start - change.offset : stop - change.offset]
        found.append(Write(change.file, start, piece))
        start = stop
    return found
