"""Type annotations: resolved as far as they can be, and as plain data."""

from __future__ import annotations

import builtins
import collections.abc
import dataclasses
import enum
import functools
import inspect
import math
import sys
import types
import typing
from typing import Any, Union

import msgspec
import typing_extensions

from polycast.typesystem.standard_types import is_standard
from polycast.typesystem.wire_names import wire_name, wire_version


def hints_of(cls: type) -> dict[str, Any]:
    """The annotations of a class over its bases; one that cannot be resolved is `Any`."""
    hints: dict[str, Any] = {}
    names = _names_of(cls)
    for base in reversed(cls.__mro__):
        hints |= own_hints(base, names=names)
    return hints


def own_hints(cls: type, *, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """The annotations of one class body."""
    annotations = _annotations(cls)
    if not annotations:
        return {}
    space = _space(cls) | (names or _names_of(cls))
    return {key: _resolved(hint, cls.__module__, space) for key, hint in annotations.items()}


def annotated_names(cls: type) -> list[str]:
    """The names one class body annotates."""
    return list(_annotations(cls))


def returned_hint(function: Any, owner: type) -> Any:
    """The annotation of what a function returns, or `Signature.empty` if it has none."""
    hint = _annotations(function).get("return", inspect.Signature.empty)
    if hint is inspect.Signature.empty:
        return inspect.Signature.empty
    module = getattr(function, "__module__", None) or owner.__module__
    return _resolved(hint, module, _space(owner) | _names_of(owner))


def _annotations(holder: Any) -> dict[str, Any]:
    try:
        return inspect.get_annotations(holder)
    except Exception:  # deferred annotations may name what does not exist
        return {}


def _names_of(cls: type) -> dict[str, Any]:
    # A class local to a function is not in its module: its own bases are known all the same.
    return {base.__name__: base for base in reversed(cls.__mro__)}


def _space(cls: type) -> dict[str, Any]:
    # Only classes: a field `date: date = None` must not hide the class `date`.
    return {key: value for key, value in vars(cls).items() if isinstance(value, type)}


def unresolved(cls: type) -> dict[str, str]:
    """The annotations of a class over its bases that cannot be resolved, as they are written."""
    found: dict[str, str] = {}
    names = _names_of(cls)
    for base in reversed(cls.__mro__):
        space = _space(base) | names
        for key, hint in _annotations(base).items():
            found.pop(key, None)
            if _resolved(hint, base.__module__, space, otherwise=None) is None and hint is not None:
                found[key] = hint if isinstance(hint, str) else repr(hint)
    return {key: text for key, text in found.items() if text.strip() != "None"}


def _resolved(hint: Any, module: str, space: dict[str, Any], *, otherwise: Any = Any) -> Any:
    names = vars(sys.modules[module]) if module in sys.modules else {}
    found = hint
    if isinstance(hint, str):
        scopes = (space, names, vars(builtins))
        found = next((scope[hint] for scope in scopes if hint in scope), None)
    if type(found) is type:  # most of them, and typing takes its time
        return found
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    try:
        return typing.get_type_hints(holder, names, space, include_extras=True)["hint"]
    except Exception:  # a forward reference to nowhere, or an annotation that is no type
        return otherwise


_WRAPPERS = {
    typing.ClassVar,
    typing.Final,
    typing.Required,
    typing.NotRequired,
    typing_extensions.ReadOnly,
}


class TypeExpression(msgspec.Struct, frozen=True, omit_defaults=True):
    """A type annotation: `any`, `none`, `union`, `literal`, `...`, or a class with parameters."""

    form: str
    name: str = ""
    version: int = 1
    arguments: tuple[TypeExpression, ...] = ()
    literals: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    """The strings of `Annotated[...]`, units for instance."""

    @property
    def besides_none(self) -> TypeExpression | None:
        """The one type of a union that may be None too; None for any other union."""
        parts = [part for part in self.arguments if part.form != "none"]
        return parts[0] if len(parts) == 1 < len(self.arguments) else None

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.arguments))
        match self.form:
            case "class":
                name = self.name.removeprefix("builtins.")
                return f"{name}[{inner}]" if inner else name
            case "union":
                return " | ".join(map(str, self.arguments))
            case "literal":
                return f"Literal[{', '.join(map(repr, self.literals))}]"
            case "none":
                return "None"
            case "any":
                return "Any"
            case other:
                return other


ANY = TypeExpression("any")
_NONE = TypeExpression("none")
_REST = TypeExpression("...")


