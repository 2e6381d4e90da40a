"""What checking ahead reports always fails: random filters over well-typed events of all kinds."""

from __future__ import annotations

import enum
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import attrs
import msgspec
import pydantic
from hypothesis import given, settings
from hypothesis import strategies as st
from test_lifting_property import Order, compiled, orders
from test_lifting_property import expressions as untyped

from polycast.filters.backends.interpreter import RULES, evaluate
from polycast.filters.checking import problems
from polycast.filters.checking.classes import Classes
from polycast.filters.checking.mistakes import copied, failures
from polycast.filters.checking.walker import CertainFailure
from polycast.filters.lifting.function import lift_function
from polycast.filters.tree import nodes


class Status(enum.Enum):
    OPEN = "open"
    PAID = "paid"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Line:
    price: float
    name: str | None


@dataclass
class Long(Line):
    extra: int


HINTS: dict[str, Any] = {
    "total": int,
    "price": float,
    "note": str,
    "room": str | None,
    "tags": list[str],
    "lines": list[Line],
    "line": Line | None,
    "day": date,
    "at": datetime,
    "wait": timedelta,
    "cost": Decimal,
    "status": Status,
    "level": Level,
    "data": dict[str, int],
    "pair": tuple[int, str],
    "raw": bytes,
    "flag": bool,
    "mixed": int | str,
    "thing": Any,
    "names": set[str],
    "key": UUID,
}


def _methods(cls: type) -> dict[str, Any]:
    def label(self: Any) -> str:
        return "label"

    def plus(self: Any, one: int, two: int = 0) -> int:
        return one + two

    def short(self: Any) -> str:
        return "short"

    del cls
    return {"label": label, "plus": plus, "short": property(short), "__module__": __name__}


def _made(name: str, decorate: Any) -> type:
    return decorate(type(name, (), {**_methods(object), "__annotations__": dict(HINTS)}))


AsDataclass = _made("AsDataclass", dataclass)
AsFrozen = _made("AsFrozen", dataclass(frozen=True))
AsSlots = _made("AsSlots", dataclass(slots=True))
AsAttrs = _made("AsAttrs", attrs.define(slots=False))
AsStruct = msgspec.defstruct("AsStruct", list(HINTS.items()), namespace=_methods(object))
AsModel = type(
    "AsModel",
    (pydantic.BaseModel,),
    {
        **_methods(object),
        "__annotations__": dict(HINTS),
        "model_config": pydantic.ConfigDict(arbitrary_types_allowed=True),
    },
)
KINDS = [AsDataclass, AsFrozen, AsSlots, AsAttrs, AsStruct, AsModel]

TEXTS = ["", "a", "%s", "bX", "%s%s"]
LINES = [Line(1.0, None), Line(-0.5, "a"), Line(2, "")]  # exactly: a subtype has more
VALUES: dict[str, list[Any]] = {
    "total": [0, 1, -3, 10**20, True],
    "price": [0.0, -1.5, 2, float("inf"), float("nan")],
    "note": TEXTS,
    "room": [None, *TEXTS],
    "tags": [[], ["a"], ["", "b", "%s"]],
    "lines": [[], LINES[:1], LINES],
    "line": [None, *LINES],
    "day": [date(1, 1, 1), date(2020, 1, 1), date(9999, 12, 31)],
    "at": [datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), datetime(9999, 12, 31)],
    "wait": [timedelta(0), timedelta(-1), timedelta(2, 3)],
    "cost": [Decimal(0), Decimal("-1.5"), Decimal("2.5"), Decimal(3)],
    "status": list(Status),
    "level": list(Level),
    "data": [{}, {"a": 1}, {"": 0, "b": 2}],
    "pair": [(0, ""), (1, "a"), (-1, "%s")],
    "raw": [b"", b"a", b"%a"],
    "flag": [True, False],
    "mixed": [0, -2, 7, *TEXTS],
    "thing": [None, 1, "a", LINES[0], [1], Long(1.0, "a", 2), 1.5],
    "names": [set(), {"a"}, {"", "b"}],
    "key": [UUID(int=0), UUID(int=7)],
}
EVENTS = 24


