"""Whether one annotation allows the values of another, and whether it allows a value."""

from __future__ import annotations

import collections.abc
import typing
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typing_extensions

from polycast.contexts.resolve.attribute_shapes import (
    CONTAINERS,
    ValueShape,
    attribute_hints,
    filled,
    keys_of,
    shape_of,
)
from polycast.errors import BadResultError
from polycast.errors.failures import check_has_run
from polycast.typesystem import conforms
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import is_protocol
from polycast.typesystem.type_expressions import hints_of, unwrapped

if TYPE_CHECKING:
    from collections.abc import Collection

    from polycast.contexts.declare.rule_functions import RuleFunction
    from polycast.contexts.resolve.attribute_shapes import Container

_WIDER: dict[type, tuple[type, ...]] = {int: (float, complex), float: (complex,)}


def fits(given: Any, wanted: Any) -> bool:
    """Whether another annotation allows every value of one; an unknown one fits."""
    plain, target = unwrapped(given)[0], unwrapped(wanted)[0]
    if plain == target:
        return True
    return shape_fits(shape_of(plain), shape_of(target))


def shape_fits(given: ValueShape, wanted: ValueShape) -> bool:
    """Whether a shape allows every value of another."""
    if wanted.unknown:
        return True
    if not all(sealed_fits(part, wanted) for part in given.sealed):
        return False
    if given.unknown:
        return True
    return (
        (wanted.none or not given.none)
        and all(value_fits(cls, given, wanted) for cls in given.classes)
        and all(container_fits(container, wanted) for container in given.containers)
        and _places_fit(given, wanted)
        and all(parameters_fit(cls, given, wanted) for cls in given.classes)
    )


def met_fits(met: type, held: ValueShape, wanted: ValueShape) -> bool:
    """Whether a shape allows objects of a class that are met where another shape is held."""
    if not value_fits(met, held, wanted) or not parameters_fit(met, held, wanted):
        return False
    return met is not tuple or _places_fit(held, wanted)


def parameters_fit(met: type, held: ValueShape, wanted: ValueShape) -> bool:
    """Whether the arguments of a generic class fit; where one side has none, they do."""
    if not wanted.parameters or wanted.unknown:
        return True
    given = [shapes for cls, shapes in held.parameters if cls in met.__mro__] or _inherited(met)
    said = [shapes for cls, shapes in wanted.parameters if cls in met.__mro__]
    if not given or not said:
        return True
    return all(
        any(len(one) == len(other) and all(map(shape_fits, one, other)) for other in said)
        for one in given
    )


def _inherited(cls: type) -> list[tuple[ValueShape, ...]]:
    """The arguments of the generic classes that a class extends."""
    bases = [base for above in cls.__mro__ for base in vars(above).get("__orig_bases__", ())]
    said = [base for base in bases if not getattr(base, "__parameters__", ())]
    return [tuple(map(shape_of, typing.get_args(base))) for base in said if typing.get_args(base)]


def sealed_fits(part: Any, wanted: ValueShape) -> bool:
    """Whether a shape allows a sealed annotation, such as a TypedDict."""
    origin = typing.get_origin(part) or part
    if wanted.unknown or any(_is_sealed_as(part, other) for other in wanted.sealed):
        return True
    if typing_extensions.is_typeddict(origin):
        held = [shape_of(hint) for hint in keys_of(part).values()]
        return takes_any(dict, wanted) or any(
            taker.kind is dict
            and (taker.keys is None or shape_fits(_TEXT, taker.keys))
            and all(shape_fits(inner, taker.inner) for inner in held)
            for taker in wanted.containers
        )
    if origin is tuple:
        return takes_any(tuple, wanted)
    return False


_TEXT = shape_of(str)


def _is_sealed_as(given: Any, wanted: Any) -> bool:
    """Whether one sealed annotation allows every value of another."""
    if given == wanted:
        return True
    origin, target = typing.get_origin(given) or given, typing.get_origin(wanted) or wanted
    if typing_extensions.is_typeddict(origin) and typing_extensions.is_typeddict(target):
        return _keys_are_of(given, wanted)
    if origin is not target or origin is tuple:
        return False
    inside, outside = typing.get_args(given), typing.get_args(wanted)
    if not inside or not outside:
        return True  # a bare `type` is of any class
    are_classes = all(isinstance(argument, type) for argument in (*inside, *outside))
    return origin is type and are_classes and issubclass(inside[0], outside[0])


_compared: ContextVar[frozenset[tuple[Any, Any]]] = ContextVar("_compared", default=frozenset())


