"""Any attribute of any type to any other: judged by an independent look at what is delivered."""

from __future__ import annotations

import collections.abc
import random
import types
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from enum import Enum
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Protocol,
    TypedDict,
    TypeVar,
)

import pytest
import typing_extensions
from reflective import reflect
from typing_extensions import TypeAliasType

import polycast as pc
from polycast.contexts.resolve.inheritance import settle

T = TypeVar("T")


class Default(Enum):
    TAKEN = 1


@dataclass(frozen=True)
class M:
    amount: int


@dataclass(frozen=True)
class Sub(M):
    more: str = "more"


@dataclass(frozen=True)
class LM:
    amount: int


@dataclass(slots=True)
class Holder:
    m: M


class Row(NamedTuple):
    m: M
    k: int


class Doc(TypedDict):
    m: M


class LocalDoc(TypedDict):
    m: LM


@dataclass(frozen=True)
class Box(Generic[T]):
    x: T


@dataclass(frozen=True)
class IntBox(Box[int]):
    pass


class HasAmount(Protocol):
    amount: int


class Color(Enum):
    RED = 1
    BLUE = 2


UserId = NewType("UserId", int)
Many = TypeAliasType("Many", list[T], type_params=(T,))

SAMPLES: dict[Any, list[Any]] = {
    int: [1, True],
    float: [1.5, 2],
    str: ["a", "b"],
    bool: [True, False],
    type(None): [None],
    M: [M(1), Sub(2)],
    Sub: [Sub(3)],
    LM: [LM(4)],
    Holder: [Holder(M(5))],
    Row: [Row(M(6), 7)],
    Doc: [{"m": M(8)}],
    LocalDoc: [{"m": LM(9)}],
    IntBox: [IntBox(1)],
    Color: list(Color),
    UserId: [2],
    HasAmount: [M(3), LM(4)],
    Literal["a"]: ["a"],
    Literal[1, "b"]: [1, "b"],
    type[int]: [int, bool],
    type[M]: [M, Sub],
}
HASHABLE = [int, str, M, LM, Color, UserId]
INSIDE: list[Any] = [
    lambda a, b: a | None,
    lambda a, b: a | b,
    lambda a, b: Annotated[a, "note"],
    lambda a, b: list[a],
    lambda a, b: Many[a],
    lambda a, b: tuple[a, ...],
    lambda a, b: tuple[a, b],
    lambda a, b: dict[str, a],
    lambda a, b: collections.abc.Mapping[str, a],
    lambda a, b: collections.abc.Sequence[a],
    lambda a, b: deque[a],
    lambda a, b: OrderedDict[str, a],
    lambda a, b: defaultdict[str, a],
    lambda a, b: Box[a],
]
OF_HASHABLE: list[Any] = [
    lambda a: set[a],
    lambda a: frozenset[a],
    lambda a: collections.abc.Set[a],
    lambda a: Counter[a],
    lambda a: dict[a, int],
]


def annotation(choose: random.Random, depth: int) -> Any:
    kind = choose.random()
    if depth == 0 or kind < 0.3:
        return choose.choice(list(SAMPLES))
    if kind < 0.45:
        return choose.choice(OF_HASHABLE)(choose.choice(HASHABLE))
    one, other = annotation(choose, depth - 1), annotation(choose, depth - 1)
    return choose.choice(INSIDE)(one, other)


def near(choose: random.Random, hint: Any) -> Any:
    """An annotation that is like another one, so that it often fits."""
    arguments = typing.get_args(hint)
    kind = choose.random()
    if kind < 0.3 or not arguments or typing.get_origin(hint) in (Literal, Annotated, type):
        likely = {
            M: LM,
            int: float,
            float: int,
            Doc: LocalDoc,
            Row: tuple[LM, int],
            IntBox: Box[str],
        }
        return choose.choice([hint | None, hint | LM, likely.get(hint, hint), hint])
    if typing.get_origin(hint) is types.UnionType or typing.get_origin(hint) is typing.Union:
        return choose.choice(arguments)
    place = choose.randrange(len(arguments))
    if arguments[place] is ... or typing.get_origin(hint) in (set, frozenset, Counter):
        return hint
    inside = [near(choose, e) if i == place else e for i, e in enumerate(arguments)]
    if isinstance(typing.get_origin(hint), TypeAliasType):
        return Many[inside[0]]
    return typing.get_origin(hint)[tuple(inside)]


def plain(hint: Any) -> Any:
    while True:
        if typing.get_origin(hint) is Annotated:
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif isinstance(typing.get_origin(hint), TypeAliasType):
            hint = list[typing.get_args(hint)[0]]
        else:
            return hint


