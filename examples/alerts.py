"""Price alerts: thousands of filters on one stream of quotes.

Customers write their alerts in Python. The bus looks into them, finds the few that a quote is for
without asking the others, and explains itself; the same alerts run over a table of yesterday's
quotes. Run it: python examples/alerts.py
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import polycast as pc

SYMBOLS = ["ABBN", "CFR", "GIVN", "HOLN", "LONN", "NESN", "NOVN", "ROG", "SIKA", "UBSG"]
ALERTS = 5_000
QUOTES = 2_000


@dataclass(frozen=True)
class Quote:
    symbol: str
    price: float
    volume: int
    venue: str | None = None


def alert(draw: random.Random) -> Callable[[Quote], object]:
    """What one customer wants to be told."""
    symbol, low = draw.choice(SYMBOLS), draw.uniform(10, 900)
    high, size = low * 1.01, draw.randrange(1_000, 100_000)
    return draw.choice(
        [
            lambda q: q.symbol == symbol and low <= q.price < high,
            lambda q: q.symbol in (symbol, "NESN") and q.volume > size and q.price > high * 90,
            lambda q: q.venue is not None and q.venue.startswith("X") and low < q.price < high,
            lambda q: q.price * q.volume > 9e7 and q.symbol == symbol,
        ]
    )


def quotes(draw: random.Random, count: int) -> list[Quote]:
    return [
        Quote(
            draw.choice(SYMBOLS),
            round(draw.uniform(10, 1_000), 2),
            draw.randrange(100, 100_000),
            draw.choice([None, "XSWX", "XETR", "BATE"]),
        )
        for _ in range(count)
    ]


def main() -> None:
    draw = random.Random(7)
    told: Counter[str] = Counter()
    stream = quotes(draw, QUOTES)

    with pc.Bus() as bus:
        print(f"{ALERTS:,} customers subscribe to Quote, each with a filter of their own.")
        subscriptions = [
            bus.subscribe(
                Quote,
                lambda q: told.update([q.symbol]),
                where=alert(draw),
                dispatch="inline",
            )
            for _ in range(ALERTS)
        ]
        bus.publish(stream[0])  # the index over the filters is made with the first one

        started = time.perf_counter()
        for quote in stream[1:]:
            bus.publish(quote)
        spent = (time.perf_counter() - started) / len(stream)
        asked = ALERTS * len(stream)
        print(f"{len(stream):,} quotes, {asked:,} questions, {told.total():,} alerts:")
        print(f"   about {1e6 * spent:.0f} µs a quote, {1e9 * spent / ALERTS:.1f} ns a filter.\n")
        for symbol, count in sorted(told.items()):
            print(f"   {symbol:5} {count:6,}  {'▇' * (count * 40 // max(told.values()))}")

        print("\nWhy did the first customer not hear of this one?\n")
        print(subscriptions[0].explain(stream[1]))

        print("\nA mistake is told at once:\n")
        try:
            bus.subscribe(Quote, print, where=lambda q: q.prize > 10)  # type: ignore[attr-defined]
        except pc.FilterMistakeError as mistake:
            print(mistake)

    print("\nThe same filters, over yesterday's quotes as one batch:\n")
    matcher: pc.Matcher[int] = pc.Matcher()
    for number, subscription in enumerate(subscriptions):
        matcher.add(number, Quote, subscription.interest.where)
    yesterday = quotes(draw, QUOTES)
    found = matcher.match_batch(yesterday)
    alerts = sum(map(len, found))
    print(f"   {alerts:,} alerts, {max(map(len, found)):,} of them for one quote")
    first = next(number for number, keys in enumerate(found) if keys)
    same = sorted(matcher.match(yesterday[first])) == sorted(found[first])
    print(f"   asked by itself, quote {first} gives {'the same' if same else 'another'} answer")


if __name__ == "__main__":
    main()
