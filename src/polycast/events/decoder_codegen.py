"""One generated function per class: from what msgspec read by itself to an object.

msgspec reads the bytes into a *twin* of the class: a Struct that wants the declared attributes and
no others, each in its natural form. Bytes that hold anything else, a mark for instance, it refuses,
and the reader takes them apart in its own way. The function makes the object from its twin.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import (
    Callable,  # msgspec reads it
    Iterator,
)
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.events.generated_functions import GeneratedFunction, attribute_name
from polycast.events.instances import Anatomy, sets_plainly
from polycast.events.wire_forms import CLASS, CONTAINERS, FIELDS_SET, SCALARS
from polycast.typesystem import Description, TypeExpression, describe, is_made

if TYPE_CHECKING:
    from polycast.events.decoder import ObjectDecoder

    Part = tuple[Any, str]
    """The type that msgspec reads, and the expression for the value that is meant."""

_DEEPEST = 5  # containers within containers, and classes within classes, that code is generated for
_LIST: Any = list
_TUPLE: Any = tuple
_DICT: Any = dict


class Twin(msgspec.Struct, frozen=True):
    """What msgspec reads in place of a class, and what makes an object of the class from that."""

    read: type
    lift: Callable[[Any], Any]


def quick_lift(
    reader: ObjectDecoder, anatomy: Anatomy, description: Description, classes: tuple[type, ...]
) -> Twin | None:
    """The twin of the last of these classes, each of which mentions the next, if it is regular."""
    if not _is_regular(anatomy, description):
        return None
    names = [part.name for part in description.attributes]
    return _Lifting(reader, anatomy, classes).twin(description, names)


def quick_glance(
    reader: ObjectDecoder, anatomy: Anatomy, description: Description, cls: type, names: list[str]
) -> Twin | None:
    """A twin that has some attributes and skips the others, if all of the class was made.

    A class that was made has no code that could look at what is left out; those attributes are
    `UNSET`. Names that are not declared are of attributes that only some objects have.
    """
    same = describe(cls).hash == description.hash
    if not (same and _is_regular(anatomy, description) and _is_all_made(cls)):
        return None
    return _Lifting(reader, anatomy, (cls,)).glance(description, names)


def _is_regular(anatomy: Anatomy, description: Description) -> bool:
    """Whether code can be generated that makes the objects."""
    plain = anatomy.is_regular and anatomy.makes_plainly
    return plain and description.attribute_names == set(anatomy.names)


def _is_all_made(cls: type) -> bool:
    """Whether a class and all above it were made from descriptions, as Structs."""
    return issubclass(cls, msgspec.Struct) and all(
        map(is_made, set(cls.__mro__).difference(msgspec.Struct.__mro__))
    )


class _Lifting:
    """Writes the source for one class."""

    def __init__(self, reader: ObjectDecoder, anatomy: Anatomy, classes: tuple[type, ...]) -> None:
        self._reader = reader
        self._anatomy = anatomy
        self._classes = classes
        self._source = GeneratedFunction()

    def twin(self, description: Description, names: list[str]) -> Twin:
        fields: list[Any] = []
        wire: dict[str, str] = {}
        parts = [
            self._part(part.type, f"t.f{at}", 1) for at, part in enumerate(description.attributes)
        ]
        for at, (kind, _) in enumerate(parts):
            fields.append((f"f{at}", kind))
            wire[f"f{at}"] = names[at]
        if self._anatomy.kind == "pydantic":
            fields.append(("chosen", list[str] | msgspec.UnsetType, msgspec.UNSET))
            wire["chosen"] = FIELDS_SET
        read = msgspec.defstruct("Twin", fields, rename=wire, gc=False, forbid_unknown_fields=True)
        self._source.values["ref"] = weakref.ref(self._classes[-1])
        self._source.add(*self._built(names, [part[1] for part in parts]))
        return Twin(read, self._source.function("t", names))

    def glance(self, description: Description, names: list[str]) -> Twin:
        """The twin of an object that has these attributes only."""
        declared = {part.name: part.type for part in description.attributes}
        fields: list[Any] = []
        values: dict[str, str] = {}
        for at, name in enumerate(names):
            if name in declared:
                kind, values[name] = self._part(declared[name], f"t.f{at}", 1)
                fields.append((f"f{at}", kind))
            else:
                fields.append((f"f{at}", Any, msgspec.UNSET))
        wire = {f"f{at}": name for at, name in enumerate(names)}
        read = msgspec.defstruct("Glance", fields, rename=wire, gc=False, kw_only=True)
        self._source.values |= {"ref": weakref.ref(self._classes[-1]), "unset": msgspec.UNSET}
        pairs = zip(self._keys(list(values)), values.values(), strict=True)
        self._source.add(f"v = ref()(**{{{', '.join(f'{key}: {value}' for key, value in pairs)}}})")
        for at, name in enumerate(names):
            if name not in declared:
                key, value = self._source.name("key", name), self._open(f"t.f{at}")[1]
                self._source.add(f"if t.f{at} is not unset: v.__dict__[{key}] = {value}")
        self._source.add("return v")
        return Twin(read, self._source.function("t", ()))

    def _built(self, names: list[str], values: list[str]) -> Iterator[str]:
        """Lines that make the object."""
        match self._anatomy.storage:
            case "tuple":
                self._source.values["new"] = tuple.__new__
                yield f"return new(ref(), ({', '.join(values)},))"
            case "struct":
                yield f"return ref()({self._arguments(names, values)})"
            case _:
                self._source.values |= {"new": object.__new__, "put": object.__setattr__}
                yield "v = new(ref())"
                yield from self._filled(names, values)
                yield "return v"

    def _arguments(self, names: list[str], values: list[str]) -> str:
        cls: Any = self._classes[-1]
        if cls.__match_args__ == cls.__struct_fields__ == tuple(names):
            return ", ".join(values)
        pairs = zip(self._keys(names), values, strict=True)
        return f"**{{{', '.join(f'{key}: {value}' for key, value in pairs)}}}"

    def _keys(self, names: list[str]) -> list[str]:
        return [self._source.name("key", name) for name in names]

    def _filled(self, names: list[str], values: list[str]) -> Iterator[str]:
        cls, slotted = self._classes[-1], self._anatomy.storage == "slots"
        plain = [sets_plainly(cls, name) for name in names]
        if not slotted and not all(plain):
            yield "d = v.__dict__"
        for at, (key, value) in enumerate(zip(self._keys(names), values, strict=True)):
            if plain[at]:
                yield f"v.{attribute_name(at)} = {value}"
            else:
                yield f"put(v, {key}, {value})" if slotted else f"d[{key}] = {value}"
        if self._anatomy.kind == "pydantic":
            yield from self._kept_besides(names)

    def _kept_besides(self, names: list[str]) -> Iterator[str]:
        cls: Any = self._classes[-1]
        self._source.values |= {"all": frozenset(names), "unset": msgspec.UNSET}
        yield "chosen = all if t.chosen is unset else t.chosen"
        yield "put(v, '__pydantic_fields_set__', set(chosen))"
        extra = "{}" if cls.model_config.get("extra") == "allow" else "None"
        yield f"put(v, '__pydantic_extra__', {extra})"
        yield "put(v, '__pydantic_private__', None)"

    def _part(self, expression: TypeExpression, x: str, depth: int) -> Part:
        natural = self._natural(expression, x, depth)
        if natural is not None:
            return natural
        return Any, f"{self._source.name('lift', self._reader.way_of(expression))}({x})"

    def _natural(self, expression: TypeExpression, x: str, depth: int) -> Part | None:
        if depth > _DEEPEST:
            return None
        match expression.form:
            case "none":
                return None.__class__, x
            case "any":
                return self._open(x)
            case "union":
                return self._union(expression, x, depth)
            case "literal" if len(expression.arguments) == 1:
                return self._natural(expression.arguments[0], x, depth)
            case "class" if expression.name in SCALARS:
                return self._scalar(SCALARS[expression.name], x)
            case "class" if expression.name in CONTAINERS:
                return self._container(expression, x, depth)
            case "class":
                return self._declared(expression, x)
            case _:
                return None

    def _open(self, x: str) -> Part:
        self._source.values |= {"trees": frozenset((dict, list)), "tree": self._reader.open}
        return Any, f"(tree({x}) if type({x}) in trees else {x})"

    def _union(self, expression: TypeExpression, x: str, depth: int) -> Part | None:
        part = expression.besides_none
        if part is None:
            return self._open(x)
        inner = self._natural(part, x, depth)
        if inner is None:
            return None
        kind, value = inner
        return kind | None, value if value == x else f"(None if {x} is None else {value})"

    def _scalar(self, cls: type, x: str) -> Part | None:
        if cls is msgspec.UnsetType:
            return None
        if cls is timedelta:
            self._source.values["duration"] = timedelta
            return tuple[int, int, int], f"duration(*{x})"
        return cls, x

    def _container(self, expression: TypeExpression, x: str, depth: int) -> Part | None:
        arguments: Any = expression.arguments
        cls: Any = CONTAINERS[expression.name]
        if not arguments:
            return None
        if cls is dict:
            return self._mapping(arguments, x, depth)
        if cls is tuple and arguments[-1].form != "...":
            parts = [self._part(item, f"{x}[{at}]", depth) for at, item in enumerate(arguments)]
            kinds = _TUPLE[tuple(kind for kind, _ in parts)]
            if all(value == f"{x}[{at}]" for at, (_, value) in enumerate(parts)):
                return kinds, x
            return kinds, f"({', '.join(value for _, value in parts)},)"
        i = f"i{depth}"
        kind, value = self._part(arguments[0], i, depth + 1)
        if value == i:
            return (_TUPLE[kind, ...] if cls is tuple else cls[kind]), x
        make = "" if cls is list else cls.__name__
        return _LIST[kind], f"{make}([{value} for {i} in {x}])"

    def _mapping(self, arguments: tuple[TypeExpression, ...], x: str, depth: int) -> Part | None:
        key, value, k, i = *arguments, f"k{depth}", f"i{depth}"
        if key.form == "any":
            return None
        kind, item = self._part(value, i, depth + 1)
        if key.name != "builtins.str":
            other, name = self._part(key, k, depth + 1)
            return _LIST[_TUPLE[other, kind]], f"{{{name}: {item} for {k}, {i} in {x}}}"
        # A mark among strings would go unnoticed by msgspec.
        self._source.values |= {"mark": CLASS, "marked": _marked}
        held = x if item == i else f"{{{k}: {item} for {k}, {i} in {x}.items()}}"
        return _DICT[str, kind], f"({held} if mark not in {x} else marked())"

    def _declared(self, expression: TypeExpression, x: str) -> Part | None:
        regular = self._reader.regular(expression) if len(self._classes) <= _DEEPEST else None
        if regular is None or regular[0] in self._classes:
            return None
        cls, anatomy, description = regular
        if issubclass(cls, enum.Enum):
            ref = self._source.name("enum", weakref.ref(cls))
            return (
                (int, f"{ref}()({x})")
                if issubclass(cls, enum.Flag)
                else (str, f"{ref}()._member_map_[{x}]")
            )
        twin = quick_lift(self._reader, anatomy, description, (*self._classes, cls))
        return (twin.read, f"{self._source.name('lift', twin.lift)}({x})") if twin else None


def _marked() -> Any:
    raise KeyError(CLASS)
