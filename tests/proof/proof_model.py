"""Random histories in which every guarantee is kept, and the faults that can be planted in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from msgspec.structs import replace
from proof_checker import Expected
from proof_history import Op, Payload, digest

from polycast.events import Identity

__all__ = ["FAULTS", "Run", "good_run"]

Ops = list[Op]
ANYTHING = ("Talk", "Keynote", "Panel")


def talks(kind: str, _: Payload) -> bool:
    """Subtypes included."""
    return kind in ("Talk", "Keynote")


def large(kind: str, payload: Payload) -> bool:
    """A filter."""
    return talks(kind, payload) and payload["size"] > 30


def everything(_: str, __: Payload) -> bool:
    """No filter."""
    return True


class Run:
    """A history, and what its subscriptions should have had."""

    def __init__(self, ops: Ops, expected: list[Expected]) -> None:
        self.ops, self.expected = ops, expected


def good_run(seed: int) -> Run:
    """A history without a violation."""
    dice = random.Random(seed)
    published = list(_publishing(dice, events=dice.randint(40, 90)))
    log = [op for op in published if op.kind == "log"]
    expected = _subscriptions(dice, len(log))
    streams = [list(_deliveries(dice, each, log)) for each in expected if not each.group]
    streams.append(list(_group(dice, [each for each in expected if each.group], log)))
    ops = published + _interleaved(dice, streams)
    return Run([replace(op, at=at) for at, op in enumerate(ops, 1)], expected)


def _publishing(dice: random.Random, *, events: int) -> Iterator[Op]:
    numbers = {f"p{i}": [1, 0] for i in range(dice.randint(2, 3))}
    position = 0
    for n in range(events):
        publisher = dice.choice(list(numbers))
        if dice.random() < 0.05:  # it was killed and opened again
            numbers[publisher] = [numbers[publisher][0] + 1, 0]
        numbers[publisher][1] += 1
        payload: Payload = {"key": f"k{n}", "size": dice.randint(0, 60)}
        event = Op("attempted", publisher, 0, key=f"k{n}", type=dice.choice(ANYTHING))
        yield replace(event, payload=payload)
        if dice.random() < 0.05:
            continue  # killed before it was stored
        position += 1
        identity = Identity(publisher, *numbers[publisher])
        if dice.random() < 0.9:
            yield Op("accepted", publisher, 0, key=f"k{n}", identity=identity, position=position)
        stored = replace(event, kind="log", process="", payload=payload)
        yield replace(stored, identity=identity, position=position)


def _subscriptions(dice: random.Random, records: int) -> list[Expected]:
    wants = [talks, large, everything]
    plain = [
        Expected(f"{level} {i}", dice.choice(wants), level=level, start=dice.choice([1, 1, 5]))
        for level in ("strong_bag", "strong_set", "array", "list", "sorted_bag", "sorted_set")
        for i in range(2)
    ]
    weak = [
        Expected("weak_bag", talks, level="weak_bag", durable=False),
        Expected("weak_set", large, level="weak_set", durable=False),
    ]
    leased = Expected("leased", everything, level="strong_set", until=dice.randint(10, records))
    members = [
        Expected(f"member {i}", dice.choice(wants), level="strong_set", group="crew")
        for i in range(2)
    ]
    members.append(Expected("member 2", everything, level="strong_set", group="crew"))
    return [*plain, *weak, leased, *members]


def _deliveries(dice: random.Random, mine: Expected, log: Ops) -> Iterator[Op]:
    yield Op("subscribed", "s1", 0, subscription=mine.name)
    level = mine.promised
    wanted = _in_order(dice, [op for op in log if mine.covers(op)], level.order)
    for record in wanted:
        if not level.reliable and dice.random() < 0.2:
            continue
        delivery = _delivery(mine, record, count=1, token=3)
        while level.reliable and dice.random() < 0.15:  # it failed and is tried again
            yield delivery
            delivery = replace(delivery, count=delivery.count + 1)
        yield delivery
        if dice.random() < 0.03:
            yield replace(delivery, kind="buried")
            continue
        yield from _handled(delivery, record)
        if not level.unique and dice.random() < 0.1:
            delivery = replace(delivery, count=delivery.count + 1)
            yield delivery
            yield from _handled(delivery, record)
    yield Op("ended" if mine.until else "detached", "s1", 0, subscription=mine.name)


def _group(dice: random.Random, members: list[Expected], log: Ops) -> Iterator[Op]:
    for mine in members:
        yield Op("subscribed", mine.name, 0, subscription=mine.name)
    for record in _in_order(dice, log, "none"):
        wanting = [each for each in members if each.covers(record)]
        token = 1
        while dice.random() < 0.2:  # who has it is paused past its time
            yield _delivery(dice.choice(wanting), record, count=token, token=token)
            token += 1
        delivery = _delivery(dice.choice(wanting), record, count=token, token=token)
        yield delivery
        yield from _handled(delivery, record)


def _delivery(mine: Expected, record: Op, *, count: int, token: int) -> Op:
    return Op(
        "begun",
        mine.name if mine.group else "s1",
        0,
        subscription=mine.name,
        key=record.key,
        identity=record.identity,
        position=record.position,
        count=count,
        token=token,
    )


def _handled(delivery: Op, record: Op) -> Iterator[Op]:
    assert record.payload is not None
    yield replace(delivery, kind="effect", digest=digest(record.payload))
    yield replace(delivery, kind="settled")


def _in_order(dice: random.Random, log: Ops, order: str) -> Ops:
    if order == "total":
        return log
    if order == "none":
        return dice.sample(log, len(log))
    publishers = {op.identity.publisher for op in log if op.identity}
    return _interleaved(
        dice, [[op for op in log if op.identity and op.identity.publisher == p] for p in publishers]
    )


def _interleaved(dice: random.Random, streams: list[Ops]) -> Ops:
    streams = [list(reversed(stream)) for stream in streams if stream]
    found = []
    while streams:
        stream = dice.choice(streams)
        found.append(stream.pop())
        if not stream:
            streams.remove(stream)
    return found


# -- faults --------------------------------------------------------------------------------------


def _effects(run: Run, level: str) -> Ops:
    named = {each.name for each in run.expected if each.level == level and not each.group}
    return [op for op in run.ops if op.kind == "effect" and op.subscription in named]


def _without(run: Run, subscription: str, identity: Identity | None) -> Ops:
    gone = ("begun", "effect", "settled", "buried")
    return [
        op
        for op in run.ops
        if (op.kind not in gone) or (op.subscription, op.identity) != (subscription, identity)
    ]


def _swapped(ops: Ops, one: Op, two: Op) -> Ops:
    """The same with two effects in each other's place."""
    other = {one.at: replace(two, at=one.at), two.at: replace(one, at=two.at)}
    return [other.get(op.at, op) for op in ops]


