"""The attributes and methods of a class, whatever library declared them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import msgspec

from polycast.typesystem.class_kinds import kind_of
from polycast.typesystem.descriptions import AttributeDescription, MemberDescription
from polycast.typesystem.standard_types import is_machinery, is_standard
from polycast.typesystem.type_expressions import (
    TypeExpression,
    annotated_names,
    expression_of,
    hints_of,
    is_class_variable,
    is_plain,
    returned_hint,
)

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


_UNANNOTATED = inspect.Signature.empty
_COROUTINE: Any = Coroutine

# The special methods that a Protocol may require: what operators and statements call.
_SPECIAL = frozenset(
    f"__{name}__"
    for name in (  # noqa: SIM905
        "len iter next contains getitem setitem delitem reversed call enter exit aenter aexit "
        "aiter anext await int float complex index bool bytes abs round trunc floor ceil neg pos "
        "invert add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor radd "
        "rsub rmul rtruediv rfloordiv rmod rpow rand ror rxor iadd isub imul iand ior ixor fspath "
        "length_hint missing buffer"
    ).split()
)

_OVERLOADED: Any = typing.overload(lambda: None)  # replaces every overloaded function
_SETTINGS = frozenset(("model_config",))  # pydantic puts it into every model


def members_of(cls: type, *, standard: bool = False) -> tuple[MemberDescription, ...]:
    """The public and special members, inherited ones included, sorted by name."""
    hints = hints_of(cls)
    members: dict[str, MemberDescription] = {}
    for base in reversed(_bodies(cls, standard=standard)):
        for name, value in base.__dict__.items():
            if _counts(name) and not isinstance(value, type):
                members[name] = _member(name, value, base, hints)
        for name in annotated_names(base):
            if _counts(name) and not _is_initial(hints.get(name)):
                members.setdefault(name, _field(name, hints))
    for name in declared_defaults(cls):
        if _counts(name):
            members[name] = _field(name, hints)
    return tuple(members[name] for name in sorted(members))


def member_hints(cls: type) -> list[Any]:
    """The annotations of all members, resolved, of properties and methods what they return."""
    hints = list(hints_of(cls).values())
    for base in _bodies(cls, standard=False):
        functions = [_function(value) for name, value in base.__dict__.items() if _counts(name)]
        hints += [returned_hint(found, base) for found in functions if found is not None]
    return [hint for hint in hints if hint is not _UNANNOTATED]


def _bodies(cls: type, *, standard: bool) -> list[type]:
    return [
        base
        for base in cls.__mro__
        if not is_machinery(base) and (standard or not is_standard(base))
    ]


def _counts(name: str) -> bool:
    return name in _SPECIAL or not (name.startswith("_") or name in _SETTINGS)


def _is_initial(hint: Any) -> bool:
    return is_class_variable(hint) and "InitVar" in str(hint)


def _field(name: str, hints: dict[str, Any]) -> MemberDescription:
    return MemberDescription(name, "field", expression_of(hints[name]) if name in hints else None)


def _member(name: str, value: Any, owner: type, hints: dict[str, Any]) -> MemberDescription:
    if name in hints or isinstance(value, types.MemberDescriptorType):
        return _field(name, hints)
    function = _function(value)
    if isinstance(value, (property, functools.cached_property, types.GetSetDescriptorType)):
        return MemberDescription(name, "property", _returned(function, owner))
    if function is None and not callable(value):
        return MemberDescription(name, "field")
    bound = not isinstance(value, staticmethod) and hasattr(type(value), "__get__")
    if function is _OVERLOADED:
        return _overloaded(name, owner, bound=bound)
    kind = _returned(function, owner)
    return _method(name, function or value, bound=bound, kind=kind)


def _function(value: Any) -> Any:
    if isinstance(value, property):
        return value.fget
    if isinstance(value, functools.cached_property):
        return value.func
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    inner = getattr(value, "__wrapped__", value)  # functools.cache
    return next((part for part in (value, inner) if isinstance(part, types.FunctionType)), None)


def _returned(function: Any, owner: type) -> TypeExpression | None:
    if function is None:
        return None
    hint = returned_hint(function, owner)
    if hint is _UNANNOTATED:
        return None
    called = _COROUTINE[Any, Any, hint] if inspect.iscoroutinefunction(function) else hint
    return expression_of(called)


def _overloaded(name: str, owner: type, *, bound: bool) -> MemberDescription:
    """An overloaded method of a Protocol: an implementation must accept all its forms."""
    where = types.SimpleNamespace(
        __module__=owner.__module__, __qualname__=f"{owner.__qualname__}.{name}"
    )
    forms = [
        _method(name, getattr(form, "__func__", form), bound=bound, kind=None)
        for form in typing.get_overloads(where)  # type: ignore[arg-type]
    ]
    if not forms:
        return MemberDescription(name, "method")
    most = [form.accepted for form in forms]
    return MemberDescription(
        name,
        "method",
        required=min(form.required for form in forms),
        accepted=-1 if -1 in most else max(most),
        keywords=tuple(key for key in forms[0].keywords if all(key in f.keywords for f in forms)),
    )


def _method(
    name: str, function: Any, *, bound: bool, kind: TypeExpression | None
) -> MemberDescription:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):  # built-in methods without a signature
        return MemberDescription(name, "method", kind)
    positional = [
        part
        for part in parameters
        if part.kind in (part.POSITIONAL_ONLY, part.POSITIONAL_OR_KEYWORD)
    ]
    variadic = any(part.kind is part.VAR_POSITIONAL for part in parameters)
    own = positional[1:] if bound else positional
    return MemberDescription(
        name,
        "method",
        kind,
        required=sum(part.default is part.empty for part in own),
        accepted=-1 if variadic else len(own),
        keywords=tuple(
            part.name
            for part in parameters
            if part.kind is part.KEYWORD_ONLY and part.default is part.empty
        ),
    )
