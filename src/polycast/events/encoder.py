"""Encoding: objects to plain data, natural where the declared type determines it, else marked."""

from __future__ import annotations

import enum
import weakref
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import NotDecodableError
from polycast.events.encoder_codegen import quick_lower
from polycast.events.instances import Anatomy, anatomy_of, base_value, value_base
from polycast.events.wire_forms import (
    CLASS,
    CONTAINERS,
    SCALARS,
    VALUE,
    VERSION,
    UnencodableError,
    fits_natively,
    lower_scalar,
)
from polycast.typesystem import Description, TypeExpression, describe, wire_name, wire_version
from polycast.typesystem.standard_types import is_standard

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.events.wire_forms import Form
    from polycast.typesystem import Registry

    Lower = Callable[[Any, set[int]], Any]

_OPEN = TypeExpression("any")


class Writing(msgspec.Struct, frozen=True):
    """How objects of one class are encoded."""

    name: str
    version: int
    hash: str
    natural: Lower
    quick: Callable[[Any], Any]
    """Encodes a whole event; generated code where the class allows."""


class ObjectEncoder:
    """Converts objects to plain data, for one codec and one registry.

    `busy` has the ids of the objects being converted, to detect cycles.
    """

    def __init__(self, form: Form, registry: Registry) -> None:
        self.form = form
        self._registry = registry
        self.known: dict[int, Writing] = {}
        """By the id of the class: the fastest key that keeps no class alive."""
        self._alive: dict[int, weakref.ref[type]] = {}
        self._open_natural: dict[type, Lower] = {
            cls: self._container(TypeExpression("class", name)) for name, cls in CONTAINERS.items()
        }

    def writing(self, value: Any) -> Writing:
        """Return how an object is encoded; its class is bound if it was not."""
        cls = type(value)
        known = self.known.get(id(cls))
        if known is None:
            known = self._compiled(value, cls)
            self._alive[id(cls)] = weakref.ref(cls, self._forgetting(id(cls)))
            self.known[id(cls)] = known
        return known

    def _forgetting(self, key: int) -> Callable[[Any], None]:
        known, alive = self.known, self._alive

        def forget(_: Any) -> None:
            known.pop(key, None)
            alive.pop(key, None)

        return forget

    def regular(self, expression: TypeExpression) -> tuple[type, Anatomy] | None:
        """Return the class that an expression names, if its objects can be rebuilt."""
        name, version = expression.name, expression.version
        try:
            cls = self._registry.class_for(name, version, None)
            known = (wire_name(cls), wire_version(cls)) == (name, version)
            return (cls, anatomy_of(cls)) if known and not is_standard(cls) else None
        except (UnencodableError, NotDecodableError):
            return None

    def _compiled(self, value: Any, cls: type) -> Writing:
        if cls in _SCALARS:
            return _writing(describe(cls), self._open)
        if cls in self._open_natural:
            return _writing(describe(cls), self._open_natural[cls])
        if issubclass(cls, type):
            raise UnencodableError(value, "a class is no value")
        try:
            anatomy = anatomy_of(cls)
        except UnencodableError as refused:
            raise UnencodableError(value, refused.why) from None
        description = self._registry.bind(cls)
        if issubclass(cls, enum.Enum):
            if anatomy.kind == "flag":
                form = self.form
                return _writing(
                    description, lambda value, _: lower_scalar(int(value._value_), form)
                )
            return _writing(description, lambda value, _: str(value._name_))
        if anatomy.kind == "value":
            return _writing(description, self._extended(anatomy, value_base(cls)))
        natural = self.walk(anatomy, description)
        return _writing(description, natural, quick_lower(self, anatomy, (cls,)))

    def walk(self, anatomy: Anatomy, description: Description) -> Lower:
        """Return the function that encodes objects of a class attribute by attribute."""
        declared = {part.name: self.way_of(part.type) for part in description.attributes}
        open_ = self._open

        def lower(value: Any, busy: set[int]) -> Any:
            state = anatomy.take_apart(value)
            _check_names(value, state)
            extras = anatomy.extras(value, state)
            _enter(value, busy)
            name = ""
            try:
                for name, part in state.items():
                    state[name] = declared.get(name, open_)(part, busy)
                for name, part in extras.items():
                    state[name] = open_(part, busy)
                return state
            except UnencodableError as refused:
                refused.path.append(f".{name}")
                raise
            finally:
                busy.discard(id(value))

        return lower

    def _extended(self, anatomy: Anatomy, base: type) -> Lower:
        dynamic = self.walk(anatomy, Description(""))

        def lower(value: Any, busy: set[int]) -> Any:
            state = dynamic(value, busy)
            _enter(value, busy)
            try:
                return {VALUE: self._marked(base_value(value, base), busy), **state}
            finally:
                busy.discard(id(value))

        return lower

    def way_of(self, expression: TypeExpression) -> Lower:
        """Return the function that encodes values declared with a type."""
        match expression.form:
            case "none":
                return self._scalar(type(None))
            case "union":
                return self._union(expression)
            case "literal" if len(expression.arguments) == 1:
                return self.way_of(expression.arguments[0])
            case "class" if expression.name in SCALARS:
                return self._scalar(SCALARS[expression.name])
            case "class" if expression.name in CONTAINERS:
                return self._exactly(CONTAINERS[expression.name], self._container(expression))
            case "class":
                return self._declared(expression)
            case _:
                return self._open

    def _scalar(self, cls: type) -> Lower:
        form, must_fit = self.form, cls in _NUMBERS

        def lower(value: Any, busy: set[int]) -> Any:
            if type(value) is not cls or (must_fit and not fits_natively(value, form)):
                return self._marked(value, busy)
            return lower_scalar(value, form)

        return lower

    def _exactly(self, cls: type, natural: Lower) -> Lower:
        def lower(value: Any, busy: set[int]) -> Any:
            return natural(value, busy) if type(value) is cls else self._marked(value, busy)

        return lower

    def _union(self, expression: TypeExpression) -> Lower:
        part = expression.besides_none
        if part is None:
            return self._open
        inner = self.way_of(part)

        def lower(value: Any, busy: set[int]) -> Any:
            return None if value is None else inner(value, busy)

        return lower

    def _declared(self, expression: TypeExpression) -> Lower:
        name, version = expression.name, expression.version

        def lower(value: Any, busy: set[int]) -> Any:
            cls = type(value)
            if cls in _SCALARS or cls in self._open_natural:
                return self._marked(value, busy)
            writing = self.writing(value)
            if writing.name == name and writing.version == version:
                return writing.natural(value, busy)
            return self._marked(value, busy)

        return lower

    def _open(self, value: Any, busy: set[int]) -> Any:
        cls = type(value)
        if cls in _SCALARS:
            return value if fits_natively(value, self.form) else self._marked(value, busy)
        if cls is list or (cls is dict and _has_plain_keys(value)):
            return self._open_natural[cls](value, busy)
        return self._marked(value, busy)

    def _marked(self, value: Any, busy: set[int]) -> dict[str, Any]:
        cls = type(value)
        if cls in _SCALARS:
            return {CLASS: wire_name(cls), VALUE: lower_scalar(value, self.form)}
        if cls is dict:
            return {CLASS: wire_name(cls), VALUE: self._pairs(_OPEN, _OPEN)(value, busy)}
        if cls in self._open_natural:
            return {CLASS: wire_name(cls), VALUE: self._open_natural[cls](value, busy)}
        writing = self.writing(value)
        mark: dict[str, Any] = {CLASS: writing.name}
        if writing.version != 1:
            mark[VERSION] = writing.version
        natural = writing.natural(value, busy)
        return mark | (natural if type(natural) is dict else {VALUE: natural})

    def _container(self, expression: TypeExpression) -> Lower:
        arguments = expression.arguments
        if expression.name == "builtins.dict":
            return self._mapping(*(arguments if len(arguments) == 2 else (_OPEN, _OPEN)))
        if expression.name == "builtins.tuple" and arguments and arguments[-1].form != "...":
            return self._fixed(arguments)
        return self._array(arguments[0] if arguments else _OPEN)

    def _array(self, item: TypeExpression) -> Lower:
        lower_item = self.way_of(item)

        def lower(value: Any, busy: set[int]) -> Any:
            return _each(value, lower_item, busy)

        return lower

    def _fixed(self, items: tuple[TypeExpression, ...]) -> Lower:
        lowers = [self.way_of(item) for item in items]

        def lower(value: Any, busy: set[int]) -> Any:
            if len(value) != len(lowers):
                return {CLASS: "builtins.tuple", VALUE: _each(value, self._open, busy)}
            rest = iter(lowers)
            return _each(value, lambda item, busy: next(rest)(item, busy), busy)  # noqa: PLW0108

        return lower

    def _mapping(self, key: TypeExpression, item: TypeExpression) -> Lower:
        if key.form != "any" and key.name != "builtins.str":
            return self._pairs(key, item)
        lower_item = self.way_of(item)

        def lower(value: Any, busy: set[int]) -> Any:
            if not _has_plain_keys(value):
                return self._marked(value, busy)
            return _each_value(value, lower_item, busy)

        return lower

    def _pairs(self, key: TypeExpression, item: TypeExpression) -> Lower:
        lower_key, lower_item = self.way_of(key), self.way_of(item)

        def lower(value: Any, busy: set[int]) -> Any:
            keys = _each(value, lower_key, busy, inside=value)
            items = _each_value(value, lower_item, busy).values()
            return [[one, other] for one, other in zip(keys, items, strict=True)]

        return lower


