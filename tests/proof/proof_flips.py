"""A store file with one bit flipped: either nobody is misled by it, or it is found."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import apsw
from proof_power import NAME, Snapshot, draft_of, snapshot

from polycast.config import level_named
from polycast.errors import StoreError
from polycast.events import Identity
from polycast.matching import Interest, definition_of, topic
from polycast.routing import encode_recipients
from polycast.stores.contract import Store, Transaction
from polycast.stores.doctor import examine
from polycast.stores.memory_store import MemoryStore
from polycast.stores.values import Flight, Letter, Stored, StoredSubscription, Stretch

__all__ = ["CLASSES", "STATE", "Answers", "answers", "fill", "flip", "flips", "verdict"]

CLASSES = (
    "harmless",
    "refused when opened",
    "refused when read",
    "found by the doctor",
    "the end is missing",  # it is as it was at an earlier moment
    "not explained",  # an error, but not one of ours that names the place
    "silent",  # the state is another one
    "wrong record",
)

STATE = (
    "subscriptions",
    "flights",
    "letters",
    "documents",
    "routes",
    "routing",
    "stretches",
)
"""The tables of the state that `fill` writes to."""

Answers = dict[str, object]
Opener = Callable[[Path], Store]


def fill(store: Store, *, events: int = 150, seed: int = 0) -> None:
    """Events of a few types and sizes, and some of each part of the state."""
    dice = random.Random(seed)
    for number in range(events):
        store.append([draft_of(f"p{number % 3}", number, dice.choice((5, 60, 700)), dice)])
    record = store.read(1, limit=1).entries[0].record

    def state(tx: Transaction) -> None:
        for name in ("one", "two"):
            tx.save(StoredSubscription(name, dice.randbytes(90), 3, 40, token=2))
            tx.fly([Flight(name, at, "p1", None, 3, 1, 5.0) for at in range(9)])
            tx.bury([Letter(0, name, 1, record, "no", 5, 1.0)])
        tx.put_document("retention", "", dice.randbytes(50))
        _route(tx, dice)

    store.write(state).result(30)


def _route(tx: Transaction, dice: random.Random) -> None:
    """What a pipeline keeps: what it routes for, how far it has come, and who takes what."""
    for number in range(20):
        what = topic(f"/a/{dice.getrandbits(64)}/**")
        definition = definition_of(Interest(what, None, level_named("list"))).encoded()
        tx.save(StoredSubscription(f"route {number}", definition, 3, 40))
        tx.begin_route(f"route {number}", definition)
    token, end = tx.take_routing().token, tx.newest() + 1
    cuts = [*range(1, end, 10), end]
    tx.advance(
        [Stretch(a, b, encode_recipients(a, [a, a + 1], [[1], [2, 3]])) for a, b in pairwise(cuts)],
        token=token,
    )


def answers(store: Store) -> Answers:
    """All that the store can be asked."""
    everything = read_all(store)
    kinds = store.types()
    return {
        "log": everything,
        "types": kinds,
        "by type": [entry for kind in kinds for entry in read_all(store, types=[kind])],
        "newest": (store.newest(), store.oldest()),
        "found": [store.find(Identity(f"p{n % 3}", 1, n)) for n in range(0, 150, 10)],
        "moments": store.position_at(everything[70].record.time) if len(everything) > 70 else None,
        "state": _state(store),
    }


def _state(store: Store) -> Snapshot:
    with store.view() as view:
        return (
            *view.descriptions(),
            *view.buses(),
            *view.adverts(),
            view.routed(),
            *view.routes(),
            *view.routes(at=view.newest() + 1),
            *view.turns(0, view.newest() + 2),
            *view.stretches(0, limit=1_000),
            *(view.route(each.name) for each in view.subscriptions()),
            snapshot(store),
        )


EMPTY = _state(MemoryStore())


def read_all(store: Store, *, types: list[int] | None = None) -> list[Stored]:
    """Every record, as a reader gets them: a read may end early, the next goes on from there."""
    found: list[Stored] = []
    at, end = store.oldest(), store.newest() + 1
    while at < end:
        batch = store.read(at, limit=50, until=end, types=types)
        found += batch.entries
        assert batch.upto > at, "a read that looks at nothing never ends"
        at = batch.upto
    return found


def flip(
    content: bytes, dice: random.Random, ranges: Sequence[range] | None = None
) -> tuple[bytes, int]:
    """The same with one bit changed, and which; only within ranges of bytes, if any are given."""
    within = dice.choice(ranges) if ranges else range(len(content))
    bit = dice.choice(within) * 8 + dice.randrange(8)
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed), bit


def verdict(
    folder: Path, true: Answers, open_store: Opener, *, earlier: Collection[Snapshot] = ()
) -> tuple[str, str]:
    """The class of a damaged store, and what tells it; `silent` is the one that must not be.

    `earlier` are states that it once had: with these it may be as it was at an earlier moment.
    """
    try:
        with closing(open_store(folder / NAME)) as store:
            try:
                given = answers(store)
            except StoreError as error:
                return "refused when read", str(error)
    except StoreError as error:
        return "refused when opened", str(error)
    except Exception as error:
        return "not explained", f"{type(error).__name__}: {error}"
    wrong = [key for key, answer in true.items() if given[key] != answer]
    if not wrong:
        return "harmless", ""
    found = checked(folder / NAME)
    told = f"{', '.join(wrong)}: {found}"
    if not _same_where_both_are(true, given):
        return "wrong record", told
    if found:
        return "found by the doctor", told
    is_earlier = _begins_alike(true, given) and given["state"] in earlier
    return ("the end is missing" if is_earlier else "silent"), told


def _same_where_both_are(true: Answers, given: Answers) -> bool:
    """Whether every record that was given is the true one."""
    known = {each.position: each.record for each in _records(true, "log")}
    got = [*_records(given, "log"), *_records(given, "by type")]
    return all(known.get(each.position) == each.record for each in got)


def _begins_alike(true: Answers, given: Answers) -> bool:
    whole, part = _records(true, "log"), _records(given, "log")
    return part == whole[: len(part)]


def _records(given: Answers, key: str) -> list[Stored]:
    found = given[key]
    assert isinstance(found, list)
    return found


def flips(
    folder: Path,
    open_store: Opener,
    *,
    part: str,
    seed: int,
    count: int,
    tables: Collection[str] = (),
) -> Iterator[tuple[str, str]]:
    """Flip a bit of one of the files, so often; the class of each, and what tells it.

    With `tables`, only bits of rows of these are flipped, none of the free space beside them.
    """
    files, true = _kept(folder, open_store, closed=part == NAME)
    # To SQLite a write-ahead log ends at its first damaged frame, as after a loss of power.
    earlier = () if part == NAME else (EMPTY, true["state"])
    dice, damaged = random.Random(seed), folder / "damaged"
    damaged.mkdir()
    ranges = list(_rows_of(folder / "origin" / NAME, tables)) if tables else None
    for _ in range(count):
        changed, bit = flip(files[part], dice, ranges)
        for name, content in (files | {part: changed}).items():
            (damaged / name).write_bytes(content)
        kind, told = verdict(damaged, true, open_store, earlier=earlier)
        for left in damaged.iterdir():
            left.unlink()
        yield kind, f"seed {seed}, bit {bit} of {part}: {kind}, {told}"


def _kept(folder: Path, open_store: Opener, *, closed: bool) -> tuple[dict[str, bytes], Answers]:
    """The files of a store that was closed, or of one that is open, and its true answers."""
    origin = folder / "origin"
    origin.mkdir()
    with closing(open_store(origin / NAME)) as store:
        fill(store)
        true = answers(store)
        files = {each.name: each.read_bytes() for each in _files(origin)}
    if closed:
        files = {each.name: each.read_bytes() for each in _files(origin)}
    return files, true


def _rows_of(path: Path, tables: Collection[str]) -> Iterator[range]:
    """Where in the file the rows of tables are: the end of each of their pages."""
    database = apsw.Connection(str(path))
    marks = ", ".join("?" * len(tables))
    asked = f"SELECT pgoffset, pgsize, unused FROM dbstat WHERE name IN ({marks})"
    for offset, size, unused in database.execute(asked, tuple(tables)).fetchall():
        yield range(offset + min(unused, size - 1), offset + size)
    database.close()


def _files(folder: Path) -> list[Path]:
    return [each for each in sorted(folder.iterdir()) if not each.name.endswith("-shm")]


def checked(path: Path) -> str:
    """What SQLite's own examination says, or else our doctor, if anything is wrong."""
    database = apsw.Connection(str(path))
    try:
        found = [row[0] for row in database.execute("PRAGMA integrity_check")]
        if found != ["ok"]:
            return "; ".join(map(str, found[:2]))
    except apsw.Error as error:
        return str(error)
    finally:
        database.close()
    # A key that was flipped makes a row of another name: only who reads all rows finds it.
    integrity = examine(path, sync_test=False).integrity
    return "; ".join(f"{each.place}: {each.why}" for each in integrity.damages) if integrity else ""
