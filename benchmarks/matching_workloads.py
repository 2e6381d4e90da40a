"""What the peers publish figures of, generated in the same shape, and ready10.

event-ruler and Quamina publish figures of San Francisco's city lots, with a handful of rules of one
kind; hypermatch of many rules, ten of which match each event. Everything comes from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, get_args, get_type_hints

import matching_rules
import msgspec
import ready10
from matching_rules import Ends, Has, Is, IsNot, Like, Rule, Starts, Within
from ready10 import Quote10

EVENTS = 10_000


@dataclass(frozen=True, slots=True)
class Workload:
    """The same rules and events for all contenders."""

    kind: type  # of the events
    rules: list[Rule]
    events: list[bytes]  # JSON


def reduced(kind: type, paths: Sequence[str]) -> type:
    """A Struct with only the attributes that these paths go through."""
    hints, below = get_type_hints(kind), dict[str, list[str]]()
    for path in paths:
        name, _, rest = path.partition(".")
        below.setdefault(name.replace("[]", ""), []).append(rest)
    fields = [(name, _reduced(hints[name], rests)) for name, rests in below.items()]
    return msgspec.defstruct(kind.__name__, fields)


def _reduced(hint: Any, rests: list[str]) -> Any:
    if not all(rests):
        return hint
    if get_args(hint):
        return list[reduced(get_args(hint)[0], rests)]  # type: ignore[misc]
    return reduced(hint, rests)


# -- city lots -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Point:
    x: float
    y: float
    z: float


@dataclass(slots=True)
class Geometry:
    type: str
    firstCoordinates: Point  # noqa: N815 - as the records have it
    coordinates: list[Point]


@dataclass(slots=True)
class Rings:
    """How the older file has the coordinates: numbers in arrays in arrays."""

    type: str
    coordinates: list[list[list[float]]]


@dataclass(slots=True)
class Properties:
    MAPBLKLOT: str
    BLKLOT: str
    BLOCK_NUM: str
    LOT_NUM: str
    FROM_ST: str
    TO_ST: str
    STREET: str
    ST_TYPE: str
    ODD_EVEN: str


@dataclass(slots=True)
class Lot:
    type: str
    properties: Properties
    geometry: Geometry


@dataclass(slots=True)
class RingedLot:
    type: str
    properties: Properties
    geometry: Rings


def _streets() -> tuple[str, ...]:
    draw = random.Random(300)
    begin = ("AL", "BEL", "CA", "DEL", "EL", "FUL", "GRE", "HAR", "IR", "JEF", "LE", "MA", "NE")
    middle = ("", "", "FE", "LE", "MO", "PE", "RI", "TE", "VE")
    end = ("DERE", "FORD", "GO", "ING", "KE", "MM", "NE", "ON", "SON", "TON", "WOOD")
    every = {
        a + b + c for a in (*begin, "OR", "PO", "RH", "SAN", "UN") for b in middle for c in end
    }
    return tuple(draw.sample(sorted(every), 300))


STREETS = _streets()
TYPES = ("ST", "ST", "ST", "ST", "AVE", "AVE", "DR", "WAY", "CT")


def lots(count: int, *, seed: int = 1) -> list[Lot]:
    """Records like those of the city, of about 900 bytes each."""
    draw = random.Random(seed)
    return [_lot(draw) for _ in range(count)]


def _lot(draw: random.Random) -> Lot:
    block, lot = f"{draw.randrange(7_000):04}", f"{draw.randrange(150):03}"
    number = draw.randrange(1, 3_000)
    corners = [_point(draw) for _ in range(draw.randint(7, 24))]
    return Lot(
        "Feature",
        Properties(
            MAPBLKLOT=block + lot,
            BLKLOT=block + lot,
            BLOCK_NUM=block,
            LOT_NUM=lot,
            FROM_ST=str(number),
            TO_ST=str(number + draw.randrange(8)),
            STREET=STREETS[min(draw.randrange(300), draw.randrange(300))],
            ST_TYPE=draw.choice(TYPES),
            ODD_EVEN="OE"[number % 2 == 0],
        ),
        Geometry("Polygon" if draw.random() < 0.99 else "MultiPolygon", corners[0], corners),
    )


def _point(draw: random.Random) -> Point:
    x, y = draw.gauss(-122.43, 0.03), draw.gauss(37.76, 0.02)
    return Point(round(x, DECIMALS), round(y, DECIMALS), 0.0)


DECIMALS = 6  # of which event-ruler is sure


def _ringed(lot: Lot) -> RingedLot:
    ring = [[point.x, point.y, point.z] for point in lot.geometry.coordinates]
    return RingedLot(lot.type, lot.properties, Rings(lot.geometry.type, [ring]))


def _numeric(where: str, first: Lot) -> list[Rule]:
    """The five rules with numbers, at the first point or at any."""
    kind, x = "geometry.type", f"geometry.{where}.x"
    point = first.geometry.firstCoordinates
    return [
        ((kind, Is(("Polygon",))), (x, Is((point.x,)))),
        ((kind, Is(("MultiPolygon",))), (f"geometry.{where}.z", Is((0.0,)))),
        ((x, Within(None, -122.416)),),
        ((x, Within(-122.416, None, strictly=True)),),
        ((x, Within(-122.464, -122.406, strictly=True)),),
    ]


def _city_rules(sample: list[Lot]) -> dict[str, list[Rule]]:
    """The kinds of rules that event-ruler publishes figures of: five of each."""
    block, street = "properties.MAPBLKLOT", "properties.STREET"
    return {
        "EXACT": [((block, Is((lot.properties.MAPBLKLOT,))),) for lot in sample[:5]],
        "PREFIX": [((street, Starts(each)),) for each in ("AL", "BE", "DE", "FU", "RH")],
        "SUFFIX": [((street, Ends(each)),) for each in ("ON", "KE", "MM", "ING", "GO")],
        "ANYTHING-BUT": [
            ((street, IsNot((STREETS[0],))),),
            ((street, IsNot((STREETS[1],))),),
            (("properties.ST_TYPE", IsNot(("ST",))),),
            (("geometry.type", IsNot(("Polygon",))),),
            (("properties.FROM_ST", IsNot(("441",))),),
        ],
        "NUMERIC": _numeric("firstCoordinates", sample[0]),
        "COMPLEX": _numeric("coordinates[]", sample[0]),
    }


def city(kind: str, _size: int, *, count: int = EVENTS) -> Workload:
    """City lots and the rules of one kind, or of all but COMPLEX, as event-ruler combines them."""
    records = lots(count)
    kinds = _city_rules(records)
    combined = [rule for name in kinds if name not in ("COMPLEX", "SUFFIX") for rule in kinds[name]]
    rules = combined if kind == "COMBO" else kinds[kind]
    return Workload(Lot, rules, [msgspec.json.encode(each) for each in records])


def quamina_lots(_size: int, *, count: int = EVENTS) -> Workload:
    """Quamina's own four patterns on city lots."""
    records = [_ringed(each) for each in lots(count)]
    street, numbers = "properties.STREET", "geometry.coordinates[][][]"
    lot = records[0].properties.MAPBLKLOT
    y = records[0].geometry.coordinates[0][0][1]
    rules: list[Rule] = [
        ((street, Is((STREETS[0],))),),
        ((street, Is((STREETS[1],))), ("properties.ODD_EVEN", Is(("E",)))),
        ((numbers, Is((y,))),),
        (
            ("properties.MAPBLKLOT", Is((lot,))),
            ("properties.BLKLOT", Is((lot,))),
            (numbers, Is((y,))),
        ),
    ]
    return Workload(RingedLot, rules, [msgspec.json.encode(each) for each in records])