_SCALARS = frozenset(SCALARS.values())
_NUMBERS = frozenset((int, float))
_DEEPEST = 100  # levels, so that every reader can decode it on its stack


def _enter(value: Any, busy: set[int]) -> None:
    if id(value) in busy:
        raise UnencodableError(value, "it contains itself")
    if len(busy) >= _DEEPEST:
        raise UnencodableError(value, f"it is nested more than {_DEEPEST} levels deep")
    busy.add(id(value))


def _check_names(value: Any, state: dict[str, Any]) -> None:
    for name in state:
        if name.startswith("$"):
            raise UnencodableError(
                value, f"its attribute {name!r} looks like a mark of the wire format"
            )


def _each(value: Any, lower_item: Lower, busy: set[int], *, inside: Any = None) -> list[Any]:
    _enter(value, busy)
    at, lowered = 0, []
    try:
        for at, item in enumerate(value):  # noqa: B007 - the path of a failure needs it
            lowered.append(lower_item(item, busy))
    except UnencodableError as refused:
        refused.path.append(f"[{at}]" if inside is None else ".keys()")
        raise
    finally:
        busy.discard(id(value))
    return lowered


def _each_value(value: dict[Any, Any], lower_item: Lower, busy: set[int]) -> dict[Any, Any]:
    _enter(value, busy)
    key, lowered = None, {}
    try:
        for key, item in value.items():
            lowered[key] = lower_item(item, busy)
    except UnencodableError as refused:
        refused.path.append(f"[{key!r}]")
        raise
    finally:
        busy.discard(id(value))
    return lowered


def _has_plain_keys(value: dict[Any, Any]) -> bool:
    return CLASS not in value and all(
        type(key) is str and fits_natively(key, "json") for key in value
    )


def _writing(
    description: Description, natural: Lower, quick: Callable[[Any], Any] | None = None
) -> Writing:
    quick = quick or (lambda value: natural(value, set()))
    return Writing(description.name, description.version, description.hash, natural, quick)
