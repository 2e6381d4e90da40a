"""What happens: the same events in the same order for the same seed.

The interactions and how often each begins are those of a supply chain as it is used to measure
messaging: much is counted, orders come often, prices change now and then. An order is followed by
its confirmation and its shipment a little later, so conversations of many participants overlap.

The events here are of the reference types: they are what happens. Each participant writes them down
in its own types when it publishes them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from heapq import heappop, heappush
from itertools import count

from supply_chain.events import (
    CallForOffers,
    CardHotList,
    CashDesk,
    Event,
    Family,
    InventoryMovement,
    Invoice,
    Item,
    Line,
    Money,
    Offer,
    Order,
    OrderConfirmation,
    OrderStatistics,
    PriceUpdate,
    ProductAnnouncement,
    ProductDescription,
    PurchaseConfirmation,
    PurchaseOrder,
    PurchaseShipment,
    PurchaseShipmentConfirmation,
    SalesStatistics,
    ShipmentConfirmation,
    ShipmentDeparture,
    ShipmentInformation,
    ShipmentStatistics,
    Urgency,
)
from supply_chain.participants import Participant, Product, World

START = date(2025, 3, 3)
CENT = Decimal("0.01")
URGENCIES = [*[Urgency.NORMAL] * 80, *[Urgency.SOON] * 15, *[Urgency.NOW] * 5]
# How often each begins, relative to the others.
OFTEN = {"order": 23, "purchase": 6.4, "price": 6, "stock": 51, "sale": 120, "new": 5, "cards": 4}

Later = tuple[float, int, Callable[[], Event]]


class Workload:
    """An endless row of events. `now` says when one is made, which is when it is published."""

    def __init__(
        self, world: World, seed: int, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._world, self._now = world, now
        self._draw = random.Random(f"{seed} workload")
        self._number, self._tie = count(1), count()
        self._later: list[Later] = []  # by the time at which it happens

    def __iter__(self) -> Iterator[Event]:
        kinds, weights = list(OFTEN), list(OFTEN.values())
        begin = {
            "order": self._order,
            "purchase": self._purchase,
            "price": self._price,
            "stock": self._stock,
            "sale": self._sale,
            "new": self._announcement,
            "cards": self._hot_list,
        }
        time = 0.0
        while True:
            time += self._draw.expovariate(sum(weights))
            while self._later and self._later[0][0] <= time:
                yield heappop(self._later)[2]()
            first = begin[self._draw.choices(kinds, weights)[0]](time)
            if first is not None:
                yield first

    def _soon(self, time: float, event: Callable[[], Event]) -> None:
        heappush(self._later, (time, next(self._tie), event))

    # -- a supermarket orders from its distribution centre -----------------------------------------

    def _order(self, time: float) -> Event:
        draw, now = self._draw, self._now
        market = draw.choice(self._world.markets)
        centre = self._world.by_name[market.partner]
        order, chosen, region = next(self._number), self._chosen(), market.region
        lines, items = _lines(chosen), self._items(chosen)
        total = Money(_value(lines))
        days, distance = draw.randrange(1, 6), round(draw.uniform(4, 400), 1)
        lorry, late = f"L{draw.randrange(100, 400)}", max(0.0, round(draw.gauss(0, 2), 1))
        there = {**_between(market, centre), "region": region}
        back = {**_between(centre, market), "region": region}
        to = {"order": order, "deliver_to": market.address}

        def confirmation() -> Event:
            when = START + timedelta(days=days)
            return OrderConfirmation(
                **back, **to, sent=now(), lines=lines, total=total, expected=when
            )

        def statistics() -> Event:
            units, family = sum(line.quantity for line in lines), lines[0].family
            about = {"family": family, "units": units, "revenue": total, "order": order}
            office = _between(centre, self._office(market))
            return OrderStatistics(**office, region=region, sent=now(), **about)

        def departure() -> Event:
            return ShipmentDeparture(**back, sent=now(), order=order, lorry=lorry, items=items)

        def information() -> Event:
            about = {"items": items, "lorry": lorry, "distance": distance, "value": total}
            return ShipmentInformation(**back, **to, sent=now(), origin=centre.address, **about)

        def received() -> Event:
            about = {"order": order, "received": lines, "hours_late": late}
            return ShipmentConfirmation(**there, sent=now(), **about)

        following = (confirmation, statistics, departure, information, received)
        for delay, event in zip((1, 2, 3, 4, 6), following, strict=True):
            self._soon(time + delay * draw.uniform(0.5, 1.5), event)
        return Order(**there, **to, sent=now(), lines=lines, urgency=draw.choice(URGENCIES))

    # -- a distribution centre buys from suppliers -------------------------------------------------

    def _purchase(self, time: float) -> Event:
        draw, now = self._draw, self._now
        centre = draw.choice(self._world.centres)
        family, region = self._product().family, centre.region
        offering = self._world.sold_by[family]
        asked = draw.sample(offering, min(len(offering), draw.choice((2, 3))))
        chosen = self._chosen(family)
        lines, items = _lines(chosen), self._items(chosen)
        about = {"purchase": next(self._number), "family": family, "region": region}
        offers = [(round(draw.uniform(0.85, 1.2), 3), each) for each in asked]
        distance = round(draw.uniform(50, 9_000), 1)

        def offer(factor: float, supplier: Participant) -> Callable[[], Event]:
            priced = [_at_price(line, factor) for line in lines]
            until = START + timedelta(days=draw.randrange(3, 30))
            ending = {"lines": priced, "total": Money(_value(priced)), "valid_until": until}
            return lambda: Offer(**_between(supplier, centre), sent=now(), **about, **ending)

        for factor, supplier in offers:
            self._soon(time + draw.uniform(0.5, 1.5), offer(factor, supplier))
        factor, best = min(offers, key=lambda pair: pair[0])
        bought = [_at_price(line, factor) for line in lines]
        total, office = Money(_value(bought)), self._office(centre)
        there, back = _between(centre, best), _between(best, centre)
        to = {"deliver_to": centre.address, "bill_to": office.address}
        units = sum(item.quantity for item in items)

        def order() -> Event:
            return PurchaseOrder(**there, **about, **to, sent=now(), lines=bought)

        def confirmation() -> Event:
            return PurchaseConfirmation(**back, **about, sent=now(), lines=bought, total=total)

        def invoice() -> Event:
            ending = {"lines": bought, "total": total, "bill_to": office.address}
            return Invoice(**_between(best, office), **about, sent=now(), **ending)

        def shipment() -> Event:
            return PurchaseShipment(**back, **about, sent=now(), items=items, distance=distance)

        def received() -> Event:
            return PurchaseShipmentConfirmation(**there, **about, sent=now(), items=items)

        def statistics() -> Event:
            ending = {"family": family, "units": units, "items": items, "region": region}
            return ShipmentStatistics(**_between(centre, office), sent=now(), **ending)

        following = (order, confirmation, invoice, shipment, received, statistics)
        for delay, event in enumerate(following, 2):
            self._soon(time + delay + draw.random(), event)
        return CallForOffers(
            sender=centre.name,
            receiver="",
            sent=now(),
            lines=lines,
            deliver_to=centre.address,
            **about,
        )

    # -- what stands alone -------------------------------------------------------------------------

    def _price(self, time: float) -> Event:
        office, product = self._draw.choice(self._world.offices), self._product()
        price = (product.price * Decimal(f"{self._draw.uniform(0.7, 1.3):.3f}")).quantize(CENT)
        return PriceUpdate(
            **_from(office),
            sent=self._now(),
            product=product.number,
            family=product.family,
            before=Money(product.price),
            price=Money(price),
        )

    def _stock(self, time: float) -> Event:
        market, product = self._draw.choice(self._world.markets), self._product()
        return InventoryMovement(
            **_from(market),
            sent=self._now(),
            family=product.family,
            items=self._items([(product, self._draw.randrange(1, 40))]),
            left=self._draw.randrange(0, 200),
        )

    def _sale(self, time: float) -> Event:
        market, product = self._draw.choice(self._world.markets), self._product()
        units = 1 + int(self._draw.expovariate(0.12))
        first = self._draw.randrange(1, units + 1)
        desks = [
            CashDesk(self._draw.randrange(1, 9), part, Money(part * product.price))
            for part in (first, units - first)
            if part
        ]
        return SalesStatistics(
            **_between(market, self._office(market)),
            region=market.region,
            sent=self._now(),
            family=product.family,
            units=units,
            revenue=Money(units * product.price),
            cash_desks=desks,
        )

    def _announcement(self, time: float) -> Event:
        office, product = self._draw.choice(self._world.offices), self._product()
        name = f"{product.family.value} no. {product.number}"
        about = [ProductDescription(product.number, name, product.spec)]
        return ProductAnnouncement(
            **_from(office), sent=self._now(), products=about, family=product.family
        )

    def _hot_list(self, time: float) -> Event:
        office = self._draw.choice(self._world.offices)
        cards = [f"{self._draw.randrange(10**15, 10**16)}" for _ in range(3)]
        severity = self._draw.choice((1, 1, 1, 1, 2, 2, 2, 3, 3, 4))
        return CardHotList(**_from(office), sent=self._now(), cards=cards, severity=severity)

    # -- parts -------------------------------------------------------------------------------------

    def _product(self) -> Product:
        return self._draw.choice(self._world.products)

    def _chosen(self, family: Family | None = None) -> list[tuple[Product, int]]:
        """Products, and how many of each. Mostly few, sometimes many."""
        many = self._draw.choices((2, 6, 20), (0.95, 0.04, 0.01))[0]
        products = [p for p in self._world.products if family is None or p.family is family]
        some = self._draw.sample(products, min(len(products), many))
        return [(each, self._draw.randrange(1, 50)) for each in some]

    def _items(self, chosen: list[tuple[Product, int]]) -> list[Item]:
        tag = self._draw.randrange(16**8)
        return [
            Item(each.number, each.family, many, f"{tag + number:08x}", each.spec)
            for number, (each, many) in enumerate(chosen)
        ]

    def _office(self, participant: Participant) -> Participant:
        """The headquarters of a region."""
        offices = self._world.offices
        return next(office for office in offices if office.region is participant.region)


def _between(sender: Participant, receiver: Participant) -> dict[str, str]:
    return {"sender": sender.name, "receiver": receiver.name}


def _from(sender: Participant) -> dict[str, object]:
    """For whoever it may concern."""
    return {"sender": sender.name, "receiver": "", "region": sender.region}


def _lines(chosen: list[tuple[Product, int]]) -> list[Line]:
    return [Line(each.number, each.family, many, Money(each.price)) for each, many in chosen]


def _at_price(line: Line, factor: float) -> Line:
    price = (line.unit_price.amount * Decimal(str(factor))).quantize(CENT)
    return Line(line.product, line.family, line.quantity, Money(price))


def _value(lines: list[Line]) -> Decimal:
    return sum((line.quantity * line.unit_price.amount for line in lines), Decimal(0))
