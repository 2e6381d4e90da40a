"""A change of contexts is made whole or not at all; an event that holds itself is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import polycast as pc
from polycast.contexts import FederationMember
from polycast.contexts.resolve.inheritance import settle


@dataclass
class Sale:
    price: float


@dataclass
class USSale:
    price: float


@dataclass
class Node:
    name: str
    others: list[Node] = field(default_factory=list)
    extra: Any = None
    next: Node | None = None


@dataclass
class USNode:
    name: str
    others: list[USNode] = field(default_factory=list)
    extra: Any = None
    next: USNode | None = None


def twice(price: float) -> float:
    return price * 2


def unimportable() -> Callable[[float], float]:
    def local(price: float) -> float:
        json.dumps(price)  # no expression that could be looked into
        return price

    return local


def family(function: Any = twice) -> tuple[pc.Context, pc.Context, pc.Context]:
    root = pc.Context("root", types=[Sale, Node])
    parent = pc.Context("parent", parent=root, types=[USSale])
    parent.map(Sale, USSale, "?")
    child = pc.Context("child", parent=parent)
    child.rule("Sale.price", function)
    return root, parent, child


def test_a_child_that_a_store_cannot_keep_does_not_leave_its_parent_behind(tmp_path: Path) -> None:
    root, parent, child = family(unimportable())
    fed = pc.Federation(root)
    with pc.Bus(f"sqlite:///{tmp_path}/events.db", federation=fed):
        with pytest.raises(pc.BadContextError, match="can be lifted"):
            fed.add(child)
        assert fed.members == {}
        assert not parent.is_frozen
        assert not child.is_frozen
        child.rule_lines.clear()  # it may change again, and is looked at anew
        child.rule("Sale.price", twice)
        fed.add(child)
        assert fed.translate(Sale(1.0), target=child) == USSale(2.0)


def test_replacing_by_one_that_a_store_cannot_keep_changes_nothing(tmp_path: Path) -> None:
    root, parent, child = family()
    fed = pc.Federation(root)
    with pc.Bus(f"sqlite:///{tmp_path}/events.db", federation=fed):
        fed.add(child)
        before = dict(fed.members)
        new = parent.copy()
        new.rule("Sale.price", unimportable())
        with pytest.raises(pc.BadContextError):
            fed.replace(new)
        assert fed.members == before
        assert not new.is_frozen
        assert not fed.knows(new)


def test_a_bus_that_cannot_have_a_context_has_no_federation_of_it(tmp_path: Path) -> None:
    root, parent, child = family(unimportable())
    with pc.Bus(f"sqlite:///{tmp_path}/events.db") as bus:
        with pytest.raises(pc.BadContextError):
            bus.within(child)
        assert bus.federation is None
        assert not any(context.is_frozen for context in (root, parent, child))
        other_root, _, other = family()
        bus.within(other)
        assert bus.federation is not None
        assert bus.federation.root is other_root


class Watcher:
    """Somebody who is told of changes."""

    def __init__(self, federation: pc.Federation) -> None:
        self._federation = federation
        self.seen: list[list[str]] = []

    def changed(self) -> None:
        self.seen.append(sorted(self._federation.members))


class Refusing:
    """Somebody who cannot have a change."""

    def __init__(self) -> None:
        self.is_refusing = True

    def changed(self) -> None:
        if self.is_refusing:
            raise OSError("the disk is full")

    def check(self, members: dict[str, FederationMember]) -> None:
        self.changed()


@pytest.mark.parametrize("change", ["add", "replace", "remove"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_one_of_those_who_are_told_cannot_have_nobody_has(change: str, when: str) -> None:
    root, parent, child = family()
    fed = pc.Federation(root)
    if change != "add":
        fed.add(child)
    before = dict(fed.members)
    one, failing = Watcher(fed), Refusing()
    if when == "before":
        fed.guard(failing.check)
    fed.watch(one.changed)
    fed.watch(failing.changed)
    changes: dict[str, Callable[[], object]] = {
        "add": lambda: fed.add(child),
        "replace": lambda: fed.replace(parent.copy()),
        "remove": lambda: fed.remove("child"),
    }
    with pytest.raises(OSError, match="disk is full"):
        changes[change]()
    assert fed.members == before
    assert all(names == sorted(before) for names in one.seen[-1:])
    failing.is_refusing = False
    changes[change]()
    assert fed.members != before


def test_what_was_known_of_a_context_is_forgotten_when_it_may_change_again() -> None:
    root, parent, child = family()
    fed = pc.Federation(root)
    failing = Refusing()
    fed.watch(failing.changed)
    with pytest.raises(OSError, match="full"):
        fed.add(child)
    parent.rule("float", twice)
    assert len(settle(child).rules) == 2


# -- events without an end -------------------------------------------------------------------------


def nodes() -> tuple[pc.Federation, pc.Context]:
    root = pc.Context("root", types=[Node])
    us = pc.Context("us", parent=root, types=[USNode])
    us.map(Node, USNode, "?")
    fed = pc.Federation(root)
    fed.add(us)
    return fed, us


def in_itself() -> Node:
    node = Node("a")
    node.next = Node("b", next=node)
    return node


def in_its_list() -> Node:
    node = Node("a")
    node.others.append(node)
    return node


def too_deep() -> Node:
    node = Node("a")
    for _ in range(50_000):
        node = Node("b", next=node)
    return node


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (in_itself, r"holds itself at Node\.next\.next"),
        (in_its_list, r"holds itself at Node\.others\[0\]"),
        (too_deep, "is nested too deep"),
    ],
)
def test_an_event_without_an_end_is_named(make: Callable[[], Node], said: str) -> None:
    fed, us = nodes()
    event = make()
    with pytest.raises(pc.EventTooDeepError, match=said):
        fed.translate(event, target=us)
    while event.next is not None and event.next.name == "b":  # Python frees what is deep by depth
        event.next, event = None, event.next


def test_it_is_a_dead_letter_on_a_bus() -> None:
    _, us = nodes()
    with pc.Bus() as bus:
        got: list[USNode] = []
        sub = bus.within(us.copy("again")).subscribe(USNode, got.append)
        told = sub.explain(in_itself())
        assert not told.delivered
        assert "cannot see it: an event of the class" in str(told)
        assert "holds itself at Node.next.next" in str(told)
        bus.publish(in_itself())
        bus.publish(Node("b"))
        assert bus.flush(10)
        assert got == [USNode("b")]
        [letter] = bus.dead_letters()
        assert "EventTooDeepError" in letter.reason


def test_a_store_names_it_too(tmp_path: Path) -> None:
    with pc.Bus(f"sqlite:///{tmp_path}/events.db") as bus, pytest.raises(pc.NotSerialisableError):
        bus.publish(in_itself())


def test_a_function_that_never_ends_is_told_from_such_an_event() -> None:
    def forever(price: float) -> float:
        return forever(price)

    root, _, child = family(forever)
    fed = pc.Federation(root)
    fed.add(child)
    with pytest.raises(RecursionError):
        fed.translate(Sale(1.0), target=child)


def test_whose_context_was_taken_out_gets_nothing_and_health_and_explain_say_so() -> None:
    root = pc.Context("root", types=[Sale])
    us = pc.Context("us", parent=root, types=[USSale])
    us.map(Sale, USSale, "?")
    fed, got = pc.Federation(root), []
    fed.add(us)
    with pc.Bus(federation=fed) as bus:
        sub = bus.within(us).subscribe(USSale, got.append)
        assert not bus.health().problems
        fed.remove(us)
        bus.publish(Sale(1.0))
        assert bus.flush(5)
        [problem] = bus.health().problems
        assert "gets nothing: context 'us' was taken out" in problem
        assert "taken out" in str(sub.explain())
        told = sub.explain(Sale(1.0))
        assert (told.delivered, got) == (False, [])
        assert "taken out" in str(told)
        fed.add(us)
        assert not bus.health().problems
        assert sub.explain(Sale(1.0)).delivered


@pytest.mark.parametrize("store", [False, True])
def test_what_is_published_in_a_context_that_was_taken_out_does_not_leave_it_and_health_says_so(
    tmp_path: Path, store: bool, caplog: pytest.LogCaptureFixture
) -> None:
    root, parent, _ = family()
    parent.map(USSale, Sale, "!")
    fed, got = pc.Federation(root), []
    fed.add(parent)
    url = f"sqlite:///{tmp_path}/events.db" if store else "memory:"
    with pc.Bus(url, federation=fed) as bus:
        bus.subscribe(Sale, got.append)
        view = bus.within(parent)
        fed.remove(parent)
        view.publish(USSale(1.0))
        assert bus.flush(5)
        assert got == []
        told = "1 events of USSale did not leave context 'parent': that was taken out"
        assert [told in problem for problem in bus.health().problems] == [True]
        assert "no '!' mapping" not in caplog.text
        fed.add(parent)
        assert not bus.health().problems
        view.publish(USSale(2.0))
        assert bus.flush(5)
        assert got == [Sale(2.0)]
