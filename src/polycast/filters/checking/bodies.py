"""Which attributes the functions of a class set, read from their bytecode without running them."""

from __future__ import annotations

import dis
import functools
import types
from typing import TYPE_CHECKING, Any

from polycast.typesystem.standard_types import is_machinery, is_standard

if TYPE_CHECKING:
    from collections.abc import Iterator

# Libraries that make classes: what they put into a class is known by the fields it declares.
LIBRARIES = frozenset(
    "abc attr attrs builtins collections dataclasses enum functools msgspec pydantic "  # noqa: SIM905
    "pydantic_core typing typing_extensions _collections".split()
)
# Those of them whose own classes set nothing beyond these fields.
_ROOTS = frozenset(
    ("abc", "builtins", "enum", "msgspec", "pydantic", "typing", "typing_extensions")
)
# Code that uses one of these may set an attribute of any name.
DYNAMIC = frozenset(("setattr", "__setattr__", "__dict__", "vars", "update"))
_MAKERS = ("__init__", "__new__")
_MAKING = ("__init__", "__post_init__", "__attrs_post_init__", "model_post_init")
_OWN_USES = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER")
_SILENT = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL", "RESUME"))
# In the body of a dataclass, attrs class, pydantic model, Struct, enum, named tuple.
_DECLARED = frozenset(
    "__dataclass_fields__ __attrs_attrs__ __pydantic_fields__ __struct_fields__ _member_map_ "  # noqa: SIM905
    "_fields".split()
)


class _Unclear(Exception):
    """An attribute of any name may be set."""


def is_trusted(cls: type) -> bool:
    """Whether a class belongs to Python or to a library whose ways are known."""
    return is_standard(cls) or is_machinery(cls) or root_of(cls.__module__) in _ROOTS


def root_of(module: object) -> str:
    """The top-level package of a module."""
    return str(module).partition(".")[0]


def stored_names(cls: type) -> frozenset[str] | None:
    """The attributes that the functions in one class body set; None if that cannot be told."""
    body = cls.__dict__
    if _DECLARED.isdisjoint(body) and not all(_sets_nothing(body, name) for name in _MAKERS):
        return None
    found: set[str] = set()
    try:
        for name, value in list(body.items()):
            if name in ("__setattr__", "__delattr__") and _is_frozen(body):
                continue
            if name == "__init__" and getattr(body.get("__dataclass_params__"), "init", False):
                continue  # generated: it sets the fields
            for function in _functions(value, set()):
                if name in _MAKING and _gives_itself_away(function.__code__):
                    return None
                found |= _stores(function.__code__)
    except _Unclear:
        return None
    return frozenset(found)


def _sets_nothing(body: Any, name: str) -> bool:
    # A plain class sets what it likes, and one written in C does not say what it sets.
    value = body.get(name)
    return value is None or (type(value) is types.FunctionType and _is_generated(value))


def _is_frozen(body: Any) -> bool:
    # dataclass refuses to freeze a class that has a __setattr__ of its own: this one is generated.
    return bool(getattr(body.get("__dataclass_params__"), "frozen", False))


# -- functions -------------------------------------------------------------------------------------

_PARTS: dict[type, tuple[str, ...]] = {
    property: ("fget", "fset", "fdel"),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    functools.cached_property: ("func",),
    functools.partialmethod: ("func",),
    type(functools.lru_cache(print)): ("__wrapped__",),
}


def _functions(value: Any, seen: set[int]) -> Iterator[types.FunctionType]:
    """The Python functions in a member of a class body, under all decorators."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if type(value) is types.FunctionType:
        if not _is_generated(value):
            yield value
        for inner in (value.__dict__.get("__wrapped__"), *_captured(value)):
            yield from _functions(inner, seen)
    elif type(value) in _PARTS:
        for part in _PARTS[type(value)]:
            yield from _functions(getattr(value, part), seen)
    elif _may_store(value):
        raise _Unclear


def _is_generated(function: types.FunctionType) -> bool:
    if function.__code__.co_filename.startswith("<attrs generated"):
        return True
    return root_of(function.__globals__.get("__name__")) in LIBRARIES


def _captured(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # nothing in it yet
            continue
        if type(value) is types.FunctionType or type(value) in _PARTS:
            yield value


def _may_store(value: object) -> bool:
    """Whether it is a descriptor of the user's own, which does what it likes."""
    bases = type.__dict__["__mro__"].__get__(type(value))
    if isinstance(value, type) or root_of(type(value).__module__) in LIBRARIES:
        return False
    names = ("__get__", "__set__", "__set_name__")
    return any(name in base.__dict__ for base in bases for name in names)


# -- code ------------------------------------------------------------------------------------------


def _stores(code: types.CodeType) -> set[str]:
    found: set[str] = set()
    steps = [step for step in dis.get_instructions(code) if step.opname not in _SILENT]
    for at, step in enumerate(steps):
        if step.opname == "STORE_ATTR":
            found.add(step.argval)
        elif _is_dynamic(step):
            found.add(_constant_name(steps, at + 1))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _stores(constant)
    return found


def _gives_itself_away(code: types.CodeType) -> bool:
    """Whether the object is passed to other code, which may set anything."""
    if not code.co_argcount:
        return False
    itself = code.co_varnames[0]
    loads = "LOAD_DEREF" if itself in code.co_cellvars else "LOAD_FAST"  # not the cell itself
    steps = [step for step in dis.get_instructions(code) if step.opname not in _SILENT]
    for at, step in enumerate(steps):
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if not step.opname.startswith(loads) or itself not in names:
            continue
        after = steps[at + 1].opname if at + 1 < len(steps) else ""
        before = steps[at - 1].argval if at else ""
        is_last = names[-1] == itself and names.count(itself) == 1
        if before not in ("setattr", "__setattr__") and not (
            is_last and after.startswith(_OWN_USES)
        ):
            return True
    return False


def _is_dynamic(step: dis.Instruction) -> bool:
    loads = step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST"
    return loads and isinstance(step.argval, str) and step.argval in DYNAMIC


def _constant_name(steps: list[dis.Instruction], at: int) -> str:
    """The name in `object.__setattr__(self, "name", ...)`, if it is written just like this."""
    called = steps[at - 1]
    if called.argval not in ("setattr", "__setattr__"):
        raise _Unclear
    if at < len(steps) and steps[at].opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
        at += 1
    if at >= len(steps) or steps[at].opname != "LOAD_CONST":
        raise _Unclear
    name = steps[at].argval
    if not isinstance(name, str) or _is_inside_another(steps[at], called, steps):
        raise _Unclear
    return name


def _is_inside_another(
    constant: dis.Instruction, called: dis.Instruction, steps: list[dis.Instruction]
) -> bool:
    """Whether a constant is only a part of an argument, as in `"_" + name` and f"_{name}"."""
    outermost, own = _span(called), _span(constant)
    if outermost is None or own is None:
        return True
    spans = [_span(step) for step in steps if step is not constant]
    return any(
        span is not None and outermost[0] < span[0] <= own[0] and own[1] <= span[1]
        for span in spans
    )


def _span(step: dis.Instruction) -> tuple[tuple[int, int], tuple[int, int]] | None:
    found = step.positions
    if found is None or None in found:
        return None
    line, end_line, column, end_column = found
    return (line, column), (end_line, end_column)  # type: ignore[return-value]
