"""The same translations once more, written by hand and without polycast.

Participants write down with them what happens, in their own types; and the recount finds with them
what every subscriber should have seen. None of the functions of the contexts is used.

Each table says for the attributes of events and of what is in them, by name, what becomes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from supply_chain import eu, events, uk, us
from supply_chain.digests import names_in
from supply_chain.events import Address, Event, Money

Change = Callable[[Any], Any]
Table = dict[str, Change]

DOLLARS, DOLLARS_LATER, POUNDS = Decimal("1.08"), Decimal("1.20"), Decimal("0.86")
MILE, POUND, INCH = 1.609344, 0.45359237, 0.0254  # kilometres, kilograms, metres
MONEY = ("total", "revenue", "value", "before", "price", "unit_price")
PLACES = ("origin", "deliver_to", "bill_to")
SIZES = ("height", "width", "depth")
INSIDE = ("lines", "received", "items", "cash_desks", "products")  # lists of parts


def _cents(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.01"))


def _rebuilt(value: Any, classes: dict[type, type], table: Table) -> Any:
    """An object of the other class, attribute by attribute; one without another class stays."""
    cls = classes.get(type(value))
    if cls is None:
        return value
    made = {}
    for name in names_in(type(value)):
        change, part = table.get(name), getattr(value, name)
        made[name] = part if change is None else change(part)
    return cls(**made)


class Handwork:
    """What one party makes of events of the root, and what they make of its events."""

    def __init__(self, module: Any, prefix: str, there: Table, back: Table) -> None:
        ours = {
            getattr(events, name.removeprefix(prefix)): cls
            for name, cls in vars(module).items()
            if name.startswith(prefix) and hasattr(events, name.removeprefix(prefix))
        }
        self._ours, self._theirs = ours, {cls: root for root, cls in ours.items()}
        self._there, self._back = _deep(there, self._ours), _deep(back, self._theirs)

    def seen(self, event: Event) -> Event:
        """An event of the root, as this party has it."""
        return _rebuilt(event, self._ours, self._there)

    def told(self, event: Event) -> Event:
        """An event of this party, as the root has it."""
        return _rebuilt(event, self._theirs, self._back)


def _deep(table: Table, classes: dict[type, type]) -> Table:
    """The same for what is inside, too."""

    def each(parts: list[Any]) -> list[Any]:
        return [_rebuilt(part, classes, whole) for part in parts]

    def one(part: Any) -> Any:
        return _rebuilt(part, classes, whole)

    whole: Table = {**dict.fromkeys(INSIDE, each), "spec": one, **table}
    return whole


# -- the EU ----------------------------------------------------------------------------------------


def _eu_address(a: Address) -> eu.EUAddress:
    return eu.EUAddress(f"{a.street} {a.number}", f"{a.country}-{a.postal_code}", a.city)


def _from_eu(a: eu.EUAddress) -> Address:
    *street, number = a.street.split(" ")
    country, code = a.postal_code.split("-", 1)
    return Address(" ".join(street), int(number), code, a.city, country)


EU = Handwork(
    eu,
    "EU",
    {**dict.fromkeys(PLACES, _eu_address), **dict.fromkeys(SIZES, lambda x: 100 * x)},
    {**dict.fromkeys(PLACES, _from_eu), **dict.fromkeys(SIZES, lambda x: x / 100)},
)


# -- the US ----------------------------------------------------------------------------------------


def _us_address(a: Address) -> us.USAddress:
    return us.USAddress(f"{a.number} {a.street}", a.city, a.state, a.postal_code, a.country)


def _from_us(a: us.USAddress) -> Address:
    number, street = a.line.split(" ", 1)
    return Address(street, int(number), a.zip, a.city, a.country, a.state)


def _us(rate: Decimal) -> Handwork:
    return Handwork(
        us,
        "US",
        {
            **dict.fromkeys(PLACES, _us_address),
            **dict.fromkeys(SIZES, lambda x: x / INCH),
            **dict.fromkeys(MONEY, lambda m: us.Dollars(_cents(m.amount * rate))),
            "weight": lambda x: x / POUND,
            "distance": lambda x: x / MILE,
        },
        {
            **dict.fromkeys(PLACES, _from_us),
            **dict.fromkeys(SIZES, lambda x: x * INCH),
            **dict.fromkeys(MONEY, lambda m: Money(_cents(m.amount / rate))),
            "weight": lambda x: x * POUND,
            "distance": lambda x: x * MILE,
        },
    )


US, US_LATER = _us(DOLLARS), _us(DOLLARS_LATER)


# -- the UK ----------------------------------------------------------------------------------------


def _uk_address(a: Address) -> uk.UKAddress:
    town = f"{a.city}, {a.state}" if a.state else a.city
    return uk.UKAddress((f"{a.number} {a.street}", town), a.postal_code, a.country)


def _from_uk(a: uk.UKAddress) -> Address:
    number, street = a.lines[0].split(" ", 1)
    city, *state = a.lines[1].split(", ")
    return Address(street, int(number), a.postcode, city, a.country, *state)


UK = Handwork(
    uk,
    "UK",
    {
        **dict.fromkeys(PLACES, _uk_address),
        **dict.fromkeys(MONEY, lambda m: uk.Sterling(_cents(m.amount * POUNDS))),
        "distance": lambda x: x / MILE,
    },
    {
        **dict.fromkeys(PLACES, _from_uk),
        **dict.fromkeys(MONEY, lambda m: Money(_cents(m.amount / POUNDS))),
        "distance": lambda x: x * MILE,
    },
)


def handwork(party: str, *, later: bool = False) -> Handwork | None:
    """That of a party, before or after the change of the context; none for headquarters."""
    return {"eu": EU, "us": US_LATER if later else US, "uk": UK}.get(party)
