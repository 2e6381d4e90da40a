"""One generated function per class: from an object to what msgspec writes as it is.

Each attribute is tested in line for exactly its declared type. What passes is handed on; anything
else goes the writer's own way for that attribute, which marks it. An object that has not just its
declared attributes is left to the writer as a whole. The result is a *twin*, a Struct with the same
fields, because msgspec writes nothing faster; a Struct that passes is written as it is.
"""

from __future__ import annotations

import enum
import math
import types
import weakref
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from polycast.events.generated_functions import GeneratedFunction, attribute_name
from polycast.events.instances import Anatomy, is_plain_struct
from polycast.events.wire_forms import CLASS, CONTAINERS, FIELDS_SET, SCALARS, lower_moment
from polycast.typesystem import TypeExpression, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.events.encoder import Lower, ObjectEncoder

    Quick = Callable[[Any], Any]
    Test = tuple[str, str]
    """A condition on a variable, and the expression for its form if the condition holds."""

_DEEPEST = 5  # containers within containers, and classes within classes, that code is generated for


def quick_lower(
    writer: ObjectEncoder, anatomy: Anatomy, classes: tuple[type, ...], *, depth: int = 0
) -> Quick | None:
    """The function for objects of the last of these classes, each of which mentions the next.

    `depth` says how many levels of the event are around such an object. None if the class is not
    regular.
    """
    names = [part.name for part in describe(classes[-1]).attributes]
    if not anatomy.is_regular or set(names) != set(anatomy.names):
        return None
    return _Lowering(writer, anatomy, classes, depth).function(names)


