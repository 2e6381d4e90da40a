"""Who wants what: the subscriptions of each participant, as a programmer would write them.

Each names the types of its own party, and its filters are about what it sees itself: a price is in
dollars in the US, and a distance is in miles. Limits of distances, weights and sizes lie between
the values that there are, so that nobody's rounding decides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from supply_chain.events import PERISHABLE, Event, Urgency, is_risky
from supply_chain.participants import FAMILIES, Participant, World
from supply_chain.parties import type_of

Question = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Wish:
    """One subscription: whose, to what, with which filter, and in words."""

    name: str
    owner: str
    party: str
    kind: str
    where: Question | None
    words: str

    @property
    def type(self) -> type[Event]:
        """What the owner's party calls it."""
        return type_of(self.party, self.kind)

    @property
    def role(self) -> str:
        return self.owner.partition("-")[0]


Drawn = tuple[str, str, Question | None, str]  # a wish without its owner


def wishes(world: World, seed: int, count: int) -> list[Wish]:
    """So many, the same for the same seed: first what everybody needs, then what some want."""
    found = list(islice(_all(world, seed), count))
    if len(found) < count:
        raise ValueError(f"there are {len(found)} wishes in a world of this size, not {count}")
    return found


def _all(world: World, seed: int) -> Iterator[Wish]:
    draw = random.Random(f"{seed} wishes")
    auditor = ("HQ-1", "hq")
    yield Wish("auditor/everything", *auditor, "Event", None, "every event there is")
    yield Wish("auditor/risky", *auditor, "Invoice", is_risky, "a function of its own says so")
    rounds = {"SM": _market, "DC": _centre, "SP": _supplier, "HQ": _office}
    waiting = [(each, rounds[each.role](draw, each)) for each in world.everybody()]
    while waiting:
        for pair in list(waiting):
            owner, drawn = pair
            wish = next(drawn, None)
            if wish is None:
                waiting.remove(pair)
            else:
                yield _owned(owner, wish)


def _owned(owner: Participant, wish: Drawn) -> Wish:
    name, kind, where, words = wish
    return Wish(f"{owner.name}/{name}", owner.name, owner.party, kind, where, words)


# -- supermarkets ----------------------------------------------------------------------------------


def _market(draw: random.Random, me: Participant) -> Iterator[Drawn]:
    name, region, city = me.name, me.region, me.address.city
    first, second, third = me.families
    low, part = draw.randrange(20, 60), Decimal(draw.randrange(8, 20)) / 100
    far, late = draw.randrange(100, 300) + 0.25, draw.randrange(2, 6)
    heavy = draw.randrange(200, 500) + 0.005
    severity = draw.choice((1, 2))
    yield (
        "confirmations",
        "OrderConfirmation",
        lambda c: c.receiver == name,
        "what the distribution centre confirms to us",
    )
    yield (
        "shipments",
        "ShipmentDeparture",
        lambda s: s.receiver == name,
        "what is on its way to us",
    )
    yield (
        "prices",
        "PriceUpdate",
        lambda p: p.family in (first, second, third),
        "prices of what we sell, in our money",
    )
    yield (
        "on the road",
        "ShipmentInformation",
        lambda s: any(item.family == first for item in s.items),
        "who else gets what we sell most, anywhere",
    )
    yield (
        "low stock",
        "InventoryMovement",
        lambda i: i.sender == name and i.left < low,
        "our shelves that run empty",
    )
    yield (
        "news",
        "ProductAnnouncement",
        lambda a: a.family == first,
        "new products in our main family",
    )
    yield (
        "cards",
        "CardHotList",
        lambda h: h.severity > severity,
        "the worst of the credit cards not to be taken",
    )
    yield (
        "bargains",
        "PriceUpdate",
        lambda p: p.family == first and p.change < -part,
        "prices that fall by much: a property of the class is asked",
    )
    yield (
        "best sellers nearby",
        "SalesStatistics",
        lambda s: s.region == region and s.family in (first, second, third) and s.units > 2,
        "what sells well in our region",
    )
    yield (
        "late",
        "ShipmentConfirmation",
        lambda s: s.region == region and s.hours_late > late,
        "late lorries in our region",
    )
    yield (
        "neighbours",
        "Order",
        (lambda o: city in o.deliver_to.lines and o.sender != name)
        if me.party == "uk"
        else (lambda o: o.deliver_to.city == city and o.sender != name),
        "what others order in our city, wherever our addresses have that",
    )
    yield (
        "big deliveries",
        "ShipmentDeparture",
        lambda s: s.receiver == name and any(item.quantity > 40 for item in s.items),
        "lorries with much of one thing",
    )
    yield (
        "dear sales",
        "SalesStatistics",
        lambda s: s.sender == name and s.revenue.amount > 500,
        "our own sales of much money",
    )
    yield "to us", "Event", lambda e: e.receiver == name, "whatever is addressed to us"
    yield (
        "far away",
        "ShipmentInformation",
        lambda s: s.receiver == name and s.distance > far,
        "what comes from far away, in our miles or kilometres",
    )
    yield (
        "heavy",
        "ShipmentInformation",
        lambda s: s.region == region and s.weight() > heavy,
        "heavy lorries in our region: a method of our class adds up our pounds or kilograms",
    )
    yield from _watches(draw, me)


