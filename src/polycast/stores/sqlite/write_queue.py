"""The jobs of the writer thread: records to append, and changes to the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from polycast.events import encode_record, record_encoder, rooted_encoder
from polycast.runtime import InterruptibleFuture
from polycast.stores.values import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import apsw

    from polycast.stores.sqlite.interning import NamedRun, Source, Type
    from polycast.stores.values import Draft

T = TypeVar("T")

_CHANGE = 100  # records that a change counts as when the size of a group is measured


class WriteJob(Generic[T]):
    """Something to write, with its outcome and the future of those who wait."""

    __slots__ = ("error", "future", "result")

    result: T
    records: int  # the size of groups is measured by both
    size: int
    is_silent: bool  # whether nobody has to look at the store because of it

    def __init__(self, future: Callable[[], InterruptibleFuture[T]]) -> None:
        self.future = future()
        self.future.set_running_or_notify_cancel()  # a submitted job cannot be cancelled
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Resolve the future."""
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class Change(WriteJob[T]):
    """A function that changes the state, or truncates the log, in the writer's transaction."""

    __slots__ = ("is_silent", "work")

    records = _CHANGE
    size = 0

    def __init__(
        self,
        work: Callable[[apsw.Connection], T],
        *,
        future: Callable[[], InterruptibleFuture[T]] = InterruptibleFuture,
    ) -> None:
        super().__init__(future)
        self.work, self.is_silent = work, False


class Appending(WriteJob[list[int]]):
    """Drafts, encoded for insertion; what the events of a run have in common is there once.

    The submitting thread encodes them, so that the writer has little to do per record.
    """

    is_silent = False
    __slots__ = ("also", "bodies", "drafts", "moment", "records", "runs", "size")

    def __init__(
        self,
        drafts: Sequence[Draft | Run],
        *,
        future: Callable[[], InterruptibleFuture[list[int]]] = InterruptibleFuture,
    ) -> None:
        super().__init__(future)
        self.drafts = tuple(drafts)
        self.also: Callable[[apsw.Connection, list[int]], None] | None = None
        """Called with the positions, in the same transaction."""
        self.runs = [_named(draft) for draft in self.drafts]
        self.records = sum([len(run[-1]) for run in self.runs])

    def one_by_one(self) -> Iterator[tuple[Type, Type | None, Source, int, bytes]]:
        """Yield type, root type, source, sequence and bytes of each record."""
        bodies = iter(self.bodies)
        for kind, root, source, sequences in self.runs:
            for sequence in sequences:
                yield kind, root, source, sequence, next(bodies)

    def encode(self, moment: float) -> None:
        """Encode the records as appended at a moment."""
        self.moment = moment
        self.bodies: list[bytes] = []
        encoders: dict[Any, Callable[..., bytes]] = {}  # for events of alternating types
        for draft in self.drafts:
            if not isinstance(draft, Run):
                self.bodies.append(encode_record(draft.at(moment)))
                continue
            if len(draft.payloads) == 1 and draft.roots is None:
                self.bodies.append(encode_record(draft.record(moment, draft.payloads[0])))
                continue
            first = draft.first.sequence
            sequences = range(first, first + len(draft.payloads))
            named = (
                draft.name,
                draft.version,
                draft.hash,
                draft.first.publisher,
                draft.first.epoch,
            )
            about = (draft.topic, draft.priority, draft.expires, id(draft.headers))
            key = (*named, *about, draft.context, draft.root, draft.roots is None)
            encode = encoders.get(key)
            if draft.roots is not None:
                encode = encode or encoders.setdefault(key, rooted_encoder(draft.record(moment)))
                self.bodies += map(encode, sequences, draft.payloads, draft.roots)
                continue
            encode = encode or encoders.setdefault(key, record_encoder(draft.record(moment)))
            self.bodies += map(encode, sequences, draft.payloads)
        self.size = sum(map(len, self.bodies))


def _named(draft: Draft | Run) -> NamedRun:
    first, count = (
        (draft.first, len(draft.payloads)) if isinstance(draft, Run) else (draft.identity, 1)
    )
    kind, root = (draft.name, draft.version, draft.hash), draft.root
    other = None if root is None or root.is_of(draft) else (root.name, root.version, root.hash)
    sequences = range(first.sequence, first.sequence + count)
    return kind, other, (first.publisher, first.epoch), sequences
