"""Wire names: what a class is called where the class itself is not."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from polycast.errors import BadOptionError, NotATypeError, NotShareableError
from polycast.registered_names import placed_at
from polycast.typesystem.standard_types import STANDARD, is_standard

T = TypeVar("T")

# Kept in the class's own dictionary: it is not inherited, and it survives the copy that
# dataclass(slots=True) and attrs.define make of a class.
_OVERRIDE = "__polycast_event__"
DESCRIPTION = "__polycast_description__"


class MainClassWarning(UserWarning):
    """A class of `__main__` went to a shared bus, under a name that other programs use as well."""


class _Override(msgspec.Struct, frozen=True):
    name: str | None
    version: int
    aliases: tuple[str, ...]


_named: dict[str, weakref.WeakSet[type]] = {}
_warned: weakref.WeakSet[type] = weakref.WeakSet()


def event(
    *, name: str | None = None, version: int = 1, aliases: Iterable[str] = ()
) -> Callable[[type[T]], type[T]]:
    """Overrides the wire name, version and aliases of a class, and changes nothing else."""
    override = _Override(_checked_name(name), _checked_version(version), _checked_aliases(aliases))

    def record(cls: type[T]) -> type[T]:
        _record(cls, override)
        return cls

    return record


def wire_name(cls: type) -> str:
    """The name of a class on the wire: `module.qualname` unless `@event(name=)` says otherwise."""
    description = cls.__dict__.get(DESCRIPTION)
    if description is not None:
        return str(description.name)
    override = cls.__dict__.get(_OVERRIDE)
    if override is not None and override.name is not None:
        return str(override.name)
    return f"{cls.__module__}.{cls.__qualname__}"


def wire_version(cls: type) -> int:
    """The version of a class, 1 unless `@event(version=)` says otherwise."""
    source = cls.__dict__.get(DESCRIPTION) or cls.__dict__.get(_OVERRIDE)
    return source.version if source is not None else 1


def wire_aliases(cls: type) -> tuple[str, ...]:
    """The names a class had before."""
    source = cls.__dict__.get(DESCRIPTION) or cls.__dict__.get(_OVERRIDE)
    return source.aliases if source is not None else ()


def named_classes(name: str) -> list[type]:
    """The classes alive that `@event` gave this name or alias."""
    return [
        cls for cls in list(_named.get(name, ())) if name in (wire_name(cls), *wire_aliases(cls))
    ]


def is_made(cls: type) -> bool:
    """Whether a class was made from a description, for want of the real one."""
    return DESCRIPTION in cls.__dict__


def check_shareable(cls: type) -> None:
    """Raises `NotShareableError` for a class that no other process could name."""
    if DESCRIPTION in cls.__dict__ or is_standard(cls):
        return
    if "<lambda>" in cls.__qualname__:
        raise NotShareableError(cls, why="it is made in a lambda")
    if "<locals>" in cls.__qualname__:
        raise NotShareableError(cls, why="it is local to a function")
    override = cls.__dict__.get(_OVERRIDE)
    if (override is None or override.name is None) and not _is_reachable(cls):
        raise NotShareableError(cls, why=f"{cls.__module__} has no class {cls.__qualname__}")


def warn_main(cls: type) -> None:
    """Warns once per class of `__main__` that its name is shared with every other program."""
    if not wire_name(cls).startswith("__main__.") or cls in _warned:
        return
    _warned.add(cls)
    warnings.warn(
        f"{wire_name(cls)} is called like this only while its program runs as a script; name it "
        f"with @pc.event(name=...) so that other processes know which class is meant",
        MainClassWarning,
        stacklevel=3,
    )


def _record(cls: type, override: _Override) -> None:
    if not isinstance(cls, type):
        raise NotATypeError(cls, why="@event decorates a class", accepted="Put it above a class")
    try:
        setattr(cls, _OVERRIDE, override)
    except TypeError:
        raise NotATypeError(
            cls, why="a built-in class keeps its name", accepted="Put @event above a class of yours"
        ) from None
    for name in (override.name, *override.aliases):
        if name is not None:
            _named.setdefault(name, weakref.WeakSet()).add(cls)


def _checked_name(name: str | None) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip():
        raise BadOptionError("name", name, accepted="a name such as 'com.acme.Order'")
    if name in STANDARD:
        raise BadOptionError("name", name, accepted="a name that is not a built-in class's own")
    return name


def _checked_version(version: int) -> int:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BadOptionError("version", version, accepted="a whole number from 1 on")
    return version


def _checked_aliases(aliases: Iterable[str]) -> tuple[str, ...]:
    accepted = "a list of earlier names, such as ['com.acme.Bill']"
    if isinstance(aliases, str):
        raise BadOptionError("aliases", aliases, accepted=accepted)
    names = tuple(aliases)
    if any(not isinstance(name, str) or not name.strip() for name in names):
        raise BadOptionError("aliases", names, accepted=accepted)
    return names


def _is_reachable(cls: type) -> bool:
    # A class parametrised by pydantic is called `Box[int]`; its origin is what has a name.
    return isinstance(placed_at(cls.__module__, cls.__qualname__.partition("[")[0]), type)
