"""Rules and mappings in containers: applied, or said not to be; never passed over in silence."""

from __future__ import annotations

import abc
import collections.abc
import typing
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, LiteralString, NamedTuple, Protocol, TypedDict, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reflective import reflect
from typing_extensions import TypeAliasType

import polycast as pc
from polycast.contexts.resolve.inheritance import settle

T = TypeVar("T")


@dataclass(frozen=True)
class M:
    amount: int


@dataclass(frozen=True)
class LM:
    amount: int


class Pair(NamedTuple):
    one: M
    other: M


@dataclass(frozen=True)
class Box(Generic[T]):
    x: T


class HasAmount(Protocol):
    amount: int


@dataclass(frozen=True)
class IntBox(Box[int]):
    pass


class Tm(TypedDict):
    m: M


class Tlm(TypedDict):
    m: LM


class Tof(TypedDict, Generic[T]):
    m: T


class Tany(TypedDict):
    m: Any


class Lines(list[M]):
    pass


class Named(dict[str, M]):
    pass


class Loose(list):  # type: ignore[type-arg]
    pass


@dataclass
class More(list[int]):
    m: M


class HasM(Protocol):
    m: M


class Sellable(abc.ABC):
    @abc.abstractmethod
    def price(self) -> int: ...


Sellable.register(M)


@dataclass(frozen=True)
class Holder:
    both: tuple[M, int]


class Undeclared:
    def __init__(self, m: M) -> None:
        self.m = m


class InSlots:
    __slots__ = ("m",)


def up(m: M) -> M:
    return M(m.amount + 1)


def made(held: Any, wanted: Any, *, rule: bool, mapping: bool = False) -> pc.Context:
    source = dataclass(type("E", (), {"__annotations__": {"x": held}}))
    target = dataclass(type("L", (), {"__annotations__": {"x": wanted}}))
    root = pc.Context("root", types=[source, M])
    us = pc.Context("us", parent=root, types=[target, LM])
    us.map(source, target, "?")
    if rule:
        us.rule("M", up)
    if mapping:
        us.map(M, LM, "?")
    return us


def found(us: pc.Context, value: Any) -> Any:
    fed = pc.Federation(us.root)
    fed.add(us)
    event = us.mapping_lines[0].source(value)
    compiled = fed.translate(event, target=us).x
    assert reflect(settle(us), "?", event).x == compiled
    return compiled


# -- an independent reference: every M is replaced, and nothing else is changed --------------------

HINTS: list[tuple[Any, Any]] = [
    (deque, lambda inner: deque[inner]),
    (list, lambda inner: list[inner]),
    (tuple, lambda inner: tuple[inner, ...]),
    (OrderedDict, lambda inner: OrderedDict[str, inner]),
    (defaultdict, lambda inner: defaultdict[str, inner]),
    (dict, lambda inner: dict[str, inner]),
    (list, lambda inner: Several[inner]),
]


def annotations(depth: int) -> st.SearchStrategy[list[Any]]:
    """Kinds of containers, the outermost first."""
    return st.lists(st.sampled_from(HINTS), min_size=1, max_size=depth)


def hint_of(kinds: list[Any], inner: Any) -> Any:
    for _, make in reversed(kinds):
        inner = make(inner)
    return inner


def value_of(draw: st.DrawFn, kinds: list[Any]) -> Any:
    if not kinds:
        return M(draw(st.integers(0, 9)))
    kind = kinds[0][0]
    items = [value_of(draw, kinds[1:]) for _ in range(draw(st.integers(0, 3)))]
    if issubclass(kind, dict):
        keys = draw(st.permutations("abc"))
        pairs = dict(zip(keys, items, strict=False))
        return defaultdict(list, pairs) if kind is defaultdict else kind(pairs)
    return deque(items, 5) if kind is deque else kind(items)


