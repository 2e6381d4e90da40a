"""Functions of users that leave, over a store: they fail, and the bus goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from stored_events import Sale

import polycast as pc

Eventually = Callable[[Callable[[], object]], None]


class Fickle(msgspec.Struct):
    """Its making leaves for some, once it was published."""

    number: int = 0

    def __post_init__(self) -> None:
        if self.number < 0:
            raise SystemExit("not this one")


def leave(_: object) -> Any:
    raise SystemExit("out of here")


class OutOfTime(BaseException):
    """What some libraries raise: no Exception, so that nobody catches it by accident."""


def run_out(_: object) -> Any:
    raise OutOfTime("out of here")


@pytest.mark.parametrize("where", [leave, run_out])
@pytest.mark.parametrize("dispatch", ["inline", "pool"])
def test_a_filter_that_leaves_does_not_match(
    shop: pc.Bus, dispatch: Any, where: Callable[[object], Any]
) -> None:
    got: list[Sale] = []
    shop.subscribe(Sale, got.append, where=where, dispatch=dispatch)
    shop.subscribe(Sale, got.append, dispatch=dispatch)
    shop.publish(Sale(1))
    shop.publish(Sale(2))
    assert shop.flush(5)
    assert (got, shop.health().counts.filter_failures) == ([Sale(1), Sale(2)], 2)


@pytest.mark.parametrize("dispatch", ["inline", "pool"])
def test_a_callback_that_leaves_has_failed(
    shop: pc.Bus, dispatch: Any, eventually: Eventually
) -> None:
    got: list[Sale] = []
    shop.subscribe(Sale, leave, dispatch=dispatch, attempts=1)
    shop.subscribe(Sale, got.append, dispatch=dispatch)
    shop.publish(Sale(1))
    shop.publish(Sale(2))
    assert shop.flush(5)
    eventually(lambda: len(shop.dead_letters()) == 2)
    assert {each.reason for each in shop.dead_letters()} == {"SystemExit: out of here"}
    assert got == [Sale(1), Sale(2)]


def test_an_event_whose_making_leaves_is_a_dead_letter(
    shop: pc.Bus, eventually: Eventually
) -> None:
    got: list[int] = []
    shop.subscribe(Fickle, lambda event: got.append(event.number))
    unlucky = Fickle(1)
    unlucky.number = -1
    shop.publish(unlucky)
    shop.publish(Fickle(2))
    assert shop.flush(5)
    eventually(lambda: len(shop.dead_letters()) == 1)
    [letter] = shop.dead_letters()
    assert got == [2]
    assert "SystemExit: not this one" in letter.reason
