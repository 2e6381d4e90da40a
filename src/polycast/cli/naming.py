"""Types and filters as they are written on a command line."""

from __future__ import annotations

import difflib
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.strict_parsing import place_in
from polycast.cli.terminal import Refused
from polycast.contexts import Context
from polycast.errors import BadOptionError
from polycast.filters import Filter
from polycast.registered_names import imported
from polycast.routing.stored_plan import class_named

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import ModuleType

    from polycast.typesystem import Registry

__all__ = ["declared_contexts", "filter_of", "import_modules", "meant_by", "type_of"]


def meant_by(name: str, known: Collection[str]) -> str:
    """The one known type that a name means: all of it, or its end."""
    found = [each for each in known if each == name] or sorted(
        each for each in known if each.endswith(f".{name}")
    )
    if len(found) == 1:
        return found[0]
    short = {each.rpartition(".")[2]: each for each in known}
    near = difflib.get_close_matches(name, [*known, *short], n=1)
    why = "several types are called so" if found else "the store knows no such type"
    hint = f"; did you mean {near[0]!r}?" if near and not found else ""
    accepted = ", ".join(found or sorted(known)[:20]) or "nothing yet: the log is empty"
    raise BadOptionError("type", name, accepted=accepted + hint, why=why)


def type_of(name: str | None, registry: Registry) -> str | None:
    """A type by its whole name or the end of it; or a topic."""
    if name is None or name.startswith("/") or registry.describe(name) is not None:
        return name
    return meant_by(name, {each.name for each in registry.descriptions()})


def filter_of(text: str | None, registry: Registry) -> Filter[Any] | None:
    """A filter over `event`, or its form as JSON: it is parsed, and never run as a program."""
    if text is None:
        return None
    data: object = {"format": 1, "filter": text}
    if text.lstrip().startswith("{"):
        try:
            data = msgspec.json.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise Refused(f"--where: {place_in(text.encode()) or error}") from error
    return Filter.from_json(data, class_named=partial(class_named, registry))


def import_modules(text: str | None) -> list[ModuleType]:
    """Import modules, separated by commas, which are found from the current folder, too."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    here = os.getcwd()
    if names and here not in sys.path:  # as `python -m` would find them
        sys.path.insert(0, here)
    found = []
    for name in names:
        try:
            found.append(imported(name))
        except ImportError as error:
            raise Refused(f"--import {name}: {error}") from error
    return found


def declared_contexts(modules: list[ModuleType]) -> list[Context]:
    """The contexts below a root that modules have."""
    values = [value for module in modules for value in vars(module).values()]
    return [each for each in values if isinstance(each, Context) and each.parents]