def _keys_are_of(given: Any, wanted: Any) -> bool:
    """Whether a TypedDict has all keys of another; one may contain itself."""
    compared = _compared.get()
    if given == wanted or (given, wanted) in compared:
        return True
    origin, target = typing.get_origin(given) or given, typing.get_origin(wanted) or wanted
    if not target.__required_keys__ <= origin.__required_keys__:
        return False
    one, other = keys_of(given), keys_of(wanted)
    before = _compared.set(compared | {(given, wanted)})
    try:
        return all(name in one and fits(one[name], hint) for name, hint in other.items())
    finally:
        _compared.reset(before)


def value_fits(cls: type, held: ValueShape, wanted: ValueShape) -> bool:
    """Whether a shape allows a class; of a `Literal`, only its values have to fit."""
    if class_fits(cls, wanted):
        return True
    named = {value for value in held.values if value[0] is cls}
    return cls in held.literal and named <= wanted.values


def class_fits(cls: type, wanted: ValueShape) -> bool:
    """Whether a shape allows all objects of a class."""
    if cls in CONTAINERS and any(holds(cls, container.kind) for container in wanted.containers):
        return True  # the elements of a bare `list` may be anything
    whole = [target for target in wanted.classes if target not in wanted.literal]
    if cls is not tuple and wanted.places and tuple in cls.__mro__ and not _fields_fit(cls, wanted):
        whole = [target for target in whole if target is not tuple]
    return wanted.unknown or any(is_one(cls, target) for target in whole)


def container_fits(given: Container, wanted: ValueShape) -> bool:
    """Whether a shape allows a container."""
    return takes_any(given.kind, wanted) or any(
        holds(given.kind, taker.kind)
        and keys_fit(given, taker)
        and shape_fits(given.inner, taker.inner)
        for taker in wanted.containers
    )


def takes_any(kind: type, wanted: ValueShape) -> bool:
    """Whether a shape allows a kind of container with any elements."""
    bare = [cls for cls in wanted.classes if cls is not tuple or not wanted.places]
    return wanted.unknown or any(is_one(kind, cls) for cls in bare)


def keys_fit(given: Container, wanted: Container) -> bool:
    """Whether the keys of one container are allowed by another; one without keys fits."""
    return given.keys is None or wanted.keys is None or shape_fits(given.keys, wanted.keys)


def _places_fit(given: ValueShape, wanted: ValueShape) -> bool:
    """Whether a shape allows the tuples of a fixed length."""
    return takes_any(tuple, wanted) or all(
        any(
            len(places) == len(other) and all(map(shape_fits, places, other))
            for other in wanted.places
        )
        or any(
            holds(tuple, other.kind) and all(shape_fits(element, other.inner) for element in places)
            for other in wanted.containers
        )
        for places in given.places
    )


def _fields_fit(cls: type, wanted: ValueShape) -> bool:
    """Whether the annotated fields of a named tuple fit; without annotations, they do."""
    hints = hints_of(cls)
    fields = tuple(shape_of(hints[name]) for name in getattr(cls, "_fields", ()) if name in hints)
    return not fields or _places_fit(ValueShape(cls, classes=(cls,), places=(fields,)), wanted)


def holds(given: type, wanted: type) -> bool:
    """Whether one kind of container counts as another."""
    if wanted is collections.abc.Sequence:
        return given in (list, tuple, wanted)
    if wanted is collections.abc.Set:
        return given in (set, frozenset, wanted)
    return given is wanted


_MET_AS: dict[type, type] = {  # the narrow ones first: a dict is a collection, too
    dict: collections.abc.Mapping,
    set: collections.abc.MutableSet,
    collections.abc.Set: collections.abc.Set,
    list: collections.abc.MutableSequence,
    collections.abc.Sequence: collections.abc.Collection,
}


def kind_met(cls: type, kinds: Collection[type]) -> type | None:
    """The kind of container that objects of a class count as, out of those that may be met."""
    if issubclass(cls, str | bytes):
        return None
    matches = [kind for kind in kinds if issubclass(cls, kind)]
    matches += [kind for kind, wide in _MET_AS.items() if kind in kinds and issubclass(cls, wide)]
    return matches[0] if matches else None


def is_one(cls: type, target: type) -> bool:
    """Whether objects of a class count as those of another: subclasses, numbers, protocols."""
    if target in cls.__mro__:
        return True
    if any(target in _WIDER.get(base, ()) for base in cls.__mro__):
        return True
    return is_protocol(target) and conforms(cls, target)


def hint_text(hint: Any) -> str:
    """An annotation as it is written in code."""
    hint, _ = unwrapped(hint)
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    text = str(hint).replace("typing.", "")
    for cls in dict.fromkeys(shape_of(hint).all_classes()):
        text = text.replace(f"{cls.__module__}.{cls.__qualname__}", cls.__name__)
    return text


# -- what functions return: types are enforced at run time, too ------------------------------------


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
