"""Records as a context sees them: the root, one that the store keeps, or one that is tried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.contexts import Context
from polycast.contexts.declare.context_state import read_state, state_of
from polycast.errors import BadContextError, BadOptionError, ContextRefusedError, NotDecodableError
from polycast.errors.failures import failures_here
from polycast.events import JSON, Record, codec_for
from polycast.routing.context_versions import ContextHistory, functions_in
from polycast.routing.search import known_types
from polycast.stores import ContextVersion, Store, Stored, View
from polycast.typesystem import Registry, wire_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polycast.contexts.declare.context_state import ContextState, FunctionState
    from polycast.stores.sqlite.store import Readable

IMPURE = "per_batch"
DraftContext = tuple[str, ...]
"""A context and those above it, each as data; the first is it."""


def draft_of(context: object) -> tuple[str | None, DraftContext]:
    """The name of a context, and what it is if it is not to be as the store has it."""
    if context is None or isinstance(context, str):
        return context, ()
    if not isinstance(context, Context):
        accepted = "a pc.Context, or the name of one that the store has"
        raise BadOptionError("context", context, accepted=accepted)
    if context.root is context:
        return None, ()
    errors = context.check().errors
    if errors:
        raise ContextRefusedError(context.name, errors)
    return context.name, tuple(state_of(part).decode() for part in context.lineage())


def functions_of(state: ContextState) -> list[FunctionState]:
    """All functions that a context names."""
    return [function for function in functions_in(state) if function.name != "-"]


def check_pure(name: str, states: list[ContextState], impure: str | None) -> None:
    """Refuse a context that may give another result each time, unless that is wanted."""
    if impure not in (None, IMPURE):
        raise BadOptionError.choice("impure", impure, (IMPURE,))
    impure_names = [
        function.name for state in states for function in functions_of(state) if function.impure
    ]
    if impure_names and impure is None:
        raise BadOptionError(
            "context",
            name,
            why=f"{', '.join(impure_names)} may give something else each time",
            accepted=f"contexts without pc.impure(), or impure={IMPURE!r}: Spark may ask twice",
        )


class ContextView:
    """From where records are looked at. `None` is the root."""

    def __init__(
        self,
        registry: Registry,
        function: Callable[[str], Callable[..., object] | None],
        context: str | None,
        states: DraftContext = (),
    ) -> None:
        self.context, self._is_tried = context, bool(states)
        self._history = ContextHistory(registry, function)
        if states:
            versions = [
                ContextVersion(number, read_state(state.encode()).name, state.encode(), 0)
                for number, state in enumerate(states, 1)
            ]
            self._history.learn(versions)

    def look(self, view: View) -> None:
        """See what contexts the store has."""
        if self.context is not None and not self._is_tried:
            self._history.learn(view.contexts(), revision=view.revision())

    def check(self, position: int, impure: str | None, imports: Iterable[str] = ()) -> None:
        """Refuse a context that is not known, or cannot be used by workers."""
        if self.context is None:
            return
        kept = self._history.kept(self.context, position)
        if kept is None:
            accepted = ", ".join(self._history.log.names()) or "a pc.Context: the store has none"
            raise BadContextError("a context of the store", self.context, accepted=accepted)
        states = self._history.states(self.context, position)
        check_pure(self.context, states, impure)
        if not kept.is_whole:
            named = {
                function.name.partition(":")[0]
                for state in states
                for function in functions_of(state)
            }
            given = list(imports)
            missing = sorted(named - {"", "builtins", "polycast", *given})
            raise BadOptionError(
                "imports",
                given,
                why=f"whoever looks needs the functions and types of context {self.context!r}",
                accepted=f"the modules that have them: {missing or 'those of its types'}",
            )

    def needs_translation(self, record: Record) -> bool:
        """Whether a record is what it is here only after a translation."""
        return self.context is not None and record.context != self.context

    def record(self, record: Record) -> Record | None:
        """The record as it is in this context, or in the root; None if it does not get there."""
        return record if record.context == self.context else record.rooted()

    def becomes(self, cls: type, position: int) -> type | None:
        """What a class of the root is here."""
        if self.context is None:
            return cls
        kept = self._history.kept(self.context, position)
        return None if kept is None else kept.member.incoming.becomes(cls)

    def translator(self, position: int) -> Callable[[Any], Any]:
        """What makes of an event of the root what it is here."""
        assert self.context is not None
        kept = self._history.kept(self.context, position)
        assert kept is not None
        return kept.member.incoming.translate

    def classes_here(self, cls: type) -> set[type]:
        """What a class of the root is, or was, here."""
        assert self.context is not None
        classes = (kept.member.incoming.becomes(cls) for kept in self._history.every(self.context))
        return {there for there in classes if there is not None}


PAGE = 2_000  # records that are read at once


class Difference(msgspec.Struct, frozen=True):
    """What two contexts show differently in one event."""

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.path}: {self.before!r} -> {self.after!r}"


class Sample(msgspec.Struct, frozen=True):
    """An event that changes."""

    position: int
    type: str  # in the root
    fate: str
    differences: list[Difference] = []
    why: str = ""

    def __str__(self) -> str:
        how = "; ".join(map(str, self.differences)) or self.why
        return f"{self.type} at {self.position} {self.fate}{f': {how}' if how else ''}"


class Comparison(msgspec.Struct):
    """What becomes of a stretch of history with another context."""

    old: str
    new: str
    events: int = 0
    """How many were looked at."""
    same: int = 0
    changed: int = 0
    appear: int = 0
    """How many only the new context gets."""
    vanish: int = 0
    """How many only the old context gets."""
    fail: int = 0
    """How many a function of the new context raises for, and of the old one does not."""
    recover: int = 0
    """How many a function of the old context raises for, and of the new one does not."""
    types: dict[str, int] = {}
    """How many events change, by their type in the root."""
    samples: list[Sample] = []

    @property
    def differ(self) -> int:
        """How many are not the same."""
        return self.events - self.same

    def extend(self, later: Comparison, most: int) -> None:
        """What was found after that."""
        for field in ("events", "same", "changed", "appear", "vanish", "fail", "recover"):
            setattr(self, field, getattr(self, field) + getattr(later, field))
        for name, count in later.types.items():
            self.types[name] = self.types.get(name, 0) + count
        self.samples += later.samples[: most - len(self.samples)]

    def __str__(self) -> str:
        lines = [
            f"{self.events:,} events, from context {self.old!r} to {self.new!r}: "
            f"{self.same:,} the same, {self.changed:,} changed, {self.appear:,} appear, "
            f"{self.vanish:,} vanish, {self.fail:,} fail, {self.recover:,} fail no more"
        ]
        lines += [f"  {name}: {count:,}" for name, count in sorted(self.types.items())]
        return "\n".join([*lines, *(f"  {sample}" for sample in self.samples)])


class ContextComparison:
    """Compares what two contexts make of records."""

    def __init__(
        self,
        store: Store | Readable,
        sides: tuple[tuple[str | None, DraftContext], ...],
        function: Callable[[str], Callable[..., object] | None],
        samples: int,
    ) -> None:
        self._store, self._samples = store, samples
        with store.view() as view:
            self._registry = known_types(view)
            self.views = [ContextView(self._registry, function, *side) for side in sides]
            for context in self.views:
                context.look(view)

    def nothing(self) -> Comparison:
        """Before anything is looked at."""
        old, new = (view.context or "root" for view in self.views)
        return Comparison(old, new)

    def part(self, low: int, high: int) -> Comparison:
        """What becomes of the events between two positions."""
        comparison = self.nothing()
        while low < high:
            page = self._store.read(low, limit=PAGE, until=high)
            for stored in page.entries:
                self._add(stored, comparison)
            low = page.upto if page.upto > low else high
        return comparison

    def _add(self, stored: Stored, comparison: Comparison) -> None:
        before, after = (self._shown(view, stored) for view in self.views)
        if before is None and after is None:
            return  # neither gets it
        comparison.events += 1
        fate, why, differences = _fate(before, after)
        if fate == "is the same":
            comparison.same += 1
            return
        setattr(comparison, _COUNTS[fate], getattr(comparison, _COUNTS[fate]) + 1)
        root = stored.record.rooted()
        name = stored.record.name if root is None else root.name
        comparison.types[name] = comparison.types.get(name, 0) + 1
        if len(comparison.samples) < self._samples:
            comparison.samples.append(Sample(stored.position, name, fate, differences, why))

    def _shown(self, view: ContextView, stored: Stored) -> dict[str, Any] | BaseException | None:
        """An event as plain data, with its type; None if it does not get there."""
        record = view.record(stored.record)
        if record is None:
            return None
        try:
            event = codec_for(record.codec).decode(record, registry=self._registry)
            if view.needs_translation(stored.record):
                event = view.translator(stored.position)(event)
            if event is None:
                return None
            text = JSON.encode(event, registry=self._registry).payload
            plain = msgspec.json.decode(text)
            shown = plain if isinstance(plain, dict) else {"value": plain}
            return {"type": wire_name(type(event)), **shown}
        except NotDecodableError:
            return None
        except failures_here() as error:  # a function of the context may raise anything
            return error


_COUNTS = {
    "changes": "changed",
    "appears": "appear",
    "vanishes": "vanish",
    "fails": "fail",
    "fails no more": "recover",
}


def _fate(before: Any, after: Any) -> tuple[str, str, list[Difference]]:
    if isinstance(after, BaseException):
        if isinstance(before, BaseException):
            return "is the same", "", []
        return "fails", f"{type(after).__name__}: {after}", []
    if isinstance(before, BaseException):
        return "fails no more", f"{type(before).__name__}: {before}", []
    if before is None or after is None:
        return ("appears" if before is None else "vanishes"), "", []
    differences = list(_differences(before, after, ""))
    return ("changes" if differences else "is the same"), "", differences


def _differences(before: Any, after: Any, path: str) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            inner = f"{path}.{key}" if path else key
            yield from _differences(before.get(key), after.get(key), inner)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from _differences(*pair, f"{path}[{number}]")
    elif before != after:
        yield Difference(path, before, after)
