"""Types as the judge of contexts sees them: attributes, supertypes, what fits where."""

from __future__ import annotations

import functools
import types
import typing
from typing import Any

import attrs

from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import kind_of
from polycast.typesystem.describe import supertypes_of
from polycast.typesystem.standard_types import is_standard
from polycast.typesystem.type_expressions import hints_of

NONE = type(None)
CONTAINERS = (list, tuple, dict, set, frozenset)


@functools.lru_cache(maxsize=1_000)  # nothing else takes as long
def attributes(cls: type) -> dict[str, Any]:
    """The attributes of a type with their annotations; built-in classes have none."""
    if is_standard(cls):
        return {}
    hints = hints_of(cls)
    return {name: hints.get(name, Any) for name in declared_defaults(cls)}


def alternatives(hint: Any) -> list[Any]:
    """The members of a union, or the annotation itself; `None` is its class."""
    if typing.get_origin(hint) is typing.Annotated:
        return alternatives(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [part for argument in typing.get_args(hint) for part in alternatives(argument)]
    return [NONE if hint is None else hint]


def element(alternative: Any) -> tuple[type, Any] | None:
    """Kind of a container and the annotation of what rules apply to in it."""
    kind, inner = typing.get_origin(alternative), typing.get_args(alternative)
    if kind is tuple:
        return (tuple, inner[0]) if len(inner) == 2 and inner[1] is ... else None
    return (kind, inner[-1]) if kind in CONTAINERS else None


def is_class(alternative: Any) -> bool:
    """Whether an alternative is a class of its own, not a container and not opaque."""
    return isinstance(alternative, type) and alternative not in (*CONTAINERS, object, Any)


def class_of(alternative: Any) -> type | None:
    """The class of what is met there, of a tuple of fixed length too; None if nobody knows."""
    if typing.get_origin(alternative) is tuple and element(alternative) is None:
        return tuple
    return alternative if is_class(alternative) and alternative is not NONE else None


def classes(hint: Any) -> list[type]:
    """The classes an attribute is 'of type', in containers and unions too; never None."""
    found: list[type] = []
    for part in alternatives(hint):
        inner = element(part)
        if inner is not None:
            found += classes(inner[1])
        elif (cls := class_of(part)) is not None:
            found.append(cls)
    return list(dict.fromkeys(found))


def breadth_first(cls: type) -> list[type]:
    """A type and its declared supertypes, level by level, each where it is met first."""
    order = [cls]
    for cls in order:
        order += [base for base in supertypes_of(cls) if base not in order]
    return order


def longest_chain(met: type, named: type) -> int:
    """How many `extends` lie between, on the longest way."""
    if met is named:
        return 0
    ways = [longest_chain(base, named) for base in supertypes_of(met) if named in base.__mro__]
    return 1 + max(ways)


def derived(met: type, named: frozenset[type]) -> tuple[int, int]:
    """How derived the type named is, seen from the type met: smaller is more derived."""
    return min(
        (longest_chain(met, named_type), breadth_first(met).index(named_type))
        for named_type in named
        if named_type in met.__mro__
    )


def is_a(met: type, named: frozenset[type]) -> bool:
    """Whether the type met is a subtype of one of those named."""
    return any(named_type in met.__mro__ for named_type in named)


def fits(given: Any, needed: Any) -> bool:
    """Whether every value of one annotation may stand where the other is declared."""
    return all(
        any(_fits_alternative(one, other) for other in alternatives(needed))
        for one in alternatives(given)
    )


def _fits_alternative(given: Any, needed: Any) -> bool:
    if given is Any or needed is Any or given == needed:
        return True
    if given in CONTAINERS:  # nobody knows of what
        return typing.get_origin(needed) is given
    if class_of(given) is tuple and typing.get_origin(given) is tuple:
        return _tuple_fits(typing.get_args(given), needed)
    one, other = element(given), element(needed)
    if one is not None and other is not None:
        keys = [typing.get_args(mapping)[0] for mapping in (given, needed)]
        return one[0] is other[0] and fits(one[1], other[1]) and (one[0] is not dict or fits(*keys))
    if not isinstance(given, type) or not isinstance(needed, type):
        return False
    return needed in given.__mro__ or (needed is float and int in given.__mro__)


def _tuple_fits(places: tuple[Any, ...], needed: Any) -> bool:
    """Whether a tuple of fixed length fits, place by place."""
    if typing.get_origin(needed) is not tuple:
        return needed is tuple
    other = element(needed)
    wanted = typing.get_args(needed) if other is None else (other[1],) * len(places)
    return len(places) == len(wanted) and all(map(fits, places, wanted))


def is_own(cls: Any, name: str) -> bool:
    """Whether a class sets an attribute itself. Left open: it is then never copied."""
    if kind_of(cls) == "dataclass":
        # Without code of its own a constructor only assigns, and the attribute is like any other.
        return not cls.__dataclass_fields__[name].init and hasattr(cls, "__post_init__")
    return kind_of(cls) == "attrs" and not getattr(attrs.fields(cls), name).init


def make(cls: Any, values: dict[str, Any]) -> Any:
    """An object from its attributes, whatever its constructor takes."""
    given = {key: value for key, value in values.items() if not is_own(cls, key)}
    match kind_of(cls):
        case "class" | "value" | "protocol":
            new = object.__new__(cls)
            for key, value in given.items():
                setattr(new, key, value)
            return new
        case "attrs":
            return cls(**{getattr(attrs.fields(cls), key).alias: given[key] for key in given})
        case "pydantic":
            fields = cls.model_fields
            return cls(**{fields[key].alias or key: given[key] for key in given})
        case "dataclass":
            fields = cls.__dataclass_fields__
            new = cls(**{key: value for key, value in given.items() if fields[key].init})
            for key, value in given.items():
                object.__setattr__(new, key, value)
            return new
    return cls(**given)
