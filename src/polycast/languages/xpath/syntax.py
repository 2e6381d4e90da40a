"""The syntax of XPath: expressions as data, and their text again.

`and`, `or` and `|` hold all their parts, so that long chains are not deep. `//` is the step
`descendant-or-self::node()`, as the language says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from polycast.languages.xpath.core_library import FUNCTIONS


@dataclass(frozen=True, slots=True)
class Number:
    """A number literal."""

    value: float


@dataclass(frozen=True, slots=True)
class Literal:
    """A string."""

    value: str


@dataclass(frozen=True, slots=True)
class LocationStep:
    """`axis::test[predicate]...`"""

    axis: str
    test: str  # a name, "*", "node()" or "text()"
    predicates: tuple[Expression, ...] = ()
    positional: bool = field(init=False, compare=False, repr=False)
    """Whether it matters from where a node is reached."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "positional", any(map(_is_positional, self.predicates)))


@dataclass(frozen=True, slots=True)
class LocationPath:
    """Steps from the document, from a node-set, or from the context node."""

    absolute: bool
    start: Expression | None
    steps: tuple[LocationStep, ...]
    way: tuple[LocationStep, ...] = field(init=False, compare=False, repr=False)
    """The same in fewer steps: `//a` is one along `descendant`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "way", _shortened(self.steps))


@dataclass(frozen=True, slots=True)
class Filtered:
    """`(nodes)[predicate]...`"""

    of: Expression
    predicates: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of the core library."""

    name: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Connective:
    """`a or b or c`; also `and` and `|`."""

    operator: str
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Binary:
    """A comparison or arithmetic."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negative:
    """`-x`."""

    of: Expression


Expression = (
    Number | Literal | LocationPath | Filtered | FunctionCall | Connective | Binary | Negative
)

# How tightly operators bind.
BINARY = {
    **dict.fromkeys(("=", "!="), 3),
    **dict.fromkeys(("<", "<=", ">", ">="), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "div", "mod"), 6),
}
_JOINED = {"or": 1, "and": 2, "|": 8}
_COMPARING, _SIGN, _PATH = 4, 7, 9
_QUOTE = """, '"', """
_INFINITE = float("inf")  # what a literal of very many digits is


def children(node: Expression | LocationStep) -> tuple[Expression | LocationStep, ...]:
    """The expressions and steps right below."""
    match node:
        case LocationStep(_, _, predicates):
            return predicates
        case LocationPath(_, start, steps):
            return steps if start is None else (start, *steps)
        case Filtered(of, predicates):
            return (of, *predicates)
        case FunctionCall(_, parts) | Connective(_, parts):
            return parts
        case Binary(_, left, right):
            return (left, right)
        case Negative(of):
            return (of,)
        case _:
            return ()


def _is_positional(predicate: Expression) -> bool:
    """Whether a predicate may ask for a position; a number always does."""
    match predicate:
        case Connective() | LocationPath() | Filtered() | Literal():
            pass
        case Binary(operator, _, _) if BINARY[operator] <= _COMPARING:
            pass
        case FunctionCall(name, _) if FUNCTIONS[name].gives == "boolean":
            pass
        case _:
            return True
    left: list[Expression | LocationStep] = [predicate]
    while left:
        node = left.pop()
        if isinstance(node, FunctionCall) and node.name in ("position", "last"):
            return True
        left += children(node)
    return False


def _shortened(steps: tuple[LocationStep, ...]) -> tuple[LocationStep, ...]:
    found: list[LocationStep] = []
    for step in steps:
        if found and found[-1] == ANYWHERE and step.axis == "child" and not step.positional:
            found[-1] = LocationStep("descendant", step.test, step.predicates)
        else:
            found.append(step)
    return tuple(found)


ANYWHERE = LocationStep("descendant-or-self", "node()")


def depth(node: Expression) -> int:
    """How many expressions stand in each other; found without going deep."""
    deepest = 0
    left: list[tuple[Expression | LocationStep, int]] = [(node, 1)]
    while left:
        expression, level = left.pop()
        deepest = max(deepest, level)
        left += [(child, level + 1) for child in children(expression)]
    return deepest


# -- text ------------------------------------------------------------------------------------------


def text_of(node: Expression) -> str:
    """The text of an expression: parsing it gives the expression again."""
    return _text(node)


def literal(text: str) -> str:
    """A string as XPath text. One with both kinds of quotes is put together."""
    if '"' not in text:
        return f'"{text}"'
    if "'" not in text:
        return f"'{text}'"
    parts = [f'"{part}"' for part in text.split('"')]
    return f"concat({_QUOTE.join(parts)})"


def number(value: float) -> str:
    """A number as XPath text; there are no exponents."""
    if value != value:
        return "(0 div 0)"
    if value in (float("inf"), float("-inf")):
        return "(1 div 0)" if value > 0 else "(-1 div 0)"
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def _inside(node: Expression, tightness: int) -> str:
    """In parentheses, if it does not bind as tightly as what is around."""
    text = _text(node)
    return text if _tightness(node) >= tightness else f"({text})"


def _tightness(node: Expression) -> int:
    match node:
        case Connective(operator, _):
            return _JOINED[operator]
        case Binary(operator, _, _):
            return BINARY[operator]
        case Negative():
            return _SIGN
        case _:
            return _PATH


def _text(node: Expression) -> str:
    match node:
        case Number(value):
            return number(value) if value < _INFINITE else "1" + "0" * 309
        case Literal(value):
            return literal(value)
        case LocationPath():
            return _path(node)
        case Filtered(of, predicates):
            return f"{_primary(of)}{_predicates(predicates)}"
        case FunctionCall(name, arguments):
            return f"{name}({', '.join(map(_text, arguments))})"
        case Connective(operator, parts):
            return f" {operator} ".join(_inside(part, _JOINED[operator] + 1) for part in parts)
        case Binary(operator, left, right):
            tightness = BINARY[operator]
            return f"{_inside(left, tightness)} {operator} {_inside(right, tightness + 1)}"
        case Negative(of):
            return f"-{_inside(of, _SIGN)}"


def _path(node: LocationPath) -> str:
    steps = node.steps
    if node.start is not None:
        return f"{_primary(node.start)}/{_steps(steps, first=False)}"
    if node.absolute and not steps:
        return "(/)"  # what follows a bare slash is read as a step
    if node.absolute:
        return f"/{_steps(steps, first=False)}"
    return _steps(steps, first=True)


def _steps(steps: tuple[LocationStep, ...], *, first: bool) -> str:
    """After a slash, `descendant-or-self::node()/` is another slash; but not at the beginning."""
    parts = [_step(step) for step in steps]
    for place, step in enumerate(steps[:-1]):
        if step == ANYWHERE and (place or not first) and (place == 0 or parts[place - 1]):
            parts[place] = ""
    return "/".join(parts)


def _step(step: LocationStep) -> str:
    if step == LocationStep("self", "node()"):
        return "."
    axis = "" if step.axis == "child" else f"{step.axis}::"
    return f"{axis}{step.test}{_predicates(step.predicates)}"


def _predicates(predicates: tuple[Expression, ...]) -> str:
    return "".join(f"[{_text(predicate)}]" for predicate in predicates)


def _primary(node: Expression) -> str:
    simple = isinstance(node, FunctionCall | Filtered)
    return _text(node) if simple else f"({_text(node)})"


# -- types -----------------------------------------------------------------------------------------


COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})


def kind_of(node: Expression) -> str:
    """What kind of value an expression always has: a node-set, boolean, number or string."""
    match node:
        case LocationPath() | Filtered():
            return "node-set"
        case Connective(operator, _):
            return "node-set" if operator == "|" else "boolean"
        case Binary(operator, _, _):
            return "boolean" if operator in COMPARISONS else "number"
        case Literal():
            return "string"
        case FunctionCall(name, _):
            return FUNCTIONS[name].gives
        case _:
            return "number"


# -- costs -----------------------------------------------------------------------------------------


NODES = 100
LEVELS = 10
MOST = 1_000_000


def cost(node: Expression, *, nodes: int = NODES) -> int:
    """The steps that evaluating an expression takes at most, for an event of so many nodes."""
    return _cost(node, 1, 1, nodes)


def grows(node: Expression) -> float | None:
    """How many steps each node of an event means; None if that grows with their number."""
    few, many = (cost(node, nodes=size) for size in (1_000, 10_000))
    return None if many > 20 * few else many / 10_000


def _cost(node: Expression | LocationStep, times: int, again: int, nodes: int) -> int:
    """Of so many evaluations, at most `again` of them at one node."""
    match node:
        case LocationPath(absolute, start, steps):
            begun = 0 if start is None else _cost(start, times, again, nodes)
            again = times if absolute or start is not None else again
            return begun + _path_cost(steps, times, again, nodes)
        case Filtered(of, predicates):
            inner = sum(_cost(predicate, times * nodes, times, nodes) for predicate in predicates)
            return _cost(of, times, again, nodes) + times * nodes + inner
        case _:
            return times + sum(_cost(child, times, again, nodes) for child in children(node))


def _path_cost(steps: tuple[LocationStep, ...], times: int, again: int, nodes: int) -> int:
    total = 0
    for step in steps:
        reached = again * LEVELS if step.axis.startswith("descendant") else again
        total += reached * nodes
        total += sum(
            _cost(predicate, reached * nodes, reached, nodes) for predicate in step.predicates
        )
        again = min(reached, times)  # in one evaluation, a node is reached once
    return total
