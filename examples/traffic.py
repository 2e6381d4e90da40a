"""A traffic system, and a city that sees it in its own coordinates and units.

Every event of the system carries `SensorMetadata`, and that a `Location`. The city has one rule for
locations, wherever they are. Then a sensor for oil on the road is added (FOS, section 6.4): one
more line of mapping, while events flow, and its location is right. The units need the extra
`units`. Run it: python examples/traffic.py
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Any

import polycast as pc

# -- the system: degrees, kilometres, kilograms ----------------------------------------------------


@dataclass(frozen=True)
class Location:
    latitude: float
    longitude: float


@dataclass(frozen=True)
class SensorMetadata:
    sensor: str
    location: Location


@dataclass(frozen=True)
class SensorEvent:
    metadata: SensorMetadata


@dataclass(frozen=True)
class Speed(SensorEvent):
    speed: Annotated[float, pc.Unit("km/h")]


@dataclass(frozen=True)
class Congestion(SensorEvent):
    length: Annotated[float, pc.Unit("km")]
    detours: tuple[Location, ...] = ()


@dataclass(frozen=True)
class Ice(SensorEvent):
    temperature: Annotated[float, pc.Unit("degC")]


@dataclass(frozen=True)
class Fog(SensorEvent):
    sight: Annotated[float, pc.Unit("m")]


@dataclass(frozen=True)
class Accident(SensorEvent):
    vehicles: int
    ambulance: Location | None = None


# -- the city: metres from its own zero, miles, Fahrenheit -----------------------------------------


@dataclass(frozen=True)
class Grid:
    east: int
    north: int


@dataclass(frozen=True)
class CityMetadata:
    sensor: str
    location: Grid


@dataclass(frozen=True)
class CityEvent:
    metadata: CityMetadata


@dataclass(frozen=True)
class CitySpeed(CityEvent):
    speed: Annotated[float, pc.Unit("mph")]


@dataclass(frozen=True)
class CityCongestion(CityEvent):
    length: Annotated[float, pc.Unit("mile")]
    detours: tuple[Grid, ...] = ()


@dataclass(frozen=True)
class CityIce(CityEvent):
    temperature: Annotated[float, pc.Unit("degF")]


@dataclass(frozen=True)
class CityFog(CityEvent):
    sight: Annotated[float, pc.Unit("yard")]


@dataclass(frozen=True)
class CityAccident(CityEvent):
    vehicles: int
    ambulance: Grid | None = None


ZERO = Location(52.0, 4.0)
DEGREE = 111_320  # metres, along a meridian


def to_grid(place: Location) -> Grid:
    east = (place.longitude - ZERO.longitude) * DEGREE * math.cos(math.radians(ZERO.latitude))
    return Grid(round(east), round((place.latitude - ZERO.latitude) * DEGREE))


MAPPINGS: dict[type, type] = {
    SensorMetadata: CityMetadata,
    Speed: CitySpeed,
    Congestion: CityCongestion,
    Ice: CityIce,
    Fog: CityFog,
    Accident: CityAccident,
}
root = pc.Context("traffic", types=[Location, SensorEvent, *MAPPINGS])


def city(mappings: dict[type, type]) -> pc.Context:
    """The context of the city; factors between units come from the annotations."""
    context = pc.Context("city", parent=root, types=[Grid, CityEvent, *mappings.values()])
    for source, target in mappings.items():
        context.map(source, target, "?")
    context.rule("Location", to_grid)
    return context


# -- later: oil on the road ------------------------------------------------------------------------


@dataclass(frozen=True)
class Oil(SensorEvent):
    area: Annotated[float, pc.Unit("m**2")]


@dataclass(frozen=True)
class CityOil(CityEvent):
    area: Annotated[float, pc.Unit("ft**2")]


WITH_OIL = {**MAPPINGS, Oil: CityOil}  # the one line

PATIENCE = 30.0


def traffic() -> Iterator[SensorEvent]:
    """What the sensors say, again and again."""
    for number in itertools.count():
        at = SensorMetadata(f"A{number % 90}", Location(52.0 + number % 90 / 100, 4.3))
        yield Speed(at, 40.0 + number % 80)
        yield Congestion(at, 1.5, (Location(52.1, 4.1), Location(52.2, 4.2)))
        yield Ice(at, -2.0)
        yield Fog(at, 80.0)
        yield Accident(at, 2, Location(52.2, 4.4))
        yield Oil(at, 2.5)


def said(event: Any) -> str:
    """An event in one line, its numbers rounded."""
    figures = {field.name: getattr(event, field.name) for field in fields(event)[1:]}
    texts = (f"{name} {round(x, 1) if isinstance(x, float) else x}" for name, x in figures.items())
    where = f"{type(event).__name__} of {event.metadata.sensor} at {event.metadata.location}"
    return f"   {where}: {', '.join(texts)}"


class Listener:
    """Keeps the first event of each class, and counts."""

    def __init__(self) -> None:
        self.first: dict[type, Any] = {}
        self.count = 0
        self._changed = threading.Condition()

    def hear(self, event: Any) -> None:
        with self._changed:
            self.first.setdefault(type(event), event)
            self.count += 1
            self._changed.notify_all()

    def wait_for(self, cls: type) -> Any:
        with self._changed:
            if not self._changed.wait_for(lambda: cls in self.first, PATIENCE):
                raise SystemExit(f"no {cls.__name__} came")
            return self.first[cls]


def main() -> None:
    federation = pc.Federation(root)
    before = city(MAPPINGS)
    federation.add(before)
    done = threading.Event()
    with pc.Bus(federation=federation) as bus:
        listener, unmapped = Listener(), Listener()
        view = bus.within(before)
        view.subscribe(CityEvent, listener.hear, dispatch="inline")
        view.subscribe(Oil, unmapped.hear, dispatch="inline")

        def publish() -> None:
            events = traffic()
            while not done.is_set():
                bus.publish(next(events))

        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            print("The city sees, in its own coordinates and units:")
            for cls in MAPPINGS.values():
                if issubclass(cls, CityEvent):
                    print(said(listener.wait_for(cls)))
            print("\nOil is on the road, and the city has no mapping for it; it comes as it is:")
            print(said(unmapped.wait_for(Oil)))

            after = city(WITH_OIL)
            federation.replace(after)
            print("\nOne line of mapping later, with the events still flowing:")
            print(said(listener.wait_for(CityOil)))
        finally:
            done.set()
            publisher.join()
        print(f"\n{listener.count} events were heard meanwhile.")
    print("\nNobody wrote a rule for oil. These apply:")
    print(after.show(Oil))


if __name__ == "__main__":
    main()
