"""The types of a bus over a store by their names, for who does not have the classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.bus.engines import StoreEngine
from polycast.errors import BadOptionError
from polycast.events import JSON

if TYPE_CHECKING:
    from polycast.bus.bus import Bus
    from polycast.typesystem import Description, Registry


class NamedTypes:
    """What the store of a bus describes, as classes with which to publish and subscribe there."""

    def __init__(self, bus: Bus) -> None:
        engine = bus._engine
        if not isinstance(engine, StoreEngine):
            raise BadOptionError("bus", bus, accepted="a bus over a store or a broker")
        self._store = engine.store
        self.registry: Registry = bus._registry
        self.learn()

    def learn(self) -> None:
        """Know all that the store describes by now."""
        with self._store.view() as view:
            for description in view.descriptions():
                self.registry.add(description)

    def description(self, name: str) -> Description | None:
        """The newest description of a name."""
        return self.registry.describe(name)

    def class_of(self, description: Description) -> type:
        """The class of this process, else one made from the description."""
        named = (description.name, description.version, description.hash)
        return self.registry.class_for(*named)

    def json(self, event: object) -> bytes:
        """An event of the bus as JSON."""
        return JSON.encode(event, registry=self.registry).payload
