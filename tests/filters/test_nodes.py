"""Trees: what is below a node, what makes two of them equal."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import enum
import math
import pickle
from decimal import Decimal
from typing import Any

import pytest

import polycast as pc
from polycast.filters.tree import nodes

EVENT = nodes.Event()
A, B = nodes.Attribute(EVENT, "a"), nodes.Attribute(EVENT, "b")
ONE, TWO = nodes.Constant(1), nodes.Constant((1, 2))
EACH_KIND = [
    EVENT,
    nodes.Variable(0),
    ONE,
    TWO,
    nodes.Opaque(bool, "why", (A, B)),
    A,
    nodes.Reach(A, "b"),
    nodes.Call(A, "f", (B, ONE)),
    nodes.Function("min", (A, B)),
    nodes.Applied("etcl", "equal", (A, ONE)),
    nodes.Item(A, ONE),
    nodes.Display(tuple, (A, B)),
    nodes.Compare(A, (("<", B),)),
    nodes.Compare(ONE, (("<", A), ("<", B))),
    nodes.And((A, B)),
    nodes.Or((A, B)),
    nodes.Not(A),
    nodes.Arithmetic("+", A, B),
    nodes.Sign("-", A),
    nodes.InstanceOf(A, (int,)),
    nodes.Quantified("any", A, (B,), ONE),
]


class Colour(enum.Enum):
    RED = 1


def below(value: Any) -> list[nodes.Node]:
    """All nodes in the fields of a node, in order."""
    if isinstance(value, nodes.Node):
        return [value]
    return [node for element in value for node in below(element)] if type(value) is tuple else []


@pytest.mark.parametrize("node", EACH_KIND, ids=lambda node: type(node).__name__)
def test_the_children_of_a_node_are_the_nodes_in_its_fields(node: nodes.Node) -> None:
    fields = [getattr(node, field.name) for field in dataclasses.fields(node)]  # type: ignore[arg-type]
    is_value = isinstance(node, nodes.Constant | nodes.Opaque)
    assert list(node.children()) == ([] if is_value else below(tuple(fields)))


def test_each_kind_of_node_is_told_what_is_below_it() -> None:
    kinds = {kind for kind in vars(nodes).values() if dataclasses.is_dataclass(kind)}
    assert {type(node) for node in EACH_KIND} == kinds


def test_everything_in_a_tree_is_what_walking_it_finds() -> None:
    tree = nodes.And(tuple(EACH_KIND))
    found, walked = nodes.everything(tree), list(nodes.walk(tree))
    assert found[0] is tree
    assert sorted(map(id, found)) == sorted(map(id, walked))


@pytest.mark.parametrize("again", [nodes.Event, lambda: copy.deepcopy(EVENT)])
def test_there_is_one_event(again: Any) -> None:
    assert again() is EVENT


def test_there_is_one_event_in_what_was_pickled() -> None:
    assert pickle.loads(pickle.dumps(A)).of is EVENT  # noqa: S301  (of this process)


@pytest.mark.parametrize(
    "values",
    [
        (1, 1),
        (1.5, 1.5),
        (math.nan, -math.nan),
        ((1, "a"), (1, "a")),
        ((1, math.nan), (1, float("nan"))),
        (Decimal("NaN"), Decimal("NaN")),
        (Colour.RED, Colour.RED),
        (datetime.time(3), datetime.time(3)),
        ([1], [1]),
        (frozenset({1, 2}), frozenset({2, 1})),
    ],
    ids=repr,
)
def test_equal_constants_hash_alike(values: tuple[Any, Any]) -> None:
    one, other = map(nodes.Constant, values)
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize("values", [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (1.0,)), ((), [])])
def test_constants_of_other_types_are_others(values: tuple[Any, Any]) -> None:
    assert nodes.Constant(values[0]) != nodes.Constant(values[1])


def test_attributes_of_one_name_are_equal_if_they_are_of_the_same() -> None:
    deep = nodes.Attribute(A, "b")
    assert deep == nodes.Attribute(nodes.Attribute(nodes.Event(), "a"), "b")
    assert deep != B
    assert hash(deep) == hash(nodes.Attribute(A, "b"))


def test_a_filter_nests_as_deep_as_is_said_and_no_deeper() -> None:
    deep: nodes.Node = A
    for _ in range(78):
        deep = nodes.Not(deep)
    assert nodes.depth(deep) == 80
    pc.Filter(deep)
    with pytest.raises(pc.FilterError):
        pc.Filter(nodes.Not(deep))


def test_a_wide_filter_is_not_deep() -> None:
    wide = nodes.And(tuple(nodes.Compare(A, (("!=", nodes.Constant(n)),)) for n in range(500)))
    assert pc.Filter(wide).tree is wide
