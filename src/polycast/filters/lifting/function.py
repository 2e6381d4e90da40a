"""Lifting: from a Python function to a filter's tree, without running it."""

from __future__ import annotations

import ast
import functools
import inspect
import operator
from collections.abc import Callable
from keyword import iskeyword
from types import CodeType, FunctionType, MethodType
from typing import Any

from polycast.filters.backends.python import compile_quietly
from polycast.filters.lifting.ast_translator import ExpressionTranslator, Unliftable
from polycast.filters.lifting.function_source import expression_of
from polycast.filters.tree import nodes

# Such a function takes more than its names say, or answers later.
UNUSUAL = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)

WRAPPINGS = 100
NOT_ALONE = "it does not take the event alone"
PLACEHOLDER = getattr(functools, "Placeholder", object())  # Python 3.14


def lift_function(function: Callable[..., object]) -> nodes.Node:
    """The tree of a callable; what cannot be looked into is opaque, and says why."""
    try:
        return _lifted(function)
    except Unliftable as reason:
        return nodes.Opaque(function, str(reason), _key(function))
    except RecursionError:
        return nodes.Opaque(function, "it is nested too deeply", _key(function))


def _lifted(function: Any) -> nodes.Node:
    if type(function) in GETTERS:
        return GETTERS[type(function)](*_given_to(function))
    plain, first, keywords = _unwrapped(function)
    expression = expression_of(plain)
    if isinstance(expression, str):
        raise Unliftable(expression)
    parameter, known = _bound(plain, first, keywords)

    def opaque(part: ast.expr, why: str) -> nodes.Node:
        """A part as a function of its own, over the same names; they are read when it is called."""
        made = _part(plain, parameter, known, part)
        if made is None:
            return nodes.Opaque(function, why, _key(function))
        return nodes.Opaque(made, why, (_key(function), ast.dump(part)))

    names = functools.partial(_meaning, plain, known)
    return ExpressionTranslator(parameter, names, opaque).translate(expression)


# -- what is called, and with what -----------------------------------------------------------------


def _unwrapped(function: Any) -> tuple[FunctionType, list[Any], dict[str, Any]]:
    """The function behind partials, bound methods and callable objects; never `__wrapped__`.

    With it, what they put before the event, and the keywords behind it.
    """
    first: list[Any] = []
    keywords: dict[str, Any] = {}
    for _ in range(WRAPPINGS):
        if isinstance(function, FunctionType):
            return function, first, keywords
        if type(function) is functools.partial:
            if any(argument is PLACEHOLDER for argument in function.args):
                raise Unliftable("it leaves places open")
            first = [*function.args, *first]
            keywords = {**function.keywords, **keywords}
            function = function.func
        elif isinstance(function, MethodType):
            first = [function.__self__, *first]
            function = function.__func__
        else:
            first = [function, *first]
            function = inspect.getattr_static(type(function), "__call__", None)
            if not isinstance(function, FunctionType):
                raise Unliftable("it is not a Python function")
    raise Unliftable("it is wrapped too often")


