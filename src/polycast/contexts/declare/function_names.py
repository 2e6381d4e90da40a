"""Names of functions and classes: those that they have, and those that may be looked up."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from polycast.contexts.declare.rule_functions import Marked
from polycast.errors import BadContextError
from polycast.registered_names import RegisteredNames, home_of, imported


class NoName(Exception):
    """An object has no name by which another process could find it."""


def name_by_which(named: Any) -> tuple[str, str]:
    """The module of a function or class, and its name in there."""
    home = home_of(named)
    if home is None:
        module, name = (getattr(named, name, None) or "" for name in ("__module__", "__qualname__"))
        raise NoName(_why(named, module, name))
    return home


def _why(named: Any, module: str, name: str) -> str:
    if isinstance(named, Marked):
        return f"{named!r} is not in {module} under a name of its own"
    if "<lambda>" in name:
        return "it is a lambda without a name"
    if "<locals>" in name:
        return f"{name.replace('<locals>.', '')} is local to another function"
    if not name:
        return f"a {type(named).__name__} has no name"
    return f"{module} has no {name}"


def registered(
    option: str,
    modules: object,
    functions: object,
    *,
    where: str,
) -> RegisteredNames:
    """The names that may be looked up: in some modules, and of functions by the names given."""
    given = {} if functions is None else functions
    if not isinstance(given, Mapping):
        accepted = "a function for each name, as in {'to_us': to_us}"
        raise BadContextError("functions", functions, accepted=accepted, where=where)
    if isinstance(modules, str | ModuleType) or not hasattr(modules, "__iter__"):
        raise BadContextError(option, modules, accepted=_MODULES, where=where)
    for name, function in given.items():
        if not isinstance(name, str) or not callable(function):
            accepted = f"a function for the name {name!r}"
            raise BadContextError("functions", function, accepted=accepted, where=where)
    return RegisteredNames([_module(option, module, where) for module in modules], given)


_MODULES = "modules, or their names, in a list"


def _module(option: str, given: object, where: str) -> ModuleType:
    if isinstance(given, str):
        try:
            return imported(given)
        except (ImportError, ValueError) as error:
            accepted = f"modules that can be imported ({error})"
            raise BadContextError(option, given, accepted=accepted, where=where) from error
    if not isinstance(given, ModuleType):
        raise BadContextError(option, given, accepted=_MODULES, where=where)
    return given
