"""A broker's process rests after each full collection, for as long as that asks for."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from polycast.broker.server.garbage_collection import MANY, REST, RareCollections


@pytest.fixture(autouse=True)
def by_hand() -> Iterator[None]:
    """Python begins no collection by itself."""
    gc.disable()
    yield
    gc.enable()


class Clock:
    """Each look at it is a second later."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now


def test_a_full_collection_is_followed_by_a_rest_that_is_as_long_as_it_took() -> None:
    clock, before = Clock(), gc.get_threshold()
    rare = (*before[:2], MANY)
    with RareCollections(monotonic=clock.monotonic):
        gc.collect(1)
        assert gc.get_threshold() == before  # only full ones matter
        gc.collect(2)
        assert gc.get_threshold() == rare
        clock.now += REST - 10.0
        gc.collect(1)
        assert gc.get_threshold() == rare
        clock.now += 10.0
        gc.collect(0)
        assert gc.get_threshold() == before
        gc.collect(2)
        assert gc.get_threshold() == rare
    assert gc.get_threshold() == before


def test_what_was_there_before_is_left_out_until_the_end() -> None:
    frozen, callbacks = gc.get_freeze_count(), len(gc.callbacks)
    with RareCollections():
        assert gc.get_freeze_count() > frozen + 10_000
    assert gc.get_freeze_count() == 0
    assert len(gc.callbacks) == callbacks