def replaced(value: Any, new: Any) -> Any:
    if isinstance(value, M):
        return new(value.amount)
    if isinstance(value, dict):
        pairs = {key: replaced(item, new) for key, item in value.items()}
        return defaultdict(list, pairs) if type(value) is defaultdict else type(value)(pairs)
    items = [replaced(item, new) for item in value]
    return deque(items, 5) if isinstance(value, deque) else type(value)(items)


def same(one: Any, other: Any) -> bool:
    """Equal, of the same kind, in the same order, with the same length and factory."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        if list(one) != list(other):
            return False
        if getattr(one, "default_factory", None) is not getattr(other, "default_factory", None):
            return False
        return all(same(one[key], other[key]) for key in one)
    if isinstance(one, M | LM):
        return one == other
    if getattr(one, "maxlen", None) != getattr(other, "maxlen", None):
        return False
    return len(one) == len(other) and all(map(same, one, other))


@given(data=st.data())
def test_a_rule_or_a_mapping_is_applied_to_each_element(data: st.DataObject) -> None:
    kinds = data.draw(annotations(3))

    @st.composite
    def values(draw: st.DrawFn) -> Any:
        return value_of(draw, kinds)

    value = data.draw(values())
    ruled = made(hint_of(kinds, M), hint_of(kinds, M), rule=True)
    assert same(found(ruled, value), replaced(value, lambda amount: M(amount + 1)))
    mapped = made(hint_of(kinds, M), hint_of(kinds, LM), rule=False, mapping=True)
    assert same(found(mapped, value), replaced(value, LM))
    for us in (ruled, mapped):
        assert us.check().warnings == ()
        shown = str(us.show(us.mapping_lines[0].source)).splitlines()
        assert not any("x[]" in line and "copied" in line for line in shown)


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (set[M], {M(1), M(2)}, {M(2), M(3)}),
        (frozenset[M], frozenset([M(1)]), frozenset([M(2)])),
        (collections.abc.Set[M], {M(1)}, {M(2)}),
        (collections.abc.Set[M], frozenset([M(1)]), frozenset([M(2)])),
        (collections.abc.Set[M] | int, {M(1)}, {M(2)}),
        (collections.abc.Collection[M] | str, {M(1)}, [M(2)]),
        (collections.abc.Sequence[M] | str, deque([M(1)]), [M(2)]),
        (collections.abc.Mapping[str, M] | int, MappingProxyType({"a": M(1)}), {"a": M(2)}),
        (Pair | list[M], Pair(M(1), M(2)), Pair(M(2), M(3))),
        (Pair | tuple[M, ...], Pair(M(1), M(2)), Pair(M(2), M(3))),
        (list[M] | list[int], [M(1)], [M(2)]),
        (list[M] | list[int], [1], [1]),
        (Pair, Pair(M(1), M(2)), Pair(M(2), M(3))),
        (deque[Pair], deque([Pair(M(1), M(2))]), deque([Pair(M(2), M(3))])),
    ],
)
def test_the_same_in_sets_and_named_tuples(hint: Any, value: Any, expected: Any) -> None:
    assert found(made(hint, hint, rule=True), value) == expected


@pytest.mark.parametrize("value", [[1], ["a"], []])
@pytest.mark.parametrize("hint", [list[int] | list[str], list[str] | list[int] | None])
def test_several_lists_that_fit_one_by_one_are_copied(hint: Any, value: list[Any]) -> None:
    us = made(hint, hint, rule=False)
    assert us.check().errors == ()
    assert found(us, value) == value
    refused = made(hint, list[int], rule=False)
    assert [error.code for error in refused.check().errors] == ["nothing-produces"]


def test_what_may_be_a_set_that_can_be_changed_is_copied() -> None:
    value = {1}
    us = made(collections.abc.Set[int], collections.abc.Set[int], rule=False)
    copy = found(us, value)
    assert (copy, type(copy)) == ({1}, set)
    assert copy is not value


@pytest.mark.parametrize("rule", [True, False])
@pytest.mark.parametrize(
    ("hint", "value"),
    [(Pair | HasAmount, LM(1)), (Pair | float, 1), (list[Pair | HasAmount], [LM(1)])],
)
def test_what_is_taken_for_a_type_is_not_taken_for_the_first(
    hint: Any, value: Any, rule: bool
) -> None:
    assert found(made(hint, hint, rule=rule), value) == value


def test_what_is_in_no_container_that_may_be_there_is_named() -> None:
    us = made(list[int] | dict[str, int], list[int] | dict[str, int], rule=False)
    fed = pc.Federation(us.root)
    fed.add(us)
    with pytest.raises(TypeError, match=r"E\.x holds a complex; accepted: list\[int\] \| dict"):
        fed.translate(us.mapping_lines[0].source(1j), target=us)


def test_an_elements_factory_of_a_class_is_not_kept() -> None:
    us = made(defaultdict[str, M], defaultdict[str, LM], rule=False, mapping=True)
    value = found(us, defaultdict(lambda: M(0), {"a": M(1)}))
    assert (value, value.default_factory) == ({"a": LM(1)}, None)


def test_a_containers_copy_is_another_one() -> None:
    value: deque[int] = deque([1], 3)
    us = made(deque[int], deque[int], rule=False)
    copy = found(us, value)
    assert (copy, copy.maxlen) == (value, 3)
    assert copy is not value


# -- what is not looked into is said ---------------------------------------------------------------


Several = TypeAliasType("Several", list[T], type_params=(T,))

HIDDEN = [
    HasAmount,
    list[HasAmount],
    tuple[HasAmount, int],
    M | Tm,
    M | Any,
    M | Box[M],
    tuple[int, *tuple[M, ...]],
    Several[tuple[M, int]],
    tuple[M, M],
    tuple[int, tuple[M, str]],
    list[tuple[M, int]],
    Box[M],
    Box[list[M]],
    list[Box[M]],
    Tm,
    dict[M, int],
    Tof[M],
    Lines,
    list[Lines],
    tuple[Lines, int],
    Named,
    More,
    HasM,
    Sellable,
    collections.abc.Hashable,
    tuple[Holder, int],
]


@pytest.mark.parametrize("hint", HIDDEN)
@pytest.mark.parametrize("mapping", [True, False])
def test_a_rule_or_mapping_that_does_not_get_there_is_a_warning(hint: Any, mapping: bool) -> None:
    us = made(hint, hint, rule=not mapping, mapping=mapping)
    [warning] = [warning for warning in us.check().warnings if warning.code == "not-looked-into"]
    line = "M => LM ?" if mapping else "M > up"
    assert warning.text.startswith("E.x is ")
    assert line in warning.text
    assert f"{line} not applied inside" in str(us.show(us.mapping_lines[0].source))
    assert us.check().errors == ()


UNKNOWN = [
    tuple[Box, int],
    Several[Any],
    object,
    Any,
    list,
    dict,
    tuple,
    list[object],
    list[Any],
    dict[str, object],
    list[list],
    Tof,
    Tany,
    Loose,
    tuple[Loose, int],
    collections.UserList,
    Undeclared,
    list[Undeclared],
    InSlots,
    collections.abc.Sized,
]


@pytest.mark.parametrize("hint", UNKNOWN)
def test_what_nobody_knows_is_an_observation(hint: Any) -> None:
    us = made(hint, hint, rule=True)
    assert "unknown-inside" in [finding.code for finding in us.check().observations]
    assert "no rule is applied inside" in str(us.show(us.mapping_lines[0].source))
    quiet = made(hint, hint, rule=False)
    assert "unknown-inside" not in [finding.code for finding in quiet.check().observations]


def test_a_rule_that_names_the_attribute_sees_it_all() -> None:
    def first(x: object) -> object:
        return typing.cast("Any", x)[0]

    us = made(object, object, rule=True)
    us.rule("E.x", first)
    assert "unknown-inside" not in [finding.code for finding in us.check().findings]
    assert "E.x > " in str(us.show(us.mapping_lines[0].source))
    assert found(us, [1, 2]) == 1


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        (deque[M], deque[LM]),
        (OrderedDict[str, M], OrderedDict[str, LM]),
        (defaultdict[str, M], defaultdict[str, LM]),
        (Box[M], Box[LM]),
        (list[Box[M]], list[Box[LM]]),
        (Box[list[M]], Box[list[LM]]),
        (Tm, Tlm),
        (list[Tm], list[Tlm]),
        (Tof[M], Tof[LM]),
        (Tof[M], Tlm),
        (Tof[M], dict[str, int]),
        (dict[M, int], dict[LM, int]),
        (tuple[M, M], tuple[LM, LM]),
        (deque[M], list[M]),
        (Box[M] | None, Box[LM] | None),
        (M, Tm),
        (int, Tm),
        (list[M], list[Tm]),
        (dict[str, M], Tm),
        (Tm, dict[str, int]),
        (int, type[int]),
        (type[M], type[LM]),
        (type[M], int),
        (int, Several[str]),
        (Several[M], Several[LM]),
        (collections.abc.Set[int], frozenset[int]),
        (collections.abc.Set[int], set[int]),
        (Pair, tuple[LM, LM]),
        (Pair, tuple[M, M, M]),
        (IntBox, Box[str]),
        (list[IntBox], list[Box[str]]),
        (int, collections.abc.Callable[[], int]),
        (tuple[int, ...], tuple[int, *tuple[M, ...]]),
        (M | Tm, M),
    ],
)
@pytest.mark.parametrize("mapping", [False])
def test_what_would_hold_another_type_than_it_says_is_refused(
    held: Any, wanted: Any, mapping: bool
) -> None:
    us = made(held, wanted, rule=False, mapping=mapping)
    assert [error.code for error in us.check().errors] == ["nothing-produces"]


@pytest.mark.parametrize(
    ("held", "wanted"), [(Box[M], Box[LM]), (Tm, Tlm), (tuple[M, M], tuple[LM, LM])]
)
def test_a_mapping_does_not_help_where_nobody_looks(held: Any, wanted: Any) -> None:
    us = made(held, wanted, rule=False, mapping=True)
    assert [error.code for error in us.check().errors] == ["nothing-produces"]


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        (Box[M], Box[M]),
        (Box[int], Box[float]),
        (Box[M], Box[Any]),
        (Tm, Tm),
        (Tm, Any),
        (Tm, dict),
        (Tm, dict[str, M]),
        (Tof[M], Tof[M]),
        (Tof[M], Tm),
        (Tof[M], dict[str, M]),
        (Tof[int], Tof[float]),
        (Tm | None, dict[str, M] | None),
        (type[bool], type[int]),
        (type[M], type),
        (set[int], collections.abc.Set[int]),
        (frozenset[int], collections.abc.Set[int]),
        (Pair, tuple[M, M]),
        (Pair, tuple[M, ...] | tuple[M, M]),
        (Pair, tuple),
        (IntBox, Box[int]),
        (IntBox, Box),
        (Several[int], list[int]),
        (LiteralString, str),
        (tuple[int, *tuple[M, ...]], tuple[int, *tuple[M, ...]]),
        (tuple[int, *tuple[M, ...]], tuple),
        (collections.abc.Callable[[], int], collections.abc.Callable[[], int]),
    ],
)
def test_what_fits_is_copied(held: Any, wanted: Any) -> None:
    assert made(held, wanted, rule=False).check().errors == ()


class Tree(TypedDict):
    inside: list[Tree]


class OtherTree(TypedDict):
    inside: list[OtherTree]


def test_a_typed_dict_that_holds_itself_has_an_end() -> None:
    assert made(Tree, OtherTree, rule=True).check().errors == ()
