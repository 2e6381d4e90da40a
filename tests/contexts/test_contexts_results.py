"""What functions give is looked at then; one of the whole event is given it as it is."""

from __future__ import annotations

import collections.abc
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, Protocol, TypedDict, TypeVar

import pytest
from reflective import reflect
from typing_extensions import TypeAliasType

import polycast as pc
from polycast.contexts.resolve.inheritance import settle


@dataclass(frozen=True)
class Money:
    amount: float


@dataclass(frozen=True)
class Dollars(Money):
    pass


class HasAmount(Protocol):
    amount: float


class Named(TypedDict):
    name: str


Inner = TypeVar("Inner")
Many = TypeAliasType("Many", list[Inner], type_params=(Inner,))


@dataclass(frozen=True)
class Box(Generic[Inner]):
    x: Inner


class Undeclared:
    def __init__(self) -> None:
        self.amount = 1.0


def giving(result: Any, annotation: Any) -> Callable[[Any], Any]:
    def give(x: int) -> Any:
        return result

    give.__annotations__["return"] = annotation
    return give


def made(function: Any, wanted: Any, held: Any = int) -> tuple[pc.Federation, pc.Context, Any]:
    """A context with a function for one attribute, and an event of it."""
    source = dataclass(type("E", (), {"__annotations__": {"x": held}}))
    target = dataclass(type("L", (), {"__annotations__": {"x": wanted}}))
    root = pc.Context("root", types=[source])
    us = pc.Context("us", parent=root, types=[target])
    us.map(source, target, "?")
    us.rule("E.x", function)
    fed = pc.Federation(root)
    fed.add(us)
    event = source([1] if held is not int else 1)  # type: ignore[call-arg]
    return fed, us, event


WRONG = [
    (Money, None),
    (Money, "1"),
    (Money | None, 3),
    (int, 1.5),
    (int | str, 1.5),
    (float, None),
    (float, "1.5"),
    (Literal["a"], "b"),
    (Literal[1], True),
    (list[int], ["a"]),
    (list[int], (1,)),
    (dict[str, int], {1: 1}),
    (tuple[int, str], (1, 2)),
    (tuple[int, ...], (1, "2")),
    (frozenset[int], frozenset(["a"])),
    (HasAmount, 1),
    (Named, "xyz"),
    (Named, {"name": 1}),
    (Named, {}),
    (Named, {"name": "a", "other": 1}),
    (list[Named], [{"name": 1}]),
    (type[Money], 1),
    (type[Money], int),
    (Callable[[], int], 1),
    (frozenset[int], {1}),
    (Many[int], ["a"]),
    (Box[int], Box("a")),
    (Box[list[int]], Box(["a"])),
    (Box[int] | str, Box("a")),
    (list[Box[int]], [Box("a")]),
    (tuple[int, *tuple[str, ...]], 1),
]
RIGHT = [
    (Money, Dollars(1.0)),
    (Money | None, None),
    (float, 1),
    (int | str, "a"),
    (Literal["a"] | int, "a"),
    (list[int], [1]),
    (dict[str, int], {"a": 1}),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2)),
    (HasAmount, Money(1.0)),
    (HasAmount, Undeclared()),
    (Any, object()),
    (Named, {"name": "a"}),
    (type[Money], Dollars),
    (Callable[[], int], int),
    (collections.abc.Set[int], {1}),
    (Many[int], [1]),
    (Box[int], Box(1)),
    (Box[int] | Box[str], Box("a")),
    (Box, Box("a")),
    (tuple[int, *tuple[str, ...]], (1, "a")),
]


@pytest.mark.parametrize(("annotation", "result"), WRONG)
@pytest.mark.parametrize("is_checked", [True, False])
def test_a_function_that_gives_something_else_is_found(
    annotation: Any, result: Any, is_checked: bool
) -> None:
    function = giving(result, annotation)
    fed, us, event = made(function if is_checked else pc.unchecked(function), annotation)
    for way in (
        lambda: fed.translate(event, target=us),
        lambda: reflect(settle(us), "?", event),
    ):
        with pytest.raises(pc.BadResultError, match=r"give was called at E\.x and gave") as raised:
            way()
        assert raised.value.where == "E.x"


async def later(x: int) -> int:
    return x


@pytest.mark.parametrize(
    "give",
    [
        lambda x: later(x),
        lambda x: [later(x)],
        lambda x: (each for each in [x]),
        lambda x: map(print, [x]),
    ],
)
def test_what_has_yet_to_run_is_no_value_even_where_any_is_taken(give: Any) -> None:
    fed, us, event = made(pc.unchecked(give), Any)
    for way in (
        lambda: fed.translate(event, target=us),
        lambda: reflect(settle(us), "?", event),
    ):
        with pytest.raises(pc.NotAwaitedError, match=r"<lambda>, called at E\.x, gave"):
            way()


@pytest.mark.parametrize(("annotation", "result"), RIGHT)
def test_what_is_of_its_annotation_is_delivered(annotation: Any, result: Any) -> None:
    fed, us, event = made(giving(result, annotation), annotation)
    assert fed.translate(event, target=us).x is result
    assert reflect(settle(us), "?", event).x is result


