"""The rules C1 to C9 of the guarantees, over what happened in all processes after quiescence.

C1 all that was accepted has its effect in every subscription that wants it
C2 an effect is of something that was attempted, and equal to it
C3 in a set an event has at most one effect
C4 each publisher's events come in its own order, without a gap
C5 total order: positions increase, and identity and position are one-to-one everywhere
C6 in a group an event has exactly one effect, and nothing is done with a stale token
C7 nothing is delivered after a subscription has ended
C8 what is delivered is what a plain predicate finds in the log
C9 a delivery of what may have been begun before says so: its count is 2 or more
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from proof_history import Op, Payload, digest

from polycast.config import LEVELS, Level
from polycast.events import Identity

__all__ = ["Expected", "Violation", "check", "doubted_in_vain"]


@dataclass(frozen=True)
class Expected:
    """A subscription and what it should match; members of a group share its name."""

    name: str
    wants: Callable[[str, Payload], bool]
    level: str = "sorted_set"
    group: str = ""
    start: int = 1
    until: int | None = None
    durable: bool = True

    @property
    def promised(self) -> Level:
        """The level with its properties."""
        return LEVELS[self.level]

    @property
    def certified(self) -> bool:
        """Whether nothing may be lost."""
        return self.durable and self.promised.reliable

    def covers(self, record: Op) -> bool:
        """Whether it is in effect at a record's position and wants it."""
        before_end = self.until is None or record.position < self.until
        return self.start <= record.position and before_end and self.matches(record)

    def matches(self, record: Op) -> bool:
        """Whether it wants a record, wherever it is."""
        return record.payload is not None and self.wants(record.type, record.payload)


@dataclass(frozen=True)
class Violation:
    """A rule that was broken, and where."""

    rule: str
    why: str
    subscription: str = ""
    identity: Identity | None = None
    position: int = 0
    seed: int | None = None

    def __str__(self) -> str:
        where = f" in {self.subscription!r}" if self.subscription else ""
        return (
            f"{self.rule}{where}: {self.why} (identity {self.identity}, "
            f"position {self.position}, seed {self.seed})"
        )


@dataclass
class _Unit:
    """What shares its events: one subscription, or all members of a group."""

    name: str
    members: list[Expected]
    begun: list[Op] = field(default_factory=list)
    effects: list[Op] = field(default_factory=list)
    settled: list[Op] = field(default_factory=list)
    buried: set[Identity | None] = field(default_factory=set)

    @property
    def is_group(self) -> bool:
        return bool(self.members[0].group)

    @property
    def level(self) -> Level:
        return self.members[0].promised

    def covers(self, record: Op) -> bool:
        return any(each.covers(record) for each in self.members)

    def firsts(self) -> list[Op]:
        """The first effect of each event, in the order of time."""
        seen: dict[Identity | None, Op] = {}
        for op in self.effects:
            seen.setdefault(op.identity, op)
        return list(seen.values())

    def deliveries(self) -> list[list[Op]]:
        """Those of each event, the first first: whoever attaches later has higher tokens."""
        found: dict[Identity | None, list[Op]] = defaultdict(list)
        for op in sorted(self.begun, key=lambda op: (op.token, op.at)):
            found[op.identity].append(op)
        return list(found.values())

    def broken(self, rule: str, why: str, op: Op) -> Violation:
        return Violation(rule, why, op.subscription or self.name, op.identity, op.position)


class _Facts:
    """The operations, sorted by what they say."""

    def __init__(
        self, ops: Sequence[Op], expected: Sequence[Expected], void: Collection[Identity]
    ) -> None:
        self.ops = ops
        self.void = set(void)
        self.attempted = {op.key: op for op in ops if op.kind == "attempted"}
        self.accepted = [op for op in ops if op.kind == "accepted"]
        self.log = sorted((op for op in ops if op.kind == "log"), key=lambda op: op.position)
        self.at = {op.position: op for op in self.log}
        self.expected = {each.name: each for each in expected}
        self.units: dict[str, _Unit] = {}
        for each in expected:
            named = each.group or each.name
            self.units.setdefault(named, _Unit(named, [])).members.append(each)
        for op in ops:
            self._sort_in(op)

    def _sort_in(self, op: Op) -> None:
        mine = self.expected.get(op.subscription)
        unit = self.units.get(mine.group or mine.name) if mine else self.units.get(op.subscription)
        if unit is None:
            return
        if op.kind == "begun":
            unit.begun.append(op)
        elif op.kind == "effect":
            unit.effects.append(op)
        elif op.kind == "settled":
            unit.settled.append(op)
        elif op.kind == "buried":
            unit.buried.add(op.identity)

    def due(self, unit: _Unit) -> list[Op]:
        """The records of the log that must have an effect, by position."""
        excused = unit.buried | self.void
        return [op for op in self.log if op.identity not in excused and unit.covers(op)]


