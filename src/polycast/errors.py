"""Every error polycast raises, as one tree.

PolycastError
├── NotAType            subscribing to, or publishing as, what is no event type
├── NameClash           two different classes under one wire name on one bus
├── NotShareable        a class that no other process could name, on a shared bus
├── NotSerialisable     a value that has no form on the wire
├── NotDecodable        bytes that are no event of the expected kind
├── MethodNotHere       a method of a class this process does not have
├── FilterError         a filter that is wrong
│   ├── FilterMistake   it names what its type cannot have, or does what it cannot do
│   ├── NotRoutable     the pipeline could ask nothing of it
│   ├── NoSparkForm     a part of it that no Spark column can compute exactly
│   └── NoSparkType     an annotation that no Spark column can hold exactly
├── BadTopic            a topic that cannot be published to or subscribed to
├── BadCallback         a callback that cannot take an event
├── BadOption           an option that does not exist, or a value it does not take
├── NotAvailable        a part that is not installed or not built
├── BusClosed           using a bus after close()
├── SubscriptionEnded   using a subscription that is over
│   ├── Cancelled       it was cancelled
│   ├── LeaseExpired    its lease ran out
│   ├── TakenOver       its durable name was attached elsewhere
│   └── CutOff          its queue was full and its policy is "cut_off"
├── DurableChanged      a durable name attached with another definition
├── NoHistory           since= on a bus that keeps no history
├── HistoryGone         since= before the oldest event kept
├── QueueFull           overflow="block" reached its deadline; nothing was accepted
├── PublishUnknown      it is not known whether the event was accepted
├── NotSettled          an acknowledgement that came too late or twice
├── StoreError          a store that cannot be used as asked
│   ├── NotAStore       a file that is no store, or one of a newer version
│   ├── StoreClosed     using a store after it was closed
│   ├── StoreFailed     the disk is full or failing: nothing more is accepted
│   └── StoreDamaged    what was read is not what was written
├── PipelineError       a pipeline that cannot be used as asked
│   ├── BadCheckpoint   a folder that it cannot go on from
│   ├── PipelineFailed  it had to stop
│   └── PipelineTakenOver  another was started over the same store
├── NoRow               an event that a table of its type cannot hold
├── NotAPullCollection  get(), len() or iteration without pull=
└── WouldDeadlock       waiting for itself, from inside a callback
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "BadCallback",
    "BadCheckpoint",
    "BadOption",
    "BadTopic",
    "BusClosed",
    "Cancelled",
    "CutOff",
    "DurableChanged",
    "FilterError",
    "FilterMistake",
    "HistoryGone",
    "LeaseExpired",
    "MethodNotHere",
    "NameClash",
    "NoHistory",
    "NoRow",
    "NoSparkForm",
    "NoSparkType",
    "NotAPullCollection",
    "NotAStore",
    "NotAType",
    "NotAvailable",
    "NotDecodable",
    "NotRoutable",
    "NotSerialisable",
    "NotSettled",
    "NotShareable",
    "PipelineError",
    "PipelineFailed",
    "PipelineTakenOver",
    "PolycastError",
    "PublishUnknown",
    "QueueFull",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreFailed",
    "SubscriptionEnded",
    "TakenOver",
    "WouldDeadlock",
]


class PolycastError(Exception):
    """The root of all errors."""


# -- types and the wire ------------------------------------------------------------------------


class NotAType(PolycastError, TypeError):
    """What was given is no event type and no topic."""

    def __init__(
        self, given: object, *, why: str, accepted: str, action: str = "to subscribe to"
    ) -> None:
        self.given = given
        super().__init__(f"{_short(given)} is not something {action}: {why}. {accepted}")


class NameClash(PolycastError):
    """Two different classes under one wire name on one bus."""

    def __init__(self, name: str, version: int, *, difference: str) -> None:
        self.name, self.version, self.difference = name, version, difference
        super().__init__(
            f"another class is already known as {name!r} version {version} on this bus, and it is "
            f"different: {difference}. Give one of them a name or version of its own with "
            f"@pc.event(name=..., version=...)"
        )


class NotShareable(PolycastError):
    """A class that no other process could name."""

    def __init__(self, cls: type, *, why: str) -> None:
        self.cls = cls
        super().__init__(
            f"{cls.__module__}.{cls.__qualname__} cannot leave this process: {why}. Define it at "
            f"the top level of a module, or in a class that is, or use pc.Bus() in memory"
        )


class NotSerialisable(PolycastError, TypeError):
    """A value that has no form on the wire."""

    def __init__(self, given: object, *, path: str, why: str) -> None:
        self.given, self.path = given, path
        super().__init__(
            f"{path} is {_short(given)}, which cannot be serialised: {why}. Accepted: None, bool, "
            f"int, float, str, bytes, date and time types, Decimal, UUID, enums, lists, tuples, "
            f"sets, dicts, and dataclasses, attrs classes, msgspec Structs, pydantic models or "
            f"annotated classes of these"
        )


class NotDecodable(PolycastError, ValueError):
    """Bytes that are no event of the expected kind."""

    def __init__(self, what: str, *, why: str) -> None:
        self.what = what
        super().__init__(f"cannot decode {what}: {why}")


class MethodNotHere(PolycastError, AttributeError):
    """A method of a class this process does not have."""

    def __init__(self, class_name: str, method: str) -> None:
        self.class_name, self.method = class_name, method
        super().__init__(
            f"{class_name}.{method}() is not here: this process has only the description of "
            f"{class_name}, with its fields. Import the module that defines it to call its methods"
        )


# -- asking for something that does not exist -----------------------------------------------------


class FilterError(PolycastError):
    """The root of the filters' errors."""