def _later(run: Run, *more: Op) -> Ops:
    end = run.ops[-1].at
    return run.ops + [replace(op, at=end + i) for i, op in enumerate(more, 1)]


def _accepted(run: Run) -> set[Identity | None]:
    return {op.identity for op in run.ops if op.kind == "accepted"}


def lost_effect(dice: random.Random, run: Run) -> Ops:
    accepted = _accepted(run)
    op = dice.choice([op for op in _effects(run, "strong_bag") if op.identity in accepted])
    return _without(run, op.subscription, op.identity)


def lost_from_the_log(dice: random.Random, run: Run) -> Ops:
    gone = dice.choice([op for op in run.ops if op.kind == "accepted"])
    return [op for op in run.ops if op.kind != "log" or op.key != gone.key]


def payload_altered(dice: random.Random, run: Run) -> Ops:
    gone = dice.choice(_effects(run, "strong_set"))
    return [replace(op, digest="0" * 16) if op is gone else op for op in run.ops]


def effect_of_nothing(dice: random.Random, run: Run) -> Ops:
    op = dice.choice(_effects(run, "strong_bag"))
    return _later(run, replace(op, key="never", identity=Identity("p9", 1, 1), position=9_999))


def duplicate_in_a_set(dice: random.Random, run: Run) -> Ops:
    return _later(run, dice.choice(_effects(run, "strong_set")))


def publishers_order_swapped(dice: random.Random, run: Run) -> Ops:
    pairs = [
        (one, two)
        for one in _effects(run, "list")
        for two in _effects(run, "list")
        if one.at < two.at
        and one.subscription == two.subscription
        and one.identity
        and two.identity
        and one.identity.publisher == two.identity.publisher
    ]
    return _swapped(run.ops, *dice.choice(pairs))


def left_out_in_between(dice: random.Random, run: Run) -> Ops:
    ops = _effects(run, "array")
    mine = [op for op in ops if op.subscription == ops[0].subscription]
    publisher = mine[-1].identity.publisher if mine[-1].identity else ""
    same = [op for op in mine if op.identity and op.identity.publisher == publisher]
    earlier = [op for op in same if op.identity != same[-1].identity]
    gone = dice.choice(earlier or same)
    return _without(run, gone.subscription, gone.identity)


def total_order_swapped(dice: random.Random, run: Run) -> Ops:
    ops = _effects(run, "sorted_set")
    mine = [op for op in ops if op.subscription == ops[0].subscription]
    return _swapped(run.ops, *sorted(dice.sample(mine, 2), key=lambda op: op.at))


