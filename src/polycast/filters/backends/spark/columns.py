"""A filter as a Spark column: TRUE for exactly the rows that Python would let pass.

Each node becomes a `Value`; see values.py for how failing and None are kept apart. What has no
exact form is refused with `NoSparkFormError`. Compiling needs no session; only the column does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.filters.backends import interpreter
from polycast.filters.backends.spark import methods, sql, values
from polycast.filters.backends.spark.arithmetic import arithmetic, signed
from polycast.filters.backends.spark.comparisons import SIMPLE, among, compare
from polycast.filters.backends.spark.sql import FALSE, TRUE, Term, both, either, negated
from polycast.filters.backends.spark.values import ColumnKind, NoColumnError, Value, failing, truth
from polycast.filters.tree import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column

LARGEST = 5_000  # operations as Spark sees them; more would keep it busy planning
DEEPEST = 160  # operations in each other; at 400 the JVM's stack overflows
Scope = tuple[Value, ...]  # the elements of the quantifiers around, the innermost first, the event


def column(tree: nodes.Node, cls: type) -> Column:
    """A boolean column over a table of `cls`, see `struct_of`: TRUE where the filter matches.

    It is never TRUE for another row, and never raises, whatever the settings of the session.
    """
    return sql.column_of(compiled(tree, cls))


def compiled(tree: nodes.Node, cls: type) -> Term:
    """The expression of the column, which needs no session; NoSparkFormError if it is not exact."""
    event = Value(ColumnKind("event", cls=cls), sql.NULL)
    try:
        _check_size(sum(1 for _ in nodes.walk(tree)), 1)
        return _limited(_holds(tree, (event,)))
    except NoColumnError as refusal:
        raise values.no_form(tree, why=refusal.why, accepted=refusal.accepted) from None
    except RecursionError:
        raise values.no_form(tree, why="it is nested too deeply", accepted="fewer levels") from None


def _holds(node: nodes.Node, scope: Scope) -> Term:
    """Where an expression is true and does not fail; conditions side by side can be pushed down."""
    if isinstance(node, nodes.And):
        return both(*(_holds(part, scope) for part in node.parts))
    value = value_of(node, scope)
    return both(value.ok, truth(value))


def value_of(node: nodes.Node, scope: Scope) -> Value:
    """The value of an expression; NoSparkFormError if it has no exact form."""
    try:
        value = _known(node)
        if value is None:
            rule = _RULES.get(type(node))
            if rule is None:
                why = f"{type(node).__name__} has no Spark form"
                raise NoColumnError(why, accepted="the other nodes")
            value = rule(node, scope)
        _limited(value.term, value.ok)
    except NoColumnError as refusal:
        raise values.no_form(node, why=refusal.why, accepted=refusal.accepted) from None
    return value


def _limited(*made: Term) -> Term:
    _check_size(sum(term.size for term in made), max(term.depth for term in made))
    return made[0]


def _check_size(size: int, depth: int) -> None:
    if size > LARGEST or depth > DEEPEST:
        why = f"it would take more than {LARGEST} operations, or {DEEPEST} in each other"
        raise NoColumnError(why, accepted="a smaller filter, or one that uses its parts less often")


# -- what does not depend on the event -------------------------------------------------------------

_GROWING = ("*", "%", "**", "<<")  # of numbers or of texts, they can make something huge
_CHANGING = (nodes.Event, nodes.Variable, nodes.Opaque, nodes.Reach, nodes.Attribute)


def _known(node: nodes.Node) -> Value | None:
    """The value of an expression over constants, found by Python itself."""
    if isinstance(node, nodes.Constant) or not all(map(_is_safe, nodes.walk(node))):
        return None
    try:
        found = interpreter.evaluate(node, None, ())
    except Exception:
        return failing()
    return values.constant(nodes.constant_value(found))


def _is_safe(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Arithmetic) and node.operator in _GROWING:
        return _is_small(node)
    if isinstance(node, nodes.Call):  # a method of a date may tell what time it is
        text = isinstance(node.of, nodes.Constant) and isinstance(node.of.value, str)
        return text and ("str", node.method) in methods.METHODS
    return not isinstance(node, _CHANGING)


def _is_small(node: nodes.Arithmetic) -> bool:
    """Whether the result is cheap to compute."""
    parts = [part.value for part in nodes.walk(node) if isinstance(part, nodes.Constant)]
    if node.operator in ("*", "%"):
        return all(type(part) in (bool, int, float) for part in parts)
    plain = len(parts) == 2 and all(type(part) is int for part in parts)
    return plain and abs(parts[0]) < 2**64 and parts[1] in range(65)


# -- leaves and attributes -------------------------------------------------------------------------


def _opaque(node: nodes.Opaque, scope: Scope) -> Value:
    why = f"it cannot be looked into: {node.why}"
    raise NoColumnError(why, accepted="expressions over the event")


def _attribute(of: Value, name: str) -> Value:
    if of.kind.name == "enum":
        return _of_member(of, name)
    if of.kind.name in ("none", "never"):
        return failing()
    if of.kind.cls is None:
        why = f"what {name!r} of {of.kind} is, Spark does not know"
        raise NoColumnError(why, accepted="declared attributes of classes")
    kind = values.attribute_kind(of.kind.cls, name)
    term = sql.named(name) if of.kind.name == "event" else sql.field(of.term, name)
    return Value(kind, term).guarded(of.ok, values.present(of))


def _of_member(of: Value, name: str) -> Value:
    """An attribute of an enum's members: Python is asked for each of them."""
    try:
        held = [
            values.constant(nodes.constant_value(getattr(member, name)))
            for member in values.members(of.kind)
        ]
    except (AttributeError, TypeError):
        raise NoColumnError(f"{name!r} of an enum's member", accepted="plain values") from None
    labels = [sql.literal(member.name, "string") for member in values.members(of.kind)]
    tests = [sql.operate("=", of.term, label) for label in labels]
    found = values.pick(list(zip(tests, held, strict=True))[:-1], held[-1])
    if found is None:
        raise NoColumnError(f"{name!r} is of several types", accepted="values of one type")
    return Value(*found).guarded(of.ok, values.present(of))


