"""ETCL once more, slow and obvious: expressions as tuples, walked over an event.

It shares nothing with what it judges but the classes of events. An expression is `(kind, ...)`:

    ("literal", 5)  ("label", "RED")  ("component", steps)  ("exist", steps)  ("default", steps)
    ("not", a)  ("and", a, b)  ("or", a, b)  ("compare", "<", a, b)  ("in", a, steps)
    ("~", a, b)  ("compute", "+", a, b)

and a step is `("variable", name)`, `("member", name)`, `("position", n)`, `("element", n)`,
`("property", name)`, `("tag", kind, value)`, `("default",)`, `("_d",)`, `("_length",)`.
"""

from __future__ import annotations

import dataclasses
import enum
from types import SimpleNamespace
from typing import Any

from polycast import StructuredEvent, TaggedUnion

Expression = tuple[Any, ...]
LEVELS = {"or": 1, "and": 2, "compare": 3, "in": 4, "~": 5, "+": 6, "-": 6}
LEVELS |= {"*": 7, "/": 7, "%": 7, "not": 8}
KEYWORDS = ("and", "or", "not", "in", "exist", "default", "true", "false")


class Fails(Exception):
    """The evaluation fails, which is not false."""


# -- text ------------------------------------------------------------------------------------------


def written(e: Expression, least: int = 0) -> str:
    """An expression as text, with no more parentheses than it needs."""
    level, text = _written(e)
    return text if level >= least else f"({text})"


def _written(e: Expression) -> tuple[int, str]:  # noqa: C901 - one case for each kind
    match e:
        case ("literal", bool(value)):
            return 9, "TRUE" if value else "FALSE"
        case ("literal", str(value)):
            return 9, "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case ("literal", value):
            return 9, repr(value)
        case ("label", name):
            return 9, _name(name)
        case ("component", steps):
            return 9, path(steps)
        case ("exist" | "default" as word, steps):
            return 9, f"{word} {path(steps)}"
        case ("not", a):
            return 8, f"not {written(a, 9)}"
        case ("and" | "or" as word, a, b):
            level = LEVELS[word]
            return level, f"{written(a, level)} {word} {written(b, level + 1)}"
        case ("compare", sign, a, b):
            return 3, f"{written(a, 4)} {sign} {written(b, 4)}"
        case ("in", a, steps):
            return 4, f"{written(a, 5)} in {path(steps)}"
        case ("~", a, b):
            return 5, f"{written(a, 6)} ~ {written(b, 6)}"
        case ("compute", sign, a, b):
            level = LEVELS[sign]
            return level, f"{written(a, level)} {sign} {written(b, level + 1)}"
    raise ValueError(e)


def path(steps: tuple[Any, ...]) -> str:
    """A component as text."""
    return "$" + "".join(map(_step, steps))


def _step(step: tuple[Any, ...]) -> str:
    match step:
        case ("variable", name):
            return _name(name)
        case ("member", name):
            return f".{_name(name)}"
        case ("position", n):
            return f".{n}"
        case ("element", n):
            return f"[{n}]"
        case ("property", name):
            return f"({_name(name)})"
        case ("tag", "label", name):
            return f".({_name(name)})"
        case ("tag", _, value):
            return f".({written(('literal', value))})"
        case ("default",):
            return ".()"
        case (last,):
            return f".{last}"
    raise ValueError(step)


def _name(name: str) -> str:
    return f"\\{name}" if name.lower() in KEYWORDS else name


# -- types -----------------------------------------------------------------------------------------


def static(e: Expression) -> str:
    """The static type: boolean, number, float, string, character, label or unknown.

    ValueError if it can never be right.
    """
    match e:
        case ("literal", value):
            return _static_literal(value)
        case ("label", _):
            return "label"
        case ("component", _):
            return "unknown"
        case ("exist" | "default", _):
            return "boolean"
        case ("not", a):
            _need(a, "boolean")
            return "boolean"
        case ("and" | "or", a, b):
            _need(a, "boolean")
            _need(b, "boolean")
            return "boolean"
        case ("in", a, _):
            static(a)
            return "boolean"
        case ("~", a, b):
            _need(a, "string", "character")
            _need(b, "string", "character")
            return "boolean"
        case ("compute", sign, a, b):
            numbers = ("number", "boolean", "character", *(() if sign == "%" else ("float",)))
            kinds = {_need(a, *numbers), _need(b, *numbers)}
            return "float" if "float" in kinds else "number"
        case ("compare", sign, a, b):
            return _static_comparison(sign, {static(a), static(b)})
    raise AssertionError(e)


