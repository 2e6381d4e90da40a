"""The members of a class: the methods, properties and fields of its objects."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Coroutine
from typing import Any

from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.descriptions import MemberDescription
from polycast.typesystem.standard_types import is_machinery, is_standard
from polycast.typesystem.type_expressions import TypeExpression, expression_of, is_class_variable
from polycast.typesystem.type_hints import annotated_names, hints_of, returned_hint

_EMPTY = inspect.Signature.empty
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
    return [hint for hint in hints if hint is not _EMPTY]


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
    if hint is _EMPTY:
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
