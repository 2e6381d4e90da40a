"""The functions of rules: their annotations, and the names by which they are found again."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

from polycast.errors import BadContextError
from polycast.registered_names import RegisteredNames, home_of, imported, placed_at

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., object]")


class Unusable(Exception):
    """An object cannot be the function of a rule."""


class Marked:
    """A function that is marked as unchecked or impure."""

    def __init__(
        self, function: Callable[..., Any], *, is_unchecked: bool = False, is_impure: bool = False
    ) -> None:
        inner = function if isinstance(function, Marked) else None
        self.function: Callable[..., Any] = function if inner is None else inner.function
        self.is_unchecked: bool = is_unchecked or (inner is not None and inner.is_unchecked)
        self.is_impure: bool = is_impure or (inner is not None and inner.is_impure)
        functools.update_wrapper(self, self.function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        marks = [("unchecked", self.is_unchecked), ("impure", self.is_impure)]
        text = name_of(self.function)
        for name, holds in marks:
            text = f"{name}({text})" if holds else text
        return text


def identity(value: T) -> T:
    """Return the argument: the rule leaves a value as it is."""
    return value


def unchecked(function: F) -> F:
    """Let a rule use a function whose annotations are missing or not true."""
    return typing.cast("F", Marked(_callable(function), is_unchecked=True))


def impure(function: F) -> F:
    """Mark a function whose results vary for the same argument: it has state, or reads a clock."""
    return typing.cast("F", Marked(_callable(function), is_impure=True))


@dataclass(frozen=True)
class RuleFunction:
    """A function that a rule applies."""

    call: Callable[[Any], Any] = field(repr=False)
    argument: Any
    """The annotation of its argument; Any if it is unchecked."""
    result: Any
    """The annotation of its result; Any for `identity`."""
    name: str
    is_impure: bool = False

    @property
    def is_identity(self) -> bool:
        """Whether it returns its argument."""
        return self.call is identity


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function, for messages."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def function_of(given: object, types: Iterable[type] = ()) -> RuleFunction:
    """The function of a rule; it may be a method of one of `types`."""
    if not callable(given):
        raise Unusable(f"{given!r} is not a function; a function of one argument, or '-', is")
    marked = given if isinstance(given, Marked) else Marked(given)
    call = marked.function
    name = name_of(call)
    if call is identity:
        return RuleFunction(identity, Any, Any, "identity")
    if inspect.iscoroutinefunction(call) or inspect.isgeneratorfunction(call):
        raise Unusable(f"{name} gives no value, but a coroutine or a generator")
    if marked.is_unchecked:
        return RuleFunction(call, Any, Any, name, marked.is_impure)
    argument, result = _annotations(call, name, list(types))
    return RuleFunction(call, argument, result, name, marked.is_impure)


def _annotations(call: Any, name: str, types: list[type]) -> tuple[Any, Any]:
    target = vars(call).get("__init__", call) if isinstance(call, type) else call
    try:
        parameters = list(inspect.signature(call).parameters.values())
        hints = _hints(target, types)
    except (TypeError, ValueError, NameError) as error:
        raise Unusable(f"{name} cannot be looked at ({error}); {_ACCEPTED}") from None
    first = _first(parameters, name)
    owner = _owner(call, name, types) if first.name not in hints else None
    argument = hints.get(first.name, owner)
    result = call if isinstance(call, type) else hints.get("return")
    if argument is None or (result is None and "return" not in hints):
        missing = f"its argument {first.name!r}" if argument is None else "its result"
        raise Unusable(f"{missing} is not annotated in {name}; {_ACCEPTED}")
    return argument, result


_ACCEPTED = "annotate it, as in f(x: Money) -> Money, or wrap it: pc.unchecked(f)"


def _hints(target: Any, types: list[type]) -> dict[str, Any]:
    """The annotations of a function; a local function may name the types of the context."""
    function = target if hasattr(target, "__annotations__") else target.__call__
    inner = getattr(function, "__func__", function)
    return typing.get_type_hints(
        inner, localns={cls.__name__: cls for cls in types}, include_extras=True
    )


def _first(parameters: list[inspect.Parameter], name: str) -> inspect.Parameter:
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in places[1:] if p.default is p.empty]
    needed += [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if not places or needed:
        count = "no argument" if not places else f"{len(needed) + 1} arguments"
        raise Unusable(f"{name} takes {count}; a rule gives it one: the value at the path")
    return places[0]


def _owner(call: Any, name: str, types: list[type]) -> type | None:
    """The class of a method, which is the annotation of its `self`."""
    short = name.rpartition(".")[2]
    for cls in types:
        for base in cls.__mro__:
            if base.__dict__.get(short) is call:
                return base
    owner = placed_at(getattr(call, "__module__", None), name.rpartition(".")[0])
    return owner if isinstance(owner, type) and owner.__dict__.get(short) is call else None


def _callable(function: object) -> Callable[..., Any]:
    if not callable(function):
        raise TypeError(f"{function!r} is not a function")
    return function


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


def registered(option: str, modules: object, functions: object, *, where: str) -> RegisteredNames:
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