def letters(_size: int, *, count: int = EVENTS) -> Workload:
    """Quamina's patterns with stars: a letter each, `N*P*` and `*E*E*E*`."""
    asked = [Like((letter, "")) for letter in map(chr, range(ord("A"), ord("Z") + 1))]
    asked += [Like(("N", "P", "")), Like(("", "E", "E", "E", ""))]
    rules: list[Rule] = [(("properties.STREET", each),) for each in asked]
    return Workload(RingedLot, rules, [msgspec.json.encode(_ringed(each)) for each in lots(count)])


# -- hypermatch's rules ----------------------------------------------------------------------------


@dataclass(slots=True)
class Alert:
    name: str
    env: str
    number: str
    tags: list[str]
    region: str
    type: str


def alerts(size: int, *, wildcard: bool, count: int = EVENTS) -> Workload:
    """So many rules that differ by a number, which ten of them share; as hypermatch compares."""
    numbers, draw = max(size // 10, 1), random.Random(1)
    named: Rule = (("name", Like(("", "-myapp-", ""))),) if wildcard else ()
    rules = [
        (
            *named,
            ("env", Is(("prod",))),
            ("number", Is((str(each % numbers),))),
            ("tags[]", Has(("tag1", "tag2"))),
            ("region", IsNot(("moon",))),
            ("type", Is(("app", "database"))),
        )
        for each in range(size)
    ]
    tags = ["tag1", "tag2"]
    events = [
        Alert(f"app-myapp-{n}", "prod", str(draw.randrange(numbers)), tags, "earth", "app")
        for n in range(count)
    ]
    return Workload(Alert, rules, [msgspec.json.encode(each) for each in events])


# -- ready10 ---------------------------------------------------------------------------------------


def quotes(size: int, *, count: int = EVENTS) -> Workload:
    """ready10 as it is, at its usual rate of matches."""
    return _of_ready10(ready10.subscriptions(size), count)


def quotes_without_ranges(size: int, *, count: int = EVENTS) -> Workload:
    """Those subscriptions of ready10 that have only `==`, `in` and prefixes."""
    mix = ready10.Mix("without ranges", 0.0, narrowest=0.001, widest=0.3, exact=1.0)
    endless = ready10.drawn(mix, seed=2)
    kept = (each for each in endless if not any(isinstance(p, ready10.Range) for p in each))
    return _of_ready10(list(islice(kept, size)), count)


def _of_ready10(wanted: list[ready10.Subscription], count: int) -> Workload:
    events = ready10.events(count)
    random.Random(5).shuffle(events)  # they come in the order of `seq`
    rules = [_cut(matching_rules.of_ready10(each)) for each in wanted]
    return Workload(Quote10, rules, [msgspec.json.encode(_rounded(each)) for each in events])


def _rounded(event: Quote10) -> Quote10:
    for name in ready10.DOUBLES:
        setattr(event, name, round(getattr(event, name), DECIMALS))
    return event


def _cut(rule: Rule) -> Rule:
    """Bounds with as many decimals as the events have, so that all contenders compare the same."""
    return tuple(
        (
            path,
            Within(_short(asked.low), _short(asked.high)) if isinstance(asked, Within) else asked,
        )
        for path, asked in rule
    )


def _short(bound: float | None) -> float | None:
    return round(bound, DECIMALS) if isinstance(bound, float) else bound


# -- all of them -----------------------------------------------------------------------------------

SIZES = (1_000, 10_000, 100_000)
CITY = ("EXACT", "PREFIX", "SUFFIX", "ANYTHING-BUT", "NUMERIC", "COMPLEX", "COMBO")
SMALL: dict[str, Callable[..., Workload]] = {
    **{f"city lots, {kind}": partial(city, kind) for kind in CITY},
    "city lots, Quamina's four": quamina_lots,
    "city lots, letters": letters,
}
GROWING: dict[str, Callable[..., Workload]] = {
    "alerts": partial(alerts, wildcard=False),
    "alerts with a wildcard": partial(alerts, wildcard=True),
    "ready10": quotes,
    "ready10 without ranges": quotes_without_ranges,
}
WORKLOADS = SMALL | GROWING
