"""What a tree costs at most, in steps by the size of the event; what cannot be bounded is refused.

A step is about what the interpreter takes for one node. Without a description of the event's class,
what its attributes are is not known: then `*` and `%` are taken for those of numbers, and whoever
runs the filter for a class asks again with its description.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from functools import singledispatchmethod
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from polycast.errors import FilterTooCostlyError
from polycast.filters.cost import value_kinds as kinds
from polycast.filters.cost.amounts import EVENT, NOTHING, Amount, TooMuch, one_of, steps
from polycast.filters.cost.call_costs import call_cost
from polycast.filters.cost.method_costs import BYTE, CODECS, METHODS, NEEDLES, REFUSED, Method
from polycast.filters.cost.value_kinds import (
    DECIMAL,
    INT,
    LIST,
    OTHER,
    REAL,
    TEXT,
    UNKNOWN,
    ValueKind,
)
from polycast.filters.tree import nodes

if TYPE_CHECKING:
    from polycast.typesystem import Description
    from polycast.typesystem.type_expressions import TypeExpression

__all__ = ["Judged", "cost_of", "is_plain"]

NODE = steps(1.0)
SMALL = steps(32.0)  # bytes of a number, a date, a truth
DIGITS = 1 / 1024  # steps for each two bytes of which every digit meets every digit
NUMBERS = INT | REAL | DECIMAL
PLAIN = frozenset(
    {nodes.Event, nodes.Attribute, nodes.Constant, nodes.Compare, nodes.And, nodes.Or, nodes.Not}
)
FEW, SHORT = 64, 4_096  # nodes of a plain filter, and bytes of a constant in it
AT_ONCE = 1 / 32  # steps for a byte of two texts, numbers or members that are compared
SCALARS = (str, bytes, int, float, enum.Enum, type(None), datetime.date, datetime.time, uuid.UUID)
MEETING = frozenset({"*", "//", "%", "**"})  # of whole numbers: each digit meets each


class Judged(NamedTuple):
    """What evaluating a node takes, how large its value is, and what that may be."""

    cost: Amount
    size: Amount
    kind: ValueKind
    type: TypeExpression | None = None


Fields = Callable[[str], "TypeExpression | None"]


def cost_of(
    tree: nodes.Node,
    *,
    of: Description | None = None,
    lookup: Callable[[str], Description | None] = lambda name: None,
    fields: Fields | None = None,
) -> Amount:
    """The steps for an event of a size, at most; `FilterTooCostlyError` names what has no bound.

    `of` describes the class of the events, and `lookup` the classes of what is in their fields.
    Where events may be of several classes, `fields` tells what a field of a name may be in any.
    """
    return _Judge(of, lookup, fields).of(tree).cost


def is_plain(tree: nodes.Node) -> bool:
    """Whether it compares a few fields with constants, or with each other: that costs little."""
    several = list(nodes.walk(tree))
    if len(several) > FEW:
        return False
    return all(type(each) in PLAIN and _is_short(each) for each in several)


def _is_short(node: nodes.Node) -> bool:
    return not isinstance(node, nodes.Constant) or _size(node.value) <= SHORT


class _Judge:
    def __init__(
        self,
        event: Description | None,
        lookup: Callable[[str], Description | None],
        fields: Fields | None,
    ) -> None:
        self._event, self._lookup, self._fields = event, lookup, fields
        self._is_typed = event is not None or fields is not None
        self._elements: list[Judged] = []  # of the quantifiers around, the outermost first

    def of(self, node: nodes.Node) -> Judged:
        found: Judged = self._judged(node)
        return found._replace(cost=found.cost + NODE)

    def _all(self, several: tuple[nodes.Node, ...]) -> list[Judged]:
        return [self.of(each) for each in several]

    def _anything(self, size: Amount, declared: TypeExpression | None) -> Judged:
        """A part of the event."""
        if not self._is_typed:
            return Judged(NOTHING, size, UNKNOWN)
        small = kinds.is_small(declared)
        return Judged(NOTHING, SMALL if small else size, kinds.kind_of_type(declared), declared)

    @singledispatchmethod
    def _judged(self, node: nodes.Node) -> Judged:
        raise FilterTooCostlyError(type(node).__name__, "nobody can say what it costs", accepted="")

    # -- leaves ------------------------------------------------------------------------------------

    @_judged.register
    def _(self, node: nodes.Event) -> Judged:
        return Judged(NOTHING, Amount(linear={EVENT: 1.0}), OTHER)

    @_judged.register
    def _(self, node: nodes.Variable) -> Judged:
        return self._elements[len(self._elements) - 1 - node.depth]._replace(cost=NOTHING)

    @_judged.register
    def _(self, node: nodes.Constant) -> Judged:
        return Judged(NOTHING, steps(_size(node.value)), kinds.kind_of_value(node.value))

    @_judged.register
    def _(self, node: nodes.Opaque) -> Judged:
        return Judged(NOTHING, Amount(linear={EVENT: 1.0}), kinds.ALL)

    # -- parts -------------------------------------------------------------------------------------

    @_judged.register
    def _(self, node: nodes.Attribute) -> Judged:
        of = self.of(node.of)
        found = self._anything(of.size, self._field(node.of, of, node.name))
        return found._replace(cost=of.cost)

    def _field(self, node: nodes.Node, of: Judged, name: str) -> TypeExpression | None:
        if self._fields is not None:
            return self._fields(name)
        described = self._event if isinstance(node, nodes.Event) else None
        if described is None and of.type is not None and of.type.form == "class":
            described = self._lookup(of.type.name)
        return kinds.type_of_attribute(described, name)

    @_judged.register
    def _(self, node: nodes.Item) -> Judged:
        of, key = self._all((node.of, node.key))
        found = self._anything(of.size, kinds.element_of(of.type))
        if TEXT in of.kind and of.kind is not UNKNOWN:
            found = found._replace(kind=found.kind | TEXT)
        return found._replace(cost=of.cost + key.cost + _hashed(of, key))

    @_judged.register
    def _(self, node: nodes.Display) -> Judged:
        parts = self._all(node.elements)
        kind = LIST if node.kind in (list, tuple) else OTHER
        size = _total(part.size for part in parts) + steps(len(parts))
        cost = _total(part.cost for part in parts)
        hashed = size.times(BYTE) if kind is OTHER else NOTHING
        return Judged(cost + hashed, size, kind)

    # -- calls -------------------------------------------------------------------------------------

    @_judged.register
    def _(self, node: nodes.Call) -> Judged:
        return self._called(node.method, (node.of, *node.arguments))

    @_judged.register
    def _(self, node: nodes.Reach) -> Judged:
        """A field, or what a method without arguments gives."""
        of = self.of(node.of)
        declared = self._field(node.of, of, node.name)
        if declared is not None:
            return self._anything(of.size, declared)._replace(cost=of.cost)
        return self._called(node.name, (node.of,))

    def _called(self, name: str, parts: tuple[nodes.Node, ...]) -> Judged:
        self._check_method(name, parts)
        judged = self._all(parts)
        cost = _total(each.cost for each in judged)
        method = METHODS.get(name)
        if method is None:  # a getter; of the classes that are made here none has any
            return Judged(cost, _total(each.size for each in judged), self._unknown())
        return Judged(cost + _work(name, method, judged), *_result(method, judged))

    def _unknown(self) -> ValueKind:
        return kinds.ALL if self._is_typed else UNKNOWN

    def _check_method(self, name: str, parts: tuple[nodes.Node, ...]) -> None:
        constants = [each.value for each in parts[1:] if isinstance(each, nodes.Constant)]
        known = len(constants) == len(parts) - 1
        if name in REFUSED:
            raise FilterTooCostlyError(f"{name}()", REFUSED[name], accepted=_METHODS_SHOWN)
        if name in ("encode", "decode"):
            plain = not constants or (len(constants) == 1 and constants[0] in CODECS)
            if not known or not plain:
                why = "other codecs take more than a step for each letter"
                shown = ", ".join(f"{name}({each!r})" for each in CODECS)
                raise FilterTooCostlyError(f"{name}()", why, accepted=shown)
        if name == "replace" and not _shrinks(constants):
            why = "it may make something much bigger than the event"
            accepted = "constants, of which the second is no longer than the first"
            raise FilterTooCostlyError("replace()", why, accepted=accepted)
        if name in NEEDLES and not known:
            why = "it goes over the text again for each letter of what it looks for"
            raise FilterTooCostlyError(f"{name}()", why, accepted="a constant to look for")

    @_judged.register
    def _(self, node: nodes.Function) -> Judged:
        parts = self._all(node.arguments)
        cost = _total(each.cost for each in parts)
        if node.name == "len":
            return Judged(cost, SMALL, INT)
        size = _total(each.size for each in parts)
        kind = _either(parts)
        if node.name == "abs":
            return Judged(cost + size.times(BYTE), size, _computed(kind))
        elements = kind if LIST not in kind and TEXT not in kind else self._unknown()
        return Judged(cost + size, size, kind | elements)

    @_judged.register
    def _(self, node: nodes.Applied) -> Judged:
        parts = self._all(node.arguments)
        cost = _total(each.cost for each in parts)
        work, size, kind = call_cost(node, [each.size for each in parts])
        kind = kind if self._is_typed or kind is not kinds.ALL else UNKNOWN
        return Judged(cost + work, size, kind)

    # -- operators ---------------------------------------------------------------------------------

    @_judged.register
    def _(self, node: nodes.Compare) -> Judged:
        parts = node.children()
        operands = self._all(parts)
        cost = _total(each.cost for each in operands)
        for at, (sign, _) in enumerate(node.rest):
            constant = _met_at_once(sign, parts[at], parts[at + 1])
            cost += _compared(sign, *operands[at : at + 2]) if constant is None else constant
        return Judged(cost, SMALL, INT)

    @_judged.register
    def _(self, node: nodes.And | nodes.Or) -> Judged:
        parts = self._all(node.parts)
        cost = _total(each.cost for each in parts)
        return Judged(cost, _total(each.size for each in parts), _either(parts))

    @_judged.register
    def _(self, node: nodes.Not) -> Judged:
        return Judged(self.of(node.operand).cost, SMALL, INT)

    @_judged.register
    def _(self, node: nodes.InstanceOf) -> Judged:
        return Judged(self.of(node.of).cost + steps(len(node.classes)), SMALL, INT)

    @_judged.register
    def _(self, node: nodes.Sign) -> Judged:
        operand = self.of(node.operand)
        cost = operand.cost + operand.size.times(BYTE)
        return Judged(cost, operand.size, _computed(operand.kind))

    @_judged.register
    def _(self, node: nodes.Arithmetic) -> Judged:
        left, right = self._all((node.left, node.right))
        cost, both = left.cost + right.cost, left.size + right.size
        if node.operator == "*":
            factor = _repeated(node, left, right)
            size = both if factor is None else factor
        elif node.operator == "**":  # its right side is a small constant
            size = left.size.times(_power(node.right))
        else:
            size = both + SMALL
        if node.operator == "%" and TEXT in left.kind:
            raise FilterTooCostlyError(
                "%", "with a text on its left it formats, to any length", accepted=_NUMBERS
            )
        cost += size.times(BYTE) + _digits(node.operator, left, right, size)
        return Judged(cost, size, _computed_by(node.operator, left.kind, right.kind))

    @_judged.register
    def _(self, node: nodes.Quantified) -> Judged:
        over = self.of(node.over)
        source = len(self._elements) + 1
        size = over.size if over.size.is_constant else Amount(linear={source: 1.0})
        element = self._anything(size, kinds.element_of(over.type))
        if TEXT in over.kind and over.kind is not UNKNOWN:
            element = element._replace(kind=element.kind | TEXT | INT)
        self._elements.append(element)
        try:
            body = _total(each.cost for each in self._all((*node.conditions, node.each))) + NODE
        finally:
            self._elements.pop()
        try:
            total = body.over(over.size + steps(1.0), source)
        except TooMuch:
            why = "for each element it goes over something that is not in the element"
            accepted = (
                "one over a list of the event, that asks about its element: "
                "any(each.price > 3 for each in event.items), also in each other: "
                "any(any(tag == 'new' for tag in each.tags) for each in event.items)"
            )
            raise FilterTooCostlyError(f"{node.kind}()", why, accepted=accepted) from None
        return Judged(over.cost + total, SMALL, INT)


# -- what operators do -----------------------------------------------------------------------------

_NUMBERS = "numbers, as (event.n - 0) % 2, or a field that is declared as one"
_METHODS_SHOWN = (
    "lower, upper, strip, startswith, endswith, find, count, split and the other methods "
    "that take a step for each byte"
)


def _total(several: object) -> Amount:
    return sum(several, NOTHING)  # type: ignore[call-overload, no-any-return]


def _either(parts: list[Judged]) -> ValueKind:
    found = ValueKind(0)
    for each in parts:
        found |= each.kind
    return found


def _computed(kind: ValueKind) -> ValueKind:
    """What a sign gives: it does not take texts and lists."""
    return kind & ~(TEXT | LIST) or REAL


def _computed_by(operator: str, left: ValueKind, right: ValueKind) -> ValueKind:
    both = left | right
    if operator == "/":
        return REAL | (DECIMAL if DECIMAL in both or UNKNOWN in both else REAL)
    if operator in ("+", "*"):
        return both
    return _computed(both)


def _repeated(node: nodes.Arithmetic, left: Judged, right: Judged) -> Amount | None:
    """How large something becomes that may be repeated; None if both are numbers."""
    for count, what, side in ((left, right, node.left), (right, left, node.right)):
        repeats = INT in count.kind and (TEXT | LIST) & what.kind
        if not repeats and not (INT in count.kind and UNKNOWN in what.kind):
            continue
        if isinstance(side, nodes.Constant) and isinstance(side.value, int):
            return what.size.times(max(1, abs(side.value))) + SMALL
        if repeats:
            why = "a text or list times a number may become of any size"
            accepted = "numbers: fields that are declared as such, or with a float: n * 1.0 * m"
            raise FilterTooCostlyError("*", why, accepted=accepted)
    return None


def _power(node: nodes.Node) -> int:
    value = node.value if isinstance(node, nodes.Constant) else None
    if type(value) is not int:
        raise FilterTooCostlyError(
            "**", "it may make a number of any size", accepted="a small constant"
        )
    return max(1, abs(value))


def _digits(operator: str, left: Judged, right: Judged, size: Amount) -> Amount:
    """Long numbers: all digits of one meet all digits of the other, which is quadratic.

    A Decimal meets an int by turning it into one, at the same cost.
    """
    mixed = _mixed(left, right)
    whole = _is_whole(left) and _is_whole(right) and operator in MEETING
    several = operator == "**" or not (left.size.is_constant or right.size.is_constant)
    if mixed or (whole and several):
        return size.squared().times(DIGITS)
    return NOTHING


def _is_whole(value: Judged) -> bool:
    return bool((INT | UNKNOWN) & value.kind)


def _mixed(left: Judged, right: Judged) -> bool:
    one = DECIMAL in left.kind and INT in right.kind and not right.size.is_constant
    return one or (DECIMAL in right.kind and INT in left.kind and not left.size.is_constant)


def _met_at_once(sign: str, left: nodes.Node, right: nodes.Node) -> Amount | None:
    """What comparing takes with constants that are no containers, or with a few of them."""
    if sign in ("is", "is not"):
        return NOTHING
    if sign not in ("in", "not in"):
        alone = [_once(part.value) for part in (left, right) if _is_alone(part)]
        return min(alone, key=lambda amount: amount.constant, default=None)
    several = right.value if isinstance(right, nodes.Constant) else None
    if isinstance(right, nodes.Display) and all(map(_is_alone, right.elements)):
        several = tuple(part.value for part in right.elements)  # type: ignore[attr-defined]
    if isinstance(several, list | tuple) and all(map(_is_scalar, several)):
        return _total(map(_once, several))
    return None


def _is_alone(node: nodes.Node) -> TypeGuard[nodes.Constant]:
    return isinstance(node, nodes.Constant) and _is_scalar(node.value)


def _is_scalar(value: object) -> bool:
    """Whether comparing with it looks at no more bytes than it has itself, many of them at once."""
    return isinstance(value, SCALARS) and not isinstance(value, decimal.Decimal)


def _once(value: object) -> Amount:
    return steps(1.0 + _size(value) * AT_ONCE)


def _compared(sign: str, left: Judged, right: Judged) -> Amount:
    if sign in ("is", "is not"):
        return NOTHING
    if sign in ("in", "not in"):
        return right.size + _hashed(right, left)
    met = (left.size + right.size).squared().times(DIGITS) if _mixed(left, right) else NOTHING
    return one_of(left.size, right.size).times(1.0) + met


def _hashed(container: Judged, key: Judged) -> Amount:
    """Sets and dicts take the hash of what is looked up; texts keep theirs."""
    looked_up = OTHER in container.kind
    return key.size.times(BYTE) if looked_up and key.kind & ~TEXT else NOTHING


def _work(name: str, method: Method, judged: list[Judged]) -> Amount:
    of, *given = judged
    if name in ("startswith", "endswith") and given:
        return given[0].size.times(method.steps)
    if name in NEEDLES and given:
        return of.size.times(method.steps * max(1.0, given[0].size.constant))
    return _total(each.size for each in judged).times(method.steps)


def _result(method: Method, judged: list[Judged]) -> tuple[Amount, ValueKind]:
    if not method.growth:
        return SMALL, method.kind
    size = _total(each.size for each in judged).times(method.growth) + SMALL
    unknown = method.kind is kinds.ALL and any(UNKNOWN in each.kind for each in judged)
    return size, UNKNOWN if unknown else method.kind


def _shrinks(constants: list[object]) -> bool:
    """Whether what is put in is a constant, no longer than the constant it replaces."""
    match constants:
        case [(str() | bytes()) as old, (str() | bytes()) as new, *_]:
            return bool(old) and len(new) <= len(old)
    return False


def _size(value: object) -> float:
    """Bytes of a constant, about as it would be in an event."""
    if isinstance(value, str | bytes):
        return float(4 * len(value) + 1)
    if isinstance(value, int):
        return float(value.bit_length() // 8 + 8)
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(_size, value)) + len(value) + 1.0
    return 32.0
