"""JSON as people write it, checked value by value against the description of a type.

The codec reads what codecs wrote, and takes `"ff"` for 255. A person who writes that has mistaken
the field. What passes here is handed to the codec in forms that leave nothing to guess: a value
whose class JSON does not say is marked, as `docs/record.md` has it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.formatting import clip, listed
from polycast.cli.lossless_json import ACCEPTED, is_scalar, scalar_of, why_unheld, wire_form
from polycast.errors.root import did_you_mean
from polycast.events.encoder import ObjectEncoder
from polycast.events.wire_forms import (
    CLASS,
    CONTAINERS,
    FIELDS_SET,
    INHERITED,
    PRIVATE,
    SCALARS,
    VALUE,
    VERSION,
)
from polycast.typesystem import TypeExpression, describe
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.standard_types import STANDARD

if TYPE_CHECKING:
    from polycast.typesystem import AttributeDescription, Description, Registry

_ANY = TypeExpression("any")
_STRING = TypeExpression("class", "builtins.str")
_STRINGS = TypeExpression("class", "builtins.list", arguments=(_STRING,))
_EXTRAS = {"pydantic": {FIELDS_SET: _STRINGS, PRIVATE: _ANY}, "class": {INHERITED: _STRINGS}}
"""What tells more than attributes do about objects of these kinds."""
_SHOWN = msgspec.json.Encoder(decimal_format="number")


class JsonMismatch(Exception):
    """A value that its field does not take; `path` says where it stands."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path}: {why}" if path else why)