class FilterMistake(FilterError):
    """A filter that names what its type cannot have, or does what its type cannot do."""

    def __init__(self, problems: Iterable[object], types: str) -> None:
        self.problems, self.types = tuple(problems), types
        listed = "\n".join(map(str, self.problems))
        super().__init__(f"the filter cannot be right for {types}:\n{listed}")


class NoSparkForm(FilterError):
    """A part of a filter that no Spark column can compute exactly."""

    def __init__(self, part: str, *, node: object, why: str, accepted: str) -> None:
        self.part, self.node, self.why, self.accepted = part, node, why, accepted
        super().__init__(
            f"`{part}` has no exact Spark form: {why}. Accepted: {accepted}. "
            f"The filter itself still works in Python"
        )


class NotRoutable(FilterError):
    """A filter of which the pipeline could ask nothing."""

    def __init__(self, where: object, *, why: str) -> None:
        self.where, self.why = where, why
        super().__init__(
            f"engine='spark' cannot route by {where}: {why}. Accepted: a filter of which at least "
            f"one part after `and` can be looked into, or a function of a module, which the "
            f"pipeline imports if its imports= names that module. engine='direct' takes any filter"
        )


class NoSparkType(FilterError):
    """An annotation that no Spark column can hold exactly."""

    def __init__(self, where: str, *, why: str, accepted: str) -> None:
        self.where, self.why, self.accepted = where, why, accepted
        super().__init__(f"{where} has no Spark type: {why}. Accepted: {accepted}")


class BadTopic(PolycastError, ValueError):
    """A topic that cannot be published to or subscribed to."""

    def __init__(self, topic: object, *, why: str) -> None:
        self.topic = topic
        super().__init__(
            f"{topic!r} is not a topic: {why}. A topic looks like '/Chat/Insomnia'; "
            f"in a subscription '*' stands for one level and '**' for any number of levels"
        )


class BadCallback(PolycastError, TypeError):
    """A callback that cannot take an event."""

    def __init__(self, callback: object, *, why: str) -> None:
        self.callback = callback
        super().__init__(
            f"{_short(callback)} cannot be a callback: {why}. A callback takes (event) or "
            f"(event, delivery), and may be async"
        )