class _Lowering:
    """Writes the source for one class."""

    def __init__(
        self, writer: ObjectEncoder, anatomy: Anatomy, classes: tuple[type, ...], depth: int
    ) -> None:
        self._writer = writer
        self._anatomy = anatomy
        self._classes = classes
        self._depth = depth
        self._json = writer.form == "json"
        self._source = GeneratedFunction()

    def function(self, names: list[str]) -> Quick:
        source, anatomy, depth = self._source, self._anatomy, self._depth + 1
        cls = self._classes[-1]
        description, itself = describe(cls), anatomy.kind == "struct" and is_plain_struct(cls)
        source.values["whole"] = _inside(self._writer.walk(anatomy, description), self._depth)
        source.values["twin"] = _twin(names, pydantic=anatomy.kind == "pydantic")
        source.add("try:", *(f" {line}" for line in self._taken(names)))
        values, conditions = [], []
        for at, part in enumerate(description.attributes):
            x, y = f"x_{at}", f"y_{at}"
            test = self._test(part.type, x, depth)
            value = self._chosen(test, part.type, x, depth)
            if test is not None and test[1] == x:
                conditions.append(test[0])
            elif itself:
                source.add(f" {y} = {value}")
                conditions.append(f"{y} is {x}")
                value = y
            values.append(value)
        if itself:
            source.add(f" if {' and '.join(conditions)}: return v")
        if anatomy.kind == "pydantic":
            source.values["unset"] = msgspec.UNSET
            values.append(f"unset if len(chosen) == {len(names)} else sorted(chosen)")
        source.add(f" return twin({', '.join(values)})")
        source.add("except (AttributeError, KeyError, ValueError):", " return whole(v)")
        return source.function("v", names)

    def _taken(self, names: list[str]) -> Iterator[str]:
        """Lines that put the attributes into variables, or go to the writer."""
        anatomy = self._anatomy
        if anatomy.storage == "tuple":
            self._source.values["items"] = tuple.__iter__
            yield f"{''.join(f'x_{at}, ' for at in range(len(names)))}= items(v)"
            return
        if anatomy.has_dictionary:
            yield "d = v.__dict__"
            count = len(names) if anatomy.storage == "dictionary" else 0
            yield f"if len(d) != {count}: raise KeyError"
        if anatomy.kind == "pydantic":
            yield "if v.__pydantic_extra__ or v.__pydantic_private__ is not None: raise KeyError"
            yield "chosen = v.__pydantic_fields_set__"
        for at, name in enumerate(names):
            if anatomy.storage == "dictionary":  # where the class may have a default of that name
                yield f"x_{at} = d[{self._source.name('key', name)}]"
            else:
                yield f"x_{at} = v.{attribute_name(at)}"

    def _lowered(self, expression: TypeExpression, x: str, depth: int) -> str:
        return self._chosen(self._test(expression, x, depth), expression, x, depth)

    def _chosen(self, test: Test | None, expression: TypeExpression, x: str, depth: int) -> str:
        odd = _inside(self._writer.way_of(expression), depth)
        name = self._source.name("odd", _unless_unset(odd) if self._anatomy.made else odd)
        return f"({test[1]} if {test[0]} else {name}({x}))" if test else f"{name}({x})"

    def _test(self, expression: TypeExpression, x: str, depth: int) -> Test | None:
        """What decides whether a variable has its declared type; None if nothing does."""
        if depth > self._depth + _DEEPEST:
            return None
        match expression.form:
            case "none":
                return f"{x} is None", x
            case "any":
                return self._open(x)
            case "union":
                return self._union(expression, x, depth)
            case "literal" if len(expression.arguments) == 1:
                return self._test(expression.arguments[0], x, depth)
            case "class" if expression.name in SCALARS:
                return self._scalar(SCALARS[expression.name], x)
            case "class" if expression.name in CONTAINERS:
                return self._container(expression, x, depth)
            case "class":
                return self._declared(expression, x, depth)
            case _:
                return None

    def _open(self, x: str) -> Test:
        known = [types.NoneType, bool, int, str, bytes if not self._json else int]
        test = f"type({x}) in {self._source.name('known', frozenset(known))}"
        return f"({test} or ({self._float(x)}))", x

    def _float(self, x: str) -> str:
        finite = f" and {x} - {x} == 0.0" if self._json else ""
        return f"type({x}) is float{finite}"

    def _union(self, expression: TypeExpression, x: str, depth: int) -> Test | None:
        part = expression.besides_none
        if part is None:
            return self._open(x)
        inner = self._test(part, x, depth)
        if inner is None:
            return None
        form = x if inner[1] == x else f"(None if {x} is None else {inner[1]})"
        return f"({x} is None or {inner[0]})", form

    def _scalar(self, cls: type, x: str) -> Test | None:
        if cls is float:
            return f"({self._float(x)})", x
        if cls is msgspec.UnsetType:
            return None
        test = f"type({x}) is {self._source.name('cls', cls)}"
        if cls is timedelta:
            return test, f"({x}.days, {x}.seconds, {x}.microseconds)"
        if cls is time:
            return f"({test} and {x}.tzinfo is None)", x
        if cls is not datetime:
            return test, x
        if not self._json:  # msgspec would write an aware one without its offset
            self._source.values["moment"] = lower_moment
            return test, f"({x} if {x}.tzinfo is None else moment({x}))"
        self._source.values["utc"] = UTC
        return f"({test} and ({x}.tzinfo is None or {x}.tzinfo is utc))", x

    def _container(self, expression: TypeExpression, x: str, depth: int) -> Test | None:
        arguments, cls = expression.arguments, CONTAINERS[expression.name]
        if not arguments:
            return None
        test = f"type({x}) is {cls.__name__}"
        if cls is dict:
            return self._mapping(arguments, test, x, depth)
        if cls is tuple and arguments[-1].form != "...":
            return self._fixed(arguments, test, x, depth)
        if alike := self._alike(arguments[0], x):
            return f"({test} and {alike})", x
        item = f"i{depth}"
        return test, f"[{self._lowered(arguments[0], item, depth + 1)} for {item} in {x}]"

    def _alike(self, expression: TypeExpression, items: str) -> str:
        """A condition on all items at once, if their class is all there is to know."""
        cls = SCALARS.get(expression.name) if expression.form == "class" else None
        if cls not in _AS_THEY_ARE:
            return ""
        accept = self._source.name("all", frozenset((cls,)).issuperset)
        finite = ""
        if cls is float and self._json:
            finite = f" and all(map({self._source.name('finite', math.isfinite)}, {items}))"
        return f"{accept}(map(type, {items})){finite}"

    def _fixed(
        self, items: tuple[TypeExpression, ...], test: str, x: str, depth: int
    ) -> Test | None:
        forms = [self._lowered(item, f"{x}[{at}]", depth + 1) for at, item in enumerate(items)]
        return f"({test} and len({x}) == {len(items)})", f"({', '.join(forms)},)"

    def _mapping(
        self, arguments: tuple[TypeExpression, ...], test: str, x: str, depth: int
    ) -> Test | None:
        key, value, k, i = *arguments, f"k{depth}", f"i{depth}"
        if key.form == "any":
            return None
        if key.name != "builtins.str":
            keys = self._lowered(key, k, depth + 1)
            items = self._lowered(value, i, depth + 1)
            return test, f"[({keys}, {items}) for {k}, {i} in {x}.items()]"
        self._source.values["mark"] = CLASS
        test = f"({test} and mark not in {x} and {self._alike(key, x)}"
        if alike := self._alike(value, f"{x}.values()"):
            return f"{test} and {alike})", x
        items = self._lowered(value, i, depth + 1)
        return f"{test})", f"{{{k}: {items} for {k}, {i} in {x}.items()}}"

    def _declared(self, expression: TypeExpression, x: str, depth: int) -> Test | None:
        regular = self._writer.regular(expression) if len(self._classes) <= _DEEPEST else None
        if regular is None or regular[0] in self._classes:
            return None
        cls, anatomy = regular
        test = f"type({x}) is {self._source.name('ref', weakref.ref(cls))}()"
        if issubclass(cls, enum.Enum):
            return test, f"{x}._value_" if issubclass(cls, enum.Flag) else f"{x}._name_"
        lower = quick_lower(self._writer, anatomy, (*self._classes, cls), depth=depth)
        return (test, f"{self._source.name('lower', lower)}({x})") if lower else None


_AS_THEY_ARE = frozenset((bool, int, float, str, bytes, date, Decimal, UUID))


def _twin(names: list[str], *, pydantic: bool) -> type:
    wire = {f"f{at}": name for at, name in enumerate(names)}
    fields: list[Any] = [(field, Any) for field in wire]
    if pydantic:
        fields.append(("chosen", Any, msgspec.UNSET))
        wire["chosen"] = FIELDS_SET
    return msgspec.defstruct("Twin", fields, rename=wire, gc=False)


def _inside(lower: Lower, depth: int) -> Quick:
    """The writer's own way to lower a value that has so many levels around it."""
    around = frozenset(range(-depth, 0))  # in place of the ids of what is around
    return lambda value: lower(value, set(around))


def _unless_unset(lower: Quick) -> Quick:
    """For objects of made classes, which say UNSET for what is missing."""

    def lower_set(value: Any) -> Any:
        if value is msgspec.UNSET:
            raise KeyError
        return lower(value)

    return lower_set
