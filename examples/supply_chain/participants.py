"""Who takes part: supermarkets, distribution centres, suppliers and headquarters."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal

from supply_chain.events import Address, Family, Region

ROLES = {
    "SM": "supermarkets",
    "DC": "distribution centres",
    "SP": "suppliers",
    "HQ": "headquarters",
}
CITIES = {
    Region.NORTH: ("Hamburg", "Aarhus", "Malmö"),
    Region.EAST: ("Leipzig", "Kraków", "Brno"),
    Region.SOUTH: ("Milano", "Lyon", "Genève"),
    Region.WEST: ("Gent", "Rotterdam", "Köln"),
}
COUNTRIES = {
    "DE": ("Hamburg", "Leipzig", "Köln"),
    "DK": ("Aarhus",),
    "SE": ("Malmö",),
    "PL": ("Kraków",),
    "CZ": ("Brno",),
    "IT": ("Milano",),
    "FR": ("Lyon",),
    "CH": ("Genève",),
    "BE": ("Gent",),
    "NL": ("Rotterdam",),
}
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


@dataclass(frozen=True, slots=True)
class Product:
    number: int
    family: Family
    price: Decimal


class World:
    """All participants and products. The same seed and size give the same world, everywhere."""

    def __init__(self, seed: int, subscriptions: int) -> None:
        draw = random.Random(f"{seed} world")
        markets = max(4, subscriptions // 20)
        centres = [_made(draw, "DC", n) for n in range(1, max(4, markets // 8) + 1)]
        self.centres = centres
        self.suppliers = [
            _made(draw, "SP", n) for n in range(1, max(len(FAMILIES), markets // 3) + 1)
        ]
        self.offices = [_made(draw, "HQ", n) for n in range(1, len(REGIONS) + 1)]
        self.markets = [_market(draw, n, centres) for n in range(1, markets + 1)]
        self.by_name = {each.name: each for each in self.everybody()}
        self.products = [
            Product(100 * f + n, family, Decimal(draw.randrange(49, 4_000)) / 100)
            for f, family in enumerate(FAMILIES, 1)
            for n in range(PRODUCTS_IN_A_FAMILY)
        ]
        self.sold_by = {
            family: [each for each in self.suppliers if family in each.families]
            for family in FAMILIES
        }

    def everybody(self) -> list[Participant]:
        return [*self.markets, *self.centres, *self.suppliers, *self.offices]


def _made(draw: random.Random, role: str, number: int, partner: str = "") -> Participant:
    region = REGIONS[(number - 1) % len(REGIONS)]
    city = draw.choice(CITIES[region])
    code = str(draw.randrange(10_000, 99_999))
    country = next(each for each, cities in COUNTRIES.items() if city in cities)
    address = Address(f"Street {draw.randrange(1, 200)}", city, code, country)
    # Everything that is sold has a supplier: they take turns with their first family.
    first = FAMILIES[(number - 1) % len(FAMILIES)]
    others = draw.sample([each for each in FAMILIES if each is not first], 2)
    return Participant(f"{role}-{number}", role, region, address, (first, *others), partner)


def _market(draw: random.Random, number: int, centres: list[Participant]) -> Participant:
    """A supermarket orders from a centre of its own region."""
    region = REGIONS[(number - 1) % len(REGIONS)]
    near = [each.name for each in centres if each.region is region]
    return _made(draw, "SM", number, near[(number - 1) // len(REGIONS) % len(near)])
