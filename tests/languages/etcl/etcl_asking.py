"""Asking an ETCL filter in every test of a rule, and the classes of the events."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import polycast as pc


class House(enum.Enum):
    """An enumeration."""

    HUT = 10
    HOUSE = 20
    PALACE = 30


@dataclass
class Inner:
    a: Any = 1
    b: Any = "two"


@pc.event(name="test.Outer")
@dataclass
class Outer:
    first: Any = 1
    inner: Inner = field(default_factory=Inner)
    several: Any = field(default_factory=lambda: [1, 2, 3])

    @property
    def doubled(self) -> int:
        return int(self.first) * 2

    def method(self) -> int:
        return 1


def says(text: str, event: Any = None) -> bool:
    """What a filter says, by its code and by its tree; its text means the same."""
    where = pc.parse_filter(text, "etcl")
    found = where.matches(event)
    assert where.interpret(event) is found
    assert pc.parse_filter(where.to_etcl(), "etcl") == where
    return found


def fails(text: str, event: Any = None) -> bool:
    """Whether evaluating fails: neither it nor its negation is true, and no `or` helps."""
    assert says(f"TRUE or ({text})", event)
    return not (
        says(text, event) or says(f"not ({text})", event) or says(f"({text}) or TRUE", event)
    )


def union(tag: Any, member: str | None, value: Any, **more: Any) -> pc.TaggedUnion:
    labels = {"K": (0, 2), "L": (1,), "C": ("c",), "E": (House.HOUSE,)}
    return pc.TaggedUnion(tag, member, value, labels=labels, **more)


def verdict(text: str, event: Any = None) -> str:
    """What becomes of a filter: "match", "no match", or how it is refused; engines agree."""
    try:
        where = pc.parse_filter(text, "etcl")
    except pc.FilterSyntaxError:
        return "syntax"
    except pc.FilterTypeError:
        return "type"
    found = says(text, event)
    for native in (None, False):
        matcher: pc.Matcher[int] = pc.Matcher(native=native)
        matcher.add(1, object, where)
        assert matcher.match(event) == [1] * found
    return "match" if found else "no match"
