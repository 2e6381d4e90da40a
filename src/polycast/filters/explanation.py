"""What each way of running a filter makes of it, and what its conditions say of an event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from polycast.errors import FilterError, NotAvailableError
from polycast.errors.failures import failures_here
from polycast.filters.backends.interpreter import evaluate
from polycast.filters.backends.python import generate
from polycast.filters.normal_form.disjunction import Predicate, conjunctions
from polycast.filters.normal_form.ordered_domains import Interval, Points
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical import folded
from polycast.filters.tree.canonical_text import render

NO_EVENT: Any = object()
LONGEST = 2_000  # characters of a column
OPAQUE = "opaque, so that it is called for each event for which it matters, in this process only"


@dataclass(frozen=True, slots=True)
class FilterExplanation:
    """A filter as each way of running it sees it; `str()` gives the whole report."""

    filter: str
    tree: tuple[str, ...]  # one expression a line, its parts indented below
    indexed: tuple[str, ...]  # looked up by value or by range
    read: tuple[str, ...]  # asked of a value that is read once for all filters
    residual: tuple[str, ...]  # evaluated for the events that are left, and why
    opaque: tuple[str, ...]  # not looked into, and why
    problems: tuple[str, ...]  # what cannot be right for the class
    source: str
    values: tuple[str, ...]  # what the names in the source stand for
    spark: str  # the column, or why there is none
    verdicts: tuple[Verdict, ...] = ()  # what each condition says about the event
    matches: bool | None = None

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"filter: {self.filter}"
        if self.matches is not None:
            yield from map(str, self.verdicts)
            yield "the event passes" if self.matches else "the event does not pass"
            return
        for title, lines in (
            ("cannot be right", self.problems),
            ("tree", self.tree),
            ("looked up in an index", self.indexed),
            ("asked of values that are read once", self.read),
            ("evaluated where the rest holds", self.residual),
            (OPAQUE, self.opaque),
            ("Python", (*self.source.rstrip().splitlines(), *self.values)),
            ("Spark", (self.spark,)),
        ):
            if lines:
                yield f"{title}:"
                yield from (f"  {line}" for entry in lines for line in entry.splitlines())


def explained(tree: nodes.Node, cls: type | None, event: Any) -> FilterExplanation:
    """The explanation of a filter, for a class of events and for one event."""
    from polycast.filters import checking  # here, because it takes a while to load

    known = type(event) if cls is None and event is not NO_EVENT else cls
    about = () if event is NO_EVENT else tuple(verdicts(tree, event))
    indexed, read, residual = _parts(tree)
    generated = generate(tree if known is None else folded(tree, known), cls=known)
    return FilterExplanation(
        filter=render(tree),
        tree=tuple(_outline(tree, 0)),
        indexed=indexed,
        read=read,
        residual=residual,
        opaque=tuple(
            dict.fromkeys(part.why for part in nodes.walk(tree) if isinstance(part, nodes.Opaque))
        ),
        problems=() if known is None else tuple(map(str, checking.problems(tree, (known,)))),
        source=generated.source,
        values=generated.values(),
        spark=_spark(tree, known),
        verdicts=about,
        matches=about[0].passes is True if about else None,
    )


def _outline(node: nodes.Node, depth: int, loops: int = 0) -> Iterator[str]:
    yield f"{'  ' * depth}{type(node).__name__}: {render(node, loops)}"
    for child in node.children():
        if not isinstance(child, nodes.Event | nodes.Variable | nodes.Constant):
            inside = isinstance(node, nodes.Quantified) and child is not node.over
            yield from _outline(child, depth + 1, loops + inside)


def _parts(tree: nodes.Node) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The predicates of the filter by what an index makes of them."""
    indexed: dict[str, None] = {}
    read: dict[str, None] = {}
    residual: dict[str, None] = {}
    for conjunction in conjunctions(tree):
        for predicate in conjunction:
            text = render(predicate.node)
            if isinstance(predicate.form, Points):
                indexed[f"{text}: by value"] = None
            elif isinstance(predicate.form, Interval) and not predicate.form.unordered_too:
                indexed[f"{text}: by range"] = None
            elif predicate.form is not None:
                read[text] = None
            elif not isinstance(predicate.node, nodes.Opaque):
                residual[f"{text}: {_why(predicate)}"] = None
    return tuple(indexed), tuple(read), tuple(residual)


def _why(predicate: Predicate) -> str:
    """Why a predicate is evaluated and not looked up."""
    node = predicate.node
    while isinstance(node, nodes.Not):
        node = node.operand
    if any(isinstance(part, nodes.Opaque) for part in nodes.walk(node)):
        return "it has an opaque part"
    if isinstance(node, nodes.And | nodes.Or):
        return "it has too many cases"
    if isinstance(node, nodes.Compare):
        sides = (node.first, *(operand for _, operand in node.rest))
        if not any(isinstance(side, nodes.Constant) for side in sides):
            return "it compares parts of the event with each other"
        return "this comparison has no order to look it up in"
    return f"{type(node).__name__} is not a comparison with a constant"


def _spark(tree: nodes.Node, cls: type | None) -> str:
    if cls is None:
        return "a column has the types of a class: explain(Talk) tells"
    try:
        from polycast.filters.backends.spark import compiled

        text = repr(compiled(tree, cls))
    except (FilterError, NotAvailableError) as refusal:
        return f"no column: {refusal}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


# -- verdicts --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one condition of a filter about an event."""

    condition: str
    depth: int  # how many conditions it is a part of
    passes: bool | None  # None: it fails, or was not asked
    text: str

    def __str__(self) -> str:
        return f"{'  ' * self.depth}`{self.condition}` {self.text}"


def verdicts(node: nodes.Node, event: Any, *, depth: int = 0) -> Iterator[Verdict]:
    """The whole filter, then the evaluated parts of its `and`, `or` and `not`."""
    yield _verdict(node, event, depth)
    if isinstance(node, nodes.Not):
        yield from verdicts(node.operand, event, depth=depth + 1)
    if isinstance(node, nodes.And | nodes.Or):
        yield from _part_verdicts(node, event, depth + 1)


def _part_verdicts(node: nodes.And | nodes.Or, event: Any, depth: int) -> Iterator[Verdict]:
    decided = False
    for part in node.parts:
        if decided:
            yield Verdict(render(part), depth, None, "is not asked any more")
            continue
        found = list(verdicts(part, event, depth=depth))
        yield from found
        decided = found[0].passes is not isinstance(node, nodes.And)


def _verdict(node: nodes.Node, event: Any, depth: int) -> Verdict:
    text = render(node)
    try:
        value = evaluate(node, event, ())
        passes = bool(value)
    except failures_here() as error:
        return Verdict(text, depth, None, f"fails: {type(error).__name__}: {error}")
    shown = "" if value is passes else f" ({value!r:.60})"
    return Verdict(text, depth, passes, f"is {passes}{shown}")
