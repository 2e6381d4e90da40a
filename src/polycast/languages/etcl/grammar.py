"""The grammar of ETCL: the tree of a text, and the text of a tree that ETCL can say.

Reading the text of a tree gives the same tree again.
"""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from polycast.errors import BadOptionError, FilterError
from polycast.filters.filter import Filter
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical import rebuilt
from polycast.languages.etcl.components import EtclPath, EtclStep, scan_path
from polycast.languages.etcl.functions import path_in, with_clock
from polycast.languages.etcl.scanner import Name, Scanner, quoted, written_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Clock
    from polycast.filters.tree.nodes import Node

DEEPEST = 50  # expressions in each other, and parentheses; their text can be read again
OPERAND = "a value: a number, a string, TRUE, FALSE, a component such as $.a, a label, ( or not"
EVENT = nodes.Event()
COMPONENTS_KEPT = 1_024


class Operator(NamedTuple):
    """A binary operator: how tightly it binds, whether it may be repeated, its function."""

    sign: str
    level: int
    repeats: bool
    function: str


OPERATORS = {
    operator.sign: operator
    for operator in (
        Operator("or", 1, True, ""),
        Operator("and", 2, True, ""),
        Operator("==", 3, False, "equal"),
        Operator("!=", 3, False, "differs"),
        Operator("<=", 3, False, "at_most"),
        Operator(">=", 3, False, "at_least"),
        Operator("<", 3, False, "less"),
        Operator(">", 3, False, "greater"),
        Operator("in", 4, False, "within"),
        Operator("~", 5, False, "contains"),
        Operator("+", 6, True, "plus"),
        Operator("-", 6, True, "minus"),
        Operator("*", 7, True, "times"),
        Operator("/", 7, True, "divided"),
        Operator("%", 7, True, "remainder"),
    )
}
HIGHEST = max(operator.level for operator in OPERATORS.values())
SIGNS = tuple(sign for sign in OPERATORS if not sign.isalpha())  # the longer ones first
JOINTS: dict[str, Callable[[tuple[nodes.Node, ...]], nodes.Node]] = {
    "and": nodes.And,
    "or": nodes.Or,
}


def parse_etcl(text: str, clock: Clock | None = None) -> nodes.Node:
    """The tree of a constraint, in which `$curtime` is that of the clock."""
    tree = _tree(text)
    return tree if clock is None else _by_clock(tree, clock)


def _tree(text: str) -> nodes.Node:
    """The tree of a constraint; an empty one is true."""
    parser = _EtclParser(text)
    if not parser.scanner.space():
        return nodes.Constant(True)
    found = parser.expression(1)
    if parser.scanner.space():
        parser.refuse_more("the end")
    return parser.boolean(found, "the whole filter").node


def _by_clock(tree: nodes.Node, clock: Clock) -> nodes.Node:
    """The same tree with `$curtime` bound to a clock."""
    found = with_clock(tree, clock)
    return rebuilt(tree, lambda part: _by_clock(part, clock)) if found is tree else found


