"""What is known of a class: which attributes its objects can have, and what these are."""

from __future__ import annotations

import enum
import functools
import inspect
import types
import weakref
from dataclasses import dataclass, field
from typing import Any

import msgspec

from polycast.filters.checking.bodies import LIBRARIES, is_trusted, root_of, stored_names
from polycast.filters.checking.inference import Kinds, declared, joined, of_value
from polycast.filters.checking.samples import SAMPLES
from polycast.typesystem import is_interface
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import kind_of
from polycast.typesystem.standard_types import is_standard
from polycast.typesystem.type_hints import annotated_names, hints_of, returned_hint

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
