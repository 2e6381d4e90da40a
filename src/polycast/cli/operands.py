"""What the arguments of commands mean: types, filters, modules, bounds, stores and brokers."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from polycast.broker.client.dialer import addresses_of, is_remote
from polycast.bus.bus import Bus
from polycast.cli.lossless_json import place_in
from polycast.cli.terminal import Terminal, UsageError
from polycast.contexts import Context
from polycast.errors import BadOptionError, NotAvailableError
from polycast.errors.root import did_you_mean
from polycast.filters import Filter
from polycast.registered_names import imported
from polycast.routing.route_table import class_named
from polycast.stores import Store, path_of
from polycast.stores.doctor import open_readonly
from polycast.stores.sqlite import SqliteStore
from polycast.stores.sqlite.readonly_store import ReadOnlyStore, translated
from polycast.typesystem import Registry

if TYPE_CHECKING:
    import ssl
    from argparse import Namespace
    from collections.abc import Callable, Collection
    from types import ModuleType

    from polycast.broker.client.remote_store import RemoteStore

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

    def looking(self) -> AbstractContextManager[Store]:
        """Read the store, which must be there; of a file nothing is changed."""
        opened: Any = self.reached() if self.is_broker else open_readonly(file_of(self.text))
        return cast("AbstractContextManager[Store]", opened)

    def changing(self) -> AbstractContextManager[Store]:
        """Open the store, which must be there, to change its state."""
        if self.is_broker:
            return cast("AbstractContextManager[Store]", self.reached())
        path = file_of(self.text)
        with open_readonly(path), translated(path):  # refuses what is no store
            return closing(cast("Store", SqliteStore(path, create=False)))

    def reached(self) -> AbstractContextManager[RemoteStore]:
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
        return closing(RemoteStore(options))

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


# -- types, filters, modules and bounds ------------------------------------------------------------


def meant_by(name: str, known: Collection[str]) -> str:
    """The one known type that a name means: all of it, or its end."""
    meant = [known_name for known_name in known if known_name == name] or sorted(
        known_name for known_name in known if known_name.endswith(f".{name}")
    )
    if len(meant) == 1:
        return meant[0]
    short = {known_name.rpartition(".")[2]: known_name for known_name in known}
    why = "several types are called so" if meant else "the store knows no such type"
    hint = "" if meant else did_you_mean(name, [*known, *short])
    accepted = ", ".join(meant or sorted(known)[:20]) or "nothing yet: the log is empty"
    raise BadOptionError("type", name, accepted=accepted + hint, why=why)


def type_of(name: str | None, registry: Registry) -> str | None:
    """A type by its whole name or the end of it; or a topic."""
    if name is None or name.startswith("/") or registry.describe(name) is not None:
        return name
    return meant_by(name, {description.name for description in registry.descriptions()})


def filter_of(text: str | None, registry: Registry) -> Filter[Any] | None:
    """A filter over `event`, or its form as JSON: it is parsed, and never run as a program."""
    if text is None:
        return None
    data: object = {"format": 1, "filter": text}
    if text.lstrip().startswith("{"):
        try:
            data = msgspec.json.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise UsageError(f"--where: {place_in(text.encode()) or error}") from error
    return Filter.from_json(data, class_named=partial(class_named, registry))


def row_filter(text: str | None, kind: type) -> Callable[[Any], bool]:
    """Whether a row of a list is wanted; `FilterMistakeError` if rows have no such attribute."""
    where = filter_of(text, Registry(classes=()))
    if where is None:
        return lambda row: True
    where.check(kind)
    return where.matches


def module_names(text: str | None) -> list[str]:
    """Names separated by commas, of modules that may also be in the current folder."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if names:
        find_modules_here()
    return names


def find_modules_here() -> None:
    """Let modules be found in the current folder, as `python -m` does."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)


def import_modules(text: str | None) -> list[ModuleType]:
    """Import modules, separated by commas."""
    modules = []
    for name in module_names(text):
        try:
            modules.append(imported(name))
        except ImportError as error:
            raise UsageError(f"--import {name}: {error}") from error
    return modules


def declared_contexts(modules: list[ModuleType]) -> list[Context]:
    """The contexts below a root that modules have."""
    values = [value for module in modules for value in vars(module).values()]
    return [value for value in values if isinstance(value, Context) and value.parents]


def bound_of(option: str, text: str | None) -> int | str | datetime | None:
    """A bound of the log as it is written: a position, a time, or where it may be 'beginning'."""
    first = "'beginning', nor " if option == "--since" else ""
    if text is None or (first and text == "beginning"):
        return text
    if text.isdecimal():
        return int(text)
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise UsageError(
            f"{option} {text} is neither {first}a position, nor a time such as 2030-12-31T08:00 "
            f"or 2030-12-31T08:00+01:00"
        ) from None