def _bound(
    function: FunctionType, first: list[Any], keywords: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The name of the event's parameter, and the values of all others."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    if code.co_flags & UNUSUAL or len(names) <= len(first):
        raise Unliftable(NOT_ALONE)
    parameter = names[len(first)]
    if len(names) == 1 and not (keywords or code.co_kwonlyargcount):
        return parameter, {}
    by_keyword = {*names[code.co_posonlyargcount :], *_keyword_names(code)}
    behind = {*names[len(first) + 1 :], *_keyword_names(code)}
    known = {**_defaults(function, names), **dict(zip(names, first, strict=False)), **keywords}
    known.pop(parameter, None)
    if not keywords.keys() <= behind & by_keyword or not behind <= known.keys():
        raise Unliftable(NOT_ALONE)
    return parameter, known


def _defaults(function: FunctionType, names: tuple[str, ...]) -> dict[str, Any]:
    values = function.__defaults__ or ()
    last = names[len(names) - len(values) :]
    return {**dict(zip(last, values, strict=True)), **(function.__kwdefaults__ or {})}


def _keyword_names(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def _meaning(function: Any, known: dict[str, Any], name: str) -> Any:
    """What a name stands for now; it is read once."""
    if name in known:
        return known[name]
    free = function.__code__.co_freevars
    if name in free:
        try:
            return (function.__closure__ or ())[free.index(name)].cell_contents
        except ValueError:
            raise Unliftable(f"{name}: has no value yet") from None
    for space in (function.__globals__, function.__builtins__):
        if name in space:
            return space[name]
    raise Unliftable(f"{name}: not defined")


# -- getters of the standard library ---------------------------------------------------------------


def _given_to(getter: Any) -> tuple[Any, ...]:
    """What a getter was made with; one with keywords tells it in another way, and is not taken."""
    made_by, arguments = getter.__reduce__()[:2]
    if made_by is not type(getter):
        raise Unliftable("it passes keywords")
    return tuple(arguments)


def _attributes(*paths: str) -> nodes.Node:
    return _one_or_tuple([functools.reduce(_step, path.split("."), _EVENT) for path in paths])


def _items(*keys: object) -> nodes.Node:
    return _one_or_tuple([nodes.Item(_EVENT, _constant(key)) for key in keys])


def _method(name: str, *arguments: object) -> nodes.Node:
    return nodes.Call(_EVENT, _identifier(name), tuple(map(_constant, arguments)))


def _one_or_tuple(parts: list[nodes.Node]) -> nodes.Node:
    return parts[0] if len(parts) == 1 else nodes.Display(tuple, tuple(parts))


def _step(of: nodes.Node, name: str) -> nodes.Node:
    return nodes.Attribute(of, _identifier(name))


def _identifier(name: str) -> str:
    if not name.isidentifier() or not name.isascii() or iskeyword(name) or name.startswith("__"):
        raise Unliftable(f"{name}: not the plain name of an attribute")
    return name


def _constant(value: object) -> nodes.Node:
    try:
        return nodes.Constant(nodes.constant_value(value))
    except TypeError as error:
        raise Unliftable(str(error)) from None


_EVENT: nodes.Node = nodes.Event()
GETTERS: dict[type, Callable[..., nodes.Node]] = {
    operator.attrgetter: _attributes,
    operator.itemgetter: _items,
    operator.methodcaller: _method,
}


# -- opaque parts ----------------------------------------------------------------------------------


def _part(
    function: FunctionType, parameter: str, known: dict[str, Any], expression: ast.expr
) -> Callable[[Any], object] | None:
    """Compile one part of a function's own source, with that function's variables."""
    free = function.__code__.co_freevars
    arguments = [ast.arg(name) for name in (*known, parameter)]
    inner = ast.Lambda(ast.arguments([], arguments, None, [], [], None, []), expression)
    outer = ast.Lambda(ast.arguments([], [ast.arg(n) for n in free], None, [], [], None, []), inner)
    try:
        code = compile_quietly(ast.fix_missing_locations(ast.Expression(outer)))
    except (SyntaxError, ValueError):
        return None
    lambda_code = next(c for c in code.co_consts if inspect.iscode(c))
    inner_code = next(c for c in lambda_code.co_consts if inspect.iscode(c))
    inner_code = inner_code.replace(co_filename=function.__code__.co_filename)
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in inner_code.co_freevars)
    part = FunctionType(inner_code, function.__globals__, "part", None, closure)
    return functools.partial(part, *known.values()) if known else part


class _Same:
    """An object as itself; holding it keeps its identity from being given to another."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _key(function: Any) -> Any:
    """What makes two callables the same: code, owner, globals, captured values, defaults."""
    if isinstance(function, MethodType):
        return (_Same(function.__self__), _key(function.__func__))
    if not isinstance(function, FunctionType):
        return _Same(function)
    cells = function.__closure__ or ()
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items())
    live = (function.__globals__, *cells, *defaults)
    return (function.__code__, tuple(map(_Same, live)))
