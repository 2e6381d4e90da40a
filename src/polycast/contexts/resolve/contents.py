"""What objects hold besides the attributes that their class declares."""

from __future__ import annotations

import collections
import inspect
import types
import typing
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polycast.contexts.resolve.attribute_shapes import CONTAINERS, attribute_hints, one_of, shape_of
from polycast.events.isolation import ATOMS, copied, is_frozen
from polycast.typesystem.class_kinds import is_protocol, kind_of
from polycast.typesystem.standard_types import is_machinery, is_standard_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.contexts.resolve.attribute_shapes import ValueShape

_ANYTHING = shape_of(Any)
_KEEPING: tuple[type, ...] = (
    *(list, tuple, set, frozenset, dict, collections.deque, BaseException),
    *(collections.UserList, collections.UserDict, collections.ChainMap),
)
"""The classes whose objects hold what no attribute names."""


def extends_container(cls: type) -> bool:
    """Whether objects of a class have elements, whatever attributes they have."""
    return kind_of(cls) != "namedtuple" and any(base in _KEEPING for base in cls.__mro__)


def held_besides(cls: type) -> ValueShape | None:
    """What is held where no rule looks, if something may be; `list` itself is an annotation."""
    if cls in CONTAINERS or any(base in ATOMS for base in cls.__mro__):
        return None
    if is_protocol(cls) or cls.__module__ == "collections.abc":
        return _ANYTHING
    if extends_container(cls):
        return one_of(_element_hints(cls)) if any(True for _ in _element_hints(cls)) else _ANYTHING
    return _ANYTHING if _has_own_state(cls) else None


def _element_hints(cls: type) -> Iterator[Any]:
    """The annotations of the elements, as in `class Lines(list[Line])`."""
    for base in cls.__mro__:
        for hint in vars(base).get("__orig_bases__", ()):
            origin = typing.get_origin(hint)
            if isinstance(origin, type) and extends_container(origin):
                yield from (inner for inner in typing.get_args(hint) if inner is not ...)


def _has_own_state(cls: type) -> bool:
    """Whether objects hold something, although their class declares no attribute."""
    if kind_of(cls) not in ("class", "value") or attribute_hints(cls) or is_standard_library(cls):
        return False
    own = [base for base in cls.__mro__ if not is_machinery(base) and not is_standard_library(base)]
    return any("__init__" in vars(base) or vars(base).get("__slots__") for base in own)


# -- completing rebuilt objects --------------------------------------------------------------------


@dataclass(frozen=True)
class _StateLayout:
    """Where objects of a class hold what it does not declare."""

    declared: frozenset[str]
    given: frozenset[str]  # further parameters of the constructor, which it does not compute
    slots: tuple[str, ...]  # those without an annotation
    count: int  # of the names in the dictionary of an object that holds no more; -1 if unknown


_layouts: weakref.WeakKeyDictionary[type, _StateLayout] = weakref.WeakKeyDictionary()


def undeclared(cls: type) -> frozenset[str]:
    """Undeclared attributes that objects certainly have, because the constructor takes them."""
    if kind_of(cls) != "class" or not any("__init__" in vars(base) for base in cls.__mro__[:-1]):
        return frozenset()
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(cls).parameters
    given = _layout_of(cls).given
    return frozenset(name for name in given if parameters[name].kind not in variable)


def may_hold_more(cls: type) -> bool:
    """Whether objects may have attributes that their class does not declare."""
    if is_frozen(cls):
        return False  # those that are there all the same were put there as it was made
    match kind_of(cls):
        case "pydantic":
            return bool(getattr(cls, "model_config", {}).get("extra") == "allow")
        case "dataclass" | "attrs" | "class" | "struct":
            return getattr(cls, "__dictoffset__", 0) != 0 or bool(_layout_of(cls).slots)
    return False


def completing(cls: type) -> Callable[[Any, Any], Any]:
    """Return what completes an object rebuilt from the attributes of another of its class.

    What the class has computed again stays; what only the other object has is copied.
    """
    layout = _layout_of(cls)
    count = layout.count

    def completed(value: Any, made: Any) -> Any:
        if count >= 0 and len(value.__dict__) == count:
            return made
        return _completed(layout, value, made)

    return completed


def _completed(layout: _StateLayout, value: Any, made: Any) -> Any:
    held = getattr(value, "__dict__", {})
    for name in held.keys() - layout.declared:
        if name in layout.given or name not in made.__dict__:
            made.__dict__[name] = copied(held[name])
    for name in layout.slots:
        if hasattr(value, name) and (name in layout.given or not hasattr(made, name)):
            object.__setattr__(made, name, copied(getattr(value, name)))
    more = getattr(value, "__pydantic_extra__", None)
    if more:
        made.__pydantic_extra__.update(copied(more))
    return made


def _layout_of(cls: type) -> _StateLayout:
    layout = _layouts.get(cls)
    if layout is None:
        layout = _layouts[cls] = _new_layout(cls)
    return layout


def _new_layout(cls: type) -> _StateLayout:
    declared = frozenset(attribute_hints(cls))
    try:
        parameters = frozenset(inspect.signature(cls).parameters)
    except (TypeError, ValueError):
        parameters = frozenset()
    members = {name: value for base in cls.__mro__ for name, value in vars(base).items()}
    slots = [name for name, value in members.items() if isinstance(value, _SLOT)]
    computed = {name for name, value in members.items() if hasattr(value, "__set_name__")}
    own = [name for name in slots if name not in declared and not name.startswith("__")]
    # Library classes have all that is declared, so one further name makes them more.
    is_counted = kind_of(cls) in ("dataclass", "attrs") and not slots and parameters <= declared
    count = len(declared) if is_counted else -1
    return _StateLayout(declared | computed, parameters - declared, tuple(own), count)


_SLOT = types.MemberDescriptorType