@pytest.mark.parametrize("held", [list[int], list[int | str], dict[str, int | None], int | str])
def test_it_is_found_wherever_the_function_is_called(held: Any) -> None:
    wanted = {list[int]: list[Money], list[int | str]: list[Money | str]}.get(held, held)
    wanted = {dict[str, int | None]: dict[str, Money | None], int | str: Money | str}.get(
        held, wanted
    )

    def nothing(x: int | str) -> Money:
        return None  # type: ignore[return-value]

    fed, us, event = made(nothing, wanted, held)
    event.x = {list: [1], dict: {"a": 1}}.get(getattr(held, "__origin__", int), 1)
    with pytest.raises(pc.BadResultError):
        fed.translate(event, target=us)


@dataclass(frozen=True)
class Case:
    patient: str


@dataclass(frozen=True)
class USCase:
    patient: str


def loses_it(patient: str) -> str:
    return None if patient == "Ada" else patient.upper()  # type: ignore[return-value]


def clinics() -> tuple[pc.Context, pc.Context]:
    root = pc.Context("root", types=[Case])
    us = pc.Context("us", parent=root, types=[USCase])
    us.map(Case, USCase, "?")
    us.rule("Case.patient", loses_it)
    return root, us


@pytest.mark.parametrize("store", [False, True])
def test_it_is_a_dead_letter_with_the_path_and_the_others_are_delivered(
    tmp_path: Any, store: bool
) -> None:
    _, us = clinics()
    with pc.Bus(f"sqlite:///{tmp_path}/events.db" if store else "memory:") as bus:
        got: list[USCase] = []
        bus.within(us).subscribe(USCase, got.append)
        for name in ("Ada", "Bob"):
            bus.publish(Case(name))
        assert bus.flush(10)
        [letter] = bus.dead_letters()
        assert got == [USCase("BOB")]
        assert "BadResultError" in letter.reason
        assert "loses_it was called at Case.patient and gave None" in letter.reason


# -- functions of whole events ---------------------------------------------------------------------


@dataclass
class S:
    weight: Annotated[float, pc.Unit("kg")]
    tags: list[str] = field(default_factory=list)


@dataclass
class T:
    weight: Annotated[float, pc.Unit("lb")]
    tags: list[str] = field(default_factory=list)


def in_pounds(s: S) -> T:
    s.tags.append("seen")
    return T(s.weight * 2.2046, s.tags)


def ten(weight: float) -> float:
    return weight * 10


@pytest.mark.parametrize("rule", [None, "S.weight", "float"])
def test_a_function_of_the_whole_event_is_given_it_as_it_is(rule: str | None) -> None:
    root = pc.Context("root", types=[S])
    us = pc.Context("us", parent=root, types=[T])
    us.map(S, T, "?")
    us.whole(S, in_pounds)
    if rule is not None:
        us.rule(rule, ten)
    fed = pc.Federation(root)
    fed.add(us)
    event = S(1.0, ["a"])
    for found in (fed.translate(event, target=us), reflect(settle(us), "?", event)):
        assert found == T(2.2046, ["a", "seen"])
    assert event == S(1.0, ["a"])  # what it does to it, the publisher does not see


@dataclass
class Cart:
    things: list[S]
    first: S | None = None


@dataclass
class USCart:
    things: list[T]
    first: T | None = None


def test_the_same_inside_another_event() -> None:
    root = pc.Context("root", types=[S, Cart])
    us = pc.Context("us", parent=root, types=[T, USCart])
    us.map(Cart, USCart, "?")
    us.map(S, T, "?")
    us.whole(S, in_pounds)
    us.rule("S.weight", ten)
    fed = pc.Federation(root)
    fed.add(us)
    event = Cart([S(1.0)], S(2.0))
    expected = USCart([T(2.2046, ["seen"])], T(4.4092, ["seen"]))
    for found in (fed.translate(event, target=us), reflect(settle(us), "?", event)):
        assert found == expected
    assert not us.check().errors


def test_units_that_cannot_be_converted_are_its_business() -> None:
    @dataclass
    class Price:
        x: Annotated[float, pc.Unit("EUR")]

    @dataclass
    class USPrice:
        x: Annotated[float, pc.Unit("USD")]

    root = pc.Context("root", types=[Price])
    us = pc.Context("us", parent=root, types=[USPrice])
    us.map(Price, USPrice, "?")
    assert [error.code for error in us.check().errors] == ["units-differ"]
    us.whole(Price, pc.unchecked(lambda price: USPrice(price.x * 2)))
    assert not us.check().errors


def test_what_it_gives_is_looked_at() -> None:
    root = pc.Context("root", types=[S])
    us = pc.Context("us", parent=root, types=[T])
    us.map(S, T, "?")
    us.whole(S, pc.unchecked(lambda s: None))
    fed = pc.Federation(root)
    fed.add(us)
    with pytest.raises(pc.BadResultError, match="accepted: T"):
        fed.translate(S(1.0), target=us)


def test_identity_does_not_make_another_type() -> None:
    us = pc.Context("us", parent=pc.Context("root", types=[S]), types=[T])
    us.map(S, T, "?")
    us.whole(S, pc.rules.identity)
    assert [error.code for error in us.check().errors] == ["bad-result"]


def test_numbers_of_units_are_looked_at_too() -> None:
    @dataclass
    class Long:
        x: Annotated[Decimal, pc.Unit("m")]

    @dataclass
    class USLong:
        x: Annotated[Decimal, pc.Unit("cm")]

    root = pc.Context("root", types=[Long])
    us = pc.Context("us", parent=root, types=[USLong])
    us.map(Long, USLong, "?")
    fed = pc.Federation(root)
    fed.add(us)
    assert fed.translate(Long(Decimal(1)), target=us) == USLong(Decimal(100))