def sample(choose: random.Random, hint: Any) -> Any:
    if not isinstance(hint, TypeVar) and hint in SAMPLES:
        return choose.choice(SAMPLES[hint])
    hint = plain(hint)
    if hint in SAMPLES:
        return choose.choice(SAMPLES[hint])
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return sample(choose, choose.choice(arguments))
    if origin is tuple and arguments[-1] is not ...:
        return tuple(sample(choose, argument) for argument in arguments)
    if origin is Box:
        return Box(sample(choose, arguments[0]))
    keys = [sample(choose, arguments[0]) for _ in range(choose.randrange(3))]
    if issubclass(origin, Counter):
        return Counter(keys)
    if issubclass(origin, collections.abc.Mapping):
        kinds: list[Any] = [dict] if origin is collections.abc.Mapping else [origin]
        kinds += [OrderedDict] if origin in (collections.abc.Mapping, dict) else []
        pairs = {key: sample(choose, arguments[1]) for key in keys}
        kind = choose.choice(kinds)
        return defaultdict(list, pairs) if kind is defaultdict else kind(pairs)
    made: dict[Any, list[Any]] = {
        collections.abc.Sequence: [list, tuple, deque],
        collections.abc.Set: [set, frozenset],
    }
    return choose.choice(made.get(origin, [origin]))(keys)


def is_of(value: Any, hint: Any, given: dict[Any, Any] | None = None) -> bool:
    """Whether a value is of an annotation, all the way down."""
    hint = plain((given or {}).get(hint, hint) if isinstance(hint, TypeVar) else hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(is_of(value, argument) for argument in arguments)
    if origin is Literal:
        return any(type(value) is type(argument) and value == argument for argument in arguments)
    if origin is type:
        return isinstance(value, type) and issubclass(value, arguments[0])
    if typing_extensions.is_typeddict(hint):
        hints = typing.get_type_hints(hint)
        return (
            isinstance(value, dict)
            and value.keys() == hints.keys()
            and all(is_of(value[key], inner) for key, inner in hints.items())
        )
    if hint is HasAmount:
        return isinstance(value, M | LM)
    if origin is None:
        wider = {float: (int, float)}
        return isinstance(value, wider.get(hint, hint))
    if origin is Box:
        return isinstance(value, Box) and is_of(value.x, arguments[0])
    if not isinstance(value, origin):
        return False
    if origin is tuple and arguments[-1] is not ...:
        return len(value) == len(arguments) and all(map(is_of, value, arguments))
    if issubclass(origin, collections.abc.Mapping):
        inner = arguments[1] if len(arguments) > 1 else int
        return all(is_of(k, arguments[0]) and is_of(v, inner) for k, v in value.items())
    return all(is_of(item, arguments[0]) for item in value)


def amounts(value: Any) -> list[int]:
    """Of each M, wherever it is."""
    if isinstance(value, M):
        return [value.amount]
    inside: list[Any] = []
    if isinstance(value, collections.abc.Mapping):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset | deque):
        inside = [*value]
    elif isinstance(value, Box | Holder):
        inside = [value.x if isinstance(value, Box) else value.m]
    return [amount for part in inside for amount in amounts(part)]


def up(m: M) -> M:
    return M(m.amount + 1000)


def declared(held: Any, wanted: Any, way: str) -> tuple[pc.Context, Any]:
    source = dataclass(type("E", (), {"__annotations__": {"x": held}}))
    fields = {"__annotations__": {"x": wanted}, "x": Default.TAKEN}
    target = dataclass(type("L", (), fields))
    root = pc.Context("root", types=[source, M])
    us = pc.Context("us", parent=root, types=[target, LM])
    us.map(source, target, "?")
    if way == "rule":
        us.rule("M", up)
    if way == "mapping":
        us.map(M, LM, "?")
    return us, source


SKIPPED = {"not-looked-into", "unknown-inside"}


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_or_of_another_type_or_passed_over_without_a_finding(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(25):
        held = annotation(choose, 3)
        wanted = choose.choice([held, near(choose, held), annotation(choose, 2)])
        us, source = declared(held, wanted, way := choose.choice(["", "rule", "mapping"]))
        report = us.check()
        codes = {finding.code for finding in report.findings}
        said = f"{held} to {wanted} by {way or 'name'}: {codes}"
        if report.errors:
            assert codes & {"bad-result", "nothing-produces"}, said
            continue
        assert wanted is not held or way == "mapping" or "does-not-fit" not in codes, said
        fed = pc.Federation(us.root)
        fed.add(us)
        for _ in range(4):
            event = source(sample(choose, held))
            assert is_of(event.x, held)
            found = fed.translate(event, target=us)
            told = f"{said}: {event} became {found}"
            assert reflect(settle(us), "?", event) == found, told
            if found.x is Default.TAKEN:
                assert "does-not-fit" in codes, told
                continue
            assert is_of(found.x, wanted), told
            if way == "rule" and not codes & SKIPPED:
                assert all(amount >= 1000 for amount in amounts(found.x)), told
            if not way:
                assert amounts(found.x) == amounts(event.x), told