def check(
    ops: Sequence[Op],
    expected: Sequence[Expected],
    *,
    seed: int | None = None,
    void: Collection[Identity] = (),
) -> list[Violation]:
    """What was broken in a merged history; `void` are events that expired."""
    facts = _Facts(ops, expected, void)
    return [replace(each, seed=seed) for rule in RULES for each in rule(facts)]


def nothing_lost(facts: _Facts) -> Iterator[Violation]:
    """C1."""
    kept = {op.key for op in facts.log}
    for op in facts.accepted:
        if op.key not in kept:
            yield Violation("C1", "it was accepted and is not in the log", "", op.identity)
    for unit in facts.units.values():
        if not unit.members[0].certified:
            continue
        excused = {op.identity for op in unit.effects} | unit.buried | facts.void
        for op in facts.accepted:
            attempt = facts.attempted.get(op.key)
            if attempt is None or op.identity in excused:
                continue
            if unit.covers(_at(attempt, op)):
                yield unit.broken("C1", "it was accepted and has no effect", _of_nobody(op))


def nothing_invented(facts: _Facts) -> Iterator[Violation]:
    """C2."""
    for op in facts.accepted:
        if op.key not in facts.attempted:
            yield Violation("C2", "accepted, never attempted", "", op.identity, op.position)
    identities = {op.key: op.identity for op in facts.log}
    for op in facts.ops:
        if op.kind not in ("effect", "log"):
            continue
        attempt = facts.attempted.get(op.key)
        broken = Violation("C2", "", op.subscription, op.identity, op.position)
        seen = digest(op.payload) if op.payload is not None else op.digest
        if attempt is None:
            yield replace(broken, why=f"nobody attempted {op.key!r}")
        elif attempt.payload is None or digest(attempt.payload) != seen:
            yield replace(broken, why=f"{op.key!r} is not what was published")
        elif identities.get(op.key) != op.identity:
            yield replace(broken, why=f"{op.key!r} has another identity in the log")


def no_duplicates(facts: _Facts) -> Iterator[Violation]:
    """C3."""
    for unit in facts.units.values():
        if unit.level.unique and not unit.is_group:
            yield from _repeated(unit, "C3")


def publishers_order(facts: _Facts) -> Iterator[Violation]:
    """C4."""
    for unit in facts.units.values():
        if unit.level.order != "fifo" or unit.is_group:
            continue
        firsts, due = _by_publisher(unit.firsts()), _by_publisher(facts.due(unit))
        for publisher in firsts.keys() | due.keys():
            seen = firsts[publisher]
            for before, after in pairwise(seen):
                if _number(before) >= _number(after):
                    why = f"it came after {before.identity}"
                    yield unit.broken("C4", why, after)
            yield from _gaps(unit, "C4", seen, due[publisher], _number)


def total_order(facts: _Facts) -> Iterator[Violation]:
    """C5."""
    positions: dict[Identity, Op] = {}
    identities: dict[int, Op] = {}
    for op in facts.ops:
        if op.identity is None or not op.position:
            continue
        broken = Violation("C5", "", op.subscription, op.identity, op.position)
        other = positions.setdefault(op.identity, op)
        if other.position != op.position:
            yield replace(broken, why=f"it is also at {other.position}")
        other = identities.setdefault(op.position, op)
        if other.identity != op.identity:
            yield replace(broken, why=f"{other.identity} has the same position")
    for unit in facts.units.values():
        if unit.level.order != "total" or unit.is_group:
            continue
        firsts = unit.firsts()
        for before, after in pairwise(firsts):
            if before.position >= after.position:
                yield unit.broken("C5", f"it came after position {before.position}", after)
        yield from _gaps(unit, "C5", firsts, facts.due(unit), lambda op: op.position)


def one_of_many(facts: _Facts) -> Iterator[Violation]:
    """C6."""
    for unit in facts.units.values():
        if unit.is_group:
            if unit.level.unique:
                yield from _repeated(unit, "C6")
            if unit.members[0].certified:
                done = {op.identity for op in unit.effects}
                for op in facts.due(unit):
                    if op.identity not in done:
                        yield unit.broken("C6", "no member has handled it", _of_nobody(op))
        yield from _stale(unit)


