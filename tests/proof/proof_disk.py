"""A store on a disk that fails: a sync, a write that finds no room, a read."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
from proof_crash import Replay
from proof_power import NAME, Open, draft_of
from proof_vfs import Before, Tape, TapeVFS

from polycast.errors import PolycastError, StoreError
from polycast.stores.contract import Store
from polycast.stores.values import Draft

__all__ = ["FailAt", "FullAfter", "Ran", "run_on"]

AT_ONCE = 2.0  # seconds within which a store that has failed refuses
HANGS = 30.0
SIZES = (10, 500, 5_000, 50_000)  # bytes; the large ones bring a checkpoint now and then


class FailAt:
    """One operation of a kind fails, the n-th from when it is armed."""

    def __init__(self, operation: str, number: int, code: int) -> None:
        self._operation, self._left, self._code = operation, number, code
        self.happened = ""

    def __call__(self, operation: str, name: str, size: int) -> None:
        if operation != self._operation:
            return
        self._left -= 1
        if self._left == 0:
            self.happened = name
            raise apsw.exception_for(self._code)


class FullAfter:
    """No room is left after so many bytes, until the end."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.happened = ""

    def __call__(self, operation: str, name: str, size: int) -> None:
        if operation != "write":
            return
        self._room -= size
        if self._room < 0:
            self.happened = name
            raise apsw.exception_for(apsw.SQLITE_FULL)


class Ran:
    """What a run on a failing disk has shown."""

    def __init__(self) -> None:
        self.kept: dict[int, Draft] = {}
        self.attempted: list[Draft] = []
        self.refused: Exception | None = None
        self.opened = False
        self.checkpointing = False  # the fault was in moving what was written into the file
        self.wrong: list[str] = []

    @property
    def unexplained(self) -> bool:
        """Whether it was refused with an error that is not one of ours."""
        return self.refused is not None and not isinstance(self.refused, PolycastError)


def run_on(fault: Before, folder: Path, open_store: Open, *, appends: int, seed: int) -> Ran:
    """Append on a failing disk, then look at what is left; `wrong` is what was wrong."""
    folder.mkdir()
    tape, ran = Tape(), Ran()
    layer, wrong = TapeVFS(tape=tape, before=fault), ran.wrong
    if not _in_time(lambda: wrong.extend(_work(folder, open_store, layer, ran, appends, seed))):
        wrong.append("it hangs")
        return ran
    quiet = TapeVFS()
    wrong += _reopened(folder / NAME, ran, lambda path: open_store(path, quiet.name))
    replay, dice = Replay(tape), random.Random(seed)
    replay.advance(len(tape.entries))
    for n in range(3):
        after = folder / f"power-{n}"
        after.mkdir()
        for name, content in replay.states(dice).items():
            (after / name).write_bytes(content)
        found = _reopened(after / NAME, ran, lambda path: open_store(path, quiet.name))
        wrong += [f"and then the power was lost: {each}" for each in found]
    quiet.unregister()
    layer.unregister()
    return ran


def _work(
    folder: Path, open_store: Open, layer: TapeVFS, ran: Ran, appends: int, seed: int
) -> list[str]:
    dice = random.Random(seed)
    try:
        store = open_store(folder / NAME, layer.name)
    except (PolycastError, apsw.Error) as error:
        ran.refused = error
        return []
    except Exception as error:
        return [f"opening raised {type(error).__name__}: {error}"]
    ran.opened = True
    with closing(store):
        for number in range(1, appends + 1):
            draft = draft_of("p", number, dice.choice(SIZES), dice)
            ran.attempted.append(draft)
            try:
                (position,) = store.append([draft], timeout=HANGS)
            except StoreError as error:
                ran.refused = error
                return _after_failure(store, ran, error)
            except Exception as error:
                return [f"append raised {type(error).__name__}: {error}"]
            ran.kept[position] = draft
    return []


def _after_failure(store: Store, ran: Ran, error: StoreError) -> list[str]:
    wrong = []
    if store.failure is None:
        wrong.append(f"{error} was raised, and failure is not set")
    began = time.monotonic()
    later = draft_of("later", 1, 10, random.Random(0))
    for refused in (lambda: store.append([later]), lambda: _touch(store)):
        try:
            refused()
        except StoreError:
            continue
        except Exception as other:
            wrong.append(f"a later write raised {type(other).__name__}: {other}")
        else:
            wrong.append("a later write was accepted")
    if time.monotonic() - began > AT_ONCE:
        wrong.append("a later write was not refused at once")
    try:
        found = {each.position: each.record for each in store.read(1, limit=10**6).entries}
        wrong += _missing(found, ran)
    except Exception as other:
        wrong.append(f"reading does not go on: {type(other).__name__}: {other}")
    return wrong


def _touch(store: Store) -> None:
    store.write(lambda tx: tx.put_document("retention", "", b"later")).result(HANGS)


def _missing(found: dict[int, object], ran: Ran) -> list[str]:
    return [
        f"position {position} was acknowledged and is not there"
        for position, draft in ran.kept.items()
        if position not in found or draft.at(found[position].time) != found[position]  # type: ignore[attr-defined]
    ]


def _reopened(path: Path, ran: Ran, open_store: Callable[[Path], Store]) -> list[str]:
    if not path.exists():
        return ["the store is gone"] if ran.opened else []
    try:
        with closing(open_store(path)) as store:
            found = {each.position: each.record for each in store.read(1, limit=10**6).entries}
            wrong = _missing(found, ran)
            if list(found) != list(range(1, len(found) + 1)):
                wrong.append(f"there is a gap: {list(found)}")
            attempted = {draft.identity for draft in ran.attempted}
            if not {each.identity for each in found.values()} <= attempted:
                wrong.append("what is there was never appended")
            store.append([draft_of("after", 1, 10, random.Random(0))], timeout=HANGS)
        return wrong
    except Exception as error:
        return [f"it cannot be opened again: {type(error).__name__}: {error}"]


def _in_time(work: Callable[[], None]) -> bool:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(HANGS)
    return not thread.is_alive()