def two_total_orders(dice: random.Random, run: Run) -> Ops:
    """One subscriber sees two events the other way round, and numbers them to look right."""
    ops = _effects(run, "sorted_bag")
    mine = [op for op in ops if op.subscription == ops[0].subscription]
    one = dice.choice(mine)
    two = dice.choice([op for op in mine if op.identity != one.identity])
    renumbered = _swapped(run.ops, one, two)
    numbers = {one.at: one.position, two.at: two.position}
    return [replace(op, position=numbers.get(op.at, op.position)) for op in renumbered]


def accepted_twice(dice: random.Random, run: Run) -> Ops:
    op = dice.choice([op for op in run.ops if op.kind == "accepted"])
    return _later(run, replace(op, position=op.position + 1_000))


def _of_group(run: Run, kind: str) -> Ops:
    members = {each.name for each in run.expected if each.group}
    return [op for op in run.ops if op.kind == kind and op.subscription in members]


def two_effects_in_a_group(dice: random.Random, run: Run) -> Ops:
    op = dice.choice([op for op in _of_group(run, "effect") if op.subscription != "member 2"])
    more = replace(op, subscription="member 2", process="member 2", token=op.token + 1)
    return _later(run, replace(more, kind="begun", count=op.count + 1, digest=""), more)


def stale_token(dice: random.Random, run: Run) -> Ops:
    op = dice.choice(_of_group(run, "effect"))
    thief = replace(op, kind="begun", process="member 2", subscription="member 2", digest="")
    at = run.ops.index(op)
    thief = replace(thief, token=op.token + 1, count=op.count + 1)
    return [*run.ops[:at], thief, *run.ops[at:]]


def stale_acknowledgement(dice: random.Random, run: Run) -> Ops:
    op = dice.choice([op for op in _of_group(run, "settled") if op.count > 1])
    return _later(run, replace(op, token=op.token - 1))


def delivered_after_the_end(dice: random.Random, run: Run) -> Ops:
    mine = [op for op in run.ops if op.kind == "begun" and op.subscription == "leased"]
    op = dice.choice(mine)
    return _later(run, replace(op, count=op.count + 1))


def wrong_filter(dice: random.Random, run: Run) -> Ops:
    mine = next(each for each in run.expected if each.name == "weak_set")
    other = dice.choice([op for op in run.ops if op.kind == "log" and not mine.matches(op)])
    begun = replace(_delivery(mine, other, count=1, token=3), process="s2")
    return _later(run, begun, *_handled(begun, other))


def passed_over(dice: random.Random, run: Run) -> Ops:
    """Nobody was told that it was accepted, but it is in the log, and wanted."""
    accepted = _accepted(run)
    for level in ("strong_set", "strong_bag", "array", "list", "sorted_bag", "sorted_set"):
        maybe = [op for op in _effects(run, level) if op.identity not in accepted]
        if maybe:
            op = dice.choice(maybe)
            return _without(run, op.subscription, op.identity)
    return wrong_filter(dice, run)


def _later_without_a_count(dice: random.Random, run: Run, begun: Ops) -> Ops:
    first = dice.choice([op for op in begun if op.count == 1])
    return _later(run, replace(first, token=first.token + 10))


def repeat_that_counts_as_the_first(dice: random.Random, run: Run) -> Ops:
    bags = {each.name for each in run.expected if each.level == "strong_bag"}
    begun = [op for op in run.ops if op.kind == "begun" and op.subscription in bags]
    return _untold(_later_without_a_count(dice, run, begun))


def handed_over_as_the_first(dice: random.Random, run: Run) -> Ops:
    return _later_without_a_count(dice, run, _of_group(run, "begun"))


def _untold(ops: Ops) -> Ops:
    """The same; nobody has said that the subscription was over by then."""
    return [op for op in ops if (op.kind, op.subscription) != ("detached", ops[-1].subscription)]


FAULTS: dict[str, list[Callable[[random.Random, Run], Ops]]] = {
    "C1": [lost_effect, lost_from_the_log],
    "C2": [payload_altered, effect_of_nothing],
    "C3": [duplicate_in_a_set],
    "C4": [publishers_order_swapped, left_out_in_between],
    "C5": [total_order_swapped, two_total_orders, accepted_twice],
    "C6": [two_effects_in_a_group, stale_token, stale_acknowledgement],
    "C7": [delivered_after_the_end],
    "C8": [wrong_filter, passed_over],
    "C9": [repeat_that_counts_as_the_first, handed_over_as_the_first],
}
