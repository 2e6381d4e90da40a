"""The generated code of an index: one function that reads an event, and one for each bucket.

Names are numbered. Constants stand in the source as literals of exact built-in types, checked and
short; all other values come in as globals. A matching filter is added by its number.
"""

from __future__ import annotations

from bisect import bisect_right
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeGuard

from polycast.errors.failures import failures_here
from polycast.filters.backends.python import SourceWriter, compile_quietly
from polycast.filters.normal_form.ordered_domains import (
    ABSENT,
    Differs,
    Interval,
    IsNone,
    Others,
    Points,
    Truth,
    loose,
)
from polycast.filters.tree import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.filters.normal_form.disjunction import Conjunction, Predicate
    from polycast.matching.index.lanes import Lane
    from polycast.matching.index.layout import Layout


LONGEST_FUNCTION = 250  # rows; compiling a function is not linear, and holds others up
LONGEST_LITERAL = 100
MOST_LITERALS = 16

Row = tuple[int, "Conjunction"]  # the number of a filter, and what is left to ask


class FunctionSource:
    """Lines of a function, and the values that they name."""

    def __init__(self) -> None:
        self.writer = SourceWriter("value")
        self.names = self.writer.names
        self.names.update(__builtins__={}, failures_here=failures_here, ABSENT=ABSENT, type=type)

    def reference(self, value: Any) -> str:
        """A name for a value."""
        return self.writer.reference(value)

    def literal(self, value: Any) -> str:
        """A constant as it stands in the source."""
        kind = type(value)
        if kind is bool or value is None or (kind is int and abs(value) < 10**18):
            return f"({value!r})" if kind is int and value < 0 else repr(value)
        if kind is float and abs(value) < 1e300:
            return repr(value) if value >= 0 else f"({value!r})"
        if kind is str and len(value) < LONGEST_LITERAL:
            return repr(value)
        return self.reference(value)

    def function(self, lines: list[str], name: str) -> Callable[..., Any]:
        """Compile one function."""
        module = compile_quietly("\n".join(lines))
        code = next(const for const in module.co_consts if isinstance(const, CodeType))
        return FunctionType(code, self.names, name)


# -- buckets ---------------------------------------------------------------------------------------


def bucket_function(
    layout: Layout, rows: list[Row], whole: list[Callable[..., None]], *, evaluate: bool = False
) -> Callable[..., None]:
    """Ask every row of a bucket; `evaluate` the expressions themselves, for an odd event.

    The parts of it that will not change are `whole`: they are made once, however many rows follow.
    """
    parts = whole
    for start in range(len(whole) * LONGEST_FUNCTION, len(rows), LONGEST_FUNCTION):
        some = rows[start : start + LONGEST_FUNCTION]
        part = _bucket_part(layout, some, evaluate=evaluate)
        if len(some) == LONGEST_FUNCTION:
            whole.append(part)
        else:
            parts = [*whole, part]
    if len(parts) == 1:
        return parts[0]

    several = tuple(parts)

    def bucket(*arguments: Any) -> None:
        for part in several:
            part(*arguments)

    return bucket


def _bucket_part(layout: Layout, rows: list[Row], *, evaluate: bool) -> Callable[..., None]:
    source = FunctionSource()
    parameters = layout.terms.parameters[:3] if evaluate else layout.terms.parameters
    lines = [f"def bucket({', '.join(parameters)}):"]
    for number, conjunction in rows:
        lines += _row_lines(layout, source, number, conjunction, evaluate=evaluate)
    return source.function(lines, "bucket")


def _row_lines(
    layout: Layout, source: FunctionSource, number: int, conjunction: Conjunction, *, evaluate: bool
) -> Iterator[str]:
    tests: list[str] = []
    residual: list[str] = []
    for predicate in conjunction:
        test = None if evaluate else _over_values(layout, source, predicate)
        test = test or _remembered(layout, source, predicate)
        if test is not None:
            tests.append(test)
        else:
            residual.append(source.writer.write(predicate.node))
    if residual or any(test.startswith("(memo") for test in tests):
        tests.insert(0, f"{source.reference(layout.keys)}[{number}]")  # it may be gone
    space = " "
    if tests:
        yield f" if {' and '.join(tests)}:"
        space = "  "
    if residual:
        yield f"{space}try:"
        yield f"{space} if {' and '.join(residual)}: add({number})"
        yield f"{space}except failures_here(): pass"
    else:
        yield f"{space}add({number})"


def _over_values(layout: Layout, source: FunctionSource, predicate: Predicate) -> str | None:
    """A predicate over what was read of the event; None if it has to be evaluated."""
    name = layout.terms.variable(predicate)
    return None if name is None else _test(source, name, predicate.form)


def _remembered(layout: Layout, source: FunctionSource, predicate: Predicate) -> str | None:
    """What several ask, evaluated once; None if only this one does."""
    node, wanted = bare(predicate.node)
    slot = layout.slots.get(node)
    if slot is None:
        return None
    ask = source.reference(layout.memo_function(node))
    return f"(memo[{slot}] or {ask}(event, memo)) == {1 if wanted else 2}"


