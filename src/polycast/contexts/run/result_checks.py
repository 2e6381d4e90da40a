"""What functions give, looked at when they give it: types are enforced at run time, too."""

from __future__ import annotations

import collections.abc
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typing_extensions

from polycast.contexts.check.assignability import hint_text, is_one
from polycast.contexts.resolve.attribute_shapes import ValueShape, attribute_hints, filled, shape_of
from polycast.errors import BadResultError
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import is_protocol
from polycast.typesystem.type_hints import hints_of

if TYPE_CHECKING:
    from polycast.contexts.declare.rule_functions import RuleFunction

__all__ = ["ExpectedResult", "expected", "is_of"]


@dataclass(frozen=True, eq=False)
class ExpectedResult:
    """What a function has to give at a path."""

    function: str
    where: str
    shape: ValueShape

    @property
    def sure(self) -> tuple[type, ...]:
        """The classes of which an object needs no further look."""
        shape = self.shape
        generic = [cls for cls, _ in shape.parameters]
        partly = (*shape.literal, *generic, *([tuple] if shape.places else []))
        found = [cls for cls in shape.classes if cls not in partly]
        return (*found, *([type(None)] if found and shape.none else []))

    def checked(self, value: Any) -> Any:
        """The value itself; `BadResultError` if it is something else."""
        if is_of(value, self.shape):
            return value
        wanted = hint_text(self.shape.hint)
        raise BadResultError(self.function, value, where=self.where, wanted=wanted)


def expected(function: RuleFunction, wanted: ValueShape, where: str) -> ExpectedResult | None:
    """What a function says that it gives; if it does not say, what the target takes.

    None if that is anything at all.
    """
    said = shape_of(function.result)
    shape = wanted if said.unknown else said
    return None if shape.unknown else ExpectedResult(function.name, where, shape)


def is_of(value: Any, shape: ValueShape) -> bool:
    """Whether a value is of a shape: its class, and in containers that of each element."""
    if shape.unknown:
        return True
    if value is None:
        return shape.none or type(None) in shape.classes
    if any(_is_sealed_one(value, part) for part in shape.sealed):
        return True
    cls = type(value)
    if cls in shape.literal and any(named == (cls, value) for named in shape.values):
        return True
    whole = [each for each in shape.classes if each not in shape.literal]
    generic = dict(shape.parameters)
    if any(
        _is_instance(value, each) and (each not in generic or _is_of_all(value, each, shape))
        for each in whole
        if each is not tuple or not shape.places
    ):
        return True
    return any(_is_held(value, each.kind, each.inner, each.keys) for each in shape.containers) or (
        isinstance(value, tuple) and any(_are_placed(value, places) for places in shape.places)
    )


def _is_sealed_one(value: Any, part: Any) -> bool:
    """Whether a value is of an annotation that is not looked into."""
    origin, arguments = typing.get_origin(part) or part, typing.get_args(part)
    if typing_extensions.is_typeddict(origin):
        hints = hints_of(origin)
        return (
            isinstance(value, dict)
            and origin.__required_keys__ <= value.keys() <= hints.keys()
            and all(is_of(item, shape_of(hints[key])) for key, item in value.items())
        )
    if origin is type:
        above = arguments[0] if arguments and isinstance(arguments[0], type) else object
        return isinstance(value, type) and issubclass(value, above)
    return callable(value) if origin is not tuple else isinstance(value, tuple)


def _is_instance(value: Any, cls: type) -> bool:
    if is_one(type(value), cls):
        return True
    # What a class does not declare, an object may have all the same.
    return is_protocol(cls) and all(hasattr(value, name) for name in declared_defaults(cls))


def _is_of_all(value: Any, cls: Any, shape: ValueShape) -> bool:
    """Whether what an object of a generic class holds is of what that is said to be of."""
    names: tuple[Any, ...] = getattr(cls, "__parameters__", ())
    hints = attribute_hints(cls)
    for inside in (shapes for each, shapes in shape.parameters if each is cls):
        given = {name: each.hint for name, each in zip(names, inside, strict=False)}
        held = {name: filled(hint, given) for name, hint in hints.items()}
        if all(is_of(getattr(value, name), shape_of(hint)) for name, hint in held.items()):
            return True
    return False


def _are_placed(value: tuple[Any, ...], places: tuple[ValueShape, ...]) -> bool:
    return len(value) == len(places) and all(map(is_of, value, places))


_ALSO: dict[type, type] = {  # an annotation may name what is more general
    dict: collections.abc.Mapping,
    collections.abc.Sequence: collections.abc.Collection,
}


def _is_held(value: Any, kind: type, inner: ValueShape, keys: ValueShape | None) -> bool:
    if (
        not isinstance(value, collections.abc.Collection)
        or not isinstance(value, _ALSO.get(kind, kind))
        or isinstance(value, str | bytes)
    ):
        return False
    if isinstance(value, collections.abc.Mapping):
        known = keys is None or all(is_of(key, keys) for key in value)
        return known and all(is_of(item, inner) for item in value.values())
    return all(is_of(item, inner) for item in value)
