"""The source of a function, found again and proved to be what the function runs.

Where a text comes from cannot make a filter wrong: it counts only if compiling it gives the
function's own code. Hence guessing is allowed, in a stale file as in the history of a shell.
"""

from __future__ import annotations

import ast
import copy
import dis
import itertools
import linecache
import sys
import weakref
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeVar

from polycast.filters.backends.python import QUIET, compile_quietly, silence_warnings

NOT_FOUND = "its source cannot be had"
DOES_MORE = "it does more than return one expression"
ASSIGNS = "it assigns to a variable, which parts of it share"
FILES_KEPT = 64
LOOKED_BACK = 500  # lines of a shell's history
MOST_IMPORTED = 3
MORE_LINES = 3  # after the last instruction of a `def`: closing brackets
SHELLS = ("<stdin>", "<console>", "<input>")
FLAGS = frozenset("bBdEiIOPqsSuvx")  # of the interpreter, that may stand before `c`
STORES = {number for name, number in dis.opmap.items() if name.startswith("STORE_")}
NOT_PARSED = (SyntaxError, ValueError, RecursionError, MemoryError)

Definition = ast.Lambda | ast.FunctionDef
Located = TypeVar("Located", ast.Lambda, ast.FunctionDef, ast.arg, ast.Expr, ast.alias, ast.Import)
# By the identity of the code, which the weak references keep true: codes compare by value, and two
# equal ones may differ in whether their source can be had.
_known: dict[int, tuple[weakref.ref[CodeType], ast.expr | str]] = {}
_files: dict[str, tuple[list[str], dict[int, list[Definition]]]] = {}


def expression_of(function: FunctionType) -> ast.expr | str:
    """The one expression that a function returns, or why it cannot be had."""
    code = function.__code__
    known = _known.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    found = _find(function)
    if _stores(code) and not isinstance(found, str) and _assigns(found):
        found = ASSIGNS
    key = id(code)
    _known[key] = (weakref.ref(code, lambda _: _known.pop(key, None)), found)
    return found


def _find(function: FunctionType) -> ast.expr | str:
    code = function.__code__
    span = _span(code)
    why = NOT_FOUND
    for definition in _candidates(function, span):
        expression = _proved(definition, code)
        if expression is not None:
            return expression
        if _returned(definition) is None:
            why = DOES_MORE
    return why


def _stores(code: CodeType) -> bool:
    """Whether it has an instruction or an inner function that may assign; most have none."""
    inner = any(isinstance(value, CodeType) for value in code.co_consts)
    return inner or not STORES.isdisjoint(code.co_code[::2])


def _assigns(expression: ast.expr) -> bool:
    return any(isinstance(part, ast.NamedExpr) for part in ast.walk(expression))


def _candidates(function: FunctionType, span: SourceSpan | None) -> Iterator[Definition]:
    """What the function may have been compiled from, the likeliest first."""
    code = function.__code__
    for lines in _texts(code, function.__globals__):
        if span is not None:
            yield from _sliced(lines, code, span)
        yield from _parsed(lines, code.co_filename).get(code.co_firstlineno, ())
    if span is not None and code.co_filename in SHELLS:
        for lines in _statements():
            yield from _sliced(lines, code, span)


# -- texts -----------------------------------------------------------------------------------------


def _texts(code: CodeType, space: dict[str, Any]) -> Iterator[list[str]]:
    """The lines of whatever may hold the source: a file, a cell, the command line."""
    yield _file(code.co_filename, space)
    of_code = getattr(linecache, "_getlines_from_code", None)
    if of_code is not None:  # where the shell of Python 3.13 keeps what was typed
        yield of_code(code)
    if code.co_filename == "<string>":
        yield _lines(_command())
    cells = space.get("_ih")  # what IPython calls its history, here and in notebooks
    for cell in reversed(cells[-LOOKED_BACK:] if isinstance(cells, list) else []):
        if isinstance(cell, str):
            yield _lines(cell)


def _file(name: str, space: dict[str, Any]) -> list[str]:
    try:
        linecache.checkcache(name)
        return linecache.getlines(name, space)
    except Exception:  # of a module's own loader
        return []


def _lines(text: str) -> list[str]:
    """As the compiler counts them: a form feed ends no line."""
    return [f"{line}\n" for line in text.split("\n")]


def _command() -> str:
    """What stands after `python -c`."""
    arguments = iter(sys.orig_argv[1:])
    for argument in arguments:
        flags, option, text = argument.partition("c")
        if option and flags.startswith("-") and FLAGS.issuperset(flags[1:]):
            return text or next(arguments, "")
    return ""


def _statements() -> Iterator[list[str]]:
    """What was typed into the shell, from each line on, the newest first."""
    readline: Any = sys.modules.get("readline")
    if readline is None:
        return
    last = readline.get_current_history_length()
    lines: list[str] = []
    for number in range(last, max(0, last - LOOKED_BACK), -1):
        lines = [f"{readline.get_history_item(number)}\n", *lines]
        yield lines


