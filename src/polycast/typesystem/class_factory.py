"""Classes made from descriptions, for processes without the real ones.

Without a known supertype, or with msgspec Structs as supertypes, the class is a Struct. A supertype
of another kind is derived from in that kind's own way, so that `isinstance` holds and equality,
`dataclasses.fields` and the like see all fields.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import keyword
import operator
import types
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import MethodNotHereError, NotDecodableError
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import kind_of
from polycast.typesystem.wire_names import DESCRIPTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.typesystem.descriptions import Description


def make_class(description: Description, bases: tuple[type, ...]) -> type:
    """A class with all fields of a description, derived from what this process has of its bases."""
    _check(description)
    try:
        return _made(description, bases)
    except Exception as error:  # Python has rules of its own, and so have bases of all kinds
        why = f"no class can be made of it: {error}"
        raise NotDecodableError(description.name, why=why) from error


def _made(description: Description, bases: tuple[type, ...]) -> type:
    if description.kind in ("enum", "flag"):
        return _made_enum(description, bases)
    made, left_out = _derived(description, bases)
    for base in left_out:
        if isinstance(base, abc.ABCMeta):
            abc.ABCMeta.register(base, made)  # and nothing that a base calls so
    return made


def _check(description: Description) -> None:
    stored = [*_names(description), *(constant.name for constant in description.constants)]
    for name in [*stored, *(member.name for member in description.members)]:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise NotDecodableError(
                description.name, why=f"{name!r} is not the name of an attribute"
            )
    for name in stored:
        if name.startswith("__") and name.endswith("__"):
            raise NotDecodableError(description.name, why=f"{name!r} belongs to Python")
    for constant in description.constants:
        if constant.name.startswith("_") and constant.name.endswith("_"):
            why = f"{constant.name!r} cannot be the name of a member"
            raise NotDecodableError(description.name, why=why)


def _derived(description: Description, bases: tuple[type, ...]) -> tuple[type, list[type]]:
    try:
        return _built(description, bases), []
    except TypeError:  # layouts or metaclasses that do not go together
        pass
    kept: tuple[type, ...] = ()
    for base in bases:
        if _go_together((*kept, base)):
            kept = (*kept, base)
    return _built(description, kept), [base for base in bases if base not in kept]


def _go_together(bases: tuple[type, ...]) -> bool:
    try:
        types.new_class("_", bases)
    except TypeError:
        return False
    return True


def _built(description: Description, bases: tuple[type, ...]) -> type:
    space = _namespace(description, bases)
    inherited = {name for base in bases for name in getattr(base, "__struct_fields__", ())}
    fields = [name for name in _names(description) if name not in inherited]
    if any(isinstance(base, type(msgspec.Struct)) for base in bases) or not bases:
        return _made_struct(description, bases, fields, space)
    if description.kind == "namedtuple":
        return _made_tuple(description, bases, space)
    kinds = [kind_of(base) for base in bases]
    kind = next((found for found in kinds if found in _FINISH), "class")
    return _FINISH[kind](_ordinary(description, bases, fields, space, kind))


def _names(description: Description) -> list[str]:
    return [attribute.name for attribute in description.attributes]


def _title(description: Description) -> str:
    return description.name.rpartition(".")[2]


def _namespace(description: Description, bases: tuple[type, ...]) -> dict[str, Any]:
    space: dict[str, Any] = {DESCRIPTION: description}
    space["__module__"] = description.name.rpartition(".")[0] or "polycast"
    missing = {name for base in bases for name in getattr(base, "__abstractmethods__", ())}
    properties = {member.name for member in description.members if member.kind == "property"}
    missing |= properties | {part.name for part in description.members if part.kind == "method"}
    for name in sorted(missing):
        if not _is_inherited(bases, name):
            stub = _stub(_title(description), name)
            space[name] = property(stub) if name in properties else stub
    return space


def _is_inherited(bases: tuple[type, ...], name: str) -> bool:
    return any(
        hasattr(base, name) and name not in getattr(base, "__abstractmethods__", ())
        for base in bases
    )


def _stub(title: str, name: str) -> Callable[..., Any]:
    def not_here(*_: Any, **__: Any) -> Any:
        raise MethodNotHereError(title, name)

    not_here.__name__ = name
    return not_here


def _made_struct(
    description: Description, bases: tuple[type, ...], fields: list[str], space: dict[str, Any]
) -> type:
    module = space.pop("__module__")
    # Values: frozen, so that they may be keys and members of sets as the real ones may be.
    options: dict[str, Any] = {"kw_only": True} if bases else {"frozen": True}
    return msgspec.defstruct(
        _title(description),
        [(name, Any, msgspec.UNSET) for name in fields],
        bases=bases or None,
        module=module,
        namespace=space,
        dict=True,
        **options,
    )


def _made_tuple(description: Description, bases: tuple[type, ...], space: dict[str, Any]) -> type:
    names = tuple(_names(description))
    if not any(getattr(base, "_fields", None) == names for base in bases):
        getters = {name: property(operator.itemgetter(at)) for at, name in enumerate(names)}
        space |= {"_fields": names, "_field_defaults": {}, "__repr__": _shown_tuple, **getters}
    return types.new_class(_title(description), bases, {}, lambda body: body.update(space))


def _ordinary(
    description: Description,
    bases: tuple[type, ...],
    fields: list[str],
    space: dict[str, Any],
    kind: str,
) -> type:
    inherited = {name for base in bases for name in _declared(base)}
    space["__annotations__"] = {name: Any for name in fields if name not in inherited}
    if kind == "class" and not any(_shows_itself(base) for base in bases):
        space["__repr__"] = _shown_object
    options = {"protected_namespaces": ()} if kind == "pydantic" else {}
    return types.new_class(_title(description), bases, options, lambda body: body.update(space))


def _declared(base: type) -> set[str]:
    return set(declared_defaults(base)) if kind_of(base) != "class" else set()


def _as_dataclass(cls: Any) -> type:
    frozen = cls.__dataclass_params__.frozen
    return dataclasses.dataclass(frozen=frozen, eq=cls.__dataclass_params__.eq, kw_only=True)(cls)


def _as_attrs(cls: Any) -> type:
    import attrs

    made: type = attrs.define(slots=False, kw_only=True, auto_attribs=True)(cls)
    return made


_FINISH: dict[str, Callable[[Any], type]] = {
    "dataclass": _as_dataclass,
    "attrs": _as_attrs,
    "pydantic": lambda cls: cls,
    "class": lambda cls: cls,
}


def _made_enum(description: Description, bases: tuple[type, ...]) -> type:
    plain = (enum.Flag if description.kind == "flag" else enum.Enum,)
    try:
        return _enum(description, bases or plain)
    except (TypeError, ValueError):  # a mixin that is not here, or that wants other values
        return _enum(description, plain)


def _enum(description: Description, bases: tuple[type, ...]) -> type:
    flag = description.kind == "flag"
    # Bits without a name are kept, so that republishing loses nothing.
    options = {"boundary": enum.KEEP} if flag else {}

    def fill(body: dict[str, Any]) -> None:
        for name, value in (_flags if flag else _members)(description):
            body[name] = value

    cls = types.new_class(_title(description), bases, options, fill)
    if not issubclass(cls, enum.Enum):
        raise TypeError("no enum among the bases")
    setattr(cls, DESCRIPTION, description)
    cls.__module__ = description.name.rpartition(".")[0]
    return cls


def _flags(description: Description) -> Iterable[tuple[str, Any]]:
    return ((part.name, part.value) for part in description.constants if type(part.value) is int)


def _members(description: Description) -> Iterable[tuple[str, Any]]:
    known = [part.value for part in description.constants]
    for part in description.constants:
        # A value that is not known must not make one member the alias of another.
        stand_in = part.name if part.name not in known else (part.name,)
        yield part.name, stand_in if part.value is msgspec.UNSET else part.value


def _shows_itself(base: type) -> bool:
    return any("__repr__" in part.__dict__ for part in base.__mro__[:-1])


def _shown_object(self: Any) -> str:
    pairs = [(name, value) for name, value in vars(self).items() if name.isidentifier()]
    return f"{type(self).__name__}({_listed(pairs)})"


def _shown_tuple(self: Any) -> str:
    return f"{type(self).__name__}({_listed(zip(self._fields, self, strict=False))})"


def _listed(pairs: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in pairs)
