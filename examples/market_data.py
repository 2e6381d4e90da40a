"""Bids, asks and trades over equities and bonds, as a desk in Zurich wants them.

The exchange quotes in dollars, stamps seconds, and names its indicators in its own way. The desk
has a context: francs, its own clock's text, its own names. Types here have several supertypes, and
not always in the same order; where two rules are equally good, the order in which a class declares
its supertypes decides (P4), and nobody should have to guess that. Run it:
python examples/market_data.py
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import final

import polycast as pc

# -- the exchange: the types that all refer to -----------------------------------------------------


@final
@dataclass(frozen=True)
class Price:
    amount: float
    unit: str = "USD"


@final
@dataclass(frozen=True)
class Indicators:
    vwap: float
    open_interest: int


@dataclass(frozen=True)
class Instrument:
    symbol: str


@dataclass(frozen=True)
class Equity(Instrument): ...


@dataclass(frozen=True)
class Bond(Instrument): ...


@dataclass(frozen=True)
class ConvertibleBond(Bond, Equity):
    """A bond that may become an equity."""


@dataclass(frozen=True)
class PreferredShare(Equity, Bond):
    """An equity that pays like a bond: the same two, the other way round."""


@dataclass(frozen=True)
class MarketEvent:
    instrument: Instrument
    price: Price
    stamp: float
    indicators: Indicators


@dataclass(frozen=True)
class Bid(MarketEvent): ...


@dataclass(frozen=True)
class Ask(MarketEvent): ...


@dataclass(frozen=True)
class Trade(MarketEvent): ...


@dataclass(frozen=True)
class EquityEvent(MarketEvent): ...


@dataclass(frozen=True)
class BondEvent(MarketEvent):
    """Its price is a percentage of a face value of 1,000 dollars."""


@dataclass(frozen=True)
class EquityBid(Bid, EquityEvent): ...


@dataclass(frozen=True)
class EquityTrade(Trade, EquityEvent): ...


@dataclass(frozen=True)
class BondBid(BondEvent, Bid): ...


@dataclass(frozen=True)
class BondAsk(Ask, BondEvent):
    """Somebody wrote its supertypes the other way round than those of BondBid."""


# -- the desk --------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Kennzahlen:
    durchschnitt: float
    offene_kontrakte: int


@dataclass(frozen=True)
class Titel:
    art: str
    name: str


@dataclass(frozen=True)
class DeskEvent:
    instrument: Titel
    price: Price
    stamp: str
    indicators: Kennzahlen


@dataclass(frozen=True)
class Geld(DeskEvent): ...


@dataclass(frozen=True)
class Brief(DeskEvent): ...


@dataclass(frozen=True)
class Abschluss(DeskEvent): ...


FRANCS = 0.8  # for a dollar


def to_francs(price: Price) -> Price:
    return Price(round(price.amount * FRANCS, 2), "CHF")


def percent_to_francs(price: Price) -> Price:
    return Price(round(price.amount / 100 * 1_000 * FRANCS, 2), "CHF")


def with_fee(price: Price) -> Price:
    return Price(round(price.amount * FRANCS * 1.001, 2), "CHF")


def to_text(stamp: float) -> str:
    return f"{datetime.fromtimestamp(stamp, UTC):%d.%m.%Y %H:%M}"


def rename(indicators: Indicators) -> Kennzahlen:
    return Kennzahlen(indicators.vwap, indicators.open_interest)


def equity_title(equity: Equity) -> Titel:
    return Titel("Aktie", equity.symbol)


def bond_title(bond: Bond) -> Titel:
    return Titel("Obligation", bond.symbol)


def any_title(instrument: Instrument) -> Titel:
    return Titel("Titel", instrument.symbol)


REFERENCE = [MarketEvent, Bid, Ask, Trade, EquityEvent, BondEvent]
REFERENCE += [EquityBid, EquityTrade, BondBid, BondAsk]
REFERENCE += [Price, Indicators, Instrument, Equity, Bond, ConvertibleBond, PreferredShare]
root = pc.Context("exchange", types=REFERENCE)

desk = pc.Context("zurich", parent=root, types=[Geld, Brief, Abschluss, Titel, Kennzahlen])
desk.map(Bid, Geld, "?")
desk.map(Ask, Brief, "?")
desk.map(Trade, Abschluss, "?")
desk.rule("MarketEvent.stamp", to_text)
desk.rule("Indicators", rename)
desk.rule("Instrument", any_title)
desk.rule("Equity", equity_title)
desk.rule("Bond", bond_title)
desk.rule("Price", to_francs)
desk.rule("Ask.price", with_fee)
desk.rule("BondEvent.price", percent_to_francs)

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp()
FIGURES = Indicators(vwap=99.5, open_interest=70)
EVENTS = [
    EquityBid(Equity("ACME"), Price(50.0), NOON, FIGURES),
    EquityTrade(PreferredShare("ACME.P"), Price(75.0), NOON, FIGURES),
    BondBid(Bond("GOV 31"), Price(99.0), NOON, FIGURES),
    BondBid(ConvertibleBond("ACME 29"), Price(101.0), NOON, FIGURES),
    BondAsk(Bond("GOV 31"), Price(99.2), NOON, FIGURES),
]


def by_order(context: pc.Context, cls: type) -> None:
    """Print what only the order of supertypes has decided."""
    for row in context.resolve(cls):
        if row.reason.startswith("P4"):
            print(f"   {row}")


def main() -> None:
    federation = pc.Federation(root)
    federation.add(desk)
    with pc.Bus(federation=federation) as bus:

        def hear(event: DeskEvent) -> None:
            what = f"{type(event).__name__:<10} {event.instrument.art:<11}"
            price = f"{event.price.amount:>7.2f} {event.price.unit}"
            print(f"   {what} {event.instrument.name:<8} {price}  {event.stamp}")

        bus.within(desk).subscribe(DeskEvent, hear, dispatch="inline")
        print("What the desk hears, in its own types:")
        bus.publish_many(EVENTS)

        print("\nAn asked price of 79 francs for a bond, where 792 are bid. Why?")
        print(desk.show(BondAsk))

        print("\nDecided by nothing but the order of supertypes, in a bid and in an ask:")
        by_order(desk, BondBid)
        by_order(desk, BondAsk)

        print("\nSo somebody says it, and puts it in place while events flow:")
        mended = desk.copy()
        mended.rule("BondAsk.price", percent_to_francs)
        federation.replace(mended)
        bus.publish(EVENTS[-1])
        by_order(mended, BondAsk)


if __name__ == "__main__":
    main()
