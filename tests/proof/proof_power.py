"""A store at work over the tape, and what must be found in it after any loss of power."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import apsw
from msgspec.structs import replace
from proof_crash import Replay
from proof_vfs import Note, Tape, TapeVFS

from polycast.events import Identity, Record
from polycast.stores.contract import Store, Transaction, View
from polycast.stores.memory_store import MemoryStore
from polycast.stores.values import Draft, Flight, GroupMember, Letter, StoredSubscription

__all__ = ["Figures", "Open", "examine", "losses", "record_run", "snapshot"]

Open = Callable[[Path, str], Store]
"""Opens a store at a path over a file layer."""

Change = Callable[[Transaction], object]
Snapshot = tuple[object, ...]
NAME = "x.db"


@dataclass
class Figures:
    """What a run has shown."""

    states: int = 0
    losses: list[str] = field(default_factory=list)


# -- what is noted -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempted:
    """Drafts that are about to be appended."""

    drafts: Sequence[Draft]


@dataclass(frozen=True)
class Appended:
    """Drafts that are at these positions for good."""

    drafts: Sequence[Draft]
    positions: Sequence[int]


@dataclass(frozen=True)
class Cutting:
    """What is before a position is about to go, or (`done`) has gone."""

    before: int
    done: bool


@dataclass(frozen=True)
class Changing:
    """The state is about to become a snapshot, or (`done`) is."""

    after: Snapshot
    done: bool


@dataclass(frozen=True)
class Opened:
    """The store was made."""


# -- the work ------------------------------------------------------------------------------------


def draft_of(publisher: str, number: int, size: int, dice: random.Random) -> Draft:
    """A draft with random bytes."""
    return Draft(
        dice.choice(("Talk", "Keynote", "Panel")),
        1,
        "0" * 32,
        Identity(publisher, 1, number),
        "json",
        dice.randbytes(size),
        topic=dice.choice((None, "/a/b")),
        headers={"size": str(size)},
    )


def record_run(
    folder: Path, open_store: Open, *, seed: int, lies: str | None = None, phases: int = 3
) -> Tape:
    """Let a store work, opened several times, and give back the tape of it."""
    layer = TapeVFS(tape=Tape(), lies=lies)
    assert layer.tape is not None
    path = folder / NAME
    work = _Work(layer.tape, seed, lambda: apsw.Connection(str(path), vfs=layer.name))
    for phase in range(max(phases, 1)):
        with closing(open_store(path, layer.name)) as store:
            layer.tape.note(Opened())
            if phase < phases:
                work.phase(store)
    layer.unregister()
    return layer.tape


class _Work:
    """Several threads that append, one that changes the state, one that cuts the log."""

    def __init__(self, tape: Tape, seed: int, connect: Callable[[], apsw.Connection]) -> None:
        self._tape, self._connect = tape, connect
        self._dice = random.Random(seed)
        self._model = MemoryStore()
        self._numbers = {f"p{i}": 0 for i in range(3)}
        self._before = snapshot(self._model)
        tape.note(Changing(self._before, True))

    def phase(self, store: Store) -> None:
        """One opening of the store."""
        errors: list[BaseException] = []

        def guarded(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        jobs: list[Callable[[], None]] = [
            self._appending(store, publisher, random.Random(self._dice.random()))
            for publisher in self._numbers
        ]
        jobs.append(self._changing(store, random.Random(self._dice.random())))
        jobs.append(self._cutting(store, random.Random(self._dice.random())))
        jobs.append(self._checkpointing(random.Random(self._dice.random())))
        threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "the store hangs"
        if errors:
            raise errors[0]

    def _appending(self, store: Store, publisher: str, dice: random.Random) -> Callable[[], None]:
        def work() -> None:
            for _ in range(8):
                sizes = [
                    dice.choice((0, 20, 300, 5_000)) for _ in range(dice.choice((1, 1, 3, 10)))
                ]
                drafts = []
                for size in sizes:
                    self._numbers[publisher] += 1
                    drafts.append(draft_of(publisher, self._numbers[publisher], size, dice))
                self._tape.note(Attempted(drafts))
                positions = store.append(drafts, timeout=60)
                self._tape.note(Appended(drafts, positions))

        return work

    def _changing(self, store: Store, dice: random.Random) -> Callable[[], None]:
        def work() -> None:
            for change in _changes(dice, count=12):
                self._model.write(change).result(60)
                after = snapshot(self._model)
                self._tape.note(Changing(after, False))
                store.write(change).result(60)
                self._tape.note(Changing(after, True))

        return work

    def _cutting(self, store: Store, dice: random.Random) -> Callable[[], None]:
        def work() -> None:
            for _ in range(2):
                before = store.newest() - dice.randint(5, 40)
                if before > 1:
                    self._tape.note(Cutting(before, False))
                    store.truncate(before)
                    self._tape.note(Cutting(before, True))

        return work

    def _checkpointing(self, dice: random.Random) -> Callable[[], None]:
        """As another process may: far more often than a store does by itself."""

        def work() -> None:
            with closing(self._connect()) as other:
                other.execute("PRAGMA synchronous = FULL")
                other.set_busy_timeout(10_000)
                for _ in range(dice.randint(0, 8)):
                    threading.Event().wait(dice.random() / 100)
                    try:
                        other.wal_checkpoint(mode=dice.choice(_CHECKPOINTS))
                    except apsw.BusyError:
                        continue

        return work


_CHECKPOINTS = (
    apsw.SQLITE_CHECKPOINT_PASSIVE,
    apsw.SQLITE_CHECKPOINT_FULL,
    apsw.SQLITE_CHECKPOINT_RESTART,
    apsw.SQLITE_CHECKPOINT_TRUNCATE,
)


def _changes(dice: random.Random, *, count: int) -> Iterator[Change]:
    """Changes of the state that do the same in every store."""
    for _ in range(count):
        name = dice.choice(("one", "two"))
        position, number = dice.randint(1, 50), dice.randint(1, 1_000_000)
        kept = StoredSubscription(
            name, dice.randbytes(dice.choice((10, 2_000))), 1, position, token=7
        )
        flight = Flight(name, position, "p0", token=number, attempts=1, due=float(number))
        letter = Letter(0, name, position, _record(number), f"no {number}", 5, float(number))
        yield dice.choice(
            [
                lambda tx, kept=kept: tx.save(kept),
                lambda tx, name=name, to=number: tx.move(name, token=7, cursor=to),
                lambda tx, flight=flight: tx.fly([flight, replace(flight, position=77)]),
                lambda tx, flight=flight: tx.claim(flight),
                lambda tx, name=name, at=position: tx.land(name, [at, 77]),
                lambda tx, letter=letter: tx.bury([letter]),
                lambda tx, letter=letter: tx.bury([letter, letter]),
                lambda tx: tx.exhume([each.number for each in tx.letters(limit=1)]),
                lambda tx, name=name, n=number: tx.join(GroupMember(name, 1, n)),
                lambda tx, n=number: tx.put_document("retention", "", b"%d" % n),
            ]
        )


def _record(number: int) -> Record:
    return Record("Talk", 1, "0" * 32, Identity("p", 1, number), 1.0, "json", b"{}")


def snapshot(store: Store) -> Snapshot:
    """The state, in a form that can be compared."""
    with store.view() as view:
        return _state(view)


def _state(view: View) -> Snapshot:
    names = ("one", "two")
    return (
        tuple(view.subscriptions()),
        tuple(flight for name in names for flight in view.flights(name)),
        tuple(member for name in names for member in view.members(name)),
        tuple(replace(letter, number=0) for letter in view.letters()),
        tuple(view.documents("retention").items()),
    )


# -- the examination -----------------------------------------------------------------------------


class _Told:
    """What the program had been told up to a place on the tape."""

    def __init__(self) -> None:
        self.attempted: dict[Identity, Draft] = {}
        self.appended: dict[int, Draft] = {}
        self.cut = self.cutting = 1
        self.opened = False
        self.state: list[Snapshot] = []

    def hear(self, what: object) -> None:
        """Take in one note."""
        if isinstance(what, Attempted):
            self.attempted.update({draft.identity: draft for draft in what.drafts})
        elif isinstance(what, Appended):
            self.appended.update(zip(what.positions, what.drafts, strict=True))
        elif isinstance(what, Cutting):
            self.cutting = max(self.cutting, what.before)
            self.cut = max(self.cut, what.before) if what.done else self.cut
        elif isinstance(what, Changing):
            self.state = [what.after] if what.done else [*self.state, what.after]
        elif isinstance(what, Opened):
            self.opened = True


def losses(
    tape: Tape, folder: Path, open_store: Open, *, seed: int, states: int
) -> Iterator[str | None]:
    """For each of so many states: None, or what is wrong in it."""
    dice, replay, told, heard = random.Random(seed), Replay(tape), _Told(), 0
    quiet = TapeVFS()
    for n, at in enumerate(sorted(dice.choices(range(len(tape.entries) + 1), k=states))):
        replay.advance(at)
        for entry in tape.entries[heard:at]:
            if isinstance(entry, Note):
                told.hear(entry.what)
        heard = at
        place = folder / f"{seed}-{n}"
        wrong = examine(replay.states(dice), told, place, lambda path: open_store(path, quiet.name))
        yield wrong and f"seed {seed}, state {n} (at {at} of the tape): {wrong}"
    quiet.unregister()


def examine(
    state: dict[str, bytes], told: _Told, folder: Path, open_store: Callable[[Path], Store]
) -> str | None:
    """What is wrong with a state of the files, if anything is."""
    folder.mkdir()
    for name, content in state.items():
        (folder / name).write_bytes(content)
    path = folder / NAME
    if told.opened and not path.exists():
        return "the store is gone"
    try:
        with closing(open_store(path)) as store:
            wrong = _log_wrong(store, told) or _state_wrong(store, told) or _not_writable(store)
        return wrong or _not_whole(path)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        for left in folder.iterdir():
            left.unlink()
        folder.rmdir()


def _log_wrong(store: Store, told: _Told) -> str | None:
    found = {each.position: each.record for each in store.read(store.oldest(), limit=10**6).entries}
    oldest, newest = store.oldest(), store.newest()
    if list(found) != list(range(oldest, newest + 1)):
        return f"positions {list(found)} are not all from {oldest} to {newest}"
    if oldest > max(told.cutting, 1):
        return f"the oldest is {oldest}, and nobody has cut further than {told.cutting}"
    if oldest < told.cut:
        return f"the oldest is {oldest}, and all before {told.cut} was cut"
    for position, draft in told.appended.items():
        if position >= oldest and position not in found:
            return f"position {position} was acknowledged and is not there"
        if position in found and found[position] != draft.at(found[position].time):
            return f"position {position} is not what was appended"
    for position, record in found.items():
        draft = told.attempted.get(record.identity)
        if draft is None or draft.at(record.time) != record:
            return f"nobody has appended what is at {position}"
    if len({record.identity for record in found.values()}) != len(found):
        return "an identity is there twice"
    return None


def _state_wrong(store: Store, told: _Told) -> str | None:
    if told.opened or snapshot(store) != _EMPTY:
        found = snapshot(store)
        if found not in told.state:
            return f"the state is {found}, none of {told.state}"
    return None


def _not_writable(store: Store) -> str | None:
    draft = draft_of("after", 1, 100, random.Random(0))
    expected = store.newest() + 1
    positions = store.append([draft], timeout=60)
    again = store.append([draft], timeout=60)
    return None if positions == again == [expected] else f"appended at {positions}, then {again}"


def _not_whole(path: Path) -> str | None:
    database = apsw.Connection(str(path))
    try:
        found = database.pragma("integrity_check")
        return None if found == "ok" else f"integrity_check: {found}"
    finally:
        database.close()


_EMPTY = snapshot(MemoryStore())
