"""Which values are immutable, and how objects are made from attributes and completed."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import inspect
import types
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polycast.contexts.resolve.attribute_shapes import attribute_hints, has_attributes, shape_of
from polycast.events.instances import anatomy_of, rebuild
from polycast.events.isolation import copied, is_frozen
from polycast.typesystem.attributes import Default, declared_defaults
from polycast.typesystem.class_cache import cached_by_class
from polycast.typesystem.class_kinds import is_protocol, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.contexts.resolve.attribute_shapes import ValueShape

_UNCHANGEABLE: tuple[type, ...] = (
    *(int, float, complex, str, bytes, bool, type(None), range),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
    *(decimal.Decimal, uuid.UUID, enum.Enum),
)


def is_unchangeable(cls: type) -> bool:
    """Whether objects of a class, and all that they hold, are immutable."""
    return open_attributes(cls) == ()


@cached_by_class
def open_attributes(cls: type) -> tuple[str, ...] | None:
    """The attributes that may hold mutable values; None if the objects are mutable themselves.

    An attribute may hold a subclass of its declared class, with mutable attributes of its own.
    """
    if cls in _UNCHANGEABLE or (issubclass(cls, _UNCHANGEABLE) and kind_of(cls) != "value"):
        return ()
    if not is_frozen(cls):
        return None
    hints = attribute_hints(cls)
    return tuple(name for name, hint in hints.items() if not stays(shape_of(hint)))


def stays(shape: ValueShape) -> bool:
    """Whether all values of a shape are immutable, those of subclasses included."""
    return (
        not shape.opaque
        and all(is_closed(cls) and is_unchangeable(cls) for cls in shape.classes)
        and all(
            container.kind in (tuple, frozenset) and stays(container.inner)
            for container in shape.containers
        )
    )


def is_closed(cls: type) -> bool:
    """Whether no subclass is expected: built-in classes, enums and final ones."""
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
    """Attributes, and the keywords of its constructor for all of them."""
    optional: frozenset[str] = frozenset()
    """Attributes that need not be given."""
    defaults: tuple[tuple[str, Default], ...] = ()
    """Optional attributes that its constructor requires all the same, with their defaults."""
    own: frozenset[str] = frozenset()
    """Attributes that it sets itself."""
    by_state: bool = False
    """Whether its constructor wants something else, so attributes are assigned without it."""
    is_assigned: bool = False
    """Whether its constructor only assigns attributes, so that leaving it out changes nothing."""


class NoMaker(Exception):
    """Objects of a class cannot be made."""


@cached_by_class
def maker_of(cls: type) -> Maker:
    """How to make objects of a class; `NoMaker` if that cannot be."""
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
            return [name for name, field in cls.__dataclass_fields__.items() if not field.init]
        case "attrs":
            return [attribute.name for attribute in cls.__attrs_attrs__ if not attribute.init]
    return []


def _only_assigns(cls: Any) -> bool:
    """Whether the constructor of a dataclass only assigns attributes.

    Then the attributes that it does not take are not computed either, and can be copied.
    """
    if kind_of(cls) != "dataclass" or hasattr(cls, "__post_init__"):
        return False
    home = next(base for base in cls.__mro__ if "__dataclass_params__" in vars(base))
    parameters = home.__dataclass_params__
    if not parameters.init or cls.__init__ is not home.__init__:
        return False
    if type(cls).__call__ is not type.__call__ or cls.__new__ is not object.__new__:
        return False
    return bool(parameters.frozen) or cls.__setattr__ is object.__setattr__


def _keyword(cls: Any, name: str) -> str:
    match kind_of(cls):
        case "attrs":
            attributes = {attribute.name: attribute for attribute in cls.__attrs_attrs__}
            return getattr(attributes[name], "alias", None) or name.lstrip("_")
        case "pydantic":
            alias = cls.__pydantic_fields__[name].validation_alias
            return alias if isinstance(alias, str) else name
    return name


def _accepts(parameters: dict[str, inspect.Parameter], keywords: dict[str, str]) -> bool:
    """Whether a constructor takes all attributes, and needs nothing else."""
    names = {
        name
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    needed = {name for name, parameter in parameters.items() if _is_needed(parameter)}
    wanted = set(keywords.values())
    return wanted <= names and needed <= wanted


def _is_needed(parameter: inspect.Parameter) -> bool:
    several = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in several


def _places(parameters: dict[str, inspect.Parameter], keywords: dict[str, str]) -> tuple[str, ...]:
    """The attributes that can be given by position, in the order of the parameters."""
    by_keyword = {keyword: name for name, keyword in keywords.items()}
    places = []
    for name, parameter in parameters.items():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or name not in by_keyword:
            break
        places.append(by_keyword[name])
    return tuple(places)


def alike(like: Any, parts: Any) -> Any:
    """Converted elements in a container of the same kind as the original.

    A deque keeps its `maxlen`, and a defaultdict a built-in factory: any other factory may make
    objects that the other side does not have.
    """
    if isinstance(like, collections.deque):
        return collections.deque(parts, like.maxlen)
    if isinstance(like, collections.defaultdict):
        factory = like.default_factory
        known = factory in (list, dict, set, int, float, str, bool, tuple, frozenset)
        return collections.defaultdict(factory if known else None, parts)
    return collections.OrderedDict(parts)


def put_together(cls: type, state: dict[str, Any]) -> Any:
    """An object whose constructor takes other arguments than its attributes."""
    anatomy = anatomy_of(cls)
    missing = {
        name: default.make()
        for name, default in declared_defaults(cls).items()
        if default is not None and name not in state
    }
    return rebuild(cls, anatomy, {**missing, **state}, {})


# -- completing rebuilt objects --------------------------------------------------------------------


@dataclass(frozen=True)
class _StateLayout:
    """Where objects of a class hold what it does not declare."""

    declared: frozenset[str]
    given: frozenset[str]  # further parameters of the constructor, which it does not compute
    slots: tuple[str, ...]  # those without an annotation
    count: int  # of the names in the dictionary of an object that holds no more; -1 if unknown


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


@cached_by_class
def _layout_of(cls: type) -> _StateLayout:
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