def _reach(node: nodes.Reach, scope: Scope) -> Value:
    of = value_of(node.of, scope)
    if (of.kind.name, node.name) in methods.METHODS:
        return methods.call_method(of, node.name, ())
    found = _attribute(of, node.name)
    classes = () if found.kind.cls is None else tuple(values.subclasses(found.kind.cls))
    if any("__call__" in vars(base) for cls in classes for base in cls.__mro__):
        raise NoColumnError("what it reaches may be called", accepted="attributes that are data")
    return found


def _call(node: nodes.Call, scope: Scope) -> Value:
    of = value_of(node.of, scope)
    return methods.call_method(
        of, node.method, tuple(value_of(argument, scope) for argument in node.arguments)
    )


def _applied(node: nodes.Applied, scope: Scope) -> Value:
    raise NoColumnError(
        f"{node.language}.{node.name} follows the rules of another language than Spark's",
        accepted="filters written in Python",
    )


# -- operators -------------------------------------------------------------------------------------


def _display(node: nodes.Display, scope: Scope) -> Value:
    raise NoColumnError("Spark has no such containers", accepted="`x in (a, b)`")


def _compare(node: nodes.Compare, scope: Scope) -> Value:
    left = value_of(node.first, scope)
    links: list[Value] = []
    for sign, operand in node.rest:
        if isinstance(operand, nodes.Display) and sign in ("in", "not in"):
            elements = [value_of(element, scope) for element in operand.elements]
            links.append(_among(sign, left, elements))
            left = Value(ColumnKind("other"), sql.NULL)
        else:
            right = value_of(operand, scope)
            links.append(compare(sign, left, right))
            left = right
    return _all_of(links)


def _among(sign: str, needle: Value, elements: list[Value]) -> Value:
    """`needle in (elements)`: all elements are evaluated before any is compared."""
    if any(value.kind.name == "never" for value in (needle, *elements)):
        return failing()
    plain = (*SIMPLE, "enum")
    if not all(value.kind.name in plain for value in elements):
        raise NoColumnError("not all elements are plain values", accepted=", ".join(plain))
    found = among(needle, elements)
    oks = both(needle.ok, *(value.ok for value in elements))
    return Value(ColumnKind("bool"), negated(found) if sign == "not in" else found, oks)


