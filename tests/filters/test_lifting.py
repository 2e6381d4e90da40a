"""What can be looked into, and what happens to the rest."""

from __future__ import annotations

import enum
import functools
import math
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import polycast as pc
from polycast.filters.tree.canonical_text import parse


class Status(enum.Enum):
    OPEN = "open"
    PAID = "paid"


@dataclass
class Talk:
    speaker: str = "Guerraoui"
    stars: int = 3
    status: Status = Status.PAID
    tags: list[str] = field(default_factory=list)


LIMIT = 2


class Desk:
    def __init__(self) -> None:
        self.limit = 2

    def wants(self, talk: Talk) -> bool:
        return talk.stars > self.limit

    def __call__(self, talk: Talk) -> bool:
        return talk.stars < self.limit

    @property
    def moving(self) -> int:
        return self.limit

    def moves(self, talk: Talk) -> bool:
        return talk.stars > self.moving


def helper(talk: Talk) -> bool:
    return True


def documented(talk: Talk) -> bool:
    """Has a docstring and one return."""
    return talk.speaker.lower().startswith("guer")


def longer(talk: Talk) -> bool:
    stars = talk.stars
    return stars > 1


def made(limit: int) -> tuple[Any, Any]:
    return (lambda t: t.stars > limit), (lambda t: t.stars < limit)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda t: t.stars > LIMIT, "event.stars > 2"),
        (lambda t: 1 < t.stars <= 3, "1 < event.stars <= 3"),
        (lambda t: t.status is Status.PAID, "MEMBER"),
        (lambda t: t.speaker.find("x") == -1, "event.speaker.find('x') == (-1)"),
        (lambda t: math.pi > t.stars, f"{math.pi} > event.stars"),
        (documented, "event.speaker.lower().startswith('guer')"),
        (Desk().wants, "event.stars > 2"),
        (Desk(), "event.stars < 2"),
        (functools.partial(lambda n, t: t.stars == n, 3), "event.stars == 3"),
        (lambda t, n=4: t.stars == n, "event.stars == 4"),
        (made(7)[0], "event.stars > 7"),
        (made(7)[1], "event.stars < 7"),
    ],
)
def test_a_function_becomes_a_tree(function: Any, text: str) -> None:
    expected = f"event.status is member('{__name__}.Status', 'PAID')" if text == "MEMBER" else text
    assert str(pc.lift(function)) == expected


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda t: helper(t), "cannot be looked into"),
        (longer, "more than return"),
        (print, "not a Python function"),
        (lambda t: f"{t.stars}", "no node"),
        (Desk().moves, "not a plain attribute"),
        (lambda t: t.stars > UNDEFINED, "not defined"),  # type: ignore[name-defined]  # noqa: F821
    ],
)
def test_what_cannot_be_looked_into_is_opaque_and_says_why(function: Any, why: str) -> None:
    [part] = pc.lift(function).opaque_parts()
    assert why in part.why


def test_only_the_part_that_cannot_be_looked_into_is_opaque() -> None:
    lifted = pc.lift(lambda t: t.stars > 2 and helper(t))
    assert str(lifted).startswith("event.stars > 2 and opaque(") or "(event.stars > 2)" in str(
        lifted
    )
    assert lifted.matches(Talk())


def test_what_a_name_stands_for_is_read_once() -> None:
    limit = 2
    lifted = pc.lift(lambda t: t.stars > limit)
    limit = 100
    assert lifted.matches(Talk())


def test_an_opaque_part_reads_its_names_when_it_is_called() -> None:
    limits = [2]
    lifted = pc.lift(lambda t: t.stars > sum(limits))
    limits[0] = 100
    assert not lifted.matches(Talk())


def test_a_shadowed_function_is_not_the_built_in_one() -> None:
    len = lambda x: 100  # noqa: A001, E731
    assert pc.lift(lambda t: len(t.tags) == 100).matches(Talk())


def test_constants_carry_their_type() -> None:
    one, true, real = (
        pc.lift(f) for f in (lambda t: t.a == 1, lambda t: t.a, lambda t: t.a == 1.0)
    )
    assert len({one, true, real}) == 3


def test_equal_filters_are_equal_wherever_they_were_written() -> None:
    assert pc.lift(lambda t: t.stars > 2) == pc.lift(lambda talk: talk.stars > LIMIT)


def test_several_lambdas_on_a_line_are_told_apart() -> None:
    filters = [pc.lift(f) for f in (lambda t: t.a == 1, lambda t: t.a == 2, lambda t: t.b == 1)]
    assert [str(where) for where in filters] == ["event.a == 1", "event.a == 2", "event.b == 1"]


def test_a_lambda_of_the_command_line_is_lifted() -> None:
    script = "import polycast as pc\nprint(pc.lift(lambda t: t.a > 1))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "event.a > 1"


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -5,
        10**40,
        0.0,
        -0.0,
        float("inf"),
        "it's\n",
        b"\x00",
        date(2026, 1, 2),
        datetime(2026, 1, 2, 3, tzinfo=UTC),
        datetime(2026, 1, 2, 3, fold=1),
        timedelta(days=-1, microseconds=3),
        Decimal("1.10"),
        UUID(int=7),
        Status.OPEN,
        (1, (2.0,), "a"),
        [],
        [1],
        {1, 2},
        frozenset(),
        (),
    ],
)
def test_every_constant_has_a_text(value: Any) -> None:
    lifted = pc.lift(lambda t: t.x == value)
    assert not lifted.opaque_parts()
    assert parse(str(lifted)) == lifted.tree


@pytest.mark.parametrize(
    "text",
    [
        "",
        "event.",
        "event.a +",
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "event.a if 1 else 2",
        "lambda: 1",
        "(x := 1)",
        "other.a",
        "event.a[1:2]",
        "kind('no.such.Class')",
        "member('no.such', 'X')",
        "Decimal('one')",
        "UUID(event.a)",
        "f'{event.a}'",
        "(" * 5_000 + ")" * 5_000,
        "not " * 50_000 + "event",
        "x" * 200_000,
        "event.__class__.__private_name",
        "timedelta(10**400)",
    ],
)
def test_what_is_no_filter_is_refused_by_name(text: str) -> None:
    with pytest.raises(pc.FilterError):
        parse(text)


def test_a_mistake_is_pointed_at() -> None:
    with pytest.raises(pc.FilterError, match=r"(?s)event\.a >\n\s+\^"):
        parse("event.a >")


def test_an_opaque_filter_cannot_leave_the_process() -> None:
    with pytest.raises(pc.FilterError, match="cannot leave"):
        pc.lift(lambda t: helper(t)).to_json()


def test_generated_code_has_no_builtins_and_no_values_of_users() -> None:
    lifted = pc.lift(lambda t: t.a == "'); import os; ('" and len(t.b) > 3)
    assert "import" not in lifted.to_python()
    assert lifted.function.__globals__["__builtins__"] == {}  # type: ignore[attr-defined]