def _static_literal(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "character" if len(value) == 1 else "string"
    return "float" if isinstance(value, float) else "number"


def _static_comparison(sign: str, kinds: set[str]) -> str:
    if "label" in kinds and (sign not in ("==", "!=") or not kinds <= {"label", "unknown"}):
        raise ValueError(kinds)
    if "unknown" not in kinds and "label" not in kinds:
        numbers, strings = {"number", "float", "boolean", "character"}, {"string", "character"}
        if not kinds <= numbers and not kinds <= strings:
            raise ValueError(kinds)
    return "boolean"


def _need(e: Expression, *accepted: str) -> str:
    kind = static(e)
    if kind != "unknown" and kind not in accepted:
        raise ValueError(kind)
    return kind


# -- values ----------------------------------------------------------------------------------------


def matches(e: Expression, event: Any) -> bool:
    """Whether an event passes."""
    try:
        return boolean(evaluate(e, event))
    except Fails:
        return False


class Char(str):
    """A literal of one character, or the discriminator of a union."""


class Label(str):
    """A bare name."""


def boolean(value: Any) -> bool:
    """A value that has to be a boolean."""
    if value is True or value is False:
        return bool(value)
    raise Fails


def evaluate(e: Expression, event: Any) -> Any:  # noqa: C901 - one case for each kind
    """The value of an expression."""
    match e:
        case ("literal", str(value)):
            return Char(value) if len(value) == 1 else value
        case ("literal", value):
            return value
        case ("label", name):
            return Label(name)
        case ("component", steps):
            return follow(steps, event)
        case ("exist", steps):
            try:
                follow(steps, event)
            except Fails:
                return False
            return True
        case ("default", steps):
            union = follow(steps[:-1], event)
            if not isinstance(union, TaggedUnion):
                raise Fails
            return union.default_member is not None and union.default_member == union.member
        case ("not", a):
            return not boolean(evaluate(a, event))
        case ("and", a, b):
            return boolean(evaluate(a, event)) and boolean(evaluate(b, event))
        case ("or", a, b):
            return boolean(evaluate(a, event)) or boolean(evaluate(b, event))
        case ("compare", sign, a, b):
            return compare(sign, evaluate(a, event), evaluate(b, event))
        case ("in", a, steps):
            return _member_of(evaluate(a, event), follow(steps, event))
        case ("~", a, b):
            part, whole = evaluate(a, event), evaluate(b, event)
            if not is_string(part) or not is_string(whole):
                raise Fails
            return str(part) in str(whole)
        case ("compute", sign, a, b):
            return compute(sign, evaluate(a, event), evaluate(b, event))
    raise AssertionError(e)


def is_string(value: Any) -> bool:
    """A text, also of one character."""
    return isinstance(value, str) and not isinstance(value, enum.Enum | Label)


def number(value: Any) -> Any:
    """What a value counts as in arithmetic."""
    if isinstance(value, Char):
        return ord(value)
    if isinstance(value, bool | int | float) and not isinstance(value, enum.Enum):
        return int(value) if isinstance(value, bool) else value
    raise Fails


def is_number(value: Any) -> bool:
    """Whether it counts as a number."""
    try:
        number(value)
    except Fails:
        return False
    return True


def compare(sign: str, a: Any, b: Any) -> bool:
    """A strict comparison."""
    enums = isinstance(a, enum.Enum | Label), isinstance(b, enum.Enum | Label)
    if any(enums):
        if not all(enums) or sign not in ("==", "!="):
            raise Fails
        if isinstance(a, enum.Enum) and isinstance(b, enum.Enum) and type(a) is not type(b):
            raise Fails
        same = getattr(a, "name", a) == getattr(b, "name", b)
        return same if sign == "==" else not same
    if is_string(a) and is_string(b):
        a, b = [ord(c) for c in a], [ord(c) for c in b]
    elif is_number(a) and is_number(b):
        a, b = number(a), number(b)
    else:
        raise Fails
    return {
        "==": a == b,
        "!=": a != b,
        "<": a < b,
        "<=": a <= b,
        ">": a > b,
        ">=": a >= b,
    }[sign]


def compute(sign: str, a: Any, b: Any) -> Any:
    """Arithmetic on numbers."""
    a, b = number(a), number(b)
    whole = isinstance(a, int) and isinstance(b, int)
    try:
        if sign == "+":
            return a + b
        if sign == "-":
            return a - b
        if sign == "*":
            return a * b
        if b == 0 or (sign == "%" and not whole):
            raise Fails
        if not whole:
            return a / b
        quotient = abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)
        return quotient if sign == "/" else a - b * quotient
    except OverflowError:
        raise Fails from None


def _member_of(value: Any, several: Any) -> bool:
    simple = is_string(value) or is_number(value) or isinstance(value, enum.Enum | Label)
    if not simple:
        raise Fails
    return any(compare("==", value, element) for element in sequence(several))