def expression_of(hint: object) -> TypeExpression:
    """The annotation as data; what has no form as data is `any`."""
    if type(hint) is type and is_standard(hint):
        return _standard(hint)
    hint, notes = unwrapped(hint)
    expression = ANY if _is_alias(hint) else _bare_expression(hint)
    return msgspec.structs.replace(expression, notes=notes) if notes else expression


@functools.cache
def _standard(cls: type) -> TypeExpression:
    return _bare_expression(cls)


def classes_in(hint: object) -> list[type]:
    """All classes an annotation names, at any depth."""
    hint, _ = unwrapped(hint)
    if _is_alias(hint):
        return []
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return [type(value) for value in typing.get_args(hint) if isinstance(value, enum.Enum)]
    found = [part for part in (hint, origin) if _is_class(part) and part is not types.UnionType]
    for argument in typing.get_args(hint):
        parts = argument if isinstance(argument, list) else [argument]
        found += [cls for part in parts for cls in classes_in(part)]
    return typing.cast("list[type]", found)


def is_plain(value: object) -> bool:
    """Whether JSON and MessagePack give back exactly this value without being told its type."""
    if type(value) is int:
        return -(2**63) <= value < 2**63
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is str:
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    return value is None or type(value) is bool


def is_class_variable(hint: object) -> bool:
    """Whether an annotation belongs to the class and not to its objects."""
    if hint is typing.ClassVar or typing.get_origin(hint) is typing.ClassVar:
        return True
    return hint is dataclasses.InitVar or isinstance(hint, dataclasses.InitVar)


def _bare_expression(hint: object) -> TypeExpression:
    if hint is None or hint is type(None):
        return _NONE
    origin = typing.get_origin(hint)
    if origin is Union or origin is types.UnionType:
        return _union(typing.get_args(hint))
    if origin is typing.Literal:
        return _literal(typing.get_args(hint))
    if _is_class(origin):
        return _class(origin, typing.get_args(hint))
    if _is_class(hint):
        return _class(hint, ())
    return ANY


def unwrapped(hint: object) -> tuple[object, tuple[str, ...]]:
    """An annotation without `Annotated`, `Final`, aliases and the like, and its strings."""
    notes: tuple[str, ...] = ()
    while True:
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            notes += tuple(str(note) for note in hint.__metadata__ if isinstance(note, str))  # type: ignore[attr-defined]
            hint = hint.__origin__  # type: ignore[attr-defined]
        elif origin in _WRAPPERS:
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, dataclasses.InitVar):
            hint = hint.type
        elif _is_alias(hint) and not _mentions(hint.__value__, hint):  # type: ignore[attr-defined]
            hint = hint.__value__  # type: ignore[attr-defined]
        elif supertype := getattr(hint, "__supertype__", None):
            hint = supertype
        else:
            return hint, notes


def _is_alias(hint: object) -> bool:
    return type(hint).__name__ == "TypeAliasType"


def _mentions(hint: object, alias: object) -> bool:
    # An alias that is made of itself, as JSON is, has no end as data.
    return hint is alias or any(_mentions(part, alias) for part in typing.get_args(hint))


def _is_class(hint: object) -> bool:
    # `list[int]` says that it is a type, and in Python 3.11 `Any` is one.
    alias = type(hint).__name__ == "GenericAlias"
    return isinstance(hint, type) and not alias and hint is not Any


def _class(cls: Any, arguments: tuple[Any, ...]) -> TypeExpression:
    if cls is object:
        return ANY
    if typing_extensions.is_typeddict(cls):
        cls, arguments = dict, ()
    if cls is collections.abc.Callable or cls is type:
        arguments = ()
    inner = tuple(_REST if part is ... else expression_of(part) for part in arguments)
    return TypeExpression("class", wire_name(cls), wire_version(cls), inner)


def _union(parts: tuple[object, ...]) -> TypeExpression:
    inner = tuple(dict.fromkeys(expression_of(part) for part in parts))
    if ANY in inner:
        return ANY
    return inner[0] if len(inner) == 1 else TypeExpression("union", arguments=inner)


def _literal(values: tuple[object, ...]) -> TypeExpression:
    classes = tuple(dict.fromkeys(expression_of(type(value)) for value in values))
    if all(is_plain(value) for value in values):
        return TypeExpression("literal", arguments=classes, literals=values)
    return classes[0] if len(classes) == 1 else TypeExpression("union", arguments=classes)
