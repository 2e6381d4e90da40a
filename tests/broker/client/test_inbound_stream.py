"""What a client of a broker keeps of what it is told."""

from __future__ import annotations

from polycast.broker.client.remote_store import InboundStream
from polycast.broker.wire.protocol import Events, Follow, FromClient


def told(stream: int, commits: int) -> Events:
    """That something was committed."""
    return Events(stream, upto=5, newest=4, revision=1, commits=commits)


def test_who_reads_nothing_is_told_and_keeps_nothing() -> None:
    news = InboundStream(lambda message: None)
    assert all(news.brought(told(0, commits)) for commits in range(1, 100))
    assert not news._received


def test_who_reads_keeps_what_has_come_until_it_is_read() -> None:
    said: list[FromClient] = []
    news = InboundStream(said.append)
    assert news.read(1, 10, None).entries == []
    assert isinstance(said[0], Follow)
    assert news.brought(told(said[0].stream, 1))
    assert news.read(1, 10, None).upto == 5