class _EtclParser:
    """A recursive descent parser of one text."""

    def __init__(self, text: str) -> None:
        self.scanner = Scanner(text)
        self._open = 0  # parentheses

    # -- operators ---------------------------------------------------------------------------------

    def expression(self, lowest: int) -> Typed:
        """Parse an expression whose operators bind at least as tightly as the given level."""
        left, highest = self._negation(), HIGHEST
        while True:
            operator = self._operator(lowest, highest)
            if operator is None:
                return left
            if operator.sign in JOINTS:
                left = self._joined(left, operator)
                continue
            left = self._applied(operator, left, self._right(operator))
            if not operator.repeats:
                highest = operator.level - 1

    def _operator(self, lowest: int, highest: int) -> Operator | None:
        """Take the operator that comes next, if it binds as tightly as wanted."""
        before = self.scanner.at
        sign = self.scanner.take(*SIGNS)
        if sign is None:
            name = self.scanner.name()
            sign = None if name is None else name.keyword
        operator = OPERATORS.get(sign or "")
        if operator is not None and lowest <= operator.level <= highest:
            return operator
        self.scanner.at = before
        return None

    def _right(self, operator: Operator) -> Typed:
        if operator.sign != "in":
            return self.expression(operator.level + 1)
        self.scanner.space()
        begin = self.scanner.at
        return self._component("component", self._path("in"), begin)

    def _joined(self, first: Typed, operator: Operator) -> Typed:
        """`a and b and c`: all parts at once, so that many are not deep."""
        parts = [self.boolean(first, operator.sign)]
        more: Operator | None = operator
        while more is not None:
            parts.append(self.boolean(self.expression(operator.level + 1), operator.sign))
            more = self._operator(operator.level, operator.level)
        node = JOINTS[operator.sign](tuple(part.node for part in parts))
        return self._made(node, ExpressionKind.BOOLEAN, *parts)

    def _applied(self, operator: Operator, left: Typed, right: Typed) -> Typed:
        kind = ExpressionKind.BOOLEAN
        if operator.level > 5:
            kind = self._computed(operator, left, right)
        elif operator.sign == "~":
            for operand in (left, right):
                self._wants(operand, "~", "strings", fits=operand.kind in TEXTS | UNKNOWN)
        elif operator.sign != "in":
            self._check_comparison(operator, left, right)
        node = nodes.Applied("etcl", operator.function, (left.node, right.node))
        return self._made(node, kind, left, right)

    def refuse_more(self, end: str) -> NoReturn:
        """Raise: an expression cannot continue like this, or an operator was repeated."""
        begin = self.scanner.at
        again = self._operator(1, HIGHEST)
        self.scanner.at = begin
        if again is not None:
            problem = f"{again.sign!r} cannot stand here without parentheses"
            accepted = f"parentheses around what comes before or after, and, or, or {end}"
            self.scanner.wrong(begin, problem, accepted=accepted)
        self.scanner.unexpected(accepted=f"an operator, or {end}")

    # -- types -------------------------------------------------------------------------------------

    def _check_comparison(self, operator: Operator, left: Typed, right: Typed) -> None:
        ordered = operator.sign not in ("==", "!=")
        if not compares(left.kind, right.kind, ordered=ordered):
            problem = f"{operator.sign} cannot compare {left.kind.value} with {right.kind.value}"
            accepted = "two numbers, two strings, or with == and != a label"
            self.scanner.mistyped(right.begin, problem, accepted=accepted)

    def _computed(self, operator: Operator, left: Typed, right: Typed) -> ExpressionKind:
        for operand in (left, right):
            self._wants(operand, operator.sign, "numbers", fits=operand.kind in NUMBERS | UNKNOWN)
            if operator.sign == "%":
                whole = operand.kind is not ExpressionKind.FLOAT
                self._wants(operand, "%", "whole numbers", fits=whole)
        return computed(left.kind, right.kind)

    def _wants(self, given: Typed, sign: str, wanted: str, *, fits: bool) -> None:
        if not fits:
            problem = f"{sign} does not take {given.kind.value}"
            self.scanner.mistyped(given.begin, problem, accepted=wanted)

    def boolean(self, given: Typed, sign: str) -> Typed:
        """An operand that has to be a boolean: a component is asked when there is an event."""
        if given.kind is ExpressionKind.UNKNOWN:
            node = nodes.Applied("etcl", "truth", (given.node,))
            return self._made(node, ExpressionKind.BOOLEAN, given)
        if given.kind is not ExpressionKind.BOOLEAN:
            problem = f"{sign} is to be a boolean, and this is {given.kind.value}"
            if sign in ("and", "or", "not"):
                problem = f"{sign} does not take {given.kind.value}"
            self.scanner.mistyped(given.begin, problem, accepted="a boolean")
        return given

    def _made(self, node: nodes.Node, kind: ExpressionKind, *parts: Typed) -> Typed:
        depth = 1 + max(part.depth for part in parts)
        if depth > DEEPEST:
            accepted = f"at most {DEEPEST} in each other"
            self.scanner.wrong(parts[-1].begin, "too many expressions", accepted=accepted)
        return Typed(node, kind, parts[0].begin, depth)

    # -- operands ----------------------------------------------------------------------------------

    def _negation(self) -> Typed:
        name = self.scanner.peek_name() if self.scanner.space() in ("n", "N") else None
        if name is None or name.keyword != "not":
            return self._factor()
        self.scanner.name()
        again = self.scanner.peek_name()
        if again is not None and again.keyword == "not":
            accepted = "not (not ...), or a value"
            self.scanner.wrong(again.begin, "not cannot follow not", accepted=accepted)
        operand = self.boolean(self._factor(), "not")
        return self._made(nodes.Not(operand.node), ExpressionKind.BOOLEAN, operand)

    def _factor(self) -> Typed:
        first = self.scanner.space()
        begin = self.scanner.at
        if first == "(":
            return self._parenthesis(begin)
        if first == "$":
            return self._component("component", scan_path(self.scanner), begin)
        if (text := self.scanner.string()) is not None:
            return _text_literal(text, begin)
        if (number := self._number()) is not None:
            kind = ExpressionKind.INTEGER if isinstance(number, int) else ExpressionKind.FLOAT
            return Typed(nodes.Constant(number), kind, begin)
        name = self.scanner.peek_name()
        if name is None or name.keyword in ("and", "or", "in", "not"):
            self.scanner.unexpected(accepted=OPERAND)
        self.scanner.name()
        return self._word(name)

    def _parenthesis(self, begin: int) -> Typed:
        self.scanner.at += 1
        self._open += 1
        if self._open > DEEPEST:
            accepted = f"at most {DEEPEST} in each other"
            self.scanner.wrong(begin, "too many parentheses", accepted=accepted)
        found = self.expression(1)
        if self.scanner.take(")") is None:
            self.refuse_more(")")
        self._open -= 1
        return Typed(found.node, found.kind, begin, found.depth)

    def _number(self) -> int | float | None:
        """A number, with its sign if that stands right before."""
        sign = self.scanner.take("+", "-")
        number = self.scanner.number()
        if number is None and sign is not None:
            self.scanner.unexpected(accepted="a number after its sign; for others, -1 * $.x")
        return -number if sign == "-" and number is not None else number

    def _word(self, name: Name) -> Typed:
        """A keyword that is an operand, or the label of an enumeration."""
        if name.keyword in ("true", "false"):
            return Typed(nodes.Constant(name.keyword == "true"), ExpressionKind.BOOLEAN, name.begin)
        if name.keyword == "exist":
            return self._component("exists", self._path("exist"), name.begin)
        if name.keyword == "default":
            return self._component("default", self._default(), name.begin)
        label = nodes.Applied("etcl", "label", (nodes.Constant(name.text),))
        return Typed(label, ExpressionKind.LABEL, name.begin, 2)

    def _path(self, word: str) -> EtclPath:
        """A component, or the bare name of a variable."""
        if self.scanner.space() == "$":
            return scan_path(self.scanner)
        name = self.scanner.peek_name()
        if name is None or name.keyword:
            self.scanner.unexpected(accepted=f"a component after {word}, such as $.a")
        self.scanner.name()
        return EtclPath((EtclStep("variable", name.text),))

    def _default(self) -> EtclPath:
        self.scanner.space()
        begin, path = self.scanner.at, scan_path(self.scanner)
        if not path.steps or path.steps[-1].kind != "_d":
            accepted = "a component that ends with ._d"
            self.scanner.wrong(begin, "default asks for a discriminator", accepted=accepted)
        return path

    def _component(self, function: str, path: EtclPath, begin: int) -> Typed:
        node = _following(function, path.text)
        kind = ExpressionKind.UNKNOWN if function == "component" else ExpressionKind.BOOLEAN
        return Typed(node, kind, begin, 2)


