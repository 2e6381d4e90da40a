"""How the pipeline over a store is getting on, as anybody can see who has the store."""

from __future__ import annotations

import os

import msgspec

from polycast.errors import NotAStoreError, NotAvailableError
from polycast.stores import Store, Transaction, path_of
from polycast.stores.sqlite.readonly_store import ReadOnlyStore, open_readonly

_KIND, _NAME = "pipeline", "status"  # of the document


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How a pipeline is getting on."""

    state: str
    """`running`, `stopped`, `failed`, or `never started`."""
    position: int
    """All before it is routed."""
    lag: int
    """How many events in the log are not routed yet."""
    subscriptions: int = 0
    """How many are routed for."""
    plan: int = 0
    """The version of the plan: the position at which it last changed."""
    batch: int | None = None
    events: int = 0
    """How many events it has routed since it was started."""
    pairs: int = 0
    """To how many subscriptions these go, all in all."""
    rate: float = 0.0
    """Events a second, of late."""
    failure: str | None = None
    process: int | None = None
    place: str = ""
    """Where that is the number of a process."""
    time: float | None = None
    """When it last said so, by the wall clock."""


# Made once: the first use of a type must not happen in two threads at once.
_decode = msgspec.json.Decoder(Status).decode


def status_of(url: str, *, store: Store | ReadOnlyStore | None = None) -> Status:
    """How the pipeline over a store is getting on, told by the store."""
    if store is None:
        with open_readonly(file_of(url)) as opened:
            return status_of(url, store=opened)
    with store.view() as view:
        high, end = view.routed().high, view.newest() + 1
        body = view.document(_KIND, _NAME)
        status = None if body is None else _decode(body)
        count, plan = view.in_effect(end)[0], view.last_turn(end)
    if status is None:
        status = Status(state="never started", position=high, lag=0)
    lag = max(0, end - high)
    return msgspec.structs.replace(status, position=high, lag=lag, subscriptions=count, plan=plan)


def keep_status(tx: Transaction, status: Status) -> None:
    """Let others who look at the store know."""
    tx.put_document(_KIND, _NAME, msgspec.json.encode(status))


def file_of(url: str) -> str:
    """The file of a store that a pipeline can read, which must be there."""
    path = path_of(url)
    if path is None:
        raise NotAvailableError(
            "a pipeline over a bus in memory",
            why="Spark's workers are other processes, which cannot see it",
            instead="Use a store in a file: 'sqlite:///events.db'",
        )
    path = os.path.abspath(path)
    if not os.path.exists(path):
        instead = "Open a bus over it first, which makes it"
        raise NotAStoreError(path, why="there is no such file", instead=instead)
    return path
