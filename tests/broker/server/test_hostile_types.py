"""Types that a client describes to harm its broker: they get nothing there, and stop nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.broker.server.type_catalog import MOST_ABOVE, SMALL, TypeCatalog, read_descriptions
from polycast.broker.wire.protocol import encode_description
from polycast.errors import NotDecodableError
from polycast.events import Identity
from polycast.matching import Definition
from polycast.matching.interest import SelectedType
from polycast.stores import Run
from polycast.stores.memory_store import MemoryStore
from polycast.typesystem import (
    AttributeDescription,
    Description,
    Registry,
    TypeExpression,
    describe,
)
from polycast.typesystem import MemberDescription as Offered

OpenBus = Callable[..., pc.Bus]
Eventually = Callable[[Callable[[], object]], None]
INT, TEXT = (TypeExpression("class", f"builtins.{name}") for name in ("int", "str"))


@dataclass
class Tool:
    """A class that the program of the broker happens to have."""

    path: str

    def run(self) -> bool:
        Path(self.path).write_text("it ran")
        return True


@dataclass(frozen=True)
class Payment:
    number: int


def hostile(bus: pc.Bus, *descriptions: Description, payload: bytes, filtering: str = "") -> None:
    """Describe types, subscribe to the first with a filter, and publish an event of it."""
    store: Any = bus._engine.store  # type: ignore[attr-defined]
    store.describe(list(descriptions)).result()
    first = descriptions[0]
    types = (SelectedType(first.name, first.version, first.hash),)
    if filtering:
        data = {"format": 1, "filter": filtering}
        wanted = Definition(first.name, "sorted_set", types, where=filtering, filter=data)
        store.want("hostile", [wanted.encoded()])
    identity = Identity(bus.publisher, 1, 1)
    run = Run(first.name, first.version, first.hash, identity, "json", [payload])
    store.submit([run]).result()


@pytest.fixture
def buses(
    serve: Callable[..., Serving],
    tokens: Callable[..., tuple[Any, dict[str, str]]],
    open_bus: OpenBus,
) -> tuple[pc.Bus, pc.Bus]:
    """An honest bus, and one of a tenant that may only use names of its own."""
    every = ('publish = ["{0}"]', 'subscribe = ["{0}"]', 'describe = ["{0}"]')
    shop = "\n".join(every).format(f"{Payment.__module__}.Payment")
    known, secrets = tokens(shop=shop, evil="\n".join(every).format("evil.*"))
    url = serve(tokens=known).url
    return open_bus(url, token=secrets["shop"]), open_bus(url, token=secrets["evil"])


def test_a_type_gets_no_methods_of_a_class_that_the_broker_has(
    buses: tuple[pc.Bus, pc.Bus], tmp_path: Path
) -> None:
    honest, evil = buses
    trace = tmp_path / "trace"
    above = f"{Tool.__module__}.Tool"
    attributes = (AttributeDescription("path", TEXT),)
    derived = Description("evil.Tool", supertypes=(above,), attributes=attributes)
    payload = msgspec.json.encode({"path": str(trace)})
    hostile(evil, derived, payload=payload, filtering="event.run()")
    honest.publish(Payment(1))
    assert honest.flush(10)
    assert not trace.exists()


def chain(length: int) -> list[Description]:
    """Types of which each derives from the next."""
    return [
        Description(
            f"evil.S{n}",
            kind="dataclass",
            supertypes=(f"evil.S{n + 1}",),
            attributes=(AttributeDescription("x", INT),),
            members=(Offered("x", "field", INT),),
        )
        for n in range(length)
    ]


def test_an_event_of_a_long_line_of_supertypes_stops_nobody(
    buses: tuple[pc.Bus, pc.Bus], eventually: Eventually
) -> None:
    honest, evil = buses
    got: list[int] = []
    honest.subscribe(Payment, lambda payment: got.append(payment.number))
    hostile(evil, *chain(90), payload=b'{"x":1}')
    with pytest.raises(pc.LimitReachedError, match="more than 100 supertypes and aliases above it"):
        hostile(evil, *chain(400), payload=b'{"x":1}')
    honest.publish_many([Payment(1), Payment(2)])
    eventually(lambda: got == [1, 2])
    assert not honest.health().problems


def test_who_has_too_many_supertypes_is_received_as_itself_alone() -> None:
    """Nobody looks through thousands of them between two events of others."""
    broker = Broker()
    above = [Description(f"evil.A{n}") for n in range(MOST_ABOVE + 1)]
    below = Description("evil.B", supertypes=tuple(each.name for each in above))
    fewer = Description("evil.C", supertypes=below.supertypes[: MOST_ABOVE - 1])
    broker.type_catalog.add([*above, below, fewer])
    assert broker.type_catalog.names("evil.B", below.hash) == ("evil.B",)
    assert len(broker.type_catalog.names("evil.C", fewer.hash)) == MOST_ABOVE


def nested(depth: int) -> TypeExpression:
    found = INT
    for _ in range(depth):
        found = TypeExpression("class", "builtins.list", arguments=(found,))
    return found


def test_types_in_each_other_have_a_depth() -> None:
    Description("evil.Flat", attributes=(AttributeDescription("x", nested(90)),))
    with pytest.raises(ValueError, match="over 100 deep"):
        Description("evil.Deep", attributes=(AttributeDescription("x", nested(120)),))
    value: Any = 0
    for _ in range(120):
        value = [value]
    with pytest.raises(ValueError, match="over 100 deep"):
        Description("evil.Deep", attributes=(AttributeDescription("x", INT, default=value),))


def test_a_registry_lends_the_classes_it_is_given_and_no_others() -> None:
    name = f"{Tool.__module__}.Tool"
    assert Registry().resolve(name) is Tool
    assert Registry(classes=(Tool,)).resolve(name) is Tool
    assert Registry(classes=(Payment,)).resolve(name) is None
    assert Registry(classes=()).resolve(name) is None


@pytest.mark.parametrize("name", ["polycast.broker.server.broker.Broker", "uvicorn.config.Config"])
def test_no_class_that_is_no_event_is_brought_to_life(name: str) -> None:
    assert Registry().resolve(name) is None


def test_whatever_making_a_class_raises_the_type_cannot_be_decoded() -> None:
    registry = Registry()
    found = chain(400)
    for each in found:
        registry.add(each)
    with pytest.raises(NotDecodableError, match="one above the other"):
        registry.made(found[0])


# -- very many types -------------------------------------------------------------------------------


def types(many: int, *, of: str = "evil") -> list[Description]:
    hints = [[(f"field_{number}", int)] for number in range(many)]
    return [
        describe(msgspec.defstruct(f"T{number}", fields, module=of, namespace={}))
        for number, fields in enumerate(hints)
    ]


def test_whose_a_type_is_is_looked_up_once_however_many_there_are() -> None:
    catalog, looked_up = TypeCatalog(MemoryStore()), list[str]()

    def owner_of(name: str) -> str:
        looked_up.append(name)
        return name.partition(".")[0]

    catalog.add([*types(10), *types(5, of="shop")])
    assert (catalog.count("evil", owner_of), catalog.count("shop", owner_of)) == (10, 5)
    assert catalog.count("nobody", owner_of) == 0
    assert len(looked_up) == 15
    catalog.add(types(11))
    assert catalog.count("evil", owner_of) == 11
    assert len(looked_up) == 16
    catalog.recount()  # owners have changed
    assert catalog.count("x", lambda name: "x") == 16


def test_a_message_of_many_small_types_is_read_in_several_turns() -> None:
    raw = [msgspec.Raw(encode_description(described)) for described in types(100)]
    size = sum(map(len, raw))
    turns = list(read_descriptions(raw))
    assert len(turns) >= size // (2 * SMALL) > 1


def test_a_type_whose_write_has_failed_is_stored_when_it_is_described_again() -> None:
    """Another broker over the same file would know nothing of it, and route none of its events."""
    store = MemoryStore()
    catalog, [description] = TypeCatalog(store), types(1)
    assert catalog.unknown([description]) == [description]
    catalog.add([description])  # and then its write fails
    assert catalog.unknown([description]) == [description]
    store.describe([description]).result()
    assert catalog.unknown([description]) == []
    store.close()
