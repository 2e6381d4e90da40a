"""Registered names: the one place where a name becomes a function or a class.

A name from outside (a store, the wire, a file) is looked up in a table that the operator of the
program filled at start, and nowhere else: nothing is imported for it, and no dots are followed.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from polycast.plain_text import log_of

# Functions of Python itself that take one value, return another, and do nothing else.
BUILT_IN: dict[str, Callable[..., Any]] = {
    f"builtins:{kind.__name__}": kind for kind in (abs, bool, float, int, len, round, str)
}
MOST_TOLD = 100  # unknown names that are logged
_log = log_of("polycast")


class _RegisteredValue(NamedTuple):
    """A function or a class, and the names it is registered by."""

    module: str
    path: str
    value: Any

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names it has: the first in stores; files may leave out the module."""
        return f"{self.module}:{self.path}", f"{self.module}.{self.path}", self.path


class RegisteredNames:
    """The functions and classes that names from outside can refer to.

    A module registers the functions and classes that it defines itself: those that its `__all__`
    lists, else the public ones; and the public methods of these classes. Of a package, `__all__`
    may list what its own modules define, too. `functions` are registered as they are called there.
    It does not change: a look-up is one `dict.get`.
    """

    def __init__(
        self,
        modules: Iterable[ModuleType | str] = (),
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        given = [imported(module) if isinstance(module, str) else module for module in modules]
        self.modules: dict[str, ModuleType] = {module.__name__: module for module in given}
        self.functions: dict[str, Callable[..., Any]] = dict(functions or {})
        self._known: dict[str, Any] = dict(BUILT_IN)
        self._spelled: dict[str, list[Any]] = {}
        self._foreign: dict[str, str] = {}
        self._missed: set[str] = set()
        for module in given:
            self._register(module)
        for name, function in self.functions.items():
            self._enter(name, name.replace(":", "."), value=function)

    def get(self, name: str) -> Callable[..., Any] | None:
        """The function that is registered by a name such as `shop.rules:is_urgent`, if any is."""
        value: Callable[..., Any] | None = self._known.get(name)
        if value is None and (self.modules or self.functions):
            self._tell(name)
        return value

    @property
    def classes(self) -> frozenset[type]:
        """The classes that are registered: events from outside may be of these, and no others."""
        return frozenset(value for value in self._known.values() if isinstance(value, type))

    def spelled(self, name: str) -> list[Any]:
        """Return what a name in a file may refer to: with or without its module, dots only."""
        return self._spelled.get(name, [])

    def why_not(self, name: str) -> str:
        """Explain why a name is unknown: what is registered, and how to register more."""
        home = self._foreign.get(name)
        if home is not None:
            why = f"{name!r:.200} is defined in {home}, which is not registered"
        else:
            why = f"{name!r:.200} is not registered"
        known = sorted(self._known.keys() - BUILT_IN.keys())
        near = difflib.get_close_matches(name[:200], known, n=3)
        there = f"the nearest are {', '.join(near)}" if near else f"{len(known):,} others are"
        modules = f" ({', '.join(self.modules)})" if self.modules else ""
        return (
            f"{why}; {there if known else 'nothing is'}. imports= registers what modules "
            f"define{modules}, functions={{name: function}} anything else"
        )

    def near(self, name: str) -> str:
        """Suggest the nearest registered name, for messages."""
        matches = difflib.get_close_matches(name[:200], self._spelled, n=1, cutoff=0.8)
        return f"; did you mean {matches[0]!r}?" if matches else ""

    def homes(self, name: str) -> str | None:
        """The module from which the modules only import what has that name."""
        return self._foreign.get(name)

    # -- filling the table -------------------------------------------------------------------------

    def _register(self, module: ModuleType) -> None:
        homes = frozenset(self.modules)
        for name, value in _own(module):
            for registered in (
                _RegisteredValue(module.__name__, name, value),
                *_home(module, value),
            ):
                self._enter(*registered.spellings, value=value)
                if isinstance(value, type):
                    self._enter_class(registered, homes | {value.__module__})
        for name, value in vars(module).items():
            if name not in self._spelled and callable(value):
                home = _text(value, "__module__") or type(value).__module__
                self._foreign.update({name: home, f"{module.__name__}.{name}": home})

    def _enter_class(self, registered: _RegisteredValue, homes: frozenset[str]) -> None:
        for name, value in methods_of(registered.value, homes).items():
            inner = _RegisteredValue(registered.module, f"{registered.path}.{name}", value)
            self._enter(*inner.spellings, value=value)
            if isinstance(value, type):
                self._enter_class(inner, homes)

    def _enter(self, *spellings: str, value: Any) -> None:
        self._known[spellings[0]] = value
        for spelling in dict.fromkeys(spellings):
            self._spelled.setdefault(spelling, []).append(value)

    def _tell(self, name: str) -> None:
        """Log an unknown name once; limited, as names come from outside."""
        if name not in self._missed and len(self._missed) < MOST_TOLD:
            self._missed.add(name)
            _log.warning("%s", self.why_not(name))


def _own(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield what a module defines: what its `__all__` lists, else all public names.

    What it only imports does not count, unless its own submodules define it.
    """
    space, listed = vars(module), vars(module).get("__all__")
    for name in [name for name in space if name[:1] != "_"] if listed is None else listed:
        value = space.get(name)
        home = _text(value, "__module__") or ""
        is_below = listed is not None and home.startswith(f"{module.__name__}.")
        if _is_defined_in(value, home if is_below else module.__name__):
            yield name, value


def _home(module: ModuleType, value: Any) -> list[_RegisteredValue]:
    """Return the name in stores of what a module lists, but does not define itself."""
    home = home_of(value)
    known = home is None or home[0] == module.__name__
    return [] if known or home is None else [_RegisteredValue(*home, value)]


def _is_defined_in(value: Any, module: str) -> bool:
    """Whether it is a function or class of a module, and not just a callable object."""
    if not callable(value) or isinstance(value, ModuleType):
        return False
    return _text(value, "__module__") == module and _text(value, "__qualname__") is not None


def _text(value: Any, name: str) -> str | None:
    try:
        text = getattr(value, name, None)
    except Exception:  # a proxy whose object does not exist
        return None
    return text if isinstance(text, str) else None


def methods_of(cls: type, homes: frozenset[str]) -> dict[str, Any]:
    """The public methods of a class, and the classes in it, that some modules define.

    What it inherits counts if the class that has it is of these modules, too.
    """
    members: dict[str, Any] = {}
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if not name.startswith("_"):
                members.setdefault(name, _method(cls, base, value, homes))
    return {name: value for name, value in members.items() if value is not None}


def _method(cls: type, base: type, value: Any, homes: frozenset[str]) -> Any:
    if base.__module__ not in homes:
        return None
    if isinstance(value, staticmethod | classmethod):
        value = value.__get__(None, cls)
    elif isinstance(value, type):
        inside = value.__qualname__.startswith(f"{base.__qualname__}.")
        return value if inside and value.__module__ == base.__module__ else None
    return value if _is_defined_in(value, base.__module__) else None


# -- what whoever runs the program names -----------------------------------------------------------


def imported(name: str) -> ModuleType:
    """Import a module that the operator of the program named, and never anybody else."""
    return importlib.import_module(name)


# -- from things of this process to their names ----------------------------------------------------


def placed_at(module: str | None, path: str) -> Any:
    """Return what a loaded module has at a dotted path."""
    value: Any = sys.modules.get(module or "")
    for word in path.split("."):
        value = getattr(value, word, None)
    return value


def home_of(found: Any) -> tuple[str, str] | None:
    """Return the module of a function or class, and its name there; None if it has none."""
    module, path = _text(found, "__module__") or "", _text(found, "__qualname__") or ""
    owner = getattr(found, "__self__", None)
    if isinstance(owner, type):  # a class method is of the class that it was taken from
        module, path = owner.__module__, f"{owner.__qualname__}.{found.__name__}"
    if path and _is_same(placed_at(module, path), found):
        return module, path
    for name, value in vars(sys.modules[module]).items() if module in sys.modules else ():
        if value is found and not name.startswith("__"):
            return module, name  # a lambda, or a function that was marked, with a name
    return None


def _is_same(value: Any, found: Any) -> bool:
    """Bound methods are made anew each time."""
    if value is found:
        return True
    owner = getattr(found, "__self__", None)
    inner = getattr(found, "__func__", None)
    return (
        inner is not None
        and getattr(value, "__func__", None) is inner
        and (getattr(value, "__self__", None) is owner)
    )


# -- classes by their names on the wire ------------------------------------------------------------


def classes_called(name: str) -> Iterator[type]:
    """The classes that loaded modules have under a full name.

    They are looked up in the modules' own dictionaries, from class to class and never through
    another module: nothing is imported, and nothing runs.
    """
    words = name.split(".")
    for count in range(1, len(words)):
        found: Any = sys.modules.get(".".join(words[:count]))
        if isinstance(found, ModuleType):
            found = vars(found).get(words[count])
            for word in words[count + 1 :]:
                found = vars(found).get(word) if isinstance(found, type) else None
            if isinstance(found, type):
                yield found
