"""Notifications of commits among the stores that have the same file open.

Every open store listens on a datagram socket that is listed in the file; a commit sends one byte to
each. Where sockets do not work, and to be safe while other stores are listed, a store also polls
the file every 50 ms. A store that is alone neither sends nor polls.
"""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import apsw

from polycast.errors import StoreError
from polycast.runtime import SYSTEM, Runtime
from polycast.stores.liveness import may_live
from polycast.stores.sqlite.row_format import fetch, fetch_one

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from polycast.stores.sqlite.connections import Readers

LOOK_SECONDS = 0.05
_LONGEST = 100  # bytes of a socket's path; the systems allow a few more


class Peers:
    """The other open stores, as the writer knows them; used in its thread only."""

    def __init__(self, address: str, *, runtime: Runtime = SYSTEM) -> None:
        self.address = address
        self._known = -1
        self._others: list[tuple[int, str, int]] = []
        self._socket = runtime.datagrams()

    def refresh(self, connection: apsw.Connection, listening: int) -> None:
        """Reload the list if it has changed."""
        if listening != self._known:
            self._known = listening
            self._others = [
                row
                for row in fetch(connection, "SELECT number, address, process FROM listeners")
                if row[1] and row[1] != self.address
            ]

    def register(self, connection: apsw.Connection) -> None:
        """Register this store, and remove dead stores that had no socket."""
        for number, address, process in fetch(connection, "SELECT * FROM listeners"):
            if not address and not may_live(process):
                connection.execute("DELETE FROM listeners WHERE number = ?", (number,))
        connection.execute(
            "INSERT INTO listeners(address, process) VALUES (?, ?)", (self.address, os.getpid())
        )
        connection.execute("UPDATE counters SET listening = listening + 1")

    def unregister(self, connection: apsw.Connection) -> None:
        """Unregister this store."""
        connection.execute(
            "DELETE FROM listeners WHERE number = (SELECT number FROM listeners "
            "WHERE address = ? AND process = ? LIMIT 1)",
            (self.address, os.getpid()),
        )
        connection.execute("UPDATE counters SET listening = listening + 1")

    def notify(self) -> list[int]:
        """Wake the others without waiting for them; return the numbers of dead ones."""
        if self._socket is None or not self._others:
            return []
        gone = [row for row in self._others if not _send(self._socket, row[1], row[2])]
        for row in gone:
            self._others.remove(row)
        return [number for number, _, _ in gone]

    def remove(self, connection: apsw.Connection, numbers: Sequence[int]) -> None:
        """Remove dead stores from the list."""
        connection.executemany(
            "DELETE FROM listeners WHERE number = ?", [(number,) for number in numbers]
        )
        connection.execute("UPDATE counters SET listening = listening + 1")

    def close(self) -> None:
        """Close the sending socket."""
        if self._socket is not None:
            self._socket.close()


def _send(sender: socket.socket, address: str, process: int) -> bool:
    """Send a byte; return whether the receiver may be alive."""
    try:
        sender.sendto(b"\0", address)
    except ConnectionRefusedError:  # its process died and left the socket file
        with suppress(OSError):
            if stat.S_ISSOCK(os.lstat(address).st_mode):  # a damaged list might name another file
                os.unlink(address)
        return False
    except FileNotFoundError:
        return may_live(process)  # if so, its folder is not visible here; it polls
    except OSError:
        return True  # its queue is full: it will wake up anyway
    except ValueError:
        return False  # no address at all
    return True


def answers(address: str, process: int) -> bool:
    """Wake a listed store; return whether it is alive."""
    sender = SYSTEM.datagrams()
    if sender is None or not address:
        return may_live(process)
    with sender:
        return _send(sender, address, process)


class ChangeListener:
    """Receives notifications from other stores, and calls the watchers of this one."""

    def __init__(
        self,
        path: str,
        readers: Readers,
        watchers: list[Callable[[], None]],
        *,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self._readers, self._watchers, self._runtime = readers, watchers, runtime
        self._stopped = False
        self.looking = True  # whether it polls the file
        self._socket, self.address = _bound(path, runtime)
        self._thread = runtime.thread(self._run, name="polycast-wake")

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self, *, wait: bool) -> None:
        """End the thread, and remove the socket from its folder."""
        self._stopped = True
        if self.address:
            answers(self.address, os.getpid())
            with suppress(OSError):
                os.unlink(self.address)
        if wait and threading.current_thread() is not self._thread and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._hear()
        finally:
            if self._socket is not None:
                self._socket.close()

    def _hear(self) -> None:
        try:
            connection = self._readers.open()
        except (apsw.Error, StoreError, OSError):
            return  # own commits still wake watchers; there is nothing to poll
        with closing(connection):
            self._listen(connection)

    def _listen(self, connection: apsw.Connection) -> None:
        seen = -1
        while True:
            woken = self._wait(LOOK_SECONDS if self.looking else None)
            if self._stopped:
                return
            try:
                version = fetch_one(connection, "PRAGMA data_version")
                if version == seen and not woken:
                    continue
                seen, self.looking = version, self._must_look(connection)
            except apsw.Error:
                continue  # readers report a file that cannot be read
            for watcher in tuple(self._watchers):
                with suppress(Exception):  # a watcher that raises must not stop the others
                    watcher()

    def _must_look(self, connection: apsw.Connection) -> bool:
        if not self.address:
            return True
        listed = [row[0] for row in fetch(connection, "SELECT address FROM listeners")]
        return listed != [self.address]  # until this store is listed itself, nobody can wake it

    def _wait(self, seconds: float | None) -> bool:
        """Wait for a byte; return whether one came."""
        if self._socket is None:
            self._runtime.sleep(LOOK_SECONDS)
            return False
        self._socket.settimeout(seconds)
        try:
            self._socket.recv(1)
        except TimeoutError:
            return False
        except OSError:
            return True
        self._socket.setblocking(False)
        with suppress(OSError):  # one notification serves for all that have arrived
            while True:
                self._socket.recv(1)
        return True


def _bound(path: str, runtime: Runtime) -> tuple[socket.socket | None, str]:
    """Bind a socket to a short name in the temporary folder, if possible."""
    name = f"pc-{os.getpid():x}-{runtime.token(4)}"
    address = os.path.join(tempfile.gettempdir(), name)
    receiver = runtime.datagrams() if len(os.fsencode(address)) <= _LONGEST else None
    if receiver is None:
        return None, ""
    try:
        receiver.bind(address)
        # Whoever may write to the store may wake this one.
        os.chmod(address, stat.S_IMODE(os.stat(path).st_mode))
    except OSError:
        receiver.close()
        return None, ""
    return receiver, address