# -- paths -----------------------------------------------------------------------------------------


class Struct(dict[str, Any]):
    """A struct of a structured event."""


class PropertyList(list[Any]):
    """Names and values."""


def follow(steps: tuple[Any, ...], value: Any) -> Any:
    """What a path leads to."""
    for step in steps:
        value = _followed(step, value)
    return value


def opened(value: Any) -> Struct:
    """A struct as its members by name."""
    if isinstance(value, StructuredEvent):
        kind = Struct(domain_name=value.domain_name, type_name=value.type_name)
        fixed = Struct(event_type=kind, event_name=value.event_name)
        header = Struct(fixed_header=fixed, variable_header=pairs(value.variable_header))
        data = pairs(value.filterable_data)
        body = value.remainder_of_body
        return Struct(header=header, filterable_data=data, remainder_of_body=body)
    if isinstance(value, dict):
        return Struct(value)
    if isinstance(value, SimpleNamespace):
        return Struct(vars(value))
    if isinstance(value, TaggedUnion) or not dataclasses.is_dataclass(value):
        raise Fails
    return Struct({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})


def pairs(properties: dict[str, Any]) -> PropertyList:
    """Properties as a list."""
    return PropertyList(Struct(name=name, value=value) for name, value in properties.items())


def sequence(value: Any) -> Any:
    """An array or sequence."""
    if not isinstance(value, list | tuple):
        raise Fails
    return value


def union(value: Any) -> TaggedUnion:
    """A union."""
    if not isinstance(value, TaggedUnion):
        raise Fails
    return value


def discriminator(value: TaggedUnion) -> Any:
    """Its tag; a string is a character."""
    return Char(value.tag) if isinstance(value.tag, str) else value.tag


def only_if(active: bool, value: Any) -> Any:
    """A value that is there only sometimes."""
    if not active:
        raise Fails
    return value


def _followed(step: tuple[Any, ...], value: Any) -> Any:  # noqa: C901 - as above
    match step:
        case ("variable", name):
            return _variable(name, value)
        case ("member", name):
            if isinstance(value, TaggedUnion):
                return only_if(value.member == name, value.value)
            members = opened(value)
            return only_if(name in members, members.get(name))
        case ("position", n):
            if isinstance(value, TaggedUnion):
                names = [*value.labels]
                if value.default_member is not None and value.default_member not in names:
                    names.append(value.default_member)
                return only_if(n < len(names) and names[n] == value.member, value.value)
            values = list(opened(value).values())
            return only_if(n < len(values), values[n] if n < len(values) else None)
        case ("element", n):
            several = sequence(value)
            return only_if(n < len(several), several[n] if n < len(several) else None)
        case ("property", name):
            return _property(name, value)
        case ("tag", *_) if union(value).member is None:
            raise Fails
        case ("tag", "label", name):
            tag = union(value).tag
            return only_if(isinstance(tag, enum.Enum) and tag.name == name, value.value)
        case ("tag", "number", n):
            tag = discriminator(union(value))
            if isinstance(tag, enum.Enum):
                tag = list(type(tag)).index(tag)
            return only_if(is_number(tag) and number(tag) == n, value.value)
        case ("tag", "character", c):
            tag = union(value).tag
            counts = tag == c if isinstance(tag, str) else is_number(tag) and number(tag) == ord(c)
            return only_if(counts, value.value)
        case ("tag", "boolean", flag):
            tag = discriminator(union(value))
            return only_if(is_number(tag) and number(tag) == int(flag), value.value)
        case ("default",):
            there = union(value).default_member is not None
            return only_if(there and value.default_member == value.member, value.value)
        case ("_d",):
            return discriminator(union(value))
        case ("_length",):
            return len(sequence(value))
    raise AssertionError(step)


def _property(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return only_if(name in value, value.get(name))
    for element in sequence(value):
        parts = (
            list(element) if isinstance(element, list | tuple) else list(opened(element).values())
        )
        first, second = parts if len(parts) == 2 else only_if(False, None)
        if isinstance(first, str) and first == name:
            return second
    raise Fails


def _variable(name: str, event: Any) -> Any:
    if isinstance(event, StructuredEvent):
        whole = opened(event)
        header = whole["header"]
        fixed = header["fixed_header"]
        for known in (fixed["event_type"], fixed, header, whole):
            if name in known:
                return known[name]
        if name == "event_type":
            return fixed["event_type"]
        for several in (event.variable_header, event.filterable_data):
            if name in several:
                return several[name]
        raise Fails
    for look in (("member", name), ("property", name)):
        try:
            return _followed(look, event)
        except Fails:
            continue
    untyped = {"domain_name": "", "type_name": "%ANY"}
    known = {**untyped, "event_type": Struct(untyped)}
    return only_if(name in known, known.get(name))
