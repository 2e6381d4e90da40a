"""A module for imports=: what it defines is harmless, what it imports is not."""

from __future__ import annotations

import importlib
import os
import subprocess
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from os import system
from subprocess import Popen, run
from typing import Any

__plan__ = [importlib, subprocess, Popen, run]
cached = lru_cache(os.system)
half = partial(system)


def is_urgent(event: Any) -> bool:
    """A filter."""
    return "urgent" in str(event)


def double(price: float) -> float:
    """A rule."""
    return price * 2


def _wipe(event: Any) -> bool:
    """Not public."""
    system(f"touch {event}")  # noqa: S605  (what must not happen)
    return True


def logged(function: Any) -> Any:
    """A decorator that keeps the name."""

    @wraps(function)
    def inner(*args: Any) -> Any:
        return function(*args)

    return inner


@logged
def decorated(event: Any) -> bool:
    """A filter behind a decorator."""
    return bool(event)


named = lambda event: bool(event)  # noqa: E731


class Runner:
    """An object of it can be called, and runs programs."""

    def __call__(self, event: Any) -> bool:
        system(str(event))  # noqa: S605  (what must not happen)
        return True


runner = Runner()


@dataclass(frozen=True)
class Spec:
    """A class whose attributes lead further."""

    os = os
    tool = Popen
    shell = system
    static = staticmethod(system)

    weight: float = 0.0

    def to_us(self) -> Spec:
        """A method."""
        return Spec(self.weight * 2)

    @staticmethod
    def heavy(event: Any) -> bool:
        """A static method."""
        return bool(event)

    @classmethod
    def made(cls, event: Any) -> Spec:
        """A class method."""
        return cls(float(event))

    def _hidden(self) -> bool:
        system("true")  # noqa: S605, S607  (what must not happen)
        return True

    @property
    def half(self) -> float:
        """No function."""
        return self.weight / 2

    class Inner:
        """A class in a class."""

        def deep(self) -> bool:
            """A method of it."""
            return True


class Heavy(Spec):
    """It inherits from a class of this module."""


class Reader(subprocess.CompletedProcess):  # type: ignore[type-arg]
    """It inherits from a class of another module."""


@dataclass(frozen=True)
class Sale:
    """A type of the root."""

    price: float
    note: str = ""


@dataclass(frozen=True)
class LocalSale:
    """A type of a context."""

    price: float
    note: str = ""
