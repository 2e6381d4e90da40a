"""Objects to plain data: natural where the declared type says enough, marked where it does not."""

from __future__ import annotations

import enum
import operator
import weakref
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.events.closed import closed_over
from polycast.events.forms import (
    CLASS,
    CONTAINERS,
    SCALARS,
    VALUE,
    VERSION,
    Refused,
    fits_natively,
    lower_scalar,
)
from polycast.events.instances import Anatomy, anatomy_of, base_value, is_plain_struct, value_base
from polycast.typesystem import Description, TypeExpression, describe, wire_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.events.closed import Closed
    from polycast.events.forms import Form
    from polycast.typesystem import Registry

    Lower = Callable[[Any, set[int]], Any]

__all__ = ["Writer", "Writing"]

_OPEN = TypeExpression("any")


class Writing(msgspec.Struct, frozen=True):
    """How objects of one class are written."""

    description: Description
    natural: Lower


class Writer:
    """Lowers objects for one codec and one registry; `busy` holds what is being lowered."""

    def __init__(self, form: Form, registry: Registry, *, shortcuts: bool = True) -> None:
        self._form = form
        self._registry = registry
        self._shortcuts = shortcuts
        self._writings: weakref.WeakKeyDictionary[type, Writing] = weakref.WeakKeyDictionary()
        self._open_natural: dict[type, Lower] = {
            cls: self._container(TypeExpression("class", name)) for name, cls in CONTAINERS.items()
        }

    def writing(self, value: Any) -> Writing:
        """How this object is written; its class is bound if it was not."""
        cls = type(value)
        found = self._writings.get(cls)
        if found is None:
            found = self._compiled(value, cls)
            self._writings[cls] = found
        return found

    def lower(self, value: Any) -> tuple[Description, Any]:
        """The description of an event's class, and its form for who knows the class."""
        cls = type(value)
        if cls in _SCALARS:
            return describe(cls), self._open(value, set())
        if cls in self._open_natural:
            return describe(cls), self._open_natural[cls](value, set())
        writing = self.writing(value)
        return writing.description, writing.natural(value, set())

    def _compiled(self, value: Any, cls: type) -> Writing:
        if issubclass(cls, type):
            raise Refused(value, "a class is no value")
        try:
            anatomy = anatomy_of(cls)
        except Refused as refused:
            raise Refused(value, refused.why) from None
        description = self._registry.bind(cls)
        if issubclass(cls, enum.Enum):
            return Writing(description, _lower_flag if anatomy.kind == "flag" else _lower_enum)
        if anatomy.kind == "value":
            return Writing(description, self._extended(anatomy, value_base(cls)))
        natural = self._object(anatomy, description)
        if self._shortcuts:
            natural = _with_shortcut(natural, cls, anatomy, description, self._form)
        return Writing(description, natural)

    def _object(self, anatomy: Anatomy, description: Description) -> Lower:
        declared = {part.name: self._for(part.type) for part in description.attributes}
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
            except Refused as refused:
                refused.path.append(f".{name}")
                raise
            finally:
                busy.discard(id(value))

        return lower

    def _extended(self, anatomy: Anatomy, base: type) -> Lower:
        dynamic = self._object(anatomy, Description(""))

        def lower(value: Any, busy: set[int]) -> Any:
            state = dynamic(value, busy)
            _enter(value, busy)
            try:
                return {VALUE: self._marked(base_value(value, base), busy), **state}
            finally:
                busy.discard(id(value))

        return lower

    def _for(self, expression: TypeExpression) -> Lower:
        match expression.form:
            case "none":
                return self._scalar(type(None))
            case "union":
                return self._union(expression)
            case "literal" if len(expression.arguments) == 1:
                return self._for(expression.arguments[0])
            case "class" if expression.name in SCALARS:
                return self._scalar(SCALARS[expression.name])
            case "class" if expression.name in CONTAINERS:
                return self._exactly(CONTAINERS[expression.name], self._container(expression))
            case "class":
                return self._declared(expression)
            case _:
                return self._open

    def _scalar(self, cls: type) -> Lower:
        form, must_fit = self._form, cls in _NUMBERS

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
        parts = [part for part in expression.arguments if part.form != "none"]
        if len(parts) != 1 or len(parts) == len(expression.arguments):
            return self._open
        inner = self._for(parts[0])

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
            if writing.description.name == name and writing.description.version == version:
                return writing.natural(value, busy)
            return self._marked(value, busy)

        return lower

    def _open(self, value: Any, busy: set[int]) -> Any:
        cls = type(value)
        if cls in _SCALARS:
            return value if fits_natively(value, self._form) else self._marked(value, busy)
        if cls is list or (cls is dict and _has_plain_keys(value)):
            return self._open_natural[cls](value, busy)
        return self._marked(value, busy)

    def _marked(self, value: Any, busy: set[int]) -> dict[str, Any]:
        cls = type(value)
        if cls in _SCALARS:
            return {CLASS: wire_name(cls), VALUE: lower_scalar(value, self._form)}
        if cls is dict:
            return {CLASS: wire_name(cls), VALUE: self._pairs(_OPEN, _OPEN)(value, busy)}
        if cls in self._open_natural:
            return {CLASS: wire_name(cls), VALUE: self._open_natural[cls](value, busy)}
        writing = self.writing(value)
        mark = {CLASS: writing.description.name}
        if writing.description.version != 1:
            mark[VERSION] = writing.description.version  # type: ignore[assignment]
        natural = writing.natural(value, busy)
        if isinstance(natural, (str, int)):
            return {**mark, VALUE: natural}
        return {**mark, **(natural if isinstance(natural, dict) else _fields(natural))}

    def _container(self, expression: TypeExpression) -> Lower:
        arguments = expression.arguments
        if expression.name == "builtins.dict":
            return self._mapping(*(arguments if len(arguments) == 2 else (_OPEN, _OPEN)))
        if expression.name == "builtins.tuple" and arguments and arguments[-1].form != "...":
            return self._fixed(arguments)
        return self._array(arguments[0] if arguments else _OPEN)

    def _array(self, item: TypeExpression) -> Lower:
        lower_item = self._for(item)

        def lower(value: Any, busy: set[int]) -> Any:
            return _each(value, lower_item, busy)

        return lower

    def _fixed(self, items: tuple[TypeExpression, ...]) -> Lower:
        lowers = [self._for(item) for item in items]

        def lower(value: Any, busy: set[int]) -> Any:
            if len(value) != len(lowers):
                return {CLASS: "builtins.tuple", VALUE: _each(value, self._open, busy)}
            rest = iter(lowers)
            return _each(value, lambda item, busy: next(rest)(item, busy), busy)  # noqa: PLW0108

        return lower

    def _mapping(self, key: TypeExpression, item: TypeExpression) -> Lower:
        if key.form != "any" and key.name != "builtins.str":
            return self._pairs(key, item)
        lower_item = self._for(item)

        def lower(value: Any, busy: set[int]) -> Any:
            if not _has_plain_keys(value):
                return self._marked(value, busy)
            return _each_value(value, lower_item, busy)

        return lower

    def _pairs(self, key: TypeExpression, item: TypeExpression) -> Lower:
        lower_key, lower_item = self._for(key), self._for(item)

        def lower(value: Any, busy: set[int]) -> Any:
            keys = _each(value, lower_key, busy, inside=value)
            items = _each_value(value, lower_item, busy).values()
            return [[one, other] for one, other in zip(keys, items, strict=True)]

        return lower