# -- distribution centres --------------------------------------------------------------------------


def _centre(draw: random.Random, me: Participant) -> Iterator[Drawn]:
    name, region = me.name, me.region
    first = me.families[0]
    size, cheap = draw.randrange(60, 120), Decimal(draw.randrange(200, 900))
    yield "orders", "Order", lambda o: o.receiver == name, "what supermarkets order from us"
    yield "offers", "Offer", lambda o: o.receiver == name, "what suppliers offer to us"
    yield (
        "arrivals",
        "ShipmentConfirmation",
        lambda s: s.receiver == name,
        "what has arrived at supermarkets",
    )
    yield (
        "urgent",
        "Order",
        lambda o: o.receiver == name and o.urgency == Urgency.NOW,
        "orders that cannot wait",
    )
    yield (
        "perishable",
        "Order",
        lambda o: o.receiver == name and any(line.family in PERISHABLE for line in o.lines),
        "orders with something that spoils",
    )
    yield (
        "large",
        "Order",
        lambda o: o.receiver == name and o.units() > size,
        "large orders: a method of the class is asked",
    )
    yield (
        "cheap offers",
        "Offer",
        lambda o: o.receiver == name and o.total.amount < cheap,
        "offers below a limit",
    )
    yield (
        "empty shelves",
        "InventoryMovement",
        lambda i: i.region == region and i.family == first and i.left == 0,
        "what the supermarkets of the region have run out of",
    )
    yield "region", "OrderEvent", lambda e: e.region == region, "all about orders in our region"
    yield "ours", "OrderEvent", lambda e: e.sender == name, "a record of what we said ourselves"
    yield from _watches(draw, me)


# -- suppliers -------------------------------------------------------------------------------------


