"""Checks of what functions return: types are enforced at run time, too."""

from __future__ import annotations

import collections.abc
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typing_extensions

from polycast.contexts.check.assignability import hint_text, is_one
from polycast.contexts.resolve.attribute_shapes import (
    ValueShape,
    attribute_hints,
    filled,
    keys_of,
    shape_of,
)
from polycast.errors import BadResultError
from polycast.errors.failures import check_has_run
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import is_protocol

if TYPE_CHECKING:
    from polycast.contexts.declare.rule_functions import RuleFunction
    from polycast.contexts.resolve.attribute_shapes import Container


@dataclass(frozen=True, eq=False)
class ExpectedResult:
    """What a function has to return at a path."""

    function: str
    where: str
    shape: ValueShape

    @property
    def sure(self) -> tuple[type, ...]:
        """The classes whose objects need no further check."""
        shape = self.shape
        generic = [cls for cls, _ in shape.parameters]
        partly = (*shape.literal, *generic, *([tuple] if shape.places else []))
        classes = [cls for cls in shape.classes if cls not in partly]
        return (*classes, *([type(None)] if classes and shape.none else []))

    def checked(self, value: Any) -> Any:
        """The value itself; an error if it is not as expected, or is still to run."""
        if self.shape.unknown:
            check_has_run(f"{self.function}, called at {self.where},", value)
        if is_of(value, self.shape):
            return value
        wanted = hint_text(self.shape.hint)
        raise BadResultError(self.function, value, where=self.where, wanted=wanted)


def expected(function: RuleFunction, wanted: ValueShape, where: str) -> ExpectedResult:
    """The annotated result of a function, or without annotation what the target accepts."""
    annotated = shape_of(function.result)
    return ExpectedResult(function.name, where, wanted if annotated.unknown else annotated)


def is_of(value: Any, shape: ValueShape) -> bool:
    """Whether a value has a shape: by its class, and in containers by that of each element."""
    if shape.unknown:
        return True
    if value is None:
        return shape.none or type(None) in shape.classes
    if any(_is_sealed_one(value, part) for part in shape.sealed):
        return True
    cls = type(value)
    if cls in shape.literal and any(named == (cls, value) for named in shape.values):
        return True
    whole = [allowed for allowed in shape.classes if allowed not in shape.literal]
    generic = dict(shape.parameters)
    if any(
        _is_instance(value, allowed)
        and (allowed not in generic or _is_of_all(value, allowed, shape))
        for allowed in whole
        if allowed is not tuple or not shape.places
    ):
        return True
    if any(_is_held(value, container) for container in shape.containers):
        return True
    return isinstance(value, tuple) and any(_are_placed(value, places) for places in shape.places)


def _is_sealed_one(value: Any, part: Any) -> bool:
    """Whether a value matches an annotation whose inside no rule reaches."""
    origin, arguments = typing.get_origin(part) or part, typing.get_args(part)
    if typing_extensions.is_typeddict(origin):
        hints = keys_of(part)
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
    # An object may have attributes that its class does not declare.
    return is_protocol(cls) and all(hasattr(value, name) for name in declared_defaults(cls))


def _is_of_all(value: Any, cls: Any, shape: ValueShape) -> bool:
    """Whether the attributes of an object match the arguments of its generic class."""
    names: tuple[Any, ...] = getattr(cls, "__parameters__", ())
    hints = attribute_hints(cls)
    for inside in (shapes for generic, shapes in shape.parameters if generic is cls):
        given = {name: argument.hint for name, argument in zip(names, inside, strict=False)}
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


def _is_held(value: Any, container: Container) -> bool:
    kind = _ALSO.get(container.kind, container.kind)
    if not isinstance(value, collections.abc.Collection) or not isinstance(value, kind):
        return False
    if isinstance(value, str | bytes):
        return False
    if isinstance(value, collections.abc.Mapping):
        keys = container.keys
        keys_fit = keys is None or all(is_of(key, keys) for key in value)
        return keys_fit and all(is_of(item, container.inner) for item in value.values())
    return all(is_of(item, container.inner) for item in value)