def made(cls: Any) -> list[Any]:
    """Well-typed events of a class, with all the values in many combinations."""
    draw = random.Random(1)
    return [
        cls(**{name: draw.choice(pool) for name, pool in VALUES.items()}) for _ in range(EVENTS)
    ]


NAMES: dict[str, Any] = {
    "Line": Line,
    "Long": Long,
    "Status": Status,
    "Level": Level,
    "MONEY": Decimal("1.5"),
    "DAY": date(2020, 1, 1),
    "AT": datetime(2020, 1, 1),
    "WAIT": timedelta(1),
    "KEY": UUID(int=1),
    "PAIR": (1, "a"),
    "SET": frozenset(("a", 1)),
    "date": date,
}
FOUND_ON_LINES = ("price", "name", "extra", "missing")
ATTRIBUTES = [f"t.{name}" for name in (*HINTS, "missing", "short")]
LITERALS = "0 1 2 -1 1.5 2j True None '' 'a' '%s' b'a' [] ['a'] (1,) {1}".split()  # noqa: SIM905
CONSTANTS = [name for name in NAMES if name.isupper()]
CONSTANTS += ["Status.PAID", "Level.HIGH", *LITERALS]
CALLS = (  # noqa: SIM905
    "t.label() t.plus(1) t.plus() t.plus(1,2,3) t.total() t.absent() t.note.lower() t.note.low() "
    "t.room.strip() t.at.date() t.day.year t.wait.total_seconds() t.cost.is_nan() t.status.value "
    "t.status.name t.status.nope t.level.value t.level.real t.tags[0] t.data['a'] t.pair[1] "
    "t.tags.count('a') t.thing.foo t.line.price t.line.extra t.lines[0].name t.lines[0].extra "
    "t.key.hex t.price.is_integer() t.total.foo t.raw[0] t.note[0] t.mixed.lower()"
).split()
leaves = st.sampled_from([*ATTRIBUTES, *ATTRIBUTES, *CONSTANTS, *CALLS, "t"])
COMPARISONS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"]
operators = st.sampled_from(["+", "-", "*", "/", "//", "%", "&", "|", "^", ">>"])
growing = st.sampled_from(["**", "<<"])
SMALL = "0 2 -1 1.5 2j True None 'a' (1,) t.note t.price t.flag t.level t.cost t.line t.missing"
small = st.sampled_from(SMALL.split())  # `t.total ** t.total` would never end
comparisons = st.sampled_from(COMPARISONS)
GUARDED = ("t.line", "t.thing", "t.mixed", "t.room", "t.lines[0]", "t", "t.level", "t.price")
guards = st.one_of(
    st.tuples(
        st.sampled_from(GUARDED),
        st.sampled_from(["int", "str", "Long", "Line", "(int, str)", "(Long, int)", "float"]),
    ).map(lambda p: f"isinstance({p[0]}, {p[1]})"),
    st.tuples(st.sampled_from(GUARDED), st.sampled_from(["is", "is not", "==", "!="])).map(
        lambda p: f"({p[0]} {p[1]} None)"
    ),
    st.sampled_from(GUARDED),
)
guarded = st.sampled_from(
    [
        *(f"t.line.{name}" for name in FOUND_ON_LINES),
        *(f"t.lines[0].{name}" for name in FOUND_ON_LINES),
        *(f"t.thing.{name}" for name in FOUND_ON_LINES),
        *(f"(t.mixed < {other})" for other in ("1", "'a'", "None", "t.total")),
        *(f"(t.room < {other})" for other in ("1", "'a'", "None")),
        "(t.room + 1)",
        "t.mixed.lower()",
        "t.mixed.real",
        "t.extra",
    ]
)


