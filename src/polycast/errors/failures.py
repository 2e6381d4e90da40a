"""The exceptions that mean a user's function has failed, or a store is unavailable."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable
from threading import get_ident
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import cast

from polycast.errors.arguments import NotAwaitedError
from polycast.errors.server import AccessError
from polycast.errors.stores import StoreError

__all__ = ["STORE_FAILURES", "check_has_run", "failures_here", "is_to_be_awaited", "run_as_ours"]

_FAILURES: tuple[type[BaseException], ...] = (Exception, SystemExit, GeneratorExit, CancelledError)
_ALL: tuple[type[BaseException], ...] = (BaseException,)
_our_threads: set[int] = set()


def failures_here() -> tuple[type[BaseException], ...]:
    """The exceptions by which a callback, a filter or a function of a context fails, in a thread.

    A function that calls `sys.exit()` has failed like any other: it does not end the program that
    called it. In a thread of the user a `KeyboardInterrupt` is Ctrl-C, which is for the program,
    and so is what other libraries derive from `BaseException`. No Ctrl-C comes to a thread of
    polycast, and nobody there waits for anything else: one subscriber would stop all others.
    """
    return _ALL if get_ident() in _our_threads else _FAILURES


def run_as_ours(target: Callable[..., None], *args: object) -> None:
    """Run what a thread of polycast is there for."""
    _our_threads.add(me := get_ident())
    try:
        target(*args)
    finally:
        _our_threads.discard(me)


STORE_FAILURES: tuple[type[Exception], ...] = (StoreError, AccessError)
"""The exceptions of a store that is unavailable; behind a broker, also for a revoked token."""

_UNRUN = (GeneratorType, AsyncGeneratorType, Awaitable, map, filter)


def check_has_run(what: str, said: object) -> None:
    """Refuse what a function gave where nobody awaits or iterates it: it has not done its work."""
    parts = said if type(said) in (list, tuple, set, dict) else (said,)
    values = list(parts.values() if isinstance(parts, dict) else cast("Iterable[object]", parts))
    left = [value for value in values if isinstance(value, _UNRUN)]
    for value in left:
        if isinstance(value, CoroutineType | GeneratorType):
            value.close()  # else Python warns, long after, that it was never awaited
    if left:
        raise NotAwaitedError(what, said)


def is_to_be_awaited(what: str, said: object) -> bool:
    """Whether somebody has to await what a function gave; a generator is refused."""
    if isinstance(said, Awaitable):
        return True
    check_has_run(what, said)
    return False
