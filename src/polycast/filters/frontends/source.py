"""The source of a function, found again and proved to be what the function runs."""

from __future__ import annotations

import ast
import copy
import linecache
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FunctionType

__all__ = ["expression_of"]

Definition = ast.Lambda | ast.FunctionDef
_known: WeakKeyDictionary[CodeType, tuple[ast.expr | None]] = WeakKeyDictionary()
_files: dict[str, tuple[tuple[str, ...], tuple[Definition, ...]]] = {}
FILES_KEPT = 64


def expression_of(function: FunctionType) -> ast.expr | None:
    """The one expression that a function returns, or None if its source cannot be had."""
    code = function.__code__
    if code not in _known:
        _known[code] = (_find(function),)
    return _known[code][0]


def _find(function: FunctionType) -> ast.expr | None:
    code = function.__code__
    for definition in _definitions(code, function.__globals__):
        if _first_line(definition) != code.co_firstlineno:
            continue
        expression = _returned(definition)
        if expression is not None and _runs(definition, function):
            return expression
    return None


def _definitions(code: CodeType, space: dict[str, Any]) -> tuple[Definition, ...]:
    lines = tuple(_lines(code.co_filename, space))
    known = _files.get(code.co_filename)
    if known is not None and known[0] == lines:
        return known[1]
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found = tuple(n for n in ast.walk(tree) if isinstance(n, ast.Lambda | ast.FunctionDef))
    if len(_files) >= FILES_KEPT:
        _files.clear()
    _files[code.co_filename] = (lines, found)
    return found


def _lines(filename: str, space: dict[str, Any]) -> list[str]:
    if filename == "<string>" and "-c" in sys.orig_argv:
        return sys.orig_argv[sys.orig_argv.index("-c") + 1].splitlines(keepends=True)
    linecache.checkcache(filename)
    return linecache.getlines(filename, space)


def _first_line(definition: Definition) -> int:
    if isinstance(definition, ast.FunctionDef) and definition.decorator_list:
        return definition.decorator_list[0].lineno
    return definition.lineno


def _returned(definition: Definition) -> ast.expr | None:
    """The expression of a lambda, or of a function that only returns one."""
    if isinstance(definition, ast.Lambda):
        return definition.body
    body = definition.body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]  # its docstring
    if len(body) == 1 and isinstance(body[0], ast.Return):
        return body[0].value
    return None


def _runs(definition: Definition, function: FunctionType) -> bool:
    """Whether compiling the source gives the very code that the function runs."""
    code = function.__code__
    try:
        compiled = compile(
            _wrapped(definition, code), code.co_filename, "exec", code.co_flags & _FUTURE, True
        )
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(_same(each, code) for each in _inner(compiled) if each.co_name == code.co_name)


_FUTURE = 0x1000000  # from __future__ import annotations, which changes no expression


def _wrapped(definition: Definition, code: CodeType) -> ast.Module:
    """The definition inside a function that has its free variables."""
    inner: ast.stmt
    if isinstance(definition, ast.Lambda):
        inner = ast.Expr(definition)
    else:
        inner = copy.copy(definition)
        inner.decorator_list = []
    free = [ast.Assign([ast.Name(n, ast.Store())], ast.Constant(None)) for n in code.co_freevars]
    no_arguments = ast.arguments([], [], None, [], [], None, [])
    outer = ast.FunctionDef("outer", no_arguments, [*free, inner], [], None, None)
    if sys.version_info >= (3, 12):
        outer.type_params = []
    return ast.fix_missing_locations(ast.Module([outer], []))


def _inner(code: CodeType) -> Iterator[CodeType]:
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield value
            yield from _inner(value)


def _same(one: CodeType, other: CodeType) -> bool:
    """The same instructions over the same names and typed constants, at the same places."""
    return (
        one.co_code == other.co_code
        and one.co_names == other.co_names
        and one.co_varnames == other.co_varnames
        and one.co_freevars == other.co_freevars
        and one.co_cellvars == other.co_cellvars
        and _columns(one) == _columns(other)
        and len(one.co_consts) == len(other.co_consts)
        and all(map(_same_constant, one.co_consts, other.co_consts))
    )


def _columns(code: CodeType) -> set[tuple[int | None, int | None]]:
    return {(line, column) for line, _, column, _ in code.co_positions() if column is not None}


def _same_constant(one: object, other: object) -> bool:
    if isinstance(one, CodeType) and isinstance(other, CodeType):
        return _same(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | frozenset):
        return repr(one) == repr(other)
    return one == other or repr(one) == repr(other)
