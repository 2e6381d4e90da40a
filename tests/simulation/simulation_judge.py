"""A second judge of histories: C1 to C8, written from the page of guarantees alone.

It shares nothing with `proof_checker` but the lines that both read, so that a slip in one of them
does not hide what the other would have seen. Each rule is one function over a `Case`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from proof_history import Op, digest

from polycast.events import Identity

__all__ = ["Claim", "Verdict", "judge"]

SETS = {"weak_set", "strong_set", "list", "sorted_set"}
FIFO = {"array", "list"}
TOTAL = {"sorted_bag", "sorted_set"}
WEAK = {"weak_bag", "weak_set"}


@dataclass(frozen=True)
class Claim:
    """What one subscription, or one group, was promised."""

    name: str
    level: str
    wants: Callable[[Op], bool]
    """Asked of a line of the log: whether the event matches."""
    first: int = 0
    """The position from which on it is in effect."""
    until: float = float("inf")
    """The position at which it has ended."""
    complete: bool = True
    """Whether it was there, or kept, until all was quiet."""
    is_group: bool = False
    in_transactions: bool = False
    """Whether its effects are recorded by `delivery.transaction`: exactly once, whoever dies."""


@dataclass(frozen=True)
class Verdict:
    """A broken rule."""

    rule: str
    claim: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule} {self.claim}: {self.text}"


@dataclass
class Case:
    """A history, sorted by what its lines say."""

    ops: list[Op]
    claims: dict[str, Claim]
    interruptions: list[tuple[int, str]] = field(default_factory=list)
    """When a process died, or was counted as dead; "" is every process."""

    def of(self, kind: str, claim: str | None = None) -> Iterator[Op]:
        """The lines of one kind, in their order."""
        for op in self.ops:
            if op.kind == kind and (claim is None or op.subscription == claim):
                yield op

    @cached_property
    def log(self) -> dict[Identity, Op]:
        """What is in the log in the end."""
        return {op.identity: op for op in self.of("log") if op.identity is not None}

    @cached_property
    def lines(self) -> dict[str, dict[str, list[Op]]]:
        """Lines of each subscription, by kind."""
        sorted_lines: dict[str, dict[str, list[Op]]] = defaultdict(lambda: defaultdict(list))
        for op in self.ops:
            sorted_lines[op.subscription][op.kind].append(op)
        return sorted_lines

    def was_interrupted(self, process: str, after: int, before: int) -> bool:
        """Whether a process died between two moments."""
        return any(after <= at <= before and who in ("", process) for at, who in self.interruptions)

    def wanted(self, claim: Claim) -> list[Op]:
        """The lines of the log that match, in effect where it was; in log order."""
        return sorted(
            (
                op
                for op in self.log.values()
                if claim.first <= op.position < claim.until and claim.wants(op)
            ),
            key=lambda op: op.position,
        )

    def buried(self, claim: str) -> set[Identity]:
        """What is among its dead letters."""
        return {op.identity for op in self.lines[claim]["buried"] if op.identity is not None}


def judge(
    ops: Iterable[Op], claims: Iterable[Claim], interruptions: Iterable[tuple[int, str]] = ()
) -> list[Verdict]:
    """All that breaks a rule."""
    case = Case(sorted(ops, key=lambda op: op.at), {c.name: c for c in claims}, list(interruptions))
    return [verdict for rule in RULES for verdict in rule(case)]


def _acknowledged(case: Case) -> Iterator[Verdict]:
    """C1: what was acknowledged is in the log, as it was, and had its effect."""
    for op in case.of("accepted"):
        if op.position == 0 or op.identity is None:
            continue  # written later, and said so
        kept = case.log.get(op.identity)
        if kept is None:
            yield Verdict("C1", "log", f"{op.identity} was acknowledged and is not in the log")
        elif kept.position != op.position:
            text = f"{op.identity} was acknowledged at {op.position} and is at {kept.position}"
            yield Verdict("C1", "log", text)
    acknowledged = {op.identity for op in case.of("accepted") if op.position}
    for claim in case.claims.values():
        if claim.level in WEAK or not claim.complete:
            continue
        done = {op.identity for op in case.lines[claim.name]["effect"]} | case.buried(claim.name)
        for op in case.wanted(claim):
            if op.identity in acknowledged and op.identity not in done:
                yield Verdict("C1", claim.name, f"{op.key} at {op.position} had no effect")


def _attempted(case: Case) -> Iterator[Verdict]:
    """C2: every effect is of something that was published, with the same content."""
    said = {op.key: (op.type, digest(op.payload or {})) for op in case.of("attempted")}
    for op in case.of("effect"):
        if op.key not in said:
            yield Verdict("C2", op.subscription, f"{op.key} was never published")
        elif said[op.key][1] != op.digest:
            yield Verdict("C2", op.subscription, f"{op.key} came with another content")
    for op in case.of("log"):
        if op.key not in said:
            yield Verdict("C2", "log", f"{op.key} was never published")
        elif said[op.key] != (op.type, digest(op.payload or {})):
            yield Verdict("C2", "log", f"{op.key} is in the log with another content")


def _once(case: Case) -> Iterator[Verdict]:
    """C3: at a set level, one completed invocation; more only around a death."""
    for claim in case.claims.values():
        if claim.level not in SETS or claim.is_group:
            continue
        first: dict[Identity | None, Op] = {}
        for op in case.lines[claim.name]["effect"]:
            before = first.setdefault(op.identity, op)
            if before is op:
                continue
            if claim.in_transactions:
                yield Verdict("C3", claim.name, f"{op.key} took effect twice in transactions")
            elif not case.was_interrupted(before.process, before.at, op.at):
                yield Verdict("C3", claim.name, f"{op.key} took effect twice, and nobody had died")


def _fifo(case: Case) -> Iterator[Verdict]:
    """C4: each publisher's sequence grows, and leaves out nothing that matches."""
    for claim in case.claims.values():
        if claim.level not in FIFO or claim.is_group:
            continue
        newest: dict[str, tuple[int, int]] = {}
        done: set[Identity | None] = set()
        wanted = defaultdict(list)
        for op in case.wanted(claim) if claim.complete else ():
            if op.identity is not None:
                wanted[op.identity.publisher].append(op)
        buried = case.buried(claim.name)
        for op in case.lines[claim.name]["effect"]:
            identity = op.identity
            if identity is None or identity in done:
                continue
            source, number = identity.publisher, (identity.epoch, identity.sequence)
            done.add(identity)
            if number <= newest.get(source, (0, 0)):
                text = f"{op.key} came after {source}'s number {newest[source]}"
                yield Verdict("C4", claim.name, text)
            newest[source] = max(newest.get(source, (0, 0)), number)
            for earlier in wanted[source]:
                at = earlier.identity
                if at is None or (at.epoch, at.sequence) >= number:
                    break
                if at not in done and at not in buried:
                    text = f"{op.key} came, and {earlier.key} before it had not"
                    yield Verdict("C4", claim.name, text)


