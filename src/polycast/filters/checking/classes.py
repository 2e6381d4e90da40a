"""What is known of a class: which attributes its objects can have, and what these are.

Which attributes its functions set is read from their bytecode, without running them.
"""

from __future__ import annotations

import dis
import enum
import functools
import inspect
import types
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from polycast.filters.checking.inference import SAMPLES, Kinds, declared, joined, of_value
from polycast.typesystem import is_interface
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import kind_of
from polycast.typesystem.standard_types import is_machinery, is_standard
from polycast.typesystem.type_expressions import annotated_names, hints_of, returned_hint

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
        elif _sets_dynamically(step):
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


def _sets_dynamically(step: dis.Instruction) -> bool:
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


# -- classes ---------------------------------------------------------------------------------------


DECLARING = {"dataclass", "attrs", "struct", "pydantic", "namedtuple", "enum", "flag"}


@dataclass(frozen=True, slots=True)
class ClassMember:
    """An attribute or a method. Nothing is known of it if it is neither."""

    is_method: bool = False
    is_attribute: bool = False
    kinds: Kinds = None  # what it is, or what it returns
    least: float = 0  # arguments
    most: float = float("inf")


UNKNOWN = ClassMember()


@dataclass(slots=True)
class ClassFacts:
    """What is known of one class, without holding it."""

    names: frozenset[str] | None = None  # None: its objects may have any
    stored: frozenset[str] = frozenset()
    fields: dict[str, Kinds] = field(default_factory=dict)
    members: dict[str, ClassMember] = field(default_factory=dict)


class Classes:
    """A cache of what is known of classes, which it holds weakly."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[type, ClassFacts] = weakref.WeakKeyDictionary()

    def known(self, cls: type) -> ClassFacts:
        """What is known of a class; nothing, if inspecting it raises."""
        try:
            found = self._known.get(cls)
            if found is None:
                found = self._known[cls] = _looked_at(cls)
        except Exception:  # a metaclass or an annotation may raise anything
            return ClassFacts()
        return found

    def names(self, cls: type) -> frozenset[str] | None:
        """The attributes that objects of a class can have; None if they may have any."""
        return self.known(cls).names

    def member(self, cls: type, name: str) -> ClassMember:
        """What the attribute or method of that name is."""
        known = self.known(cls)
        found = known.members.get(name)
        if found is None:
            try:
                found = _member(cls, name, known)
            except Exception:  # a broken annotation or descriptor
                found = UNKNOWN
            known.members[name] = found
        return found

    def offered(self, cls: type) -> list[str]:
        """The public names that the user's own classes define, for suggestions."""
        own = [base for base in cls.__mro__ if base in SAMPLES or not is_trusted(base)]
        held = {name for base in own for name in (*base.__dict__, *annotated_names(base))}
        return sorted(name for name in held if not name.startswith("_"))


# -- names -----------------------------------------------------------------------------------------


def _looked_at(cls: type) -> ClassFacts:
    if cls in SAMPLES or cls is bool:
        return ClassFacts(frozenset(dir(cls)))
    # A metaclass of the user's own may give objects anything, and say anything about the class.
    if cls is object or is_standard(cls) or root_of(type(cls).__module__) not in LIBRARIES:
        return ClassFacts()
    if _is_dynamic(cls):
        return ClassFacts()
    names = {name for base in cls.__mro__ for name in (*base.__dict__, *annotated_names(base))}
    known = ClassFacts(stored=frozenset())
    stored = _stored(cls)
    if cls.__dictoffset__ != 0:  # else there is no room for anything else
        if stored is None:
            return known
        names |= stored | set(declared_defaults(cls)) | set(_private(cls))
    known.stored = frozenset(names) if stored is None else stored
    known.names = frozenset(names)
    known.fields = _fields(cls)
    for name in known.fields:
        if name in known.stored or may_be_changed(cls, name):
            known.fields[name] = None
    return known


def _is_dynamic(cls: Any) -> bool:
    for config in ("model_config", "__pydantic_config__"):
        found = _inherited(cls, config)
        if isinstance(found, dict) and found.get("extra") == "allow":
            return True
    own = [base for base in cls.__mro__ if not is_trusted(base)]
    return any("__getattr__" in b.__dict__ or "__getattribute__" in b.__dict__ for b in own)


def _stored(cls: type) -> frozenset[str] | None:
    if kind_of(cls) not in DECLARING:  # of an interface's events, only the least is known
        return None
    found: frozenset[str] = frozenset()
    for base in cls.__mro__:
        if not is_trusted(base):
            stored = stored_names(base)
            if stored is None:
                return None
            found |= stored
    return found


def _private(cls: Any) -> tuple[str, ...]:
    if issubclass(cls, enum.Enum):
        return (*cls._member_map_, "_name_", "_value_", "_sort_order_")
    found = _inherited(cls, "__private_attributes__")
    return tuple(found) if isinstance(found, dict) else ()


