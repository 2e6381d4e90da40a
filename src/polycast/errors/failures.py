"""What it means that a function of a user has failed."""

from __future__ import annotations

from asyncio import CancelledError

__all__ = ["FAILURES"]

FAILURES: tuple[type[BaseException], ...] = (Exception, SystemExit, GeneratorExit, CancelledError)
"""What a callback, a filter or a function of a context raises when it has failed.

A function that calls `sys.exit()` has failed like any other: it does not end the program that
called it. A `KeyboardInterrupt` is Ctrl-C, which is for the program.
"""
