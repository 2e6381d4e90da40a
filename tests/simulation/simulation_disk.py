"""One disk under all stores: it syncs in its own time, fails, is full, and loses power."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import apsw
from proof_crash import Replay
from proof_vfs import Tape, TapeVFS
from simulation_scheduler import Death, Party, Scheduler

__all__ = ["SimulatedDisk"]

SLOWEST = 0.004  # seconds that a sync takes


class SimulatedDisk:
    """The files of a store, and what happens to those who use them."""

    def __init__(self, scheduler: Scheduler, folder: Path, *, lies: str | None = None) -> None:
        self._scheduler, self._lies = scheduler, lies
        self.path = folder / "events.db"
        self._connections: defaultdict[Party, list[apsw.Connection]] = defaultdict(list)
        self.sick: set[Party] = set()  # whose next sync fails, once
        self.full_until = 0.0
        self.is_away = False
        apsw.connection_hooks.append(self._opened)
        self._insert()

    def _insert(self) -> None:
        self._tape = Tape()
        self.layer = TapeVFS(tape=self._tape, before=self._ask, lies=self._lies)
        for file in sorted(self.path.parent.iterdir()):
            self.layer._inode(str(file))  # so that it has been there before the tape

    def _opened(self, connection: apsw.Connection) -> None:
        self._connections[self._scheduler.current.party].append(connection)

    def _ask(self, operation: str, name: str, size: int) -> None:
        del size
        scheduler = self._scheduler
        party = scheduler.current.party
        if operation == "read":
            return
        if party.is_dead:
            raise apsw.IOError("its process has died")
        if operation == "write" and scheduler.now < self.full_until:
            raise apsw.FullError("the disk is full")
        if operation != "sync" or party is scheduler.driver.party:
            return
        try:
            scheduler.sleep(SLOWEST * scheduler.dice.random())
        except Death:
            raise apsw.IOError("its process has died") from None
        if party in self.sick:
            self.sick.discard(party)
            raise apsw.IOError(f"a sync of {name} has failed")

    # -- what happens ------------------------------------------------------------------------------

    def release(self, party: Party) -> None:
        """Let go of what a dead process had open; nothing is written any more."""
        for connection in self._connections.pop(party, ()):
            try:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close(True)
            except apsw.Error:
                continue

    def fail_next_sync(self) -> None:
        """Fail a sync of each process that has the file open, as the kernel tells each once."""
        self.sick = {party for party in self._connections if not party.is_dead}

    def lose_power(self, dice: random.Random) -> None:
        """Leave of the files what may be left. Everybody has died."""
        self.move_back()
        for party in list(self._connections):
            self.release(party)
        replay = Replay(self._tape)
        replay.advance(len(self._tape.entries))
        states = replay.states(dice)
        folder = self.path.parent
        for file in folder.iterdir():
            file.unlink()
        for name, content in states.items():
            (folder / name).write_bytes(content)
        self.layer.unregister()
        self._insert()

    def move_away(self) -> None:
        """Take the file from where everybody looks for it."""
        self.is_away = True
        self.path.rename(self.path.with_name("elsewhere"))

    def move_back(self) -> None:
        """Put it back."""
        if not self.is_away:
            return
        self.is_away = False
        self.path.with_name("elsewhere").rename(self.path)

    def close(self) -> None:
        """Let go of all."""
        for party in list(self._connections):
            self.release(party)
        apsw.connection_hooks.remove(self._opened)
        self.layer.unregister()