_SCALARS = frozenset(SCALARS.values())
_NUMBERS = frozenset((int, float))
_DEEPEST = 100  # what can be written must not be too deep to be read, on any stack


def _enter(value: Any, busy: set[int]) -> None:
    if id(value) in busy:
        raise Refused(value, "it contains itself")
    if len(busy) >= _DEEPEST:
        raise Refused(value, f"it is nested more than {_DEEPEST} levels deep")
    busy.add(id(value))


def _check_names(value: Any, state: dict[str, Any]) -> None:
    for name in state:
        if name.startswith("$"):
            raise Refused(value, f"its attribute {name!r} looks like a mark of the wire format")


def _each(value: Any, lower_item: Lower, busy: set[int], *, inside: Any = None) -> list[Any]:
    _enter(value, busy)
    at, found = 0, []
    try:
        for at, item in enumerate(value):  # noqa: B007 - the path of a failure needs it
            found.append(lower_item(item, busy))
    except Refused as refused:
        refused.path.append(f"[{at}]" if inside is None else ".keys()")
        raise
    finally:
        busy.discard(id(value))
    return found


def _each_value(value: dict[Any, Any], lower_item: Lower, busy: set[int]) -> dict[Any, Any]:
    _enter(value, busy)
    key, found = None, {}
    try:
        for key, item in value.items():
            found[key] = lower_item(item, busy)
    except Refused as refused:
        refused.path.append(f"[{key!r}]")
        raise
    finally:
        busy.discard(id(value))
    return found


def _has_plain_keys(value: dict[Any, Any]) -> bool:
    return CLASS not in value and all(type(key) is str and _is_text(key) for key in value)


def _is_text(key: str) -> bool:
    return fits_natively(key, "json")


def _lower_enum(value: Any, _: set[int]) -> str:
    return str(value._name_)


def _lower_flag(value: Any, _: set[int]) -> int:
    return int(value._value_)


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _with_shortcut(
    natural: Lower, cls: Any, anatomy: Anatomy, description: Description, form: Form
) -> Lower:
    """Leaves all the work to msgspec when an object holds just what its class declares."""
    names = [part.name for part in description.attributes]
    closed = closed_over([part.type for part in description.attributes], form, arrays=True)
    # Two at least: a getter of one name gives no tuple.
    if closed is None or len(names) < 2 or set(names) != set(anatomy.names):
        return natural
    if anatomy.kind == "struct":
        return _struct_shortcut(natural, closed, names) if is_plain_struct(cls) else natural
    if anatomy.kind in ("dataclass", "attrs", "class") and not anatomy.slots:
        return _dictionary_shortcut(natural, closed, names)
    return natural


def _struct_shortcut(natural: Lower, closed: Closed, names: list[str]) -> Lower:
    pick, fits = operator.attrgetter(*names), closed.fits

    def lower(value: Any, busy: set[int]) -> Any:
        return value if fits(pick(value)) else natural(value, busy)

    return lower


def _dictionary_shortcut(natural: Lower, closed: Closed, names: list[str]) -> Lower:
    pick, fits, count = operator.itemgetter(*names), closed.fits, len(names)

    def lower(value: Any, busy: set[int]) -> Any:
        held = value.__dict__
        try:
            if len(held) == count and fits(pick(held)):
                return held
        except KeyError:
            pass  # an attribute that is not set
        return natural(value, busy)

    return lower
