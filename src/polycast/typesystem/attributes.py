"""The attributes of a class, whatever library declared them."""

from __future__ import annotations

import dataclasses
import types
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.typesystem.class_kinds import kind_of
from polycast.typesystem.descriptions import AttributeDescription
from polycast.typesystem.standard_types import is_machinery, is_standard
from polycast.typesystem.type_expressions import expression_of, is_class_variable, is_plain
from polycast.typesystem.type_hints import annotated_names, hints_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EMPTY: dict[Any, Any] = {list: [], dict: {}}


class Default(msgspec.Struct, frozen=True):
    """The default of an attribute: a value, or what makes one."""

    value: Any = msgspec.UNSET
    factory: Any = None

    def make(self) -> Any:
        """A value for an attribute that is missing."""
        return self.value if self.factory is None else self.factory()


def declared_defaults(cls: type) -> dict[str, Default | None]:
    """All attributes of a class in order, each with its default if it has one."""
    reader = _READERS.get(kind_of(cls))
    return dict(reader(cls)) if reader else {}


def attributes_of(cls: type) -> tuple[AttributeDescription, ...]:
    """All attributes of a class, inherited ones included, in order."""
    hints = hints_of(cls)
    return tuple(
        _attribute(name, hints.get(name, Any), default)
        for name, default in declared_defaults(cls).items()
    )


def _attribute(name: str, hint: Any, default: Default | None) -> AttributeDescription:
    kind = expression_of(hint)
    if default is None:
        return AttributeDescription(name, kind)
    return AttributeDescription(name, kind, required=False, default=_as_data(default))


def _as_data(default: Default) -> Any:
    if default.factory is not None:
        return _EMPTY.get(default.factory, msgspec.UNSET)
    return default.value if is_plain(default.value) else msgspec.UNSET


def _of_dataclass(cls: Any) -> Iterator[tuple[str, Default | None]]:
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            yield field.name, Default(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            yield field.name, Default(factory=field.default_factory)
        else:
            yield field.name, None


def _of_attrs(cls: Any) -> Iterator[tuple[str, Default | None]]:
    import attrs

    for field in cls.__attrs_attrs__:
        if field.default is attrs.NOTHING:
            yield field.name, None
        elif isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
            # A factory that wants the half-made object cannot stand alone.
            yield (
                field.name,
                None if field.default.takes_self else Default(factory=field.default.factory),
            )
        else:
            yield field.name, Default(field.default)


def _of_struct(cls: Any) -> Iterator[tuple[str, Default | None]]:
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    missing = [msgspec.NODEFAULT] * (len(names) - len(defaults))
    for name, default in zip(names, [*missing, *defaults], strict=True):
        if default is msgspec.NODEFAULT:
            yield name, None
        elif hasattr(default, "factory") and type(default).__name__ == "Factory":
            yield name, Default(factory=default.factory)
        else:
            yield name, Default(default)


def _of_pydantic(cls: Any) -> Iterator[tuple[str, Default | None]]:
    for name, field in cls.__pydantic_fields__.items():
        if field.is_required():
            yield name, None
        elif field.default_factory is not None:
            yield name, Default(factory=field.default_factory)
        else:
            yield name, Default(field.default)


def _of_namedtuple(cls: Any) -> Iterator[tuple[str, Default | None]]:
    for name in cls._fields:
        known = name in cls._field_defaults
        yield name, Default(cls._field_defaults[name]) if known else None


def _of_class(cls: type) -> Iterator[tuple[str, Default | None]]:
    hints = hints_of_bodies(cls)
    for name, hint in hints.items():
        if not is_class_variable(hint) and not _is_special(name):
            yield name, _class_default(cls, name)


def hints_of_bodies(cls: type) -> dict[str, Any]:
    """The annotations of a class and its bases, without those of machinery."""
    bases = [base for base in cls.__mro__ if not is_machinery(base) and not is_standard(base)]
    names = {name for base in bases for name in annotated_names(base)}
    return {name: hint for name, hint in hints_of(cls).items() if name in names}


def _class_default(cls: type, name: str) -> Default | None:
    for base in cls.__mro__:
        if name in base.__dict__:
            value = base.__dict__[name]
            stored = isinstance(value, types.MemberDescriptorType) or hasattr(
                type(value), "__get__"
            )
            return None if stored else Default(value)
    return None


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


_READERS: dict[str, Callable[[Any], Iterator[tuple[str, Default | None]]]] = {
    "dataclass": _of_dataclass,
    "attrs": _of_attrs,
    "struct": _of_struct,
    "pydantic": _of_pydantic,
    "namedtuple": _of_namedtuple,
    "class": _of_class,
    "value": _of_class,
    "protocol": _of_class,
}
