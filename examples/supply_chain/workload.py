"""What happens: the same events in the same order for the same seed.

The interactions and how often each begins are those of a supply chain as it is used to measure
messaging: much is counted, orders come often, prices change now and then. An order is followed by
its confirmation and its shipment a little later, so conversations of many participants overlap.
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
    Event,
    Family,
    InventoryMovement,
    Invoice,
    Line,
    Money,
    Offer,
    Order,
    OrderConfirmation,
    OrderStatistics,
    PriceUpdate,
    ProductAnnouncement,
    PurchaseOrder,
    SalesStatistics,
    ShipmentArrived,
    ShipmentDeparted,
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
        order, lines, region = next(self._number), self._lines(), market.region
        total = Money(_value(lines))
        days, distance = draw.randrange(1, 6), round(draw.uniform(4, 400), 1)
        lorry, late = f"L{draw.randrange(100, 400)}", max(0.0, round(draw.gauss(0, 2), 1))
        there, back = _between(market, centre), _between(centre, market)

        def confirmation() -> Event:
            when = START + timedelta(days=days)
            about = {"order": order, "lines": lines, "total": total, "expected": when}
            return OrderConfirmation(**back, region=region, sent=now(), **about)

        def statistics() -> Event:
            units, family = sum(line.quantity for line in lines), lines[0].family
            about = {"family": family, "units": units, "revenue": total, "order": order}
            return OrderStatistics(
                **_between(centre, self._office(market)), region=region, sent=now(), **about
            )

        moving = {"order": order, "lines": lines, "deliver_to": market.address}
        moving["kilometres"] = distance

        def departed() -> Event:
            return ShipmentDeparted(**back, region=region, sent=now(), lorry=lorry, **moving)

        def arrived() -> Event:
            return ShipmentArrived(**there, region=region, sent=now(), hours_late=late, **moving)

        for delay, event in ((1, confirmation), (2, statistics), (3, departed), (6, arrived)):
            self._soon(time + delay * draw.uniform(0.5, 1.5), event)
        return Order(
            **there,
            region=region,
            sent=now(),
            order=order,
            lines=lines,
            deliver_to=market.address,
            urgency=draw.choice(URGENCIES),
        )

    # -- a distribution centre buys from suppliers -------------------------------------------------

    def _purchase(self, time: float) -> Event:
        draw, now = self._draw, self._now
        centre = draw.choice(self._world.centres)
        product = draw.choice(self._world.products)
        family, region = product.family, centre.region
        offering = self._world.sold_by[family]
        asked = draw.sample(offering, min(len(offering), draw.choice((2, 3))))
        purchase, lines = next(self._number), self._lines(family)
        about = {"purchase": purchase, "family": family, "region": region}
        offers = [(round(draw.uniform(0.85, 1.2), 3), each) for each in asked]

        def offer(factor: float, supplier: Participant) -> Callable[[], Event]:
            priced = [_at_price(line, factor) for line in lines]
            until = START + timedelta(days=draw.randrange(3, 30))
            ending = {"lines": priced, "total": Money(_value(priced)), "valid_until": until}
            return lambda: Offer(**_between(supplier, centre), sent=now(), **about, **ending)

        for factor, supplier in offers:
            self._soon(time + draw.uniform(0.5, 1.5), offer(factor, supplier))
        factor, best = min(offers, key=lambda pair: pair[0])
        bought = [_at_price(line, factor) for line in lines]

        def purchase_order() -> Event:
            there, to = _between(centre, best), centre.address
            return PurchaseOrder(**there, sent=now(), lines=bought, deliver_to=to, **about)

        def invoice() -> Event:
            office = self._office(centre)
            ending = {"lines": bought, "total": Money(_value(bought)), "bill_to": office.address}
            return Invoice(**_between(best, office), sent=now(), **about, **ending)

        self._soon(time + draw.uniform(2, 3), purchase_order)
        self._soon(time + draw.uniform(4, 5), invoice)
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
            before=product.price,
            price=price,
        )

    def _stock(self, time: float) -> Event:
        market, product = self._draw.choice(self._world.markets), self._product()
        return InventoryMovement(
            **_from(market),
            sent=self._now(),
            product=product.number,
            family=product.family,
            moved=self._draw.randrange(1, 40),
            left=self._draw.randrange(0, 200),
        )

    def _sale(self, time: float) -> Event:
        market, product = self._draw.choice(self._world.markets), self._product()
        units = 1 + int(self._draw.expovariate(0.12))
        return SalesStatistics(
            **_between(market, self._office(market)),
            region=market.region,
            sent=self._now(),
            family=product.family,
            units=units,
            revenue=Money(units * product.price),
            cash_desk=self._draw.randrange(1, 9),
        )

    def _announcement(self, time: float) -> Event:
        office, product = self._draw.choice(self._world.offices), self._product()
        return ProductAnnouncement(
            **_from(office), sent=self._now(), products=[product.number], family=product.family
        )

    def _hot_list(self, time: float) -> Event:
        office = self._draw.choice(self._world.offices)
        cards = [f"{self._draw.randrange(10**15, 10**16)}" for _ in range(3)]
        severity = self._draw.choice((1, 1, 1, 1, 2, 2, 2, 3, 3, 4))
        return CardHotList(**_from(office), sent=self._now(), cards=cards, severity=severity)

    # -- parts -------------------------------------------------------------------------------------

    def _product(self) -> Product:
        return self._draw.choice(self._world.products)

    def _lines(self, family: Family | None = None) -> list[Line]:
        """Mostly few, sometimes many."""
        many = self._draw.choices((2, 6, 20), (0.95, 0.04, 0.01))[0]
        products = [p for p in self._world.products if family is None or p.family is family]
        return [
            Line(each.number, each.family, self._draw.randrange(1, 50), each.price)
            for each in self._draw.sample(products, min(len(products), many))
        ]

    def _office(self, participant: Participant) -> Participant:
        """The headquarters of a region."""
        offices = self._world.offices
        return next(each for each in offices if each.region is participant.region)


def _between(sender: Participant, receiver: Participant) -> dict[str, str]:
    return {"sender": sender.name, "receiver": receiver.name}


def _from(sender: Participant) -> dict[str, object]:
    """For whoever it may concern."""
    return {"sender": sender.name, "receiver": "", "region": sender.region}


def _at_price(line: Line, factor: float) -> Line:
    price = (line.unit_price * Decimal(str(factor))).quantize(CENT)
    return Line(line.product, line.family, line.quantity, price)


def _value(lines: list[Line]) -> Decimal:
    return sum((line.quantity * line.unit_price for line in lines), Decimal(0))