@lru_cache(COMPONENTS_KEPT)
def _following(function: str, path: str) -> nodes.Node:
    """The node of a component, shared by all texts that name it."""
    return nodes.Applied("etcl", function, (EVENT, nodes.Constant(path)))


def _text_literal(text: str, begin: int) -> Typed:
    """A string; of one character, it is a character, too."""
    constant = nodes.Constant(text)
    if len(text) != 1:
        return Typed(constant, ExpressionKind.TEXT, begin)
    character = nodes.Applied("etcl", "character", (constant,))
    return Typed(character, ExpressionKind.CHARACTER, begin, 2)


# -- static types ----------------------------------------------------------------------------------


class ExpressionKind(enum.Enum):
    """Kinds of expressions, as an error message calls them."""

    BOOLEAN = "a boolean"
    INTEGER = "a whole number"
    FLOAT = "a floating-point number"
    NUMBER = "a number"
    TEXT = "a string"
    CHARACTER = "a character"
    LABEL = "a label of an enumeration"
    UNKNOWN = "a component"


class Typed(NamedTuple):
    """An expression, what is known of its type, where it stands, and how deep it is."""

    node: Node
    kind: ExpressionKind
    begin: int
    depth: int = 1


WHOLE = frozenset({ExpressionKind.BOOLEAN, ExpressionKind.INTEGER, ExpressionKind.CHARACTER})
NUMBERS = WHOLE | {ExpressionKind.FLOAT, ExpressionKind.NUMBER}
TEXTS = frozenset({ExpressionKind.TEXT, ExpressionKind.CHARACTER})
UNKNOWN = frozenset({ExpressionKind.UNKNOWN})  # which may be anything


