"""Talks in the root and in `eu`, and the reference that judges both questions of a plan.

The reference knows by heart what an event is in each context, and asks every subscription.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from hypothesis import strategies as st

import polycast as pc
from polycast.config import level_named
from polycast.errors.failures import failures_here
from polycast.filters import Filter
from polycast.filters.tree import nodes
from polycast.matching import Interest, selector_for
from polycast.routing.translation import LiveForms, RecipientQuery

UNLUCKY = 13.0  # a function of `eu` raises for it
LEVEL = level_named("sorted_set")
EVENT = nodes.Event()


class Marked(ABC):  # noqa: B024
    """An interface without members."""


class HasStars(Protocol):
    stars: float


@dataclass(frozen=True)
class Talk:
    title: str
    stars: float


@dataclass(frozen=True)
class Keynote(Talk):
    hall: str | None = None


@dataclass(frozen=True)
class Panel(Talk, Marked):
    pass


@dataclass(frozen=True)
class Lunch(Marked):
    """Nobody maps it: it is the same everywhere."""

    title: str | None


@dataclass(frozen=True)
class EuTalk:
    title: str
    stars: float


@dataclass(frozen=True)
class EuMemo:
    """It does not leave its context."""

    title: str


def doubled(stars: float) -> float:
    if stars == UNLUCKY:
        raise ValueError(stars)
    return stars * 2


def halved(stars: float) -> float:
    return stars / 2


def federation() -> pc.Federation:
    root = pc.Context("root", types=[Talk, Keynote, Panel, Lunch])
    eu = pc.Context("eu", parent=root, types=[EuTalk, EuMemo])
    eu.map(Talk, EuTalk, "?")
    eu.map(EuTalk, Talk, "!")
    eu.rule("Talk.stars", doubled)
    eu.rule("EuTalk.stars", halved)
    made = pc.Federation(root)
    made.add(eu)
    return made


# -- the reference ---------------------------------------------------------------------------------


class Sent(NamedTuple):
    event: Any
    source: str | None
    topic: str | None


def form_in(context: str | None, sent: Sent) -> Any:
    """What an event is in a context; None if it is not there."""
    event = sent.event
    if context == sent.source:
        return event
    if sent.source == "eu":
        if isinstance(event, EuMemo):
            return None
        return Talk(event.title, event.stars / 2) if isinstance(event, EuTalk) else event
    if isinstance(event, Talk):
        return None if event.stars == UNLUCKY else EuTalk(event.title, event.stars * 2)
    return event


def wants(interest: Interest, sent: Sent) -> bool:
    """Whether a subscription wants an event: each step as plainly as it can be said."""
    event = form_in(interest.context, sent)
    if event is None or not interest.selector.covers(type(event), sent.topic):
        return False
    if interest.where is None:
        return True
    try:
        return bool(interest.where.interpret(event, topic=sent.topic))
    except failures_here():
        return False


# -- what is drawn ---------------------------------------------------------------------------------

TEXTS = ["", "a", "ab", "\0", "'\"\\\n", "\u2028{0}", "é" * 3]
NUMBERS = [0.0, -0.0, 1.0, 2.5, UNLUCKY, 1e308, -1e-308, math.inf, math.nan, 2.0**63]
TOPICS = [None, None, "/a", "/a/b", "/c"]
SELECTORS: list[Any] = [
    *(Talk, Keynote, Panel, Lunch, EuTalk, EuMemo, Marked, HasStars, object),
    *(Talk | Lunch, EuTalk | EuMemo, pc.all_of(Talk, Marked), pc.all_of(HasStars, Marked)),
    *("/a", "/a/**", pc.topic("/a/**", Talk), pc.topic("/*", EuTalk)),
]
ATTRIBUTES = ["title", "stars", "hall", "nothing"]

numbers, texts = st.sampled_from(NUMBERS), st.sampled_from(TEXTS)
root_events: Any = st.one_of(
    st.builds(Talk, texts, numbers),
    st.builds(Keynote, texts, numbers, st.one_of(st.none(), texts)),
    st.builds(Panel, texts, numbers),
    st.builds(Lunch, st.one_of(st.none(), texts)),
)
eu_events: Any = st.one_of(st.builds(EuTalk, texts, numbers), st.builds(EuMemo, texts))
topics = st.sampled_from(TOPICS)
sendings = st.one_of(
    st.builds(Sent, root_events, st.none(), topics),
    st.builds(Sent, eu_events, st.just("eu"), topics),
)


@st.composite
def filters(draw: st.DrawFn) -> Filter[Any]:
    """Comparisons of attributes, which may fail, and combinations of them."""
    constants = st.sampled_from([*TEXTS, *(n for n in NUMBERS if math.isfinite(n)), None, 3])
    attribute = st.sampled_from(ATTRIBUTES).map(lambda name: nodes.Attribute(EVENT, name))
    signs = st.sampled_from(["==", "!=", "<", ">=", "in"])
    compared = st.builds(
        lambda left, sign, right: nodes.Compare(left, ((sign, right),)),
        attribute,
        signs,
        st.one_of(constants.map(nodes.Constant), attribute),
    )
    parts = draw(st.lists(compared, min_size=1, max_size=3))
    tree: nodes.Node = parts[0]
    if len(parts) > 1:
        tree = draw(st.sampled_from([nodes.And, nodes.Or]))(tuple(parts))
    return Filter(nodes.Not(tree) if draw(st.integers(0, 3)) == 0 else tree)


@st.composite
def interests(draw: st.DrawFn) -> Interest:
    what, exact = draw(st.sampled_from(SELECTORS)), draw(st.booleans())
    where = draw(st.one_of(st.none(), filters()))
    context = draw(st.sampled_from([None, "eu"]))
    return Interest(selector_for(what, exact=exact), where, LEVEL, context=context)


worlds = st.tuples(
    st.lists(interests(), min_size=1, max_size=8), st.lists(sendings, min_size=1, max_size=5)
)


# -- a target that wants something -----------------------------------------------------------------


class Wanting:
    """A target for a plan: it has an interest, and nothing is delivered to it."""

    inline = blocking = copies = watched = False
    direct = None

    def __init__(self, number: int, interest: Interest) -> None:
        self.number, self.interest = number, interest

    def interests(self) -> tuple[Interest, ...]:
        return (self.interest,)

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        where = self.interest.where
        return None if where is None else where.on(topic).function

    def unfit(self, error: BaseException) -> None:
        """A filter that fails is not passed."""


def recipients(plan: Any, sent: Sent) -> list[int]:
    """The numbers of the targets that a plan names for a live event."""
    candidates = plan.candidates(type(sent.event), sent.topic, sent.source)
    query = RecipientQuery(LiveForms(sent.event, sent.source, plan.translation))
    found = plan.recipients(query, candidates, sent.topic)
    return sorted(target.number for target, _, _ in found)


def expected(some: list[Interest], sent: Sent) -> list[int]:
    return [number for number, interest in enumerate(some) if wants(interest, sent)]
