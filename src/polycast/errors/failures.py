"""What it means that a function of a user has failed, or that a store cannot be asked."""

from __future__ import annotations

from asyncio import CancelledError

from polycast.errors.server import AccessError
from polycast.errors.stores import StoreError

__all__ = ["FAILURES", "STORE_FAILURES"]

FAILURES: tuple[type[BaseException], ...] = (Exception, SystemExit, GeneratorExit, CancelledError)
"""What a callback, a filter or a function of a context raises when it has failed.

A function that calls `sys.exit()` has failed like any other: it does not end the program that
called it. A `KeyboardInterrupt` is Ctrl-C, which is for the program.
"""

STORE_FAILURES: tuple[type[Exception], ...] = (StoreError, AccessError)
"""What a store raises that cannot be asked now: one behind a broker refuses a revoked token."""
