"""What a filter from outside costs is known before it runs, or it is refused by name."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest

import polycast as pc
from polycast.filters.cost import cost_of, is_plain
from polycast.filters.cost.amounts import Amount
from polycast.filters.cost.operation_costs import METHODS, REFUSED
from polycast.filters.tree.canonical_text import parse
from polycast.filters.tree.language_registry import languages
from polycast.filters.tree.nodes import Node
from polycast.filters.tree.operators import ARITHMETIC, BUILTINS, COMPARISONS, SIGNS
from polycast.typesystem import describe
from polycast.typesystem.type_expressions import expression_of


@dataclass
class Item:
    price: float = 1.0
    tags: list[str] = field(default_factory=list)


@dataclass
class Order:
    s: str = "s"
    n: int = 2
    price: float = 1.5
    exact: decimal.Decimal = decimal.Decimal(1)
    anything: Any = None
    names: list[str] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)


def outside(text: str) -> pc.Filter[Any]:
    return pc.Filter.from_json({"format": 1, "filter": text})


def cost(text: str) -> Amount:
    """For events of a class that is known."""
    types = {part.name: part.type for cls in (Order, Item) for part in describe(cls).attributes}
    return cost_of(parse(text), fields=types.get)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("any(any(a == b for b in event.names) for a in event.names)", "any()"),
        ("all(a in event.names for a in event.names)", "all()"),
        ("any(max(event.names) == a for a in event.names)", "any()"),
        ("any(a + event.s == 'x' for a in event.names)", "any()"),
        ("event.s.encode('punycode') == b''", "encode()"),
        ("event.exact.from_number(event.n) == 1", "from_number()"),
        ("event.s.encode('idna') == b''", "encode()"),
        ("event.s.encode(event.codec) == b''", "encode()"),
        ("event.s.encode('ascii', 'namereplace') == b''", "encode()"),
        ("event.s.decode('unicode_escape') == ''", "decode()"),
        ("'%2000000000d' % event.n == ''", "%"),
        ("event.s.rfind(event.t) > 3", "rfind()"),
        ("event.s.rsplit(event.t) == []", "rsplit()"),
        ("event.s.strip(event.t) == ''", "strip()"),
        ("event.s.lstrip(event.s) == ''", "lstrip()"),
        ("event.s.lower().rstrip(event.s) == ''", "rstrip()"),
        ("event.d.strftime('%0999999999d') == ''", "strftime()"),
        ("event.d.sqrt() > 3", "sqrt()"),
        ("event.s.expandtabs(99999) == ''", "expandtabs()"),
        ("reach(event.names, 'sort')", "sort()"),
        ("xpath.holds(event, '//a[//b]')", "the XPath"),
        ("xpath.holds(event, '//a[count(//b) > 1]')", "the XPath"),
    ],
)
def test_what_grows_faster_than_the_event_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(pc.FilterTooCostlyError) as refused:
        outside(text)
    assert refused.value.what.startswith(named)
    assert refused.value.accepted in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        *("event.s * event.n == 'ss'", "event.n * event.s == 'ss'", "event.names * event.n == []"),
        *(
            "event.s * len(event.s) == ''",
            "event.anything * event.n > 3",
            "event.s % event.n == ''",
        ),
        *(
            "event.anything % 2 == 1",
            "(event.s + event.s) * event.n == ''",
            "event.names[0] * event.n",
        ),
        "any(each.tags * event.n for each in event.items)",
    ],
)
def test_what_repeats_or_formats_is_refused_where_the_class_is_known(text: str) -> None:
    with pytest.raises(pc.FilterTooCostlyError, match=r"^[*%] in a filter"):
        cost(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "event.n % 2 == 1",
            "event.price * event.n > 10",
            "event.exact * 3 > 10",
            "event.s * 3 == ''",
        ),
        *("event.price * 1.0 * event.n > 3", "(event.anything - 0) % 2 == 1"),
        *("any(each.price * 2 > 3 for each in event.items)", "event.n / 3 * event.n > 5"),
        *("any(any(tag == event.s for tag in each.tags) for each in event.items)", "-event.n % 7"),
        *("any(each == event.s for each in event.names)", "event.s.lower() in ('a', 'b')"),
        *("event.s.encode() == b's'", "event.s.encode('utf-8') == b's'", "event.s.rfind('x') > 2"),
        "any('new' in each.tags for each in event.items)",
    ],
)
def test_what_is_ordinary_has_a_bound(text: str) -> None:
    assert cost(text).at(1_000) < 200_000


@pytest.mark.parametrize(
    "question", ["line.shade == 3", "line.shade in ('a', 'b', 'c', 'd', 'e', 'f')"]
)
def test_comparing_with_a_few_short_constants_takes_a_few_steps(question: str) -> None:
    assert cost(f"any({question} for line in event.items)").at(4_000) < 4_000 * 30


def test_comparing_with_a_container_takes_as_many_steps_as_that_is_long() -> None:
    assert cost("event.items == [[1, 2], [3, 4]]").constant > 10


def test_what_asks_for_an_element_of_an_element_is_linear() -> None:
    found = cost("any(any(tag == 'new' for tag in each.tags) for each in event.items)")
    assert not found.square
    assert found.at(2_000_000) < 2.1 * found.at(1_000_000)


def test_long_numbers_are_bounded_by_the_square_of_the_event() -> None:
    assert cost("event.n % event.n == 0").at(10_000_000) > 1e9
    assert cost("event.n % 7 == 0").at(10_000_000) < 1e8


# -- nothing is left out ---------------------------------------------------------------------------


class Shade(enum.Enum):
    RED = 1


VALUES = (
    *("", b"", 0, 0.0, True, None, [], (), {}, set(), frozenset(), Shade.RED, decimal.Decimal(1)),
    *(
        datetime.date(2026, 1, 1),
        datetime.time(),
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    ),
    *(datetime.timedelta(1), datetime.UTC, uuid.UUID(int=0), {}.keys(), {}.values(), {}.items()),
    1j,
)


@pytest.mark.parametrize("value", VALUES, ids=lambda each: type(each).__name__)
def test_every_method_of_a_value_is_judged(value: object) -> None:
    found = {
        name
        for name in dir(value)
        if not name.startswith("__") and callable(getattr(value, name, None))
    }
    assert found <= METHODS.keys() | REFUSED.keys() | {"RED"}


def test_no_method_is_judged_twice() -> None:
    assert not METHODS.keys() & REFUSED.keys()


def test_every_function_of_a_language_is_judged() -> None:
    for language in languages().values():
        assert language.functions.keys() == language.costs.keys()


@pytest.mark.parametrize("sign", [*ARITHMETIC, *COMPARISONS])
def test_every_operator_is_judged(sign: str) -> None:
    right = 3 if sign in ("**", "<<") else "event.n"
    assert cost(f"event.n {sign} {right}").constant > 0


@pytest.mark.parametrize(
    "text", [*(f"{sign}event.n" for sign in SIGNS), *(f"{f}(event.s)" for f in BUILTINS)]
)
def test_every_sign_and_function_is_judged(text: str) -> None:
    assert cost(text).constant > 0


def test_a_kind_of_node_that_nobody_has_judged_is_refused() -> None:
    class Planted(Node):
        pass

    with pytest.raises(pc.FilterTooCostlyError, match="Planted"):
        cost_of(Planted())


@pytest.mark.parametrize(
    "text",
    [
        "event.s == 'x' and event.n > 3 or not event.price < 2.5",
        "event.n in [1, 2, 3]",
        "event.s < event.t",
    ],
)
def test_comparing_fields_is_plain_and_costs_little(text: str) -> None:
    tree = parse(text)
    assert is_plain(tree)
    assert cost_of(tree).at(4_096) < 100_000


@pytest.mark.parametrize(
    "text",
    [
        "event.s * 3 == 'xxx'",
        "event.s.lower() == 'x'",
        "any(each > 3 for each in event.names)",
        " and ".join(f"event.n != {number}" for number in range(50)),
        f"event.s in {list(range(10_000))}",
        f"event.s == {'x' * 5_000!r}",
    ],
)
def test_what_computes_or_is_long_is_judged_part_by_part(text: str) -> None:
    assert not is_plain(parse(text))


def test_a_field_is_judged_by_all_that_classes_declare_it_as() -> None:
    types = {"n": expression_of(int), "s": expression_of(str), "x": expression_of(float)}
    either = {**types, "x": expression_of(float | str)}
    tree = parse("event.x * event.n > 3")
    assert cost_of(tree, fields=types.get).at(1_000) < 10_000
    with pytest.raises(pc.FilterTooCostlyError, match="a text or list times a number"):
        cost_of(tree, fields=either.get)
