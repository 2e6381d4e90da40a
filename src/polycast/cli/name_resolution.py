"""Types, filters, modules and places in the log as they are named on a command line."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.lossless_json import place_in
from polycast.cli.terminal import UsageError
from polycast.contexts import Context
from polycast.errors import BadOptionError
from polycast.errors.root import did_you_mean
from polycast.filters import Filter
from polycast.registered_names import imported
from polycast.routing.route_table import class_named
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import ModuleType


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
