"""The maintenance job of a broker: declares buses dead, and deletes what has expired."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from polycast.broker.server.log_rate_limit import server_log
from polycast.broker.server.ownership import forget_owners
from polycast.errors import PolycastError
from polycast.stores import retain
from polycast.stores.liveness import AgeClock
from polycast.subscriptions.heartbeat import FailureDetector

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.broker.server.usage import Usage
    from polycast.config import Clock
    from polycast.stores import Store, Transaction

BEAT = 1.0  # seconds between two checks for dead buses
EVERY = 10.0  # seconds between two clean-ups
FORGOTTEN = 24 * 3600.0  # seconds after which no client repeats a transaction
_log = server_log()


class Maintenance:
    """Runs in every broker; several over one store do not disturb each other."""

    def __init__(
        self, store: Store, clock: Clock, at_each_beat: Callable[[], None], usage: Usage
    ) -> None:
        self._store, self._usage = store, usage
        self._detector = FailureDetector(clock)
        self._ages, self._answered = AgeClock(clock), AgeClock(clock)
        self._at_each_beat = at_each_beat

    async def run(self) -> None:
        """Run until cancelled."""
        loop, beats = asyncio.get_running_loop(), 0
        while True:
            await asyncio.sleep(BEAT)
            beats += 1
            try:
                self._at_each_beat()
                if self._store.failure is None:
                    await asyncio.wrap_future(self._store.write(self._bury))
                    if beats % int(EVERY / BEAT) == 0:
                        await loop.run_in_executor(None, self.clean_up)
            except PolycastError as error:
                _log.warning("the store was not tended: %s", error)
            except Exception:  # the next beat tries again
                _log.exception("the store was not tended")

    def _bury(self, tx: Transaction) -> None:
        self._detector.bury_dead(tx, mine=None)

    def clean_up(self) -> None:
        """Delete what has expired, and save how much of their quotas owners use."""
        retain(self._store, self._ages.now)
        before = self._answered.now(FORGOTTEN) - FORGOTTEN
        self._store.write(lambda tx: tx.drop_answers(before)).result()
        self._store.write(self._count_names).result()
        self._usage.save()

    def _count_names(self, tx: Transaction) -> None:
        names = forget_owners(tx)
        tx.after(lambda: self._usage.count(names))
