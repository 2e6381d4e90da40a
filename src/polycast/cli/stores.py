"""The store that a command names, opened as the command needs it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from polycast.bus.presence import has_died
from polycast.errors import BadOption
from polycast.stores.doctor import looking
from polycast.stores.doctor.looking import translated
from polycast.stores.sqlite import SqliteStore
from polycast.stores.urls import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["changing", "file_of", "has_died", "looking"]


def file_of(store: str) -> str:
    """The file of a store that is given as a path or as the URL of a bus."""
    if "://" not in store and not store.startswith(("sqlite:", "memory:")):
        return store
    path = path_of(store)
    if path is None:
        accepted = "a path, or 'sqlite:///' and a path; what is in memory ends with its process"
        raise BadOption("store", store, accepted=accepted)
    return path


@contextmanager
def changing(path: str) -> Iterator[SqliteStore]:
    """Open a store, which must be there, to change its state."""
    with looking(path), translated(path):  # refuses, without touching it, what is no store
        store = SqliteStore(path, create=False)
    try:
        yield store
    finally:
        store.close()