def _or(node: nodes.Or, scope: Scope) -> Value:
    parts = [value_of(part, scope) for part in node.parts]
    truths = [truth(part) for part in parts]
    return _first(parts, truths, either(*truths))


def _all_of(parts: list[Value]) -> Value:
    truths = [truth(part) for part in parts]
    return _first(parts, [negated(condition) for condition in truths], both(*truths))


def _first(parts: Sequence[Value], stops: Sequence[Term], told: Term) -> Value:
    """The first part that decides, else the last; parts after the deciding one may fail."""
    ok = _ok(parts, stops)
    if all(part.kind == ColumnKind("bool") for part in parts):
        return Value(ColumnKind("bool"), told, ok)
    found = values.pick(list(zip(stops, parts, strict=True))[:-1], parts[-1])
    if found is None:
        return Value(ColumnKind("mixed"), told, ok, told=told)
    return Value(*found, ok, told=told)


def _ok(parts: Sequence[Value], stops: Sequence[Term]) -> Term:
    """Whether the first half does not fail, nor the second where the first does not decide."""
    if len(parts) == 1:
        return parts[0].ok
    half = len(parts) // 2
    after = _ok(parts[half:], stops[half:])
    return both(_ok(parts[:half], stops[:half]), either(*stops[:half], after))


def _not(node: nodes.Not, scope: Scope) -> Value:
    operand = value_of(node.operand, scope)
    return Value(ColumnKind("bool"), negated(truth(operand)), operand.ok)


def _instance_of(node: nodes.InstanceOf, scope: Scope) -> Value:
    of = value_of(node.of, scope)
    verdict = TRUE if _is_instance(of.kind, node.classes) else FALSE
    if of.kind.nullable:
        none = TRUE if isinstance(None, node.classes) else FALSE
        verdict = sql.case((sql.is_null(of.term), none), otherwise=verdict)
    return Value(ColumnKind("bool"), verdict, of.ok)


def _is_instance(kind: ColumnKind, classes: tuple[type, ...]) -> bool:
    if kind.name == "never":
        return False
    possible: Any = values.CLASSES.get(kind.name, () if kind.cls is None else (kind.cls,))
    verdicts = {issubclass(cls, classes) for cls in possible}
    below = kind.name in ("event", "object") and verdicts == {False}  # a subclass may be one
    if len(verdicts) != 1 or below:
        why = "a row does not tell its class, only what was declared"
        raise NoColumnError(why, accepted="isinstance that the declared type decides for all rows")
    return verdicts.pop()


def _quantified(node: nodes.Quantified, scope: Scope) -> Value:
    over = value_of(node.over, scope)
    if over.kind.name in ("none", "never"):
        return failing()
    element = methods.element_of(over)
    inner = (element, *scope)
    tests = [value_of(condition, inner) for condition in node.conditions]
    return methods.quantified(node.kind, over, element, tests, value_of(node.each, inner))


_RULES: dict[type, Callable[[Any, Scope], Value]] = {
    nodes.Event: lambda node, scope: scope[-1],
    nodes.Variable: lambda node, scope: scope[node.depth],
    nodes.Constant: lambda node, scope: values.constant(node.value),
    nodes.Opaque: _opaque,
    nodes.Attribute: lambda node, scope: _attribute(value_of(node.of, scope), node.name),
    nodes.Reach: _reach,
    nodes.Call: _call,
    nodes.Function: lambda node, scope: methods.call_function(
        node.name, tuple(value_of(argument, scope) for argument in node.arguments)
    ),
    nodes.Applied: _applied,
    nodes.Item: lambda node, scope: methods.item(
        value_of(node.of, scope), value_of(node.key, scope)
    ),
    nodes.Arithmetic: lambda node, scope: arithmetic(
        node.operator, value_of(node.left, scope), value_of(node.right, scope)
    ),
    nodes.Sign: lambda node, scope: signed(node.operator, value_of(node.operand, scope)),
    nodes.Display: _display,
    nodes.Compare: _compare,
    nodes.And: lambda node, scope: _all_of([value_of(part, scope) for part in node.parts]),
    nodes.Or: _or,
    nodes.Not: _not,
    nodes.InstanceOf: _instance_of,
    nodes.Quantified: _quantified,
}
