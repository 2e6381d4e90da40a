"""The members of a class: what its objects offer to those who hold one."""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.descriptions import Member
from polycast.typesystem.expressions import TypeExpression, expression_of, is_class_variable
from polycast.typesystem.hints import annotated_names, hints_of, returned_hint
from polycast.typesystem.standard import is_machinery, is_standard

__all__ = ["member_hints", "members_of"]

_EMPTY = inspect.Signature.empty

# The methods a Protocol may ask for besides named ones: what operators and statements call.
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

_SETTINGS = frozenset(("model_config",))  # pydantic puts it into every model


def members_of(cls: type, *, standard: bool = False) -> tuple[Member, ...]:
    """The public and special members, inherited ones included, sorted by name."""
    hints = hints_of(cls)
    found: dict[str, Member] = {}
    for base in reversed(_bodies(cls, standard=standard)):
        for name, value in base.__dict__.items():
            if _counts(name) and not isinstance(value, type):
                found[name] = _member(name, value, base, hints)
        for name in annotated_names(base):
            if _counts(name) and not _is_initial(hints.get(name)):
                found.setdefault(name, _field(name, hints))
    for name in declared_defaults(cls):
        if _counts(name):
            found[name] = _field(name, hints)
    return tuple(found[name] for name in sorted(found))


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


def _field(name: str, hints: dict[str, Any]) -> Member:
    return Member(name, "field", expression_of(hints[name]) if name in hints else None)


def _member(name: str, value: Any, owner: type, hints: dict[str, Any]) -> Member:
    if name in hints or isinstance(value, types.MemberDescriptorType):
        return _field(name, hints)
    function = _function(value)
    if isinstance(value, (property, functools.cached_property, types.GetSetDescriptorType)):
        return Member(name, "property", _returned(function, owner))
    if function is None:
        return _callable_member(name, value) if callable(value) else Member(name, "field")
    bound = not isinstance(value, staticmethod)
    return _method(name, function, bound=bound, kind=_returned(function, owner))


def _function(value: Any) -> Any:
    if isinstance(value, property):
        return value.fget
    if isinstance(value, functools.cached_property):
        return value.func
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    return value if isinstance(value, types.FunctionType) else None


def _returned(function: Any, owner: type) -> TypeExpression | None:
    if function is None:
        return None
    hint = returned_hint(function, owner)
    return None if hint is _EMPTY else expression_of(hint)


def _callable_member(name: str, value: Any) -> Member:
    bound = isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType))
    return _method(name, value, bound=bound, kind=None)


def _method(name: str, function: Any, *, bound: bool, kind: TypeExpression | None) -> Member:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):  # built-in methods without a signature
        return Member(name, "method", kind)
    positional = [
        part
        for part in parameters
        if part.kind in (part.POSITIONAL_ONLY, part.POSITIONAL_OR_KEYWORD)
    ]
    variadic = any(part.kind is part.VAR_POSITIONAL for part in parameters)
    own = positional[1:] if bound else positional
    return Member(
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
