"""The events of the fault runs; in a module of their own, so that every process has them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TYPES", "Event", "Keynote", "Panel", "Talk"]


@dataclass
class Event:
    """What all have: a key that says who published it and as the how-manieth."""

    key: str
    size: int
    filling: str


@dataclass
class Talk(Event):
    """A type with a subtype."""


@dataclass
class Keynote(Talk):
    """The subtype."""


@dataclass
class Panel(Event):
    """Another type."""


TYPES: dict[str, type[Event]] = {cls.__name__: cls for cls in (Event, Talk, Keynote, Panel)}
