"""The city's view of the traffic system, written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from traffic import (
    Accident,
    CityAccident,
    CityCongestion,
    CityEvent,
    CityFog,
    CityIce,
    CityMetadata,
    CityOil,
    CitySpeed,
    Congestion,
    Fog,
    Ice,
    Oil,
    SensorEvent,
    SensorMetadata,
    Speed,
    to_grid,
)


def to_miles(kilometres: float) -> float:
    return kilometres / 1.609344


def metadata_to_city(metadata: SensorMetadata) -> CityMetadata:
    return CityMetadata(metadata.sensor, to_grid(metadata.location))


def speed_to_city(event: Speed) -> CitySpeed:
    return CitySpeed(metadata_to_city(event.metadata), to_miles(event.speed))


def congestion_to_city(event: Congestion) -> CityCongestion:
    return CityCongestion(
        metadata_to_city(event.metadata),
        to_miles(event.length),
        tuple(to_grid(place) for place in event.detours),
    )


def ice_to_city(event: Ice) -> CityIce:
    return CityIce(metadata_to_city(event.metadata), event.temperature * 9 / 5 + 32)


def fog_to_city(event: Fog) -> CityFog:
    return CityFog(metadata_to_city(event.metadata), event.sight / 0.9144)


def accident_to_city(event: Accident) -> CityAccident:
    return CityAccident(
        metadata_to_city(event.metadata),
        event.vehicles,
        None if event.ambulance is None else to_grid(event.ambulance),
    )


def oil_to_city(event: Oil) -> CityOil:
    return CityOil(metadata_to_city(event.metadata), event.area / 0.3048**2)


TRANSLATIONS: dict[type, Callable[[Any], CityEvent]] = {
    Speed: speed_to_city,
    Congestion: congestion_to_city,
    Ice: ice_to_city,
    Fog: fog_to_city,
    Accident: accident_to_city,
    Oil: oil_to_city,
}


def translate(event: SensorEvent) -> SensorEvent | CityEvent:
    for cls in type(event).__mro__:
        if cls in TRANSLATIONS:
            return TRANSLATIONS[cls](event)
    return event