def _total(case: Case) -> Iterator[Verdict]:
    """C5: positions grow; an identity has one position, and a position one identity."""
    for claim in case.claims.values():
        if claim.level not in TOTAL or claim.is_group:
            continue
        newest, done = 0, set()
        for op in case.lines[claim.name]["effect"]:
            if op.identity in done:
                continue
            done.add(op.identity)
            if op.position <= newest:
                yield Verdict("C5", claim.name, f"position {op.position} came after {newest}")
            newest = max(newest, op.position)
    places: dict[Identity, int] = {}
    names: dict[int, Identity] = {}
    for op in case.ops:
        if op.identity is None or op.position <= 0:
            continue
        if places.setdefault(op.identity, op.position) != op.position:
            text = f"{op.identity} is at {places[op.identity]} and at {op.position}"
            yield Verdict("C5", op.subscription, text)
        if names.setdefault(op.position, op.identity) != op.identity:
            text = f"position {op.position} is {names[op.position]} and {op.identity}"
            yield Verdict("C5", op.subscription, text)


def _one_of_n(case: Case) -> Iterator[Verdict]:
    """C6: in a group one member has each event, and a stale token settles nothing."""
    for claim in case.claims.values():
        newest: dict[Identity | None, int] = {}
        settled: dict[Identity | None, Op] = {}
        effects: dict[Identity | None, Op] = {}
        for op in case.ops:
            if op.subscription != claim.name or op.kind not in ("begun", "effect", "settled"):
                continue
            if op.kind == "begun":
                newest[op.identity] = max(newest.get(op.identity, 0), op.token)
            elif op.kind == "settled":
                if op.token < newest.get(op.identity, 0):
                    text = f"{op.key} was settled with the token {op.token}, which was stale"
                    yield Verdict("C6", claim.name, text)
                if claim.is_group and op.identity in settled:
                    yield Verdict("C6", claim.name, f"{op.key} was settled twice")
                settled[op.identity] = op
            elif claim.is_group:
                before = effects.setdefault(op.identity, op)
                if before is not op and not (
                    case.was_interrupted(before.process, before.at, op.at)
                    or case.was_interrupted(op.process, before.at, op.at)
                ):
                    text = f"{op.key} took effect in {before.process} and in {op.process}"
                    yield Verdict("C6", claim.name, text)


def _leases(case: Case) -> Iterator[Verdict]:
    """C7: no delivery begins after the end."""
    over: dict[tuple[str, str], bool] = {}
    for op in case.ops:
        here = op.subscription, op.process
        if op.kind == "ended":
            over[here] = True
        elif op.kind == "subscribed":
            over[here] = False
        elif op.kind == "begun" and over.get(here):
            yield Verdict("C7", op.subscription, f"{op.key} came after its end")


def _evaluated(case: Case) -> Iterator[Verdict]:
    """C8: what came is what the log has and the subscription wants; nothing else, and all of it."""
    for claim in case.claims.values():
        wanted = {op.identity for op in case.wanted(claim)}
        came = {op.identity for op in case.lines[claim.name]["begun"]}
        for op in case.lines[claim.name]["begun"]:
            if op.identity not in wanted:
                why = "is not wanted" if op.identity in case.log else "is not in the log"
                yield Verdict("C8", claim.name, f"{op.key} at {op.position} came and {why}")
        if claim.level in WEAK or not claim.complete:
            continue
        for identity in wanted - came - case.buried(claim.name):
            op = case.log[identity] if identity is not None else None
            yield Verdict("C8", claim.name, f"{op.key if op else identity} never came")


RULES = (_acknowledged, _attempted, _once, _fifo, _total, _one_of_n, _leases, _evaluated)
