"""The desk's view of the exchange, written by hand."""

from __future__ import annotations

from market_data import (
    Abschluss,
    Ask,
    Bid,
    Bond,
    BondEvent,
    Brief,
    DeskEvent,
    Equity,
    Geld,
    Instrument,
    MarketEvent,
    PreferredShare,
    Price,
    Titel,
    Trade,
    any_title,
    bond_title,
    equity_title,
    percent_to_francs,
    rename,
    to_francs,
    to_text,
    with_fee,
)


def title_of(instrument: Instrument) -> Titel:
    if isinstance(instrument, Bond) and not isinstance(instrument, PreferredShare):
        return bond_title(instrument)
    if isinstance(instrument, Equity):
        return equity_title(instrument)
    return any_title(instrument)


def price_of(event: MarketEvent) -> Price:
    if isinstance(event, Ask):
        return with_fee(event.price)
    if isinstance(event, BondEvent):
        return percent_to_francs(event.price)
    return to_francs(event.price)


def bid_to_desk(event: Bid) -> Geld:
    return Geld(
        title_of(event.instrument),
        price_of(event),
        to_text(event.stamp),
        rename(event.indicators),
    )


def ask_to_desk(event: Ask) -> Brief:
    return Brief(
        title_of(event.instrument),
        price_of(event),
        to_text(event.stamp),
        rename(event.indicators),
    )


def trade_to_desk(event: Trade) -> Abschluss:
    return Abschluss(
        title_of(event.instrument),
        price_of(event),
        to_text(event.stamp),
        rename(event.indicators),
    )


def translate(event: MarketEvent) -> MarketEvent | DeskEvent:
    match event:
        case Bid():
            return bid_to_desk(event)
        case Ask():
            return ask_to_desk(event)
        case Trade():
            return trade_to_desk(event)
    return event
