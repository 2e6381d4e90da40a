"""Which values nobody can change, and how objects of a class are made."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import inspect
import uuid
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polycast.contexts.resolve.attribute_shapes import attribute_hints, has_attributes, shape_of
from polycast.events.instances import anatomy_of, rebuild
from polycast.events.isolation import copied, is_frozen
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import is_protocol, kind_of

if TYPE_CHECKING:
    from polycast.contexts.resolve.attribute_shapes import ValueShape
    from polycast.typesystem.attributes import Default

__all__ = [
    "Maker",
    "NoMaker",
    "alike",
    "copied",
    "is_closed",
    "is_unchangeable",
    "maker_of",
    "open_attributes",
    "put_together",
    "stays",
]

_UNCHANGEABLE: tuple[type, ...] = (
    *(int, float, complex, str, bytes, bool, type(None), range),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
    *(decimal.Decimal, uuid.UUID, enum.Enum),
)


def is_unchangeable(cls: type) -> bool:
    """Whether objects of a class, and all they hold, stay what they are, whatever they hold."""
    return open_attributes(cls) == ()


_open: weakref.WeakKeyDictionary[type, tuple[str, ...] | None] = weakref.WeakKeyDictionary()
_UNKNOWN: tuple[str, ...] = ("not asked before",)


def open_attributes(cls: type) -> tuple[str, ...] | None:
    """The attributes that may hold what can be changed; None if objects themselves can be.

    Where a class is declared, one that extends it may be met, and nobody knows what that holds.
    """
    found = _open.get(cls, _UNKNOWN)
    if found is _UNKNOWN:
        found = _open[cls] = _opened(cls)
    return found


def _opened(cls: type) -> tuple[str, ...] | None:
    if cls in _UNCHANGEABLE or (issubclass(cls, _UNCHANGEABLE) and kind_of(cls) != "value"):
        return ()
    if not is_frozen(cls):
        return None
    hints = attribute_hints(cls)
    return tuple(name for name, hint in hints.items() if not stays(shape_of(hint)))


def stays(shape: ValueShape) -> bool:
    """Whether nobody can change what an annotation names, whatever extends that."""
    return (
        not shape.opaque
        and all(is_closed(cls) and is_unchangeable(cls) for cls in shape.classes)
        and all(each.kind in (tuple, frozenset) and stays(each.inner) for each in shape.containers)
    )


def is_closed(cls: type) -> bool:
    """Whether no subclass will ever be met: of built-in classes, enums and final ones."""
    if getattr(cls, "__final__", False) or issubclass(cls, enum.Enum):
        return True
    return cls.__module__ in ("builtins", "datetime", "decimal", "uuid") or not _is_python(cls)


def _is_python(cls: type) -> bool:
    return bool(cls.__flags__ & (1 << 9))  # Py_TPFLAGS_HEAPTYPE


@dataclass(frozen=True)
class Maker:
    """How objects of a class are made from their attributes."""

    places: tuple[str, ...] = ()
    """Attributes that its constructor takes by position, in order."""
    names: tuple[tuple[str, str], ...] = ()
    """Attributes, and the keywords by which it takes all of them."""
    optional: frozenset[str] = frozenset()
    """Attributes that need not be given."""
    defaults: tuple[tuple[str, Default], ...] = ()
    """Those of them that its constructor wants all the same, and what they are then."""
    own: frozenset[str] = frozenset()
    """Attributes that it sets itself."""
    by_state: bool = False
    """Its constructor wants something else: the attributes are put in place without it."""
    is_assigned: bool = False
    """That is all that its constructor would do, if it took all of them."""


class NoMaker(Exception):
    """Why objects of a class cannot be made."""


_makers: weakref.WeakKeyDictionary[type, Maker] = weakref.WeakKeyDictionary()


def maker_of(cls: type) -> Maker:
    """How to make objects of a class; `NoMaker` if that cannot be."""
    found = _makers.get(cls)
    if found is None:
        found = _makers[cls] = _maker(cls)
    return found


def _maker(cls: type) -> Maker:
    if is_protocol(cls) or inspect.isabstract(cls):
        raise NoMaker(f"{cls.__name__} is abstract: there are no objects of it")
    if not has_attributes(cls) and kind_of(cls) in ("value", "enum", "flag"):
        raise NoMaker(f"{cls.__name__} has no attributes to be made from")
    defaults = declared_defaults(cls)
    optional = frozenset(name for name, default in defaults.items() if default is not None)
    own = frozenset(_uninitialised(cls))
    if own and _only_assigns(cls):
        return Maker(optional=optional | own, by_state=True, is_assigned=True)
    keywords = {name: _keyword(cls, name) for name in defaults if name not in own}
    try:
        parameters = dict(inspect.signature(cls).parameters)
    except (TypeError, ValueError):
        parameters = {}
    if not _accepts(parameters, keywords):
        return Maker(optional=optional, by_state=True)
    wanting = tuple(
        (name, default)
        for name, default in defaults.items()
        if default is not None and name not in own and _is_needed(parameters[keywords[name]])
    )
    places = _places(parameters, keywords)
    return Maker(places, tuple(keywords.items()), optional, wanting, own)


def _uninitialised(cls: Any) -> list[str]:
    match kind_of(cls):
        case "dataclass":
            return [name for name, each in cls.__dataclass_fields__.items() if not each.init]
        case "attrs":
            return [each.name for each in cls.__attrs_attrs__ if not each.init]
    return []


def _only_assigns(cls: Any) -> bool:
    """Whether the constructor of a dataclass puts attributes in place, and nothing else.

    Then those that it does not take are as good as the others, and nothing computes them.
    """
    if kind_of(cls) != "dataclass" or hasattr(cls, "__post_init__"):
        return False
    home = next(each for each in cls.__mro__ if "__dataclass_params__" in vars(each))
    parameters = home.__dataclass_params__
    if not parameters.init or cls.__init__ is not home.__init__:
        return False
    if type(cls).__call__ is not type.__call__ or cls.__new__ is not object.__new__:
        return False
    return bool(parameters.frozen) or cls.__setattr__ is object.__setattr__


def _keyword(cls: Any, name: str) -> str:
    match kind_of(cls):
        case "attrs":
            found = next(each for each in cls.__attrs_attrs__ if each.name == name)
            return getattr(found, "alias", None) or name.lstrip("_")
        case "pydantic":
            alias = cls.__pydantic_fields__[name].validation_alias
            return alias if isinstance(alias, str) else name
    return name


def _accepts(parameters: dict[str, inspect.Parameter], keywords: dict[str, str]) -> bool:
    """Whether a constructor takes all attributes, and needs nothing else."""
    names = {
        name
        for name, each in parameters.items()
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    }
    needed = {name for name, each in parameters.items() if _is_needed(each)}
    wanted = set(keywords.values())
    return wanted <= names and needed <= wanted


def _is_needed(parameter: inspect.Parameter) -> bool:
    several = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in several


def _places(parameters: dict[str, inspect.Parameter], keywords: dict[str, str]) -> tuple[str, ...]:
    """The attributes that come first by position, in the order of the parameters."""
    by_keyword = {keyword: name for name, keyword in keywords.items()}
    found = []
    for name, each in parameters.items():
        if each.kind is not each.POSITIONAL_OR_KEYWORD or name not in by_keyword:
            break
        found.append(by_keyword[name])
    return tuple(found)


def alike(like: Any, parts: Any) -> Any:
    """What was made of the elements of a container, in one of the same kind.

    A deque keeps its length, and a defaultdict a built-in factory: any other one may make objects
    that the other side does not have.
    """
    if isinstance(like, collections.deque):
        return collections.deque(parts, like.maxlen)
    if isinstance(like, collections.defaultdict):
        factory = like.default_factory
        known = factory in (list, dict, set, int, float, str, bool, tuple, frozenset)
        return collections.defaultdict(factory if known else None, parts)
    return collections.OrderedDict(parts)


def put_together(cls: type, state: dict[str, Any]) -> Any:
    """An object of a class whose constructor wants something else than its attributes."""
    anatomy = anatomy_of(cls)
    missing = {
        name: default.make()
        for name, default in declared_defaults(cls).items()
        if default is not None and name not in state
    }
    return rebuild(cls, anatomy, {**missing, **state}, {})