def _inherited(cls: type, name: str) -> Any:
    """What a class has under a name, without running any descriptor."""
    return next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)


# -- what they are ---------------------------------------------------------------------------------


def _fields(cls: type) -> dict[str, Kinds]:
    """What the annotations say, and the defaults, which may say something else."""
    defaults = declared_defaults(cls)
    found: dict[str, Kinds] = {}
    for name, hint in hints_of(cls).items():
        found[name] = declared(hint)
        default = defaults.get(name)
        if default is not None and default.factory is None and default.value is not msgspec.UNSET:
            found[name] = joined((found[name], of_value(default.value)))
    return found


def _member(cls: type, name: str, known: ClassFacts) -> ClassMember:
    owner = next((base for base in cls.__mro__ if name in base.__dict__), None)
    value = owner.__dict__[name] if owner is not None else None
    if name in known.fields:
        return _field(known.fields[name], owner, value)
    if owner is None or is_trusted(owner):
        return UNKNOWN
    if isinstance(value, property | functools.cached_property):
        getter = value.fget if isinstance(value, property) else value.func
        return ClassMember(is_attribute=True, kinds=_returned(getter, owner))
    return UNKNOWN if name in known.stored else _method(value, owner)


def _field(kinds: Kinds, owner: type | None, value: Any) -> ClassMember:
    field_like = isinstance(value, types.MemberDescriptorType) or (
        root_of(type(value).__module__) in ("collections", "_collections")  # of a namedtuple
    )
    if owner is None or field_like:
        return ClassMember(is_attribute=True, kinds=kinds)
    if any("__get__" in base.__dict__ for base in type(value).__mro__):
        return UNKNOWN  # annotated, and a descriptor: either may be meant
    return ClassMember(is_attribute=True, kinds=joined((kinds, of_value(value))))


def _returned(function: Any, owner: type) -> Kinds:
    if type(function) is not types.FunctionType or _is_special(function):
        return None
    hint = returned_hint(function, owner)
    return None if hint is inspect.Signature.empty else declared(hint)


def _is_special(function: types.FunctionType) -> bool:
    # A decorator keeps the annotations and may change what is returned and taken.
    flags = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
    return bool(function.__dict__.keys() & {"__wrapped__", "__signature__"}) or bool(
        function.__code__.co_flags & flags
    )


def _method(value: Any, owner: type) -> ClassMember:
    given = 0 if isinstance(value, staticmethod) else 1
    function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    if type(function) is not types.FunctionType or _is_special(function):
        return UNKNOWN
    least, most = _arity(function, given)
    if is_interface(owner):  # an implementation may take more
        least, most = 0, float("inf")
    return ClassMember(is_method=True, kinds=_returned(function, owner), least=least, most=most)


def _arity(function: types.FunctionType, given: int) -> tuple[float, float]:
    """How many arguments it takes at least and at most."""
    code = function.__code__
    if code.co_kwonlyargcount > len(function.__kwdefaults__ or ()):
        return float("inf"), float("inf")  # a filter gives no keywords: nothing is enough
    positional = code.co_argcount - given
    least = max(0, positional - len(function.__defaults__ or ()))
    if code.co_flags & inspect.CO_VARARGS or positional < 0:
        return least, float("inf")
    return least, positional


# -- validators and converters ---------------------------------------------------------------------


# What pydantic keeps of decorated functions that may replace a value.
VALIDATORS = ("validators", "field_validators", "root_validators", "model_validators")


def may_be_changed(cls: Any, name: str) -> bool:
    """Whether a validator, a converter or a setting may put a value of another type there."""
    return _by_pydantic(cls, name) or _by_attrs(cls, name)


def _by_pydantic(cls: Any, name: str) -> bool:
    if not hasattr(cls, "__pydantic_fields__"):
        return False
    config = {**(getattr(cls, "__pydantic_config__", None) or {})}
    config.update(getattr(cls, "model_config", None) or {})
    if config.get("use_enum_values"):
        return True
    decorators = getattr(cls, "__pydantic_decorators__", None)
    if any(getattr(decorators, kind, None) for kind in VALIDATORS):
        return True
    field = cls.__pydantic_fields__.get(name)
    return any(_is_validator(entry) for entry in getattr(field, "metadata", ()))


def _is_validator(metadata: object) -> bool:
    """AfterValidator and its like hold a function; constraints such as Gt hold values."""
    return callable(getattr(metadata, "func", None)) or hasattr(
        metadata, "__get_pydantic_core_schema__"
    )


def _by_attrs(cls: Any, name: str) -> bool:
    return any(
        attribute.converter is not None or attribute.on_setattr is not None
        for attribute in getattr(cls, "__attrs_attrs__", ())
        if attribute.name == name
    )