def nothing_after_the_end(facts: _Facts) -> Iterator[Violation]:
    """C7."""
    over: set[tuple[str, str]] = set()
    for op in facts.ops:
        if op.kind in ("ended", "detached"):
            over.add((op.subscription, op.process))
        elif op.kind == "subscribed":
            over.discard((op.subscription, op.process))
        elif op.kind == "begun":
            mine = facts.expected.get(op.subscription)
            late = mine is not None and mine.until is not None and op.position >= mine.until
            if late or (op.subscription, op.process) in over:
                why = "it was delivered after the subscription had ended"
                yield Violation("C7", why, op.subscription, op.identity, op.position)


def as_the_reference(facts: _Facts) -> Iterator[Violation]:
    """C8."""
    for unit in facts.units.values():
        for op in unit.begun:
            record, mine = facts.at.get(op.position), facts.expected.get(op.subscription)
            if record is None or record.identity != op.identity:
                yield unit.broken("C8", "the log has something else there", op)
            elif mine is None or not mine.matches(record) or record.position < mine.start:
                yield unit.broken("C8", "it was delivered and is not wanted", op)
        if unit.members[0].certified:
            done = {op.identity for op in unit.effects}
            for op in facts.due(unit):
                if op.identity not in done:
                    yield unit.broken("C8", "it is in the log, and wanted", _of_nobody(op))


def repeats_are_told(facts: _Facts) -> Iterator[Violation]:
    """C9."""
    for unit in facts.units.values():
        if not unit.members[0].durable:
            continue
        for _, *later in unit.deliveries():
            for op in later:
                if op.count < 2:
                    yield unit.broken("C9", "it was begun before, and counts as the first", op)


def doubted_in_vain(ops: Sequence[Op], expected: Sequence[Expected]) -> int:
    """How many deliveries counted as a repeat, and were the first."""
    units = _Facts(ops, expected, ()).units.values()
    return sum(first.count > 1 for unit in units for first, *_ in unit.deliveries())


RULES: list[Callable[[_Facts], Iterator[Violation]]] = [
    nothing_lost,
    nothing_invented,
    no_duplicates,
    publishers_order,
    total_order,
    one_of_many,
    nothing_after_the_end,
    as_the_reference,
    repeats_are_told,
]


def _repeated(unit: _Unit, rule: str) -> Iterator[Violation]:
    seen: set[Identity | None] = set()
    for op in unit.effects:
        if op.identity in seen:
            yield unit.broken(rule, "it has another effect", op)
        seen.add(op.identity)


def _stale(unit: _Unit) -> Iterator[Violation]:
    """What was done with a token after a later one had been used for the same event.

    An acknowledgement is judged by what had been given: it is refused from then on. An effect is
    judged by the effects before it: a holder that was paused in its callback may be the first whose
    transaction commits, and then the later holder finds that it is done.
    """
    given: dict[Identity | None, int] = defaultdict(int)
    effective: dict[Identity | None, int] = defaultdict(int)
    by_time = sorted(unit.begun + unit.effects + unit.settled, key=lambda op: op.at)
    for op in by_time:
        if op.kind == "begun":
            given[op.identity] = max(given[op.identity], op.token)
            continue
        later = effective if op.kind == "effect" else given
        if op.token < later[op.identity]:
            why = f"{op.kind} with token {op.token}, after one of {later[op.identity]}"
            yield unit.broken("C6", why, op)
        if op.kind == "effect":
            effective[op.identity] = max(effective[op.identity], op.token)


def _gaps(
    unit: _Unit, rule: str, seen: list[Op], due: list[Op], order: Callable[[Op], object]
) -> Iterator[Violation]:
    """What is due before the last that was seen, and was not seen."""
    if not unit.members[0].certified or not seen:
        return
    done = {op.identity for op in seen}
    last = max(seen, key=order)  # type: ignore[arg-type]
    for op in due:
        if op.identity not in done and order(op) < order(last):  # type: ignore[operator]
            yield unit.broken(rule, "a gap: it was left out", _of_nobody(op))


def _by_publisher(ops: list[Op]) -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        if op.identity is not None:
            found[op.identity.publisher].append(op)
    return found


def _number(op: Op) -> tuple[int, int]:
    assert op.identity is not None
    return op.identity.epoch, op.identity.sequence


def _at(attempt: Op, accepted: Op) -> Op:
    return Op(
        "log",
        "",
        0,
        key=attempt.key,
        type=attempt.type,
        payload=attempt.payload,
        identity=accepted.identity,
        position=accepted.position,
    )


def _of_nobody(op: Op) -> Op:
    return Op("effect", op.process, op.at, identity=op.identity, position=op.position)
