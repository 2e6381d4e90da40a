"""What a broker has sent, and what it is told of what was read."""

from __future__ import annotations

from polycast.broker.client.remote_store import PARTS, InboundStream
from polycast.broker.wire.protocol import Credit, Events, FromClient, encode_records
from polycast.events import Identity, Record
from polycast.stores import Stored


def records_at(position: int) -> bytes:
    identity = Identity("shop", 1, position)
    record = Record("shop.Order", 1, "h", identity, 0.0, "msgpack", b"tea")
    return encode_records([Stored(position, record)])


SIZE = len(records_at(1))


def read(news: InboundStream, count: int) -> None:
    """Have so many events come, one by one, and read each."""
    for position in range(1, count + 1):
        news.brought(Events(1, position + 1, position, 0, 0, records_at(position)))
        assert news.read(position, 10, None).upto == position + 1


def credits_of(window: int, count: int) -> list[int]:
    told: list[FromClient] = []
    news = InboundStream(told.append, lambda: window)
    news.read(1, 10, None)  # from here on
    read(news, count)
    return [each.size for each in told if isinstance(each, Credit)]


def test_a_broker_is_told_of_a_part_of_its_window_not_of_each_frame() -> None:
    assert credits_of(3 * SIZE * PARTS, 7) == [3 * SIZE, 3 * SIZE]


def test_a_broker_with_a_small_window_is_told_of_each_frame() -> None:
    assert credits_of(1, 3) == [SIZE] * 3


def test_what_was_read_from_another_place_does_not_count_for_the_new_one() -> None:
    told: list[FromClient] = []
    news = InboundStream(told.append, lambda: 3 * SIZE * PARTS)
    news.read(1, 10, None)
    read(news, 2)
    news.read(1, 10, None)  # once more from the beginning
    news.brought(Events(2, 2, 2, 0, 0, records_at(1)))
    news.read(1, 10, None)
    assert not [each for each in told if isinstance(each, Credit)]


def test_frames_are_opened_until_they_make_up_the_size_that_is_read() -> None:
    news = InboundStream([].append)
    news.read(1, 10, None)  # from here on
    for position in range(1, 6):
        news.brought(Events(1, position + 1, position, 0, 0, records_at(position)))
    first = news.read(1, 10, SIZE + 1)
    assert (len(first.entries), first.upto, first.more) == (2, 3, True)
    rest = news.read(3, 10, None)
    assert (len(rest.entries), rest.upto, rest.more) == (3, 6, False)