def compares(left: ExpressionKind, right: ExpressionKind, *, ordered: bool) -> bool:
    """Whether two kinds may be compared; labels have no order."""
    kinds = {left, right}
    if ExpressionKind.LABEL in kinds:
        return not ordered and kinds <= {ExpressionKind.LABEL, ExpressionKind.UNKNOWN}
    return ExpressionKind.UNKNOWN in kinds or kinds <= NUMBERS or kinds <= TEXTS


def computed(left: ExpressionKind, right: ExpressionKind) -> ExpressionKind:
    """The kind of what arithmetic makes of two numbers."""
    kinds = {left, right}
    if ExpressionKind.FLOAT in kinds:
        return ExpressionKind.FLOAT
    return ExpressionKind.INTEGER if kinds <= WHOLE else ExpressionKind.NUMBER


# -- trees as text ---------------------------------------------------------------------------------


BY_FUNCTION = {known.function: known for known in OPERATORS.values() if known.function}
NEGATION, FACTOR = 8, 9  # levels above those of the binary operators


def etcl_text(where: Filter[Any]) -> str:
    """The filter in ETCL; FilterError if it has a part that ETCL cannot say."""
    if not isinstance(where, Filter):
        raise BadOptionError("where", where, accepted="a pc.Filter, as pc.parse_filter makes one")
    return written(where.tree)


def written(tree: nodes.Node) -> str:
    """The tree in ETCL; FilterError if it has a part that ETCL cannot say."""
    return _written(tree, 1)


def _written(node: nodes.Node, lowest: int) -> str:
    """A node, in parentheses where it binds less tightly than it has to."""
    level, text = _leveled(node)
    return text if level >= lowest else f"({text})"


def _leveled(node: nodes.Node) -> tuple[int, str]:
    match node:
        case nodes.And(parts):
            return 2, " and ".join(_boolean(part, 3) for part in parts)
        case nodes.Or(parts):
            return 1, " or ".join(_boolean(part, 2) for part in parts)
        case nodes.Not(operand):
            return NEGATION, f"not {_boolean(operand, FACTOR)}"
        case nodes.Constant(value):
            return FACTOR, _literal(value)
        case nodes.Applied("etcl"):
            return _applied(node)
    raise _unsayable(node)


def _boolean(node: nodes.Node, lowest: int) -> str:
    """An operand of `and`, `or`, `not`: what asks a component for a boolean is not written."""
    if isinstance(node, nodes.Applied) and node.name == "component":
        raise _unsayable(node)  # in ETCL its value would have to be a boolean
    return _written(node, lowest)


def _applied(node: nodes.Applied) -> tuple[int, str]:
    path = path_in(node)
    if path is not None and isinstance(node.arguments[0], nodes.Event):
        word = {"exists": "exist ", "default": "default "}.get(node.name, "")
        return FACTOR, f"{word}{path.text}"
    match node:
        case nodes.Applied(_, "truth", (nodes.Applied(_, "component") as inner,)):
            return _applied(inner)
        case nodes.Applied(_, "character", (nodes.Constant(value),)) if len(value) == 1:
            return FACTOR, quoted(value)
        case nodes.Applied(_, "label", (nodes.Constant(name),)):
            return FACTOR, written_name(name)
        case nodes.Applied(_, name, (left, right)) if name in BY_FUNCTION:
            return _operation(BY_FUNCTION[name], left, right)
    raise _unsayable(node)


def _operation(operator: Operator, left: nodes.Node, right: nodes.Node) -> tuple[int, str]:
    level = operator.level
    first = _written(left, level if operator.repeats else level + 1)
    return level, f"{first} {operator.sign} {_written(right, level + 1)}"


def _literal(value: Any) -> str:
    if type(value) is bool:
        return str(value).upper()
    if type(value) is str and len(value) != 1:
        return quoted(value)
    if type(value) in (int, float) and abs(value) < float("inf"):
        return repr(value)
    raise _unsayable(nodes.Constant(value))


def _unsayable(node: nodes.Node) -> FilterError:
    from polycast.filters.tree.canonical_text import render

    return FilterError(f"`{render(node)[:200]}` cannot be said in ETCL")