class BadOption(PolycastError, ValueError):
    """An option that does not exist, or a value that it does not take."""

    def __init__(self, option: str, given: object, *, accepted: str, why: str = "") -> None:
        self.option, self.given = option, given
        reason = f": {why}" if why else ""
        super().__init__(f"{option}={given!r:.200} is not accepted{reason}. Accepted: {accepted}")

    @classmethod
    def unknown(cls, option: str, given: object, known: Iterable[str]) -> BadOption:
        """The error for an option nobody knows, with the nearest one that exists."""
        names = sorted(known)
        near = difflib.get_close_matches(option, names, n=1)
        hint = f"; did you mean {near[0]}=?" if near else ""
        return cls(option, given, accepted=_list(names), why=f"there is no such option{hint}")

    @classmethod
    def choice(cls, option: str, given: object, choices: Iterable[str]) -> BadOption:
        """The error for a value that is none of the choices."""
        names = list(choices)
        near = difflib.get_close_matches(str(given), names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return cls(option, given, accepted=f"one of {_list(map(repr, names))}{hint}")


class NotAvailable(PolycastError):
    """A part that is not installed, or that this version does not have."""

    def __init__(self, what: str, *, why: str, instead: str) -> None:
        self.what = what
        super().__init__(f"{what} is not available: {why}. {instead}")


# -- the life of a bus and its subscriptions -------------------------------------------------------


class BusClosed(PolycastError):
    """Using a bus after close()."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        super().__init__(f"{operation}: this bus is closed; open another with pc.Bus(...)")


class SubscriptionEnded(PolycastError):
    """Using a subscription that is over."""

    how = "ended"

    def __init__(self, subscription: str, *, detail: str = "") -> None:
        self.subscription = subscription
        more = f" ({detail})" if detail else ""
        super().__init__(f"the subscription to {subscription} {self.how}{more}; subscribe again")


class Cancelled(SubscriptionEnded):
    """It was cancelled."""

    how = "was cancelled"


class LeaseExpired(SubscriptionEnded):
    """Its lease ran out."""

    how = "had a lease, which ran out"


class TakenOver(SubscriptionEnded):
    """Its durable name was attached elsewhere."""

    how = "was taken over by another attachment of its durable name"


class CutOff(SubscriptionEnded):
    """Its queue was full and its policy is "cut_off"."""

    how = "was cut off, because its queue was full; what it had not handled is in the dead letters"


class DurableChanged(PolycastError):
    """A durable name attached with another definition."""

    def __init__(self, name: str, difference: Mapping[str, tuple[str, str]]) -> None:
        self.name, self.difference = name, dict(difference)
        rows = "; ".join(
            f"{key}: {old} before, {new} now" for key, (old, new) in difference.items()
        )
        super().__init__(
            f"the durable subscription {name!r} exists with another definition ({rows}). Use its "
            f"definition, another name, or replace=True to keep its place with the new definition"
        )


class NoHistory(PolycastError):
    """since= on a bus that keeps no history."""

    def __init__(self) -> None:
        super().__init__("since= needs events that were kept: open the bus with pc.Bus(history=n)")


class HistoryGone(PolycastError):
    """since= before the oldest event kept."""

    def __init__(self, since: object, *, oldest: int | None) -> None:
        self.since, self.oldest = since, oldest
        kept = f"the oldest kept is at position {oldest}" if oldest else "nothing is kept yet"
        super().__init__(f"since={since!r} is too far back: {kept}. since='beginning' starts there")


class QueueFull(PolycastError):
    """overflow="block" reached its deadline; nothing was accepted."""

    def __init__(self, subscription: str, *, queue: int, waited: float) -> None:
        self.subscription, self.queue, self.waited = subscription, queue, waited
        super().__init__(
            f"the queue of the subscription to {subscription} still has {queue} events after "
            f"{waited:g} s; the event was not accepted by anyone and may be published again"
        )


class PublishUnknown(PolycastError):
    """It is not known whether the event was accepted."""

    def __init__(self, identity: object, *, why: str, identities: tuple[object, ...] = ()) -> None:
        self.identity, self.identities = identity, identities or (identity,)
        super().__init__(
            f"it is not known whether the event was accepted: {why}. Publish it again with "
            f"identity={identity!r}: it will be stored once"
        )


class NotSettled(PolycastError):
    """An acknowledgement that came too late, twice, or from who lost the delivery."""

    def __init__(self, action: str, *, why: str) -> None:
        self.action = action
        super().__init__(f"{action} was refused: {why}")


class StoreError(PolycastError):
    """A store that cannot be used as asked."""


class NotAStore(StoreError):
    """A file that is no store, or one of a newer version."""

    def __init__(self, path: str, *, why: str, instead: str) -> None:
        self.path = path
        super().__init__(f"{path} cannot be opened as a store: {why}. {instead}")


class StoreClosed(StoreError):
    """Using a store after it was closed."""

    def __init__(self) -> None:
        super().__init__("this store is closed; open it again")


class StoreFailed(StoreError):
    """The disk is full or failing: nothing more is accepted, what is there can still be read."""

    def __init__(self, path: str, *, why: str, unknown: bool = False) -> None:
        self.path, self.why = path, why
        self.unknown = unknown
        """Whether what was under way may have been stored."""
        super().__init__(
            f"{path} takes nothing more: {why}. The file is kept as it is, and reading goes on. "
            f"See to the disk, then open the bus again"
        )


class StoreDamaged(StoreError):
    """What was read is not what was written."""

    def __init__(self, path: str, *, place: str, why: str) -> None:
        self.path, self.place = path, place
        super().__init__(
            f"{path} is damaged at {place}: {why}. Nothing was deleted. Run `polycast doctor` on "
            f"it, and restore a back-up"
        )


class NoRow(PolycastError, ValueError):
    """An event that a table of its type cannot hold exactly, or that cannot be read at all."""

    def __init__(
        self, position: int, name: str, *, why: str, about: tuple[str, object] | None = None
    ) -> None:
        self.position, self.name = position, name
        self.attribute = about[0] if about else None
        self.value = about[1] if about else None
        super().__init__(
            f"the event at position {position}, of {name}, has no row: {why}. misfits='skip' "
            f"leaves such events out"
        )


class NotAPullCollection(PolycastError, TypeError):
    """get(), len() or iteration on a collection without pull=."""

    def __init__(self, operation: str, collection: str) -> None:
        self.operation = operation
        super().__init__(
            f"{operation} needs a buffer, and {collection} has none: make it with pull='fifo' "
            f"(a queue) or pull='lifo' (a stack)"
        )


class WouldDeadlock(PolycastError):
    """Waiting for itself, from inside a callback."""

    def __init__(self, operation: str, *, why: str) -> None:
        super().__init__(f"{operation} would wait for itself: {why}")


def _short(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__module__}.{value.__qualname__}"
    try:
        text = repr(value)
    except Exception:  # an error must be told even of a value that cannot say what it is
        text = object.__repr__(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


class PipelineError(PolycastError):
    """The root of the errors of a pipeline."""


class BadCheckpoint(PipelineError):
    """A folder that a pipeline cannot go on from."""

    def __init__(self, path: object, *, why: str, high: int) -> None:
        self.path, self.why, self.high = path, why, high
        super().__init__(
            f"{path} is no checkpoint that this pipeline can go on from: {why}. Name another "
            f"folder, or remove this one: nothing is lost by that, as the store knows that all "
            f"before position {high} is routed"
        )


class PipelineFailed(PipelineError):
    """A pipeline that had to stop."""

    def __init__(self, where: str, *, why: str) -> None:
        self.where, self.why = where, why
        super().__init__(f"the pipeline stopped at {where}: {why}")


class PipelineTakenOver(PipelineError):
    """Another pipeline was started over the same store."""

    def __init__(self) -> None:
        super().__init__(
            "another pipeline was started over the same store, and routes from now on; "
            "this one has stopped, and nothing is lost or done twice"
        )
