"""Detection of forks: after `os.fork()` the child has copies of the parent's objects.

Their threads, connections and locks belong to the parent, so they no longer work in the child, and
releasing them there must not affect the parent.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from polycast.errors import ForkedError

if TYPE_CHECKING:
    from collections.abc import Callable


class Forks:
    """How often this process was forked from another that had loaded this module."""

    count = 0


def _note() -> None:
    Forks.count += 1


class Home:
    """The process that something was opened in."""

    __slots__ = ("_forks", "_what")

    def __init__(self, what: str = "this bus") -> None:
        self._what, self._forks = what, Forks.count

    def is_elsewhere(self) -> bool:
        """Whether this process is a child of that one."""
        return self._forks != Forks.count

    def check(self, operation: str) -> None:
        """Raise `ForkedError` in a child."""
        if self._forks != Forks.count:
            raise ForkedError(operation, self._what)


def in_child(function: Callable[[], None]) -> None:
    """Call a function first thing in every process forked from this one."""
    if hasattr(os, "register_at_fork"):  # not on Windows, where nobody forks
        os.register_at_fork(after_in_child=function)


_locks: WeakSet[Any] = WeakSet()


def shared_lock() -> threading.RLock:
    """Return a lock that a child may continue to use: it is free there."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_locks() -> None:
    for lock in list(_locks):
        if not lock._is_owned():  # its owner is a thread of the parent
            lock._at_fork_reinit()


in_child(_note)
in_child(_free_locks)
