"""Wire names: bound per bus, at first publish or subscribe there."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus


def classes_received(bus: TestBus, what: object, *events: object, **options: object) -> list[str]:
    """The names of the classes whose events reach a subscription."""
    seen: Recorder[object] = Recorder()
    bus.subscribe(what, seen, **options)  # type: ignore[call-overload]
    for event in events:
        bus.publish(event)
    bus.run_until_idle()
    return [type(event).__name__ for event in seen.events]


# -- names -----------------------------------------------------------------------------------------


def local_class(fields: str) -> type:
    """A class of this name, each time a new one."""
    if fields == "one":

        @pc.event(name="tests.types.Local")
        @dataclass
        class Local:
            a: int = 0

        return Local

    @pc.event(name="tests.types.Local")
    @dataclass
    class Another:
        b: str = ""

    return Another


def test_a_different_class_of_the_same_name_clashes_at_subscribe(bus: TestBus) -> None:
    bus.publish(local_class("one")())
    with pytest.raises(pc.NameClashError, match="different"):
        bus.subscribe(local_class("two"), print)


def test_a_different_class_of_the_same_name_clashes_at_publish(bus: TestBus) -> None:
    bus.subscribe(local_class("one"), print)
    with pytest.raises(pc.NameClashError):
        bus.publish(local_class("two")())


def test_names_are_bound_per_bus(bus: TestBus) -> None:
    bus.publish(local_class("one")())
    with TestBus() as other:
        assert other.publish(local_class("two")()).position == 1


def test_a_reloaded_class_of_the_same_description_takes_over(bus: TestBus) -> None:
    bus.publish(local_class("one")())
    reloaded = local_class("one")
    assert classes_received(bus, reloaded, reloaded()) == ["Local"]