def extended(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, comparisons, inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, comparisons, inner, comparisons, inner).map(lambda p: f"({' '.join(p)})"),
        two.map(lambda p: f"({p[0]} and {p[1]})"),
        two.map(lambda p: f"({p[0]} or {p[1]})"),
        inner.map(lambda p: f"(not {p})"),
        st.tuples(inner, operators, inner).map(lambda p: f"({' '.join(p)})"),
        st.tuples(inner, growing, small).map(lambda p: f"({' '.join(p)})"),
        st.tuples(st.sampled_from("-+~"), inner).map(lambda p: f"({p[0]}{p[1]})"),
        inner.map(lambda p: f"len({p})"),
        inner.map(lambda p: f"abs({p})"),
        two.map(lambda p: f"max({p[0]}, {p[1]})"),
        st.tuples(inner, inner, inner).map(lambda p: f"min({', '.join(p)})"),
        inner.map(lambda p: f"max({p})"),
        two.map(lambda p: f"({p[0]}, {p[1]})"),
        two.map(lambda p: f"{p[0]}[{p[1]}]"),
        st.tuples(inner, st.sampled_from(["real", "lower", "price", "name", "foo"])).map(
            lambda p: f"({p[0]}).{p[1]}"
        ),
        st.tuples(guards, st.sampled_from(["and", "or"]), guarded | inner).map(
            lambda p: f"({' '.join(p)})"
        ),
        st.tuples(guards, guards, st.sampled_from(["and", "or"]), guarded | inner).map(
            lambda p: f"(({p[0]} {p[2]} {p[1]}) and {p[3]})"
        ),
        st.tuples(guards, guarded).map(lambda p: f"(not {p[0]} or {p[1]})"),
        inner.map(lambda p: f"any(x == {p} for x in t.lines if x.name)"),
        st.tuples(st.sampled_from(FOUND_ON_LINES), comparisons, inner).map(
            lambda p: f"any(x.{p[0]} {p[1]} {p[2]} for x in t.lines)"
        ),
        st.tuples(st.sampled_from(FOUND_ON_LINES), inner).map(
            lambda p: f"all(x.{p[0]} < {p[1]} for x in t.lines if isinstance(x, Long))"
        ),
        st.tuples(inner, comparisons, inner).map(lambda p: f"any(x {p[1]} {p[2]} for x in {p[0]})"),
        st.tuples(st.sampled_from(FOUND_ON_LINES), comparisons).map(
            lambda p: (
                f"any(isinstance(x, Long) and any(x.{p[0]} {p[1]} y for y in t.tags) "
                f"for x in t.lines)"
            )
        ),
    )


expressions = st.recursive(leaves, extended, max_leaves=6)


@dataclass(frozen=True)
class Probe(nodes.Node):
    """A node of a tree, and what to do wherever it is reached."""

    node: nodes.Node
    reached: Callable[[Any, tuple[Any, ...]], None] = field(compare=False)


def _probe(node: Probe, event: Any, scope: tuple[Any, ...]) -> Any:
    node.reached(event, scope)
    return evaluate(node.node, event, scope)


RULES[Probe] = _probe


def claim(finding: CertainFailure) -> nodes.Node:
    """What is said to fail."""
    if finding.first is finding.last:
        return finding.first
    return nodes.Compare(finding.first, ((finding.what, finding.last),))


def fails(node: nodes.Node, event: Any, scope: tuple[Any, ...] = ()) -> bool:
    try:
        evaluate(node, event, scope)
    except Exception:
        return True
    return False


def probed(tree: nodes.Node, finding: CertainFailure, reached: Callable[..., None]) -> nodes.Node:
    """The tree with a probe at the part that was reported."""

    def change(node: nodes.Node) -> nodes.Node | None:
        if node is finding.first is finding.last:
            return Probe(node, reached)
        if isinstance(node, nodes.Compare) and finding.first is not finding.last:
            operands = [node.first, *(operand for _, operand in node.rest)]
            if any(part is finding.first for part in operands):
                return Probe(node, reached)
        return None

    return copied(tree, change)


KNOWN = Classes()