class StrictJson:
    """Checks JSON against the descriptions of a registry; decimal fractions come as `Decimal`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def event(self, data: Any, description: Description) -> Any:
        """The event in the form that the codec reads; `JsonMismatch` if it is none of the type."""
        _check_held(data, "")
        if description.name in SCALARS or description.name in CONTAINERS:
            return self._value(data, TypeExpression("class", description.name), "")
        return self._natural(data, description, "")

    def _value(self, data: Any, wanted: TypeExpression, path: str) -> Any:
        """A value of a field."""
        if type(data) is dict and CLASS in data:
            return self._marked(data, path)
        match wanted.form:
            case "none":
                return self._scalar(data, type(None), path)
            case "union":
                return self._one_of(data, wanted.arguments, path)
            case "literal":
                return self._literal(data, wanted, path)
            case "class":
                return self._of_class(data, wanted, path)
            case _:
                return self._open(data, path)

    def _of_class(self, data: Any, wanted: TypeExpression, path: str) -> Any:
        if wanted.name in SCALARS:
            return self._scalar(data, SCALARS[wanted.name], path)
        if wanted.name in CONTAINERS:
            return self._container(data, wanted, path)
        if wanted.name in STANDARD:
            return self._of_standard(data, wanted, path)
        description = self._described(wanted.name, wanted.version, path)
        natural = self._natural(data, description, path)
        return _with_mark(description, natural)

    def _scalar(self, data: Any, cls: type, path: str) -> Any:
        try:
            return wire_form(scalar_of(cls, data), marked=False)
        except (ValueError, OverflowError):
            raise _mismatch(path, data, ACCEPTED[cls]) from None

    def _literal(self, data: Any, wanted: TypeExpression, path: str) -> Any:
        if not any(type(data) is type(literal) and data == literal for literal in wanted.literals):
            accepted = ", ".join(_shown(literal) for literal in wanted.literals)
            raise _mismatch(path, data, accepted)
        return data

    def _one_of(self, data: Any, parts: tuple[TypeExpression, ...], path: str) -> Any:
        """A value of a union: of the class that JSON says outright, else of the one that fits."""
        for part in parts:
            if _says_outright(part, data):
                return self._value(data, part, path)
        fits, mismatches = [], []
        for part in parts:
            try:
                fits.append((part, self._value(data, part, path)))
            except JsonMismatch as mismatch:
                mismatches.append(mismatch)
        if len(fits) == 1:
            return fits[0][1]
        if fits:
            mark = f'{{"{CLASS}": "{fits[0][0].name}", "{VALUE}": ...}}'
            names = " or ".join(str(part) for part, _ in fits)
            raise JsonMismatch(path, f"{_shown(data)} may be {names}; say which, as {mark}")
        deeper = [mismatch for mismatch in mismatches if mismatch.path != path]
        if len(deeper) == 1:
            raise deeper[0]
        raise _mismatch(path, data, " | ".join(map(str, parts)))

    def _open(self, data: Any, path: str) -> Any:
        """A value of a field that takes anything: what JSON says it is."""
        if type(data) is dict:
            if CLASS in data:
                return self._marked(data, path)
            return {key: self._open(item, _key(path, key)) for key, item in data.items()}
        if type(data) is list:
            return [self._open(item, f"{path}[{at}]") for at, item in enumerate(data)]
        return self._scalar(data, float if type(data) is Decimal else type(data), path)

    # -- containers --------------------------------------------------------------------------------

    def _container(self, data: Any, wanted: TypeExpression, path: str) -> Any:
        cls, arguments = CONTAINERS[wanted.name], wanted.arguments
        if cls is dict:
            return self._mapping(data, *(arguments if len(arguments) == 2 else (_ANY, _ANY)), path)
        if type(data) is not list:
            raise _mismatch(path, data, f"an array, for {wanted}")
        if cls is tuple and arguments and arguments[-1].form != "...":
            if len(data) != len(arguments):
                raise _mismatch(path, data, f"an array of {len(arguments)}, for {wanted}")
            kinds = list(arguments)
        else:
            kinds = [arguments[0] if arguments else _ANY] * len(data)
        items = [
            self._value(item, kind, f"{path}[{at}]")
            for at, (item, kind) in enumerate(zip(data, kinds, strict=True))
        ]
        if cls in (set, frozenset):
            _check_distinct(items, data, path)
        return items if cls is list else {CLASS: wanted.name, VALUE: items}

    def _mapping(self, data: Any, key: TypeExpression, item: TypeExpression, path: str) -> Any:
        if key.form == "any" or key.name == "builtins.str":
            if type(data) is not dict:
                raise _mismatch(path, data, "an object")
            return {name: self._value(part, item, _key(path, name)) for name, part in data.items()}
        if type(data) is not list or any(type(e) is not list or len(e) != 2 for e in data):
            raise _mismatch(path, data, f"an array of pairs, each [{key}, {item}]")
        keys = [self._value(one, key, f"{path}[{at}][0]") for at, (one, _) in enumerate(data)]
        items = [self._value(one, item, f"{path}[{at}][1]") for at, (_, one) in enumerate(data)]
        _check_distinct(keys, [one for one, _ in data], path)
        pairs = [list(pair) for pair in zip(keys, items, strict=True)]
        return {CLASS: "builtins.dict", VALUE: pairs}

    def _of_standard(self, data: Any, wanted: TypeExpression, path: str) -> Any:
        """A value of a class such as Sequence, which says what it can do and not what it is."""
        cls = float if type(data) is Decimal else type(data)
        if not issubclass(cls, STANDARD[wanted.name]):
            why = f'an object of it under a mark, as {{"{CLASS}": CLASS, "{VALUE}": ...}}'
            raise _mismatch(path, data, f"what JSON has for {wanted}, or {why}")
        if cls not in (list, dict):
            return wire_form(scalar_of(cls, data), marked=True)
        name = f"builtins.{cls.__name__}"
        arguments = wanted.arguments if len(wanted.arguments) <= 2 else ()
        form = self._container(data, TypeExpression("class", name, 1, arguments), path)
        return {CLASS: name, VALUE: list(map(list, form.items())) if cls is dict else form}

    # -- marks and classes -------------------------------------------------------------------------

    def _marked(self, data: dict[str, Any], path: str) -> Any:
        """A value that says outright of which class it is, whatever its field is declared as."""
        name, version = data[CLASS], data.get(VERSION, 1)
        if type(name) is not str or type(version) is not int:
            raise _mismatch(path, data, f'{{"{CLASS}": the name of a class, ...}}')
        if name not in SCALARS and name not in CONTAINERS:
            description = self._described(name, version, path)
            rest = {key: part for key, part in data.items() if key not in (CLASS, VERSION)}
            if description.kind in ("enum", "flag"):
                rest = _only_value(rest, data, path)
            return _with_mark(description, self._natural(rest, description, path))
        plain = _only_value({key: part for key, part in data.items() if key != CLASS}, data, path)
        if name == "builtins.dict":
            return self._mapping(plain, TypeExpression("..."), _ANY, path)
        if name in CONTAINERS:
            return self._container(plain, TypeExpression("class", name), path)
        try:
            return wire_form(scalar_of(SCALARS[name], plain, marked=True), marked=True)
        except (ValueError, OverflowError):
            raise _mismatch(path, plain, ACCEPTED[SCALARS[name]]) from None

    def _described(self, name: str, version: int, path: str) -> Description:
        description = self._registry.describe(name, version=version)
        if description is not None and name not in STANDARD:
            return description
        here = self._registry.resolve(name, version=version)
        if here is None or name in STANDARD:
            why = f"the class {clip(name)} version {version} is not known here"
            raise JsonMismatch(path, f"{why}; --import its module if it is new")
        return describe(here)

    def _natural(self, data: Any, description: Description, path: str) -> Any:
        """A member of an enum, or an object of a class, without its mark."""
        if description.kind == "enum":
            names = [constant.name for constant in description.constants]
            if type(data) is not str or data not in names:
                accepted = f"the name of a member of {description.name}: {listed(names)}"
                raise _mismatch(path, data, accepted)
            return data
        if description.kind == "flag":
            if type(data) is not int:
                accepted = f"the members of {description.name} as one whole number"
                raise _mismatch(path, data, accepted)
            self._check_members(data, description, path)
            return data
        if type(data) is not dict:
            raise _mismatch(path, data, f"an object with the attributes of {description.name}")
        make = self._value_object if VALUE in data else self._object
        return make(data, description, path)

    def _check_members(self, data: int, description: Description, path: str) -> None:
        """Of a class that is here, whether there are such members."""
        here: Any = self._registry.resolve(description.name, version=description.version)
        try:
            if here is not None:
                here(data)
        except ValueError:
            accepted = " | ".join(f"{member.name} ({member.value})" for member in here)
            raise _mismatch(path, data, accepted) from None

    def _value_object(self, data: dict[str, Any], description: Description, path: str) -> Any:
        if description.kind != "value":
            why = f"{description.name} has no plain value of its own"
            raise JsonMismatch(_key(path, VALUE), why)
        self._check_names(data, {VALUE, *description.attribute_names}, description, path)
        if type(data[VALUE]) is not dict or CLASS not in data[VALUE]:
            accepted = f'{{"{CLASS}": the built-in class, "{VALUE}": ...}}'
            raise _mismatch(_key(path, VALUE), data[VALUE], accepted)
        return {key: self._open(part, _key(path, key)) for key, part in data.items()}

    def _object(self, data: dict[str, Any], description: Description, path: str) -> Any:
        if description.interface or description.kind == "value":
            mark = f'{{"{CLASS}": a class that conforms, ...}}' if description.interface else VALUE
            raise _mismatch(path, data, f"for {description.name}, {mark}")
        extras = _EXTRAS.get(description.kind, {})
        self._check_names(data, {*extras, *description.attribute_names}, description, path)
        whole = {}
        for attribute in description.attributes:
            name = attribute.name
            at = _key(path, name)
            if name in data:
                whole[name] = self._value(data[name], attribute.type, at)
            else:
                whole.update(self._left_out(attribute, description, at))
        for key in extras.keys() & data.keys():
            whole[key] = self._value(data[key], extras[key], _key(path, key))
        return whole

    def _check_names(
        self, data: dict[str, Any], accepted: set[str], description: Description, path: str
    ) -> None:
        unknown = [name for name in data if name not in accepted]
        if unknown:
            known = [attribute.name for attribute in description.attributes]
            hint = did_you_mean(unknown[0], known)
            why = f"{description.name} has no attribute {unknown[0]!r}{hint}"
            raise JsonMismatch(path, f"{why}; it has {listed(known)}")
        names = [attribute.name for attribute in description.attributes if attribute.required]
        missing = [name for name in names if name not in data]
        if missing and description.kind != "value":
            raise JsonMismatch(path, f"{description.name} needs {listed(missing)}")

    def _left_out(
        self, part: AttributeDescription, description: Description, path: str
    ) -> dict[str, Any]:
        """The default of an attribute that is not given."""
        if part.default is not msgspec.UNSET:
            try:
                return {part.name: self._value(part.default, part.type, path)}
            except JsonMismatch:  # a default against the annotation, such as None
                return {part.name: self._as_it_is(part.default, part.type)}
        here = self._registry.resolve(description.name, version=description.version)
        if here is not None and describe(here).hash == description.hash:
            default = declared_defaults(here)[part.name]
            if default is not None:
                return {part.name: self._as_it_is(default.make(), _ANY)}
        only = f"only the class {description.name} knows its default, and is not imported here"
        raise JsonMismatch(path, f"give it: {only}")

    def _as_it_is(self, value: Any, declared: TypeExpression) -> Any:
        """A value of a program, and not of a person, as the codec writes it."""
        return ObjectEncoder("json", self._registry).way_of(declared)(value, set())


def _check_held(data: Any, path: str) -> None:
    """Refuse what nothing can hold, whatever its field takes."""
    why = why_unheld(data)
    if why:
        raise JsonMismatch(path, why)
    if type(data) is dict:
        for name, part in data.items():
            if why := why_unheld(name):
                raise JsonMismatch(path, f"{why}, as a name")
            _check_held(part, _key(path, name))
    elif type(data) is list:
        for at, part in enumerate(data):
            _check_held(part, f"{path}[{at}]")


def _says_outright(part: TypeExpression, data: Any) -> bool:
    if part.form == "none":
        return data is None
    if part.form == "literal":
        return any(type(data) is type(literal) and data == literal for literal in part.literals)
    if part.form != "class":
        return False
    if part.name in SCALARS:
        return is_scalar(SCALARS[part.name], data)
    return CONTAINERS.get(part.name) in (list, dict) and type(data) is CONTAINERS[part.name]


def _with_mark(description: Description, natural: Any) -> dict[str, Any]:
    mark: dict[str, Any] = {CLASS: description.name}
    if description.version != 1:
        mark[VERSION] = description.version
    return mark | (natural if type(natural) is dict else {VALUE: natural})


def _only_value(rest: dict[str, Any], data: dict[str, Any], path: str) -> Any:
    if rest.keys() != {VALUE}:
        raise _mismatch(path, data, f'{{"{CLASS}": {_shown(data[CLASS])}, "{VALUE}": ...}}')
    return rest[VALUE]


def _check_distinct(items: list[Any], given: list[Any], path: str) -> None:
    seen: set[bytes] = set()
    for at, item in enumerate(items):
        form = msgspec.json.encode(item)
        if form in seen:
            raise JsonMismatch(path, f"{_shown(given[at])} is there twice")
        seen.add(form)


def _key(path: str, name: str) -> str:
    if not name.isidentifier():
        return f"{path}[{_shown(name)}]"
    return f"{path}.{name}" if path else name


def _shown(data: Any) -> str:
    return clip(_SHOWN.encode(data).decode())


def _mismatch(path: str, data: Any, accepted: str) -> JsonMismatch:
    return JsonMismatch(path, f"{_shown(data)} is given; accepted: {accepted}")
