"""What a filter from outside may not ask for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import polycast as pc


class Chat:
    def __init__(self) -> None:
        self.text = "Hello World"
        self.tags = ["a"]

    def sender(self) -> str:
        return "Alice"


def outside(text: str) -> pc.Filter[Any]:
    """A filter as it comes from a store or over a wire."""
    return pc.Filter.from_json({"format": 1, "filter": text})


@pytest.mark.parametrize(
    "text",
    [
        *("event.sender.__globals__['SECRET'] == 'x'", "event.__class__", "event.__dict__.clear()"),
        *("event.__setattr__('text', '')", "reach(event, '__class__')", "event.a.__call__('x')"),
        *("'{0.sender.__globals__}'.format(event)", "event.text.format_map(event.tags)"),
        *(
            "event.gen.gi_frame.f_back.f_globals",
            "event.tags.clear()",
            "reach(event.tags, 'clear')",
        ),
        *("event.tags.append(1)", "event.data.pop('k')", "'%999999999d' % event.n"),
        *("9**9**9", "event.n ** event.n", "event.n ** 25", "1 << 10**9", "event.n << event.n"),
        *("((event.n ** 64) ** 64) ** 64", "event.text * 999999999", "999999999 * event.text"),
        *("event.text * 9999 * 9999", "'a' * 99999999", "[0] * 99999999", "event.n * 10**9"),
        *("'x'.zfill(10**9)", "event.text.ljust(999999999)", "event.text.join(event.text)"),
        *(
            "event.text.replace('l', 'll')",
            "event.text.replace('', 'x')",
            "event.price.to_bytes(9**9)",
        ),
        "any(any(any(any(a == d for d in event) for c in event) for b in event) for a in event)",
        "any(any(a == b for b in event) for a in event)",
    ],
)
def test_it_is_refused(text: str) -> None:
    with pytest.raises(pc.FilterError):
        outside(text)


@pytest.mark.parametrize(
    "text",
    [
        *("event.n ** 2 > 3", "event.n * 100 * 60 > 1", "event.seconds * 1e9 > 5", "event.n << 3"),
        *("event.text.replace('-', '') == 'x'", "event.text.lower().startswith('hello')"),
        *("event.n % 2 == 1", "event._n > 1", "event.sender() == 'Alice'", "event.format == 'pdf'"),
        "any(any(tag == 'new' for tag in each.tags) for each in event.items)",
    ],
)
def test_what_is_ordinary_is_not_refused(text: str) -> None:
    wanted = outside(text)
    assert pc.Filter.from_json(wanted.to_json()) == wanted


def test_what_could_not_be_read_again_does_not_leave() -> None:
    kind = pc.lift(lambda t: t.__class__.__name__ == "Chat")
    assert kind.matches(Chat())
    with pytest.raises(pc.FilterError, match="leads out"):
        kind.to_json()


@pytest.mark.parametrize("value", [10**5000, -(10**5000), 2**2001], ids=["long", "below", "two"])
def test_a_long_number_has_a_text(value: Any) -> None:
    lifted = pc.lift(lambda t: t.n == value)
    assert pc.Filter.from_json(lifted.to_json()) == lifted
    assert lifted.matches(SimpleNamespace(n=value))
