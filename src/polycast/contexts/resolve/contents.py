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
        return one_of(_said(cls)) if any(True for _ in _said(cls)) else _ANYTHING
    return _ANYTHING if _has_a_state_of_its_own(cls) else None


def _said(cls: type) -> Iterator[Any]:
    """What the elements are of, as in `class Lines(list[Line])`."""
    for base in cls.__mro__:
        for hint in vars(base).get("__orig_bases__", ()):
            origin = typing.get_origin(hint)
            if isinstance(origin, type) and extends_container(origin):
                yield from (each for each in typing.get_args(hint) if each is not ...)


def _has_a_state_of_its_own(cls: type) -> bool:
    """Whether objects hold something, although their class declares no attribute."""
    if kind_of(cls) not in ("class", "value") or attribute_hints(cls) or is_standard_library(cls):
        return False
    own = [each for each in cls.__mro__ if not is_machinery(each) and not is_standard_library(each)]
    return any("__init__" in vars(each) or vars(each).get("__slots__") for each in own)


# -- objects that are made once more ---------------------------------------------------------------


@dataclass(frozen=True)
class _Known:
    """What is asked of a class once."""

    declared: frozenset[str]
    given: frozenset[str]
    """What its constructor takes besides, so that it does not compute that."""
    slots: tuple[str, ...]
    """Those that no annotation declares."""
    count: int
    """How many are in the dictionary of an object that holds no more; -1 if one cannot say."""


_known: weakref.WeakKeyDictionary[type, _Known] = weakref.WeakKeyDictionary()


def undeclared(cls: type) -> frozenset[str]:
    """What objects of a class surely hold although it is not declared: its constructor takes it."""
    if kind_of(cls) != "class" or not any("__init__" in vars(each) for each in cls.__mro__[:-1]):
        return frozenset()
    known = _known.get(cls) or _look(cls)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(cls).parameters
    return frozenset(name for name in known.given if parameters[name].kind not in variable)


def may_hold_more(cls: type) -> bool:
    """Whether objects may have attributes that their class does not declare."""
    if is_frozen(cls):
        return False  # those that are there all the same were put there as it was made
    match kind_of(cls):
        case "pydantic":
            return bool(getattr(cls, "model_config", {}).get("extra") == "allow")
        case "dataclass" | "attrs" | "class" | "struct":
            return getattr(cls, "__dictoffset__", 0) != 0 or bool(_look(cls).slots)
    return False


def completing(cls: type) -> Callable[[Any, Any], Any]:
    """What completes objects that were made of the attributes of others of a class.

    What the class has computed anew stays; what is only known from the other object is copied.
    """
    found = _known.get(cls) or _look(cls)
    count = found.count

    def completed(value: Any, made: Any) -> Any:
        if count >= 0 and len(value.__dict__) == count:
            return made
        return _completed(found, value, made)

    return completed


def _completed(known: _Known, value: Any, made: Any) -> Any:
    held = getattr(value, "__dict__", {})
    for name in held.keys() - known.declared:
        if name in known.given or name not in made.__dict__:
            made.__dict__[name] = copied(held[name])
    for name in known.slots:
        if hasattr(value, name) and (name in known.given or not hasattr(made, name)):
            object.__setattr__(made, name, copied(getattr(value, name)))
    more = getattr(value, "__pydantic_extra__", None)
    if more:
        made.__pydantic_extra__.update(copied(more))
    return made


def _look(cls: type) -> _Known:
    declared = frozenset(attribute_hints(cls))
    try:
        parameters = frozenset(inspect.signature(cls).parameters)
    except (TypeError, ValueError):
        parameters = frozenset()
    members = {name: each for base in cls.__mro__ for name, each in vars(base).items()}
    slots = [name for name, each in members.items() if isinstance(each, types.MemberDescriptorType)]
    computed = {name for name, each in members.items() if hasattr(each, "__set_name__")}
    own = [name for name in slots if name not in declared and not name.startswith("__")]
    # Those of libraries have all that is declared, so one that is not makes them more.
    is_counted = kind_of(cls) in ("dataclass", "attrs") and not slots and parameters <= declared
    count = len(declared) if is_counted else -1
    found = _Known(declared | computed, parameters - declared, tuple(own), count)
    _known[cls] = found
    return found