def run(tree: nodes.Node, events: list[Any]) -> None:
    """Let the interpreter evaluate it for each event."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for event in events:
            fails(tree, event)


def tree_of(text: str) -> nodes.Node:
    function = compiled(text, LIMIT=2, NAMES=(1, 2.0, "a", None), **NAMES)
    return copied(lift_function(function), lambda node: None)


OF_CLASS = {cls: made(cls) for cls in KINDS}


def check_findings(text: str, cls: Any, events: list[Any]) -> None:
    tree = tree_of(text)
    for finding in failures(tree, (cls,), every=False, classes=KNOWN):
        part, held = claim(finding), []

        def reached(event: Any, scope: Any, part: Any = part, held: Any = held) -> None:
            held.append(fails(part, event, scope))

        run(probed(tree, finding, reached), events)
        assert all(held), (text, finding)


@settings(max_examples=1500, deadline=None)
@given(text=expressions, cls=st.sampled_from(KINDS))
def test_a_part_that_is_reported_fails_wherever_it_is_reached(text: str, cls: Any) -> None:
    check_findings(text, cls, OF_CLASS[cls])


@settings(max_examples=600, deadline=None)
@given(text=untyped, event=orders)
def test_the_same_where_nothing_is_declared(text: str, event: Order) -> None:
    check_findings(text, Order, [event])


@settings(max_examples=1000, deadline=None)
@given(text=expressions, cls=st.sampled_from(KINDS))
def test_a_part_that_is_reported_fails_by_itself(text: str, cls: Any) -> None:
    if "isinstance" in text or "None" in text:
        return  # then it may be reported only for what comes through
    tree = tree_of(text)
    for finding in failures(tree, (cls,), every=False, classes=KNOWN):
        part = claim(finding)
        if not any(isinstance(node, nodes.Variable) for node in nodes.walk(part)):
            assert all(fails(part, event) for event in OF_CLASS[cls]), finding


ATOMS = [
    "isinstance({path}, Long)",
    "isinstance({path}, Line)",
    "isinstance({path}, (Long, int))",
    "{path} is None",
    "{path} is not None",
    "{path}",
    "t.flag",
    "{path}.extra > 0",
    "{path}.extra > 0",
    "any(y == {path}.extra for y in [1])",
]
conditions = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        inner.map(lambda p: f"(not {p})"),
        st.lists(inner, min_size=2, max_size=4).map(lambda p: f"({' and '.join(p)})"),
        st.lists(inner, min_size=2, max_size=4).map(lambda p: f"({' or '.join(p)})"),
    ),
    max_leaves=7,
)


@dataclass
class Holder:
    line: Line | None
    flag: bool
    lines: list[Line | None]


ANY_LINE = Line(1.0, None)
ANY_LINE.extra = 1  # type: ignore[attr-defined]  # so that what follows is reached, too
HOLDERS = [
    Holder(line, flag, [line])
    for line in (None, ANY_LINE, Long(1.0, None, 1))
    for flag in (True, False)
]


@settings(max_examples=1500, deadline=None)
@given(
    condition=conditions,
    form=st.sampled_from([("{}", "t.line"), ("any({} for x in t.lines)", "x")]),
)
def test_what_was_asked_before_is_not_reported(condition: str, form: tuple[str, str]) -> None:
    tree = tree_of(form[0].format(condition.format(path=form[1])))
    for finding in failures(tree, (Holder,), every=False, classes=KNOWN):
        lines: list[Any] = []

        def reached(event: Any, scope: Any, lines: Any = lines) -> None:
            lines.append(event.line)

        run(probed(tree, finding, reached), HOLDERS)
        assert not lines or not all(isinstance(line, Long) for line in lines), condition


@settings(max_examples=300, deadline=None)
@given(text=expressions)
def test_the_kind_of_class_makes_no_difference(text: str) -> None:
    tree = tree_of(text)
    told = [
        [(problem.part, problem.code) for problem in problems(tree, (cls,))]
        for cls in (*KINDS, AsDataclass)
    ]
    assert all(answer == told[0] for answer in told)


@settings(max_examples=300, deadline=None)
@given(text=expressions)
def test_whatever_is_found_is_told_with_its_place(text: str) -> None:
    tree = tree_of(text)
    told = problems(tree, (AsDataclass,))
    assert bool(told) == bool(failures(tree, (AsDataclass,), every=False, classes=KNOWN))
    for problem in told:
        assert problem.filter[problem.start :].startswith(problem.part)
        assert str(problem).splitlines()[1].strip("^ ") == ""
