"""What is not accepted is a named error that says what would be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

import polycast as pc
from polycast.testing import ManualClock, TestBus


@dataclass
class Talk:
    title: str = ""


SUBSCRIBE: list[tuple[str, Any, str]] = [
    ("level", "strongest", "strong_set"),
    ("level", 3, "sorted_set"),
    ("dispatch", "thread", "'pool', 'inline'"),
    ("overflow", "drop", "drop_oldest"),
    ("queue", 0, "at least 1"),
    ("queue", 1.5, "whole number"),
    ("queue", True, "whole number"),
    ("attempts", 0, "at least 1"),
    ("attempts", "5", "whole number"),
    ("lease", 0, "positive number of seconds"),
    ("lease", -1, "positive number of seconds"),
    ("lease", "60", "timedelta"),
    ("ack", "never", "'auto', 'manual'"),
    ("ack_timeout", 0, "positive"),
    ("backoff", -1, "positive"),
    ("block_for", 0, "positive"),
    ("group", "", "not empty"),
    ("group", 5, "a string"),
    ("durable", "", "not empty"),
    ("durable", 5, "a string"),
    ("engine", "flink", "direct"),
    ("group", "caf\udce9", "half of a surrogate pair"),
    ("durable", "caf\udce9", "half of a surrogate pair"),
    ("queue", 2**63, "at most 9223372036854775807"),
    ("attempts", 2**63, "at most 9223372036854775807"),
]


@pytest.mark.parametrize(("option", "value", "accepted"), SUBSCRIBE)
def test_a_bad_option_of_subscribe_says_what_is_accepted(
    bus: TestBus, option: str, value: Any, accepted: str
) -> None:
    with pytest.raises(pc.BadOptionError, match=accepted) as caught:
        bus.subscribe(Talk, print, **{option: value})  # type: ignore[call-overload]
    assert (caught.value.option, caught.value.given) == (option, value)


@pytest.mark.parametrize(("option", "value", "accepted"), SUBSCRIBE)
def test_a_bad_option_leaves_no_subscription_behind(
    bus: TestBus, option: str, value: Any, accepted: str
) -> None:
    with pytest.raises(pc.BadOptionError):
        bus.subscribe(Talk, print, **{option: value})  # type: ignore[call-overload]
    assert bus.health().subscriptions == ()


PUBLISH: list[tuple[str, Any, str]] = [
    ("priority", "high", "whole number"),
    ("priority", 1.5, "whole number"),
    ("priority", True, "whole number"),
    ("priority", False, "whole number"),
    ("priority", "", "whole number"),
    ("expires", 0, "positive"),
    ("expires", -1, "positive"),
    ("expires", "soon", "seconds from now"),
    ("expires", datetime(2026, 1, 1), "time zone"),
    ("headers", "a=b", "strings to strings"),
    ("headers", {"a": 1}, "strings to strings"),
    ("identity", "p/1/1", "receipt"),
    ("priority", 10**30, "at most 9223372036854775807"),
    ("headers", {"a": "caf\udce9"}, "half of a surrogate pair"),
]


@pytest.mark.parametrize(("option", "value", "accepted"), PUBLISH)
def test_a_bad_option_of_publish_says_what_is_accepted(
    bus: TestBus, option: str, value: Any, accepted: str
) -> None:
    with pytest.raises(pc.BadOptionError, match=accepted):
        bus.publish(Talk(), **{option: value})


@pytest.mark.parametrize(("option", "value", "accepted"), PUBLISH)
def test_a_refused_publish_takes_no_position(
    bus: TestBus, option: str, value: Any, accepted: str
) -> None:
    with pytest.raises(pc.BadOptionError):
        bus.publish(Talk(), **{option: value})
    assert bus.publish(Talk()).position == 1


def test_an_unknown_option_of_subscribe_names_the_nearest(bus: TestBus) -> None:
    with pytest.raises(pc.BadOptionError, match="did you mean queue="):
        bus.subscribe(Talk, print, queu=5)  # type: ignore[call-overload]


def test_an_unknown_option_of_publish_is_refused(bus: TestBus) -> None:
    with pytest.raises(TypeError, match="prioritt"):
        bus.publish(Talk(), prioritt=5)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "what", [5, None, "Talk", Talk(), list[int], dict[str, int], int | list[int], (Talk, int)]
)
def test_what_is_no_type_says_what_is_accepted(bus: TestBus, what: Any) -> None:
    with pytest.raises(pc.NotATypeError, match=r"pc\.all_of"):
        bus.subscribe(what, print)


@pytest.mark.parametrize("parts", [(5,), (Talk, 5), (Talk, "/a"), (list[int],)])
def test_all_of_wants_classes(parts: tuple[Any, ...]) -> None:
    with pytest.raises(pc.NotATypeError, match="Accepted"):
        pc.all_of(*parts)


OPENING: list[tuple[dict[str, Any], str]] = [
    ({"history": -1}, "0 or more|at least 0"),
    ({"history": 1.5}, "0 or more|at least 0"),
    ({"history": True}, "0 or more|at least 0"),
    ({"stuck_timeout": 0}, "positive"),
    ({"stuck_timeout": "30"}, "positive"),
    ({"url": "ftp://x"}, "memory:"),
    ({"url": 5}, "memory:"),
    ({"dead_letters": -1}, "dead_letters"),
    ({"dead_letters": "many"}, "dead_letters"),
    ({"publisher": ""}, "publisher"),
    ({"publisher": 7}, "publisher"),
    ({"publisher": "caf\udce9"}, "half of a surrogate pair"),
]


@pytest.mark.parametrize(("options", "accepted"), OPENING)
def test_a_bus_that_cannot_be_opened_says_what_is_accepted(
    options: dict[str, Any], accepted: str
) -> None:
    with pytest.raises(pc.BadOptionError, match=accepted):
        pc.Bus(**options).close()


def test_what_this_version_does_not_have_is_a_named_error() -> None:
    with pytest.raises(pc.NotAvailableError, match=r"pc\.Bus\(\)"):
        pc.Bus("kafka://host")


@pytest.mark.parametrize(
    ("options", "accepted"),
    [({"context": object()}, r"a pc\.Context"), ({"federation": object()}, r"a pc\.Federation")],
)
def test_what_is_no_context_is_refused(options: Any, accepted: str) -> None:
    with pytest.raises(pc.PolycastError, match=accepted):
        pc.Bus(**options)


def test_a_context_that_nobody_knows_by_name_is_refused(bus: TestBus) -> None:
    with pytest.raises(pc.BadContextError, match="none is known yet"):
        bus.within("us")


def test_the_spark_engine_needs_a_durable_name(bus: TestBus) -> None:
    with pytest.raises(pc.BadOptionError, match="it goes with durable='name'"):
        bus.subscribe(Talk, print, engine="spark")


USES: dict[str, Callable[[TestBus], object]] = {
    "subscribe": lambda bus: bus.subscribe(Talk, print, engine="spark", durable="talks"),
    "stream": lambda bus: bus.stream(Talk, engine="spark", durable="talks"),
    "collection": lambda bus: pc.DAList(Talk, bus).contains(print, engine="spark", durable="talks"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_the_spark_engine_needs_a_store(bus: TestBus, use: Callable[[TestBus], object]) -> None:
    with pytest.raises(pc.BadOptionError, match="this bus is in memory"):
        use(bus)
    assert bus.health().subscriptions == ()


SUBSCRIPTION: dict[str, Callable[[Any], object]] = {
    "renew for nothing": lambda sub: sub.renew(0),
    "renew for words": lambda sub: sub.renew("60"),
}


@pytest.mark.parametrize("use", SUBSCRIPTION.values(), ids=SUBSCRIPTION)
def test_a_bad_renewal_is_refused(bus: TestBus, use: Callable[[Any], object]) -> None:
    with pytest.raises(pc.BadOptionError, match="positive number of seconds"):
        use(bus.subscribe(Talk, print, lease=60))


@pytest.mark.parametrize("lease", [0, -5, "60"])
def test_a_bad_lease_of_an_advertisement_is_refused(bus: TestBus, lease: Any) -> None:
    with pytest.raises(pc.BadOptionError, match="positive"):
        bus.advertise(Talk, lease=lease)


@pytest.mark.parametrize("lease", [0, -5, "60"])
def test_a_bad_renewal_of_an_advertisement_is_refused(bus: TestBus, lease: Any) -> None:
    with pytest.raises(pc.BadOptionError, match="positive"):
        bus.advertise(Talk).renew(lease)


def test_a_refused_advertisement_is_not_listed(bus: TestBus) -> None:
    with pytest.raises(pc.BadOptionError):
        bus.advertise(Talk, lease=0)
    assert bus.health().advertised == ()


def test_a_clock_does_not_go_back() -> None:
    with pytest.raises(pc.BadOptionError, match="time does not go back"):
        ManualClock().advance(-1)


def test_every_error_is_a_polycast_error() -> None:
    errors = [
        each
        for name in pc.__all__
        if isinstance(each := getattr(pc, name), type) and issubclass(each, Exception)
    ]
    assert all(issubclass(each, pc.PolycastError) for each in errors)