def _supplier(draw: random.Random, me: Participant) -> Iterator[Drawn]:
    name, region = me.name, me.region
    first, second, third = me.families
    many, size = draw.randrange(2, 20), draw.randrange(10, 20) + 0.5
    size = size / 100 if me.party == "uk" else size  # it has the reference type, in metres
    yield (
        "calls",
        "CallForOffers",
        lambda c: c.family in (first, second, third),
        "calls for offers on what we make",
    )
    yield "purchases", "PurchaseOrder", lambda p: p.receiver == name, "what is bought from us"
    yield (
        "market",
        "SalesStatistics",
        lambda s: s.family in (first, second) and s.units > 4,
        "how our products sell",
    )
    yield (
        "home market",
        "SalesStatistics",
        lambda s: s.family in (first, second, third) and s.region == region,
        "how they sell in our region",
    )
    yield (
        "prices",
        "PriceUpdate",
        lambda p: p.family in (first, second),
        "what our products cost",
    )
    yield (
        "rivals",
        "Offer",
        lambda o: o.family == first and o.sender != name,
        "what others offer",
    )
    yield (
        "goods",
        "ShipmentInformation",
        lambda s: any(item.family in (first, second) for item in s.items),
        "our products on the road",
    )
    yield (
        "voyages",
        "PurchaseShipment",
        lambda s: s.sender == name and s.distance > 1_000.25,
        "what we send far",
    )
    yield (
        "domestic",
        "CallForOffers",
        lambda c: c.family == first and c.region == region,
        "calls from our own region",
    )
    yield (
        "everything of ours",
        "Event",
        lambda e: e.sender == name or e.receiver == name,
        "any event from us or to us",
    )
    yield (
        "new and flat",
        "ProductAnnouncement",
        lambda a: any(product.spec.height < size for product in a.products),
        "new products that are not high, in our inches, centimetres or metres",
    )
    yield (
        "stock",
        "InventoryMovement",
        lambda i: i.family in (first, second) and any(x.quantity > many for x in i.items),
        "much of our products leaving a shelf",
    )
    yield from _watches(draw, me)


# -- headquarters ----------------------------------------------------------------------------------


def _office(draw: random.Random, me: Participant) -> Iterator[Drawn]:
    name, region = me.name, me.region
    large = Decimal(draw.randrange(3_000, 6_000))
    yield "statistics", "Statistics", lambda s: s.receiver == name, "the numbers of our region"
    yield "invoices", "Invoice", lambda i: i.receiver == name, "what we have to pay"
    yield (
        "orders of the region",
        "Order",
        lambda o: o.region == region and o.value() > large,
        "orders of much money",
    )
    yield "notices", "Notice", lambda n: n.sender != name, "what other headquarters announce"
    yield (
        "purchases",
        "PurchaseEvent",
        lambda p: p.region == region,
        "all about purchases of our region",
    )
    yield (
        "order statistics",
        "OrderStatistics",
        lambda s: s.region == region and s.revenue.amount > large,
        "orders of much money, counted",
    )
    yield "lateness", "ShipmentConfirmation", lambda s: s.hours_late > 5, "very late shipments"
    for family in FAMILIES:
        yield _sales_of(family, region)
    yield from _watches(draw, me)


def _sales_of(family: Any, region: Any) -> Drawn:
    return (
        f"sales of {family.value}",
        "SalesStatistics",
        lambda s: s.family == family and s.region == region,
        "the sales of one family in the region",
    )


# -- anybody ---------------------------------------------------------------------------------------


def _watches(draw: random.Random, me: Participant) -> Iterator[Drawn]:
    """Whatever else somebody wants to keep an eye on."""
    for number in range(1, 100):
        found = watch(draw, me, f"watch-{number}")
        yield f"watch-{number}", found.kind, found.where, found.words


def watch(draw: random.Random, me: Participant, name: str) -> Wish:
    """Something that somebody wants to be told."""
    family, region, units = draw.choice(FAMILIES), me.region, draw.randrange(5, 20)
    limit = Decimal(draw.randrange(50, 300))
    choices: list[tuple[str, Question, str]] = [
        (
            "SalesStatistics",
            lambda s: s.family == family and s.region == region and s.units > units,
            f"much {family.value} sold at once in the region",
        ),
        (
            "SalesStatistics",
            lambda s: s.family == family and s.revenue.amount > limit,
            f"sales of {family.value} for more than {limit}",
        ),
        (
            "InventoryMovement",
            lambda i: i.family == family and i.left < 6 * units,
            f"{family.value} running out somewhere",
        ),
        (
            "Order",
            lambda o: o.region == region and any(line.family == family for line in o.lines),
            f"orders with {family.value} in the region",
        ),
        (
            "PriceUpdate",
            lambda p: p.family == family and p.price.amount < limit / 50,
            f"cheap {family.value}",
        ),
    ]
    kind, where, words = draw.choice(choices)
    return Wish(f"{me.name}/{name}", me.name, me.party, kind, where, words)
