"""What annotations of classes stand for: mappings, rules, conversions of units."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from typing import Annotated, Any, NewType

import pytest
import typing_extensions

import polycast as pc
from polycast.contexts.declare.context_state import read_state, state_of
from polycast.contexts.declare.units import Scaling, units_in


def made(name: str, **hints: Any) -> Any:
    """A frozen class with these attributes."""
    return make_dataclass(name, list(hints.items()), frozen=True)


def unit(kind: Any, name: str) -> Any:
    return Annotated[kind, pc.Unit(name)]


def pair(given: Any, wanted: Any, *, back: bool = False) -> tuple[pc.Context, Any, Any]:
    """A context that maps a class with one attribute `x` to another."""
    source, target = made("Source", x=given), made("Target", x=wanted)
    root = pc.Context("root", types=[source])
    us = pc.Context("us", parent=root, types=[target])
    us.map(source, target, "?")
    if back:
        us.map(target, source, "!")
    return us, source, target


def translated(us: pc.Context, event: Any) -> Any:
    fed = pc.Federation(us.root)
    fed.add(us)
    return fed.translate(event, target=us)


def texts(us: pc.Context, severity: str) -> list[str]:
    return [str(finding) for finding in us.check().findings if finding.severity == severity]


# -- maps_to ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Talk:
    title: str


@pc.maps_to(Talk, "?")
@pc.maps_to(Talk, "!")
@dataclass(frozen=True)
class Vortrag:
    title: str


@dataclass(frozen=True)
class Kurzvortrag(Vortrag):
    pass


def test_both_directions_of_a_class_stand_above_it() -> None:
    root = pc.Context("root", types=[Talk])
    de = pc.Context("de", parent=root, types=[Vortrag])
    assert de.check().findings == ()
    fed = pc.Federation(root)
    fed.add(de)
    assert fed.translate(Talk("a"), target=de) == Vortrag("a")
    assert fed.translate(Vortrag("a"), source=de) == Talk("a")


def test_a_class_below_says_for_itself_what_it_maps_to() -> None:
    root = pc.Context("root", types=[Talk])
    de = pc.Context("de", parent=root, types=[Kurzvortrag])
    assert [finding.code for finding in de.check().findings] == ["no-mapping", "cannot-leave"]


def test_only_the_contexts_that_list_it_have_its_mappings() -> None:
    root = pc.Context("root", types=[Talk])
    de = pc.Context("de", parent=root, types=[Vortrag])
    child = pc.Context("at", parent=de)
    assert child.check().findings == ()
    fr = pc.Context("fr", parent=root)
    assert [finding.code for finding in fr.check().findings] == ["no-mapping"]


def test_a_mapping_that_is_written_goes_before_silently() -> None:
    other = made("Other", title=str)
    de = pc.Context("de", parent=pc.Context("root", types=[Talk]), types=[Vortrag, other])
    de.map(Talk, other, "?")
    assert [finding.code for finding in de.check().findings] == ["cannot-leave"]
    assert translated(de, Talk("a")) == other("a")


def test_two_classes_for_the_same_are_a_warning() -> None:
    other = pc.maps_to(Talk, "?")(made("Other", title=str))
    de = pc.Context("de", parent=pc.Context("root", types=[Talk]), types=[Vortrag, other])
    assert texts(de, "warning") == [
        "de, mapping 'Talk => Other ?': the same source twice: Talk => Other ? is taken, not "
        "Talk => Vortrag ? (de) [mapping-twice]"
    ]


@pytest.mark.parametrize(
    ("other", "direction", "said"),
    [
        ("Talk", "?", "the type of @maps_to was 'Talk' (str); accepted: a class of the root"),
        (Talk, "in", "direction='in' is not accepted. Accepted: one of '?', '!'"),
    ],
)
def test_maps_to_takes_a_class_and_a_direction(other: Any, direction: Any, said: str) -> None:
    with pytest.raises(pc.PolycastError) as raised:
        pc.maps_to(other, direction)
    assert str(raised.value) == said


@pytest.mark.parametrize("thing", [3, int])
def test_annotations_are_for_classes_of_ones_own(thing: Any) -> None:
    with pytest.raises(pc.BadContextError, match="what is annotated was"):
        pc.transform_with(len)(thing)
    with pytest.raises(pc.BadContextError, match="the function of @transform_with was 3"):
        pc.transform_with(3)  # type: ignore[arg-type]


# -- transform_with --------------------------------------------------------------------------------


def doubled(money: Money) -> Money:
    return Money(money.amount * 2)


@pc.transform_with(doubled)
@dataclass(frozen=True)
class Money:
    amount: float


@dataclass(frozen=True)
class Bill:
    total: Money
    parts: list[Money] = field(default_factory=list)


@dataclass(frozen=True)
class USBill:
    total: Money
    parts: list[Money] = field(default_factory=list)


def bills() -> pc.Context:
    us = pc.Context("us", parent=pc.Context("root", types=[Bill]), types=[USBill])
    us.map(Bill, USBill, "?")
    return us


def test_a_function_is_applied_wherever_the_class_is_held() -> None:
    us = bills()
    assert us.check().errors == ()
    assert translated(us, Bill(Money(1.0), [Money(2.0)])) == USBill(Money(2.0), [Money(4.0)])


def test_a_rule_that_is_written_goes_before_a_generated_one() -> None:
    us = bills()
    us.rule("Money", pc.rules.identity)
    assert texts(us, "warning") == []
    assert translated(us, Bill(Money(1.0))) == USBill(Money(1.0))


def test_a_generated_rule_can_be_disabled() -> None:
    us = bills()
    us.rule("Money", "-")
    assert texts(us, "warning") == []
    assert translated(us, Bill(Money(1.0))) == USBill(Money(1.0))


def test_a_generated_rule_that_does_not_fit_is_an_error() -> None:
    cls = pc.transform_with(doubled)(made("Pounds", amount=float))
    us = pc.Context("us", types=[cls])
    assert texts(us, "error") == [
        "us, @transform_with of 'Pounds': doubled takes Money, and at the pattern is Pounds; it "
        "would have to take a supertype of that [bad-argument]"
    ]


# -- units -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "wanted", "value", "result"),
    [
        (unit(float, "kg"), unit(float, "g"), 1.5, 1500.0),
        (unit(float, "kg"), unit(float, "lb"), 1.0, 100000000 / 45359237),
        (unit(float, "degC"), unit(float, "degF"), 100.0, 212.0),
        (unit(float, "degC"), unit(float, "degF"), -40.0, -40.0),
        (unit(float, "degF"), unit(float, "degC"), 212.0, 100.0),
        (unit(float, "degC"), unit(float, "kelvin"), 0.0, 273.15),
        (unit(float, "km/h"), unit(float, "m/s"), 36.0, 10.0),
        (unit(int, "km"), unit(int, "m"), 3, 3000),
        (unit(int, "m"), unit(float, "km"), 3, 0.003),
        (unit(int, "m"), unit(Decimal, "km"), 3, Decimal("0.003")),
        (unit(Decimal, "inch"), unit(Decimal, "cm"), Decimal("1.5"), Decimal("3.81")),
        (unit(float, "kg") | None, unit(float, "g") | None, None, None),
        (unit(float | None, "kg"), unit(float | None, "g"), 1.0, 1000.0),
        (list[unit(float, "kg")], list[unit(float, "g")], [1.0, 2.0], [1000.0, 2000.0]),
        (unit(tuple[float, ...], "kg"), unit(tuple[float, ...], "g"), (1.0,), (1000.0,)),
        (dict[str, unit(float, "kg")], dict[str, unit(float, "g")], {"a": 1.0}, {"a": 1000.0}),
        (unit(float, "USD"), unit(float, "USD"), 2.0, 2.0),
        (unit(float, "kg"), unit(float, "kilogram"), 2.0, 2.0),
    ],
)
def test_numbers_get_to_the_other_unit(given: Any, wanted: Any, value: Any, result: Any) -> None:
    us, source, target = pair(given, wanted)
    assert [finding for finding in us.check().findings if finding.severity != "observation"] == []
    found = translated(us, source(value))
    assert found == target(pytest.approx(result) if isinstance(result, float) else result)
    assert type(found.x) is type(result)


def test_a_newtype_with_a_unit_has_it() -> None:
    weight = NewType("weight", unit(float, "kg"))
    assert units_in(weight) == units_in(list[weight | None]) == ("kg",)


def test_an_alias_with_a_unit_has_it() -> None:
    weight = typing_extensions.TypeAliasType("weight", unit(float, "kg"))
    assert units_in(dict[str, weight]) == ("kg",)


@pytest.mark.parametrize(
    ("given", "wanted", "why"),
    [
        (
            unit(float, "EUR"),
            unit(float, "USD"),
            "Source.x is in EUR, and Target.x is in USD: 'EUR' is no unit that pint knows",
        ),
        (
            unit(float, "kg"),
            unit(float, "m"),
            "Source.x is in kg, and Target.x is in m: kg is [mass], m [length]",
        ),
        (
            unit(int, "m"),
            unit(int, "km"),
            "Source.x is in m, and Target.x is in km: from m to km a whole number would not stay "
            "one, and int is wanted",
        ),
        (
            unit(Decimal, "kg"),
            unit(Decimal, "lb"),
            "Source.x is in kg, and Target.x is in lb: the factor 100000000/45359237 has no end as "
            "a Decimal, so it would be rounded",
        ),
        (
            unit(str, "kg"),
            unit(str, "lb"),
            "Source.x is in kg, and Target.x is in lb: str is no number; int, float and Decimal "
            "are converted",
        ),
        (
            unit(Any, "kg"),
            unit(Any, "lb"),
            "Source.x is in kg, and Target.x is in lb: nobody knows what it holds; int, float and "
            "Decimal are converted",
        ),
        (
            unit(float | Decimal, "kg"),
            unit(float | Decimal, "lb"),
            "Source.x is in kg, and Target.x is in lb: float and Decimal are not reckoned with "
            "together",
        ),
        (
            unit(unit(float, "kg"), "g"),
            unit(float, "g"),
            "Source.x is in kg and g, and Target.x is in g: an attribute has one unit, not kg and "
            "g",
        ),
    ],
)
def test_units_that_cannot_be_converted_are_an_error(given: Any, wanted: Any, why: str) -> None:
    us, _, _ = pair(given, wanted)
    assert texts(us, "error") == [
        f"us, mapping 'Source => Target ?': {why}; a rule 'Source.x' would say how [units-differ]"
    ]


def test_logarithms_are_not_multiples() -> None:
    us, _, _ = pair(unit(float, "dB"), unit(float, "dimensionless"))
    [error] = us.check().errors
    assert error.code == "units-differ"


@pytest.mark.parametrize(
    ("given", "wanted", "said"),
    [
        (unit(float, "kg"), float, "Source.x is in kg, and Target.x has no unit"),
        (float, unit(float, "kg"), "Source.x has no unit, and Target.x is in kg"),
    ],
)
def test_a_unit_on_one_side_is_a_warning(given: Any, wanted: Any, said: str) -> None:
    us, source, target = pair(given, wanted)
    assert texts(us, "warning") == [
        f"us, mapping 'Source => Target ?': {said}; it is copied as it is, unless both have one, "
        "or there is a rule 'Source.x' [one-unit]"
    ]
    assert translated(us, source(2.0)) == target(2.0)


def to_dollars(euros: float) -> float:
    return euros * 2


@pytest.mark.parametrize("pattern", ["Source.x", "float", "Source.float"])
def test_a_rule_that_is_written_sees_to_units(pattern: str) -> None:
    us, source, target = pair(unit(float, "EUR"), unit(float, "USD"))
    us.rule(pattern, to_dollars)
    assert us.check().errors == ()
    assert translated(us, source(2.0)) == target(4.0)


def test_a_generated_rule_is_shown_as_one() -> None:
    us, source, _ = pair(unit(float, "degC"), unit(float, "degF"), back=True)
    [row] = us.resolve(source)
    assert str(row) == "Source.x (float): Source.x > degC to degF (only)"
    assert row.rule.generated
    assert row.function.call == Scaling("degC", "degF", 1.8, 32.0)
    assert us.check().findings == ()


# -- units further in ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    weight: Annotated[float, pc.Unit("kg")]


@dataclass(frozen=True)
class Chilled(Spec):
    limit: Annotated[float, pc.Unit("degC")]


@dataclass(frozen=True)
class Order:
    spec: Spec
    rest: tuple[Spec, ...] = ()
    next: Order | None = None


@pc.maps_to(Spec, "?")
@dataclass(frozen=True)
class USSpec:
    weight: Annotated[float, pc.Unit("lb")]


@pc.maps_to(Chilled, "?")
@dataclass(frozen=True)
class USChilled(USSpec):
    limit: Annotated[float, pc.Unit("degF")]


@pc.maps_to(Order, "?")
@dataclass(frozen=True)
class USOrder:
    spec: USSpec
    rest: tuple[USSpec, ...] = ()
    next: USOrder | None = None


def orders(*more: type) -> pc.Context:
    root = pc.Context("root", types=[Order, Spec, Chilled])
    return pc.Context("us", parent=root, types=[USOrder, USSpec, USChilled, *more])


def test_units_are_converted_at_every_depth() -> None:
    us = orders()
    assert us.check().errors == us.check().warnings == ()
    pound = 100000000 / 45359237
    event = Order(Spec(1.0), (Chilled(2.0, 100.0),), Order(Chilled(1.0, 0.0)))
    assert translated(us, event) == USOrder(
        USSpec(pound), (USChilled(2 * pound, 212.0),), USOrder(USChilled(pound, 32.0))
    )
    patterns = {row.pattern for row in us.resolve(Order)}
    assert patterns == {
        *("Order.spec.weight", "Order.spec(Chilled).limit"),
        *("Order.rest.weight", "Order.rest(Chilled).limit"),
    }


def test_a_child_with_other_mappings_has_rules_of_its_own() -> None:
    @dataclass(frozen=True)
    class OunceSpec:
        weight: Annotated[float, pc.Unit("oz")]

    us = orders()
    child = pc.Context("child", parent=us, types=[OunceSpec])
    child.map(Spec, OunceSpec, "?")
    [row] = child.resolve(Spec)
    assert row.function.name == "kg to oz"


def test_a_subtype_that_keeps_its_unit_is_left_alone() -> None:
    @pc.maps_to(Chilled, "?")
    @dataclass(frozen=True)
    class Metric(USSpec):
        weight: Annotated[float, pc.Unit("kg")]
        limit: Annotated[float, pc.Unit("degC")]

    root = pc.Context("root", types=[Order, Spec, Chilled])
    us = pc.Context("us", parent=root, types=[USOrder, USSpec, Metric])
    assert us.check().errors == ()
    assert translated(us, Order(Chilled(2.0, 3.0))) == USOrder(Metric(2.0, 3.0))
    fed = pc.Federation(root)
    fed.add(us.copy("uk"))
    assert fed.translate(Chilled(2.0, 3.0), target="uk") == Metric(2.0, 3.0)


# -- pint ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", " ", 3, None])
def test_a_unit_has_a_name(name: Any) -> None:
    with pytest.raises(pc.BadContextError, match="accepted: its name, such as 'kg' or 'USD'"):
        pc.Unit(name)


WITHOUT = """
import sys
sys.modules["pint"] = None
from dataclasses import dataclass
from typing import Annotated
import polycast as pc

@dataclass(frozen=True)
class A:
    x: Annotated[float, pc.Unit("kg")]

@pc.maps_to(A, "?")
@dataclass(frozen=True)
class B:
    x: Annotated[float, pc.Unit("UNIT")]

us = pc.Context("us", parent=pc.Context("root", types=[A]), types=[B])
try:
    print(us.check())
except pc.NotAvailableError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kg", "observation: us: there is no mapping for B: it cannot leave the context"),
        (
            "lb",
            "conversion of units is not available: pint is not installed. Install it: pip install "
            "'polycast[units]'; or write the rules by hand",
        ),
    ],
)
def test_pint_is_needed_only_where_units_differ(name: str, said: str) -> None:
    words = [sys.executable, "-W", "error", "-c", WITHOUT.replace("UNIT", name)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith(said)


def test_what_annotations_stand_for_is_in_a_state_and_not_in_a_dump() -> None:
    de = pc.Context("de", parent=pc.Context("root", types=[Talk]), types=[Vortrag])
    assert "mapping" not in de.dump()
    assert [mapping.direction for mapping in read_state(state_of(de)).mappings] == ["?", "!"]
