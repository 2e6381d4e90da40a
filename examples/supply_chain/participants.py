"""Who takes part: supermarkets, distribution centres, suppliers and headquarters."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal

from supply_chain.events import Address, Family, Region, Specification

ROLES = {
    "SM": "supermarkets",
    "DC": "distribution centres",
    "SP": "suppliers",
    "HQ": "headquarters",
}
# A city, its country, the state if there are states, and how its postal codes begin.
CITIES = {
    Region.EU_NORTH: (
        ("Hamburg", "DE", None, "20"),
        ("Aarhus", "DK", None, "80"),
        ("Rotterdam", "NL", None, "30"),
    ),
    Region.EU_SOUTH: (
        ("Milano", "IT", None, "201"),
        ("Lyon", "FR", None, "690"),
        ("Valencia", "ES", None, "460"),
    ),
    Region.US_EAST: (
        ("Boston", "USA", "MA", "021"),
        ("New York", "USA", "NY", "100"),
        ("Atlanta", "USA", "GA", "303"),
    ),
    Region.US_WEST: (
        ("Seattle", "USA", "WA", "981"),
        ("San Diego", "USA", "CA", "921"),
        ("Denver", "USA", "CO", "802"),
    ),
    Region.UK: (
        ("Leeds", "UK", None, "LS1 "),
        ("Bristol", "UK", None, "BS2 "),
        ("Milton Keynes", "UK", None, "MK9 "),
    ),
}
STREETS = ("Harbour Street", "Station Road", "Market Square", "Mill Lane", "Long Acre")
FAMILIES = tuple(Family)
REGIONS = tuple(Region)
PRODUCTS_IN_A_FAMILY = 20


@dataclass(frozen=True, slots=True)
class Participant:
    """One of them; `partner` is the distribution centre that a supermarket orders from."""

    name: str
    role: str
    region: Region
    address: Address
    families: tuple[Family, ...]
    partner: str = ""

    @property
    def party(self) -> str:
        """In whose types it thinks."""
        return "hq" if self.role == "HQ" else self.region.value[:2]


@dataclass(frozen=True, slots=True)
class Product:
    number: int
    family: Family
    price: Decimal
    spec: Specification


class World:
    """All participants and products. The same seed and size give the same world, everywhere."""

    def __init__(self, seed: int, subscriptions: int) -> None:
        draw = random.Random(f"{seed} world")
        markets = max(len(REGIONS), subscriptions // 20)
        centres = [_made(draw, "DC", n) for n in range(1, max(len(REGIONS), markets // 8) + 1)]
        self.centres = centres
        self.suppliers = [
            _made(draw, "SP", n) for n in range(1, max(len(FAMILIES), markets // 3) + 1)
        ]
        self.offices = [_made(draw, "HQ", n) for n in range(1, len(REGIONS) + 1)]
        self.markets = [_market(draw, n, centres) for n in range(1, markets + 1)]
        self.by_name = {each.name: each for each in self.everybody()}
        self.products = [
            _product(draw, 100 * f + n, family)
            for f, family in enumerate(FAMILIES, 1)
            for n in range(PRODUCTS_IN_A_FAMILY)
        ]
        self.sold_by = {
            family: [supplier for supplier in self.suppliers if family in supplier.families]
            for family in FAMILIES
        }

    def everybody(self) -> list[Participant]:
        return [*self.markets, *self.centres, *self.suppliers, *self.offices]


def _product(draw: random.Random, number: int, family: Family) -> Product:
    price = Decimal(draw.randrange(49, 4_000)) / 100
    weight = draw.randrange(5, 900) / 100
    height, width, depth = (draw.randrange(4, 60) / 100 for _ in range(3))
    return Product(number, family, price, Specification(weight, height, width, depth))


def _made(draw: random.Random, role: str, number: int, partner: str = "") -> Participant:
    region = REGIONS[(number - 1) % len(REGIONS)]
    city, country, state, code = draw.choice(CITIES[region])
    # A British code is "LS1 4AB", a number elsewhere.
    rest = f"{draw.randrange(1, 10)}AB" if country == "UK" else f"{draw.randrange(100_000):05}"
    code = code + rest if country == "UK" else (code + rest)[:5]
    street = draw.choice(STREETS)
    address = Address(street, draw.randrange(1, 200), code, city, country, state)
    # Everything that is sold has a supplier: they take turns with their first family.
    first = FAMILIES[(number - 1) % len(FAMILIES)]
    others = draw.sample([each for each in FAMILIES if each is not first], 2)
    return Participant(f"{role}-{number}", role, region, address, (first, *others), partner)


def _market(draw: random.Random, number: int, centres: list[Participant]) -> Participant:
    """A supermarket orders from a centre of its own region."""
    region = REGIONS[(number - 1) % len(REGIONS)]
    near = [centre.name for centre in centres if centre.region is region]
    return _made(draw, "SM", number, near[(number - 1) // len(REGIONS) % len(near)])
