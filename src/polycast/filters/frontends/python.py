"""Lifting: from a Python function to a filter's tree, without running it."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from polycast.filters import nodes
from polycast.filters.frontends.source import expression_of
from polycast.filters.frontends.translate import Translator, Unliftable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["lift_function"]


def lift_function(function: Callable[..., object]) -> nodes.Node:
    """The tree of a callable; what cannot be looked into is opaque, and says why."""
    plain, given = _unwrapped(function)
    if plain is None:
        return nodes.Opaque(function, "it is not a Python function", _key(function))
    expression = expression_of(plain)
    if expression is None:
        return nodes.Opaque(function, "its source cannot be had", _key(function))
    bound = _bound(plain, given)
    if bound is None:
        return nodes.Opaque(function, "it does not take the event alone", _key(function))
    parameter, known = bound
    names = functools.partial(_meaning, plain, known)
    opaque = functools.partial(_opaque_part, plain, parameter, known, function)
    return Translator(parameter, names, opaque).translate(expression)


def _unwrapped(function: Any) -> tuple[FunctionType | None, list[Any]]:
    """The function behind partials, bound methods and callable objects; what they put first."""
    given: list[Any] = []
    while True:
        if isinstance(function, functools.partial):
            if function.keywords:
                return None, []
            given = [*function.args, *given]
            function = function.func
        elif isinstance(function, MethodType):
            given = [function.__self__, *given]
            function = function.__func__
        elif isinstance(function, FunctionType):
            return function, given
        else:
            call = inspect.getattr_static(type(function), "__call__", None)
            if not isinstance(call, FunctionType):
                return None, []
            given = [function, *given]
            function = call


def _bound(function: FunctionType, given: list[Any]) -> tuple[str, dict[str, Any]] | None:
    """The name of the event's parameter, and the values of all others."""
    code = function.__code__
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR):
        return None
    names = code.co_varnames[: code.co_argcount]
    if len(names) <= len(given) or inspect.iscoroutinefunction(function):
        return None
    known = dict(zip(names, given, strict=False))
    parameter = names[len(given)]
    defaults = function.__defaults__ or ()
    known.update(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    known.update(function.__kwdefaults__ or {})
    known.pop(parameter, None)
    rest = [*names[len(given) + 1 :], *_keyword_names(code)]
    return (parameter, known) if all(name in known for name in rest) else None


def _keyword_names(code: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = code.co_varnames
    return names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def _meaning(function: FunctionType, known: dict[str, Any], name: str) -> Any:
    """What a name stands for now; it is read once."""
    if name in known:
        return known[name]
    free = function.__code__.co_freevars
    if name in free:
        try:
            return (function.__closure__ or ())[free.index(name)].cell_contents
        except ValueError:
            raise Unliftable(f"{name}: has no value yet") from None
    if name in function.__globals__:
        return function.__globals__[name]
    if hasattr(builtins, name):
        return getattr(builtins, name)
    raise Unliftable(f"{name}: not defined")


def _opaque_part(
    function: FunctionType,
    parameter: str,
    known: dict[str, Any],
    whole: Callable[..., object],
    expression: ast.expr,
    why: str,
) -> nodes.Node:
    """A part as a function of its own, over the same names; they are read when it is called."""
    made = _part(function, parameter, known, expression)
    if made is None:
        return nodes.Opaque(whole, why, _key(whole))
    return nodes.Opaque(made, why, (_key(whole), ast.dump(expression)))


def _part(
    function: FunctionType, parameter: str, known: dict[str, Any], expression: ast.expr
) -> Callable[[Any], object] | None:
    """Compile one part of a function's own source, with that function's variables."""
    free = function.__code__.co_freevars
    arguments = [ast.arg(name) for name in (*known, parameter)]
    inner = ast.Lambda(ast.arguments([], arguments, None, [], [], None, []), expression)
    outer = ast.Lambda(ast.arguments([], [ast.arg(n) for n in free], None, [], [], None, []), inner)
    tree = ast.fix_missing_locations(ast.Expression(outer))
    try:
        code = compile(tree, function.__code__.co_filename, "eval")
    except (SyntaxError, ValueError):
        return None
    lambda_code = next(c for c in code.co_consts if inspect.iscode(c))
    inner_code = next(c for c in lambda_code.co_consts if inspect.iscode(c))
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in inner_code.co_freevars)
    part = FunctionType(inner_code, function.__globals__, "part", None, closure)
    return functools.partial(part, *known.values()) if known else part


def _key(function: Any) -> Any:
    """What makes two callables the same: code, owner, captured values, defaults."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ("object", id(function))
    cells = getattr(function, "__closure__", None) or ()
    owner = getattr(function, "__self__", None)
    return (code, id(owner), tuple(id(cell) for cell in cells))