# -- definitions in a text -------------------------------------------------------------------------


class SourceSpan(NamedTuple):
    """Where a function's instructions come from; columns count bytes."""

    line: int
    column: int
    last_line: int
    last_column: int


def _span(code: CodeType) -> SourceSpan | None:
    starts, ends = [], []
    for line, last_line, column, last_column in code.co_positions():
        if line is None or last_line is None or column is None or last_column is None:
            continue
        if (line, column) != (last_line, last_column):  # else it comes from nowhere
            starts.append((line, column))
            ends.append((last_line, last_column))
    return SourceSpan(*min(starts), *max(ends)) if starts else None


def _sliced(lines: Sequence[str], code: CodeType, span: SourceSpan) -> Iterator[Definition]:
    """The lambda or the function at that place of a text, without parsing all of it."""
    if span.line < code.co_firstlineno or span.last_line > len(lines):
        return
    if code.co_name == "<lambda>":
        body = _body(lines, code.co_firstlineno, span)
        if body is not None:
            yield _at(code.co_firstlineno, ast.Lambda(_arguments(code), body))
        return
    for more in range(MORE_LINES + 1):
        text = lines[code.co_firstlineno - 1 : span.last_line + more]
        definition = _statement(text, code.co_firstlineno)
        if definition is not None:
            yield definition
            return


def _body(lines: Sequence[str], first: int, span: SourceSpan) -> ast.expr | None:
    """What stands in a span, on the lines where it stands."""
    cut = [line.encode() for line in lines[span.line - 1 : span.last_line]]
    cut[-1] = cut[-1][: span.last_column]
    cut[0] = cut[0][span.column :]
    text = "(" + "\n" * (span.line - first) + b"".join(cut).decode(errors="replace") + "\n)"
    tree = _tree(text, "eval")
    if not isinstance(tree, ast.Expression):
        return None
    _move(tree, first - 1)
    return tree.body


def _move(tree: ast.AST, by: int) -> None:
    """Let everything stand so many lines further down; what the library has for it is slow."""
    left: list[Any] = [tree] if by else []
    for node in left:  # while it grows
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                left.append(value)
            elif type(value) is list:
                left += [element for element in value if isinstance(element, ast.AST)]
        if hasattr(node, "lineno"):
            node.lineno += by
            node.end_lineno += by


def _statement(lines: Sequence[str], first: int) -> ast.FunctionDef | None:
    text, shift = "".join(lines), first - 1
    if text[:1].isspace():
        text, shift = f"if 1:\n{text}", first - 2
    tree = _tree(text, "exec")
    if not isinstance(tree, ast.Module):
        return None
    _move(tree, shift)
    found = tree.body[0] if tree.body else None
    if isinstance(found, ast.If):
        found = found.body[0]
    return found if isinstance(found, ast.FunctionDef) else None


def _parsed(lines: list[str], filename: str) -> dict[int, list[Definition]]:
    """The functions of a whole text that return one expression, by their first lines."""
    known = _files.get(filename)
    if known is not None and known[0] is lines:
        return known[1]
    found: dict[int, list[Definition]] = {}
    for node in ast.walk(_tree("".join(lines), "exec") or ast.Module([], [])):
        if isinstance(node, ast.Lambda | ast.FunctionDef) and _returned(node) is not None:
            found.setdefault(_first_line(node), []).append(node)
    if len(_files) >= FILES_KEPT:
        _files.clear()
    _files[filename] = (lines, found)
    return found


def _tree(text: str, mode: str) -> ast.AST | None:
    silence_warnings()
    try:
        tree: ast.AST = compile(text, QUIET, mode, ast.PyCF_ONLY_AST, True)
    except NOT_PARSED:
        return None
    return tree


def _first_line(definition: Definition) -> int:
    if isinstance(definition, ast.FunctionDef) and definition.decorator_list:
        return definition.decorator_list[0].lineno
    return definition.lineno


def _returned(definition: Definition) -> ast.expr | None:
    """The expression of a lambda, or of a function that only returns one."""
    if isinstance(definition, ast.Lambda):
        return definition.body
    body = definition.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]  # its docstring
    if len(body) == 1 and isinstance(body[0], ast.Return):
        return body[0].value
    return None


# -- proof -----------------------------------------------------------------------------------------


def _proved(definition: Definition, code: CodeType) -> ast.expr | None:
    """The expression, if compiling the definition gives the very code that the function runs."""
    for owner in (*_owners(code), ""):
        attempt = _mangled(definition, owner) if owner else definition
        expression = _returned(attempt)
        if expression is None:
            return None
        for imported in _imports(attempt, code):
            compiled = _compiled(attempt, code, imported)
            if compiled is not None and _same(compiled, code):
                return expression
    return None


