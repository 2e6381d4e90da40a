"""What each reader is sent of some records, against asking reader by reader."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from polycast.broker.server.fanout import RoutedBatch
from polycast.broker.wire.protocol import Events, decode_records
from polycast.events import Identity, Record
from polycast.stores import Stored


@dataclass(eq=False)
class Reader:
    """Somebody who may see some records, or all of them."""

    hidden: frozenset[int] | None
    stream: int = 1
    at: int = 1
    groups: int = 0
    sent: list[Events] = field(default_factory=list)

    @property
    def may_receive_all(self) -> bool:
        return self.hidden is None

    def has_room(self) -> bool:
        return True

    def may_receive(self, record: Record) -> bool:
        return self.hidden is None or record.identity.sequence not in self.hidden

    def send_events(self, events: Events) -> None:
        self.sent.append(events)


def stored(position: int) -> Stored:
    return Stored(
        position, Record("shop.Order", 1, "h", Identity("shop", 1, position), 0.0, "msgpack", b"")
    )


takers = st.lists(st.frozensets(st.integers(0, 4)), max_size=12)
hidden = st.lists(st.none() | st.frozensets(st.integers(1, 12)), min_size=5, max_size=5)


@given(takers, hidden)
def test_a_share_is_what_the_reader_takes_and_may_see_in_the_order_of_the_log(
    taken: list[frozenset[int]], hides: list[frozenset[int] | None]
) -> None:
    readers = [Reader(each) for each in hides]
    lots: dict[frozenset[int], list[Stored]] = {}
    for position, numbers in enumerate(taken, 1):
        lots.setdefault(numbers, []).append(stored(position))
    wanted = {
        reader: [at for at, numbers in enumerate(lots) if number in numbers]
        for number, reader in enumerate(readers)
    }
    wanting = RoutedBatch(list(lots.values()), wanted)
    for number, reader in enumerate(readers):
        expected = [
            stored(position)
            for position, numbers in enumerate(taken, 1)
            if number in numbers and reader.may_receive(stored(position).record)
        ]
        share = wanting.encoded_for(reader)
        assert (share.count, decode_records(share.records)) == (len(expected), expected)


def test_readers_who_get_the_same_share_the_same_bytes() -> None:
    readers = [Reader(None), Reader(None)]
    wanting = RoutedBatch([[stored(1)], [stored(2)]], {each: [0, 1] for each in readers})
    first, second = (wanting.encoded_for(each) for each in readers)
    assert first.records is second.records