def _test(source: FunctionSource, name: str, form: object) -> str:
    match form:
        case Points(_, values):
            if len(values) == 1:
                return f"{name} == {source.literal(values[0])}"
            if len(values) > MOST_LITERALS:
                return f"{name} in {source.reference(frozenset(values))}"
            return f"{name} in {{{', '.join(source.literal(value) for value in values)}}}"
        case Interval():
            return _interval_test(source, name, form)
        case Differs(values):
            if len(values) == 1:
                return f"{name} != {source.literal(values[0])}"
            several = ", ".join(source.literal(value) for value in values)
            return f"{name} is not ABSENT and {name} not in ({several})"
        case Others(_, values):  # ABSENT differs from nothing
            several = " and ".join(f"{name} != {source.literal(value)}" for value in values)
            return f"({several})" if len(values) > 1 else several
        case IsNone(wanted):
            return f"{name} is None" if wanted else f"{name} is not None and {name} is not ABSENT"
        case Truth(wanted):
            return name if wanted else f"not {name} and {name} is not ABSENT"
    raise TypeError(f"{form!r} is no form")


def _interval_test(source: FunctionSource, name: str, form: Interval) -> str:
    text = name
    if form.low is not None:
        text = f"{source.literal(form.low)} {'<=' if form.low_closed else '<'} {text}"
    if form.high is not None:
        text = f"{text} {'<=' if form.high_closed else '<'} {source.literal(form.high)}"
    return f"({text} or {name} != {name})" if form.unordered_too else text


def bare(node: nodes.Node) -> tuple[nodes.Node, bool]:
    """An expression without the `not` around it, and whether it is to be true."""
    wanted = True
    while isinstance(node, nodes.Not):
        node, wanted = node.operand, not wanted
    return node, wanted


def memo_function(node: nodes.Node, slot: int) -> Callable[..., int]:
    """Evaluate what several filters ask, once for an event: 1 true, 2 false, 3 it fails."""
    source = FunctionSource()
    expression = source.writer.write(node)
    lines = [
        "def ask(event, memo):",
        " try:",
        f"  found = 1 if {expression} else 2",
        " except failures_here():",
        "  found = 3",
        f" memo[{slot}] = found",
        " return found",
    ]
    return source.function(lines, "ask")


def is_attribute(term: nodes.Node) -> TypeGuard[nodes.Attribute]:
    """Whether a term is an attribute of the event itself."""
    return type(term) is nodes.Attribute and type(term.of) is nodes.Event


# -- reading an event ------------------------------------------------------------------------------


def term_function(term: nodes.Node) -> Callable[[Any], Any]:
    """The value of a term for an event, or what reading it raises."""
    source = FunctionSource()
    text = source.writer.write(term)
    return source.function(["def read(event):", f" return {text}"], "read")


def read_or_absent(function: Callable[[Any], Any], event: Any) -> Any:
    """What a function reads of an event; ABSENT if it cannot."""
    try:
        return function(event)
    except failures_here():
        return ABSENT


def read_term(term: nodes.Node, events: list[Any]) -> list[Any]:
    """The values of one term; ABSENT where it cannot be read."""
    function = term_function(term)
    return [read_or_absent(function, event) for event in events]


def columns_function(layout: Layout) -> Callable[[list[Any]], tuple[list[Any], ...]]:
    """The values of each term for many events; it raises what reading one of them raises."""
    source = FunctionSource()
    parts = [
        f"[{source.writer.write(column.term)} for event in events]," for column in layout.columns
    ]
    return source.function(["def read(events):", f" return ({' '.join(parts)})"], "read")


def running_function(layout: Layout) -> Callable[[Any], list[int]]:
    """The numbers of the filters that an event passes."""
    source = FunctionSource()
    source.names["bisect"] = bisect_right
    lines = ["def run(event):", " found = []", " add = found.append"]
    lines.append(f" memo = [0] * {len(layout.slots)}" if layout.slots else " memo = None")
    lines += _reading(layout, source)
    if layout.watcher is not None:
        lanes = "".join(f"{lane.name}, " for lane in layout.lanes)
        lines.append(f" {source.reference(layout.watcher)}(({lanes}))")
    call = f"({', '.join(layout.terms.parameters)})"
    for lane in layout.lanes:
        lines += _look_up(source, lane, call)
    if layout.always.rows:
        lines.append(f" {source.reference(layout.always)}.live{call}")
    lines.append(" return found")
    return source.function(lines, "run")


def _reading(layout: Layout, source: FunctionSource) -> Iterator[str]:
    for column in layout.columns:
        raw = column.name
        yield " try:"
        yield f"  {raw} = {source.writer.write(column.term)}"
        yield " except failures_here():"
        yield f"  {raw} = ABSENT"
        for lane in column.lanes.values():
            coerce = source.reference(lane.domain.coerce)
            kinds = [f"type({raw}) is {source.reference(kind)}" for kind in lane.domain.fast]
            known = f"{raw} if {' or '.join(kinds)} else " if kinds else ""
            yield f" {lane.name} = {known}{coerce}({raw})"
        if column.loose:
            yield f" {raw}_loose = {source.reference(loose)}({raw})"


def _look_up(source: FunctionSource, lane: Lane, call: str) -> Iterator[str]:
    if not lane.rows:
        return
    yield f" if {lane.name} == {lane.name}:"
    if lane.points:
        yield f"  bucket = {source.reference(lane.live.get)}({lane.name})"
        yield f"  if bucket is not None: bucket{call}"
    for level in lane.levels:
        live = source.reference(level.live)
        bounds = source.reference(level.bounds)
        yield f"  bucket = {live}[bisect({bounds}, {lane.name})]"
        yield f"  if bucket is not None: bucket{call}"
