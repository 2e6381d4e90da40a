"""What a command works on: the file of a store, or a broker, opened as the command needs it."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from polycast.broker.client.dialer import addresses_of, is_remote
from polycast.bus.bus import Bus
from polycast.errors import BadOptionError, NotAvailableError
from polycast.stores.doctor import open_readonly
from polycast.stores.sqlite import SqliteStore
from polycast.stores.sqlite.readonly_store import ReadOnlyStore, translated
from polycast.stores.urls import path_of

if TYPE_CHECKING:
    import ssl
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.broker.client.remote_store import RemoteStore
    from polycast.cli.terminal import Terminal
    from polycast.stores import Store

PROGRAM = "polycast command"  # how a broker knows it
_LOOK = 0.1  # seconds between two looks at whether a file was written
_AGAIN = 1.0  # seconds after which a broker is asked, should its word have been lost
_ACCEPTED = (
    "a path, or 'sqlite:///' and a path, or 'polycast://host:7788' of a broker; what is in memory "
    "ends with its process"
)


@dataclass(frozen=True)
class StorePlace:
    """Where a store is, and how it is reached."""

    text: str
    token: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    allow_plain_token: bool = False

    @property
    def is_broker(self) -> bool:
        """Whether it is not a file."""
        return is_remote(self.text)

    def file(self, what: str) -> str:
        """The file of the store; `NotAvailableError` for a broker, which has it elsewhere."""
        if self.is_broker:
            raise NotAvailableError(
                f"{what} through a broker",
                why="it needs the file of the store itself",
                instead="Run it where the broker runs, and name the file, as in events.db",
            )
        return file_of(self.text)

    @property
    def url(self) -> str:
        """What a bus is opened with."""
        return self.text if self.is_broker else f"sqlite:///{file_of(self.text)}"

    @contextmanager
    def looking(self) -> Iterator[Store]:
        """Read the store, which must be there; of a file nothing is changed."""
        if self.is_broker:
            with self.reached() as remote:
                yield cast("Store", remote)
            return
        with open_readonly(file_of(self.text)) as store:
            yield cast("Store", store)

    @contextmanager
    def changing(self) -> Iterator[Store]:
        """Open the store, which must be there, to change its state."""
        if self.is_broker:
            with self.reached() as remote:
                yield cast("Store", remote)
            return
        path = file_of(self.text)
        with (
            open_readonly(path),
            translated(path),
        ):  # refuses, without touching it, what is no store
            store = SqliteStore(path, create=False)
        try:
            yield cast("Store", store)
        finally:
            store.close()

    @contextmanager
    def reached(self) -> Iterator[RemoteStore]:
        """The store of a broker."""
        from polycast.broker.client.client_connection import ConnectionOptions
        from polycast.broker.client.remote_store import RemoteStore  # loaded only where it is used

        options = ConnectionOptions(
            addresses_of(self.text),
            token=self._secret(),
            tls=self._tls(),
            program=PROGRAM,
            allow_plain_token=self.allow_plain_token,
        )
        store = RemoteStore(options)
        try:
            yield store
        finally:
            store.close()

    def bus(self, **options: Any) -> Bus:
        """A bus over the store, which must be there."""
        if self.is_broker:
            options["allow_plain_token"] = self.allow_plain_token
            return Bus(self.text, token=self._secret(), tls=self._tls(), **options)
        with open_readonly(file_of(self.text)):  # a file is not made by a slip of the pen
            pass
        return Bus(self.url, **options)

    def _secret(self) -> str | None:
        return self.token or os.environ.get("POLYCAST_TOKEN") or None

    def _tls(self) -> ssl.SSLContext | None:
        from polycast.broker.wire.security import tls_client_context

        if not any(address.is_secure for address in addresses_of(self.text)):
            return None
        return tls_client_context(self.ca, cert=self.cert, key=self.key)


def place_of(given: Namespace) -> StorePlace:
    """What a command line names."""
    about = (given.token, given.tls_ca, given.tls_cert, given.tls_key, given.allow_plain_token)
    return StorePlace(given.store, *about)


def file_of(store: str) -> str:
    """The file of a store that is given as a path or as the URL of a bus."""
    if not is_url(store):
        return store
    path = None if store.startswith("memory:") else path_of(store)
    if path is None:
        raise BadOptionError("store", store, accepted=_ACCEPTED)
    return path


def is_url(store: str) -> bool:
    """Whether it is no plain path."""
    return "://" in store or store.startswith(("sqlite:", "memory:"))


def time_at(store: Store, terminal: Terminal) -> float:
    """Now, by the clock that those who use a store go by."""
    if isinstance(store, ReadOnlyStore | SqliteStore):
        return terminal.clock.time()
    return cast("RemoteStore", store).clock.time()


class WriteSignal:
    """Tells when something was written after `mark`."""

    def __init__(self, store: Store) -> None:
        self._file = store if isinstance(store, ReadOnlyStore) else None
        self._rung = threading.Event()
        self._seen = 0
        if self._file is None:
            store.watch(self._rung.set)

    def mark(self) -> None:
        """What was written until now is known."""
        self._rung.clear()
        if self._file is not None:
            self._seen = self._file.changes()

    def wait(self) -> None:
        """Return when something was written since, or may have been."""
        if self._file is None:
            self._rung.wait(_AGAIN)
            return
        while self._file.changes() == self._seen:
            self._rung.wait(_LOOK)