def _imports(definition: Definition, code: CodeType) -> Iterator[tuple[str, ...]]:
    """Which names its file may have imported: `name.f()` is compiled differently for those."""
    yield ()
    local = {*code.co_varnames, *code.co_freevars, *code.co_cellvars}
    names = sorted(
        {
            part.func.value.id
            for part in ast.walk(definition)
            if isinstance(part, ast.Call)
            and isinstance(part.func, ast.Attribute)
            and isinstance(part.func.value, ast.Name)
        }
        - local
    )[:MOST_IMPORTED]
    for count in range(len(names), 0, -1):
        yield from itertools.combinations(names, count)


def _owners(code: CodeType) -> set[str]:
    """The classes for which private names, as `_Owner__name`, may have been compiled."""
    found: set[str] = set()
    for name in (*code.co_names, *code.co_varnames, *code.co_freevars):
        if name.startswith("_") and "__" in name[2:]:
            parts = name[1:].split("__")
            found.update("__".join(parts[:n]) for n in range(1, len(parts)))
    for value in code.co_consts:
        if isinstance(value, CodeType):
            found |= _owners(value)
    return found


def _mangled(definition: Definition, owner: str) -> Definition:
    """With private names as the compiler changes them inside a class."""
    changed = copy.deepcopy(definition)
    for node in ast.walk(changed):
        for field in ("id", "attr", "arg"):
            name = getattr(node, field, None)
            if isinstance(name, str) and name.startswith("__") and not name.endswith("__"):
                setattr(node, field, f"_{owner}{name}")
    return changed


def _compiled(definition: Definition, code: CodeType, imported: tuple[str, ...]) -> CodeType | None:
    """The code of a definition inside a function that has its free variables."""
    free = [_at(1, ast.arg(name)) for name in code.co_freevars]
    around = ast.arguments([], free, None, [], [], None, [])
    outer: ast.stmt
    if isinstance(definition, ast.Lambda):
        inner = _at(definition.lineno, ast.Lambda(_arguments(code), definition.body))
        outer = _at(1, ast.Expr(_at(1, ast.Lambda(around, inner))))
    else:  # without decorators, defaults and annotations, which are no part of its code
        bare = _function(definition.name, _arguments(code), definition.body)
        outer = _at(1, _function("around", around, [_at(definition.lineno, bare)]))
    names = [_at(1, ast.alias(name)) for name in imported]
    body: list[ast.stmt] = [_at(1, ast.Import(names))] if names else []
    try:
        return _inner(_inner(compile_quietly(ast.Module([*body, outer], []))))
    except NOT_PARSED:
        return None


def _function(name: str, arguments: ast.arguments, body: list[Any]) -> ast.FunctionDef:
    made = ast.FunctionDef(name, arguments, body, [], None, None)
    if sys.version_info >= (3, 12):
        made.type_params = []
    return made


def _at(line: int, node: Located) -> Located:
    node.lineno = node.end_lineno = line
    node.col_offset = node.end_col_offset = 0
    return node


def _arguments(code: CodeType) -> ast.arguments:
    """The parameters of a code; their defaults belong to the function."""
    names = [_at(1, ast.arg(name)) for name in code.co_varnames]
    plain, only = code.co_argcount, code.co_kwonlyargcount
    rest = iter(names[plain + only :])
    star = next(rest) if code.co_flags & 0x04 else None
    stars = next(rest) if code.co_flags & 0x08 else None
    first = code.co_posonlyargcount
    keywords = names[plain : plain + only]
    return ast.arguments(
        names[:first], names[first:plain], star, keywords, [None] * only, stars, []
    )


def _inner(code: CodeType) -> CodeType:
    return next(value for value in code.co_consts if isinstance(value, CodeType))


def _same(one: CodeType, other: CodeType) -> bool:
    """The same instructions over the same names and typed constants."""
    return (
        one.co_code == other.co_code
        and one.co_names == other.co_names
        and one.co_varnames == other.co_varnames
        and one.co_freevars == other.co_freevars
        and one.co_cellvars == other.co_cellvars
        and len(one.co_consts) == len(other.co_consts)
        and all(map(_same_constant, one.co_consts, other.co_consts))
    )


def _same_constant(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, CodeType):
        return _same(one, other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same_constant, one, other))
    if isinstance(one, frozenset):
        return {_typed(key) for key in one} == {_typed(key) for key in other}
    return bool(_typed(one) == _typed(other))


def _typed(value: Any) -> Any:
    """A constant so that 1, 1.0, True and the two zeros are different."""
    if isinstance(value, tuple):
        return tuple(map(_typed, value))
    return (type(value), repr(value) if isinstance(value, float | complex) else value)
