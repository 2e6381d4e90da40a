"""The jobs of the writer thread: records to append, and changes to the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from polycast.events import encode_record, record_encoder, rooted_encoder
from polycast.locks import InterruptibleFuture
from polycast.stores.values import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import apsw

    from polycast.events import Root
    from polycast.stores.sqlite.interning import Source, Type
    from polycast.stores.values import Draft

__all__ = ["Appending", "Change", "WriteJob"]

T = TypeVar("T")

_CHANGE = 100  # records that a change counts as when the size of a group is measured


class WriteJob(Generic[T]):
    """Something to write, with its outcome and the future of those who wait."""

    __slots__ = ("error", "future", "result")

    result: T
    records: int  # the size of groups is measured by both
    size: int

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

    __slots__ = ("work",)

    records = _CHANGE
    size = 0

    def __init__(
        self,
        work: Callable[[apsw.Connection], T],
        *,
        future: Callable[[], InterruptibleFuture[T]] = InterruptibleFuture,
    ) -> None:
        super().__init__(future)
        self.work = work


class Appending(WriteJob[list[int]]):
    """Drafts, encoded for insertion; what the events of a run have in common is there once.

    The submitting thread encodes them, so that the writer has little to do per record.
    """

    __slots__ = (
        "also",
        "bodies",
        "drafts",
        "moment",
        "records",
        "roots",
        "sequences",
        "size",
        "sources",
        "types",
    )

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
        self.types: list[Type] = []
        self.roots: list[Type | None] = []  # of root forms that have another type
        self.sources: list[Source] = []
        self.sequences: list[range] = []
        for draft in self.drafts:
            first = draft.first if isinstance(draft, Run) else draft.identity
            count = len(draft.payloads) if isinstance(draft, Run) else 1
            self.types.append((draft.name, draft.version, draft.hash))
            self.roots.append(None if draft.root is None else _other_class(draft.root, draft))
            self.sources.append((first.publisher, first.epoch))
            self.sequences.append(range(first.sequence, first.sequence + count))
        self.records = sum(map(len, self.sequences))

    def one_by_one(self) -> Iterator[tuple[Type, Type | None, Source, int, bytes]]:
        """Yield type, root type, source, sequence and bytes of each record."""
        bodies = iter(self.bodies)
        about = zip(self.types, self.roots, self.sources, self.sequences, strict=True)
        for kind, root, source, sequences in about:
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
                encode = encode or encoders.setdefault(key, rooted_encoder(draft.model(moment)))
                self.bodies += map(encode, sequences, draft.payloads, draft.roots)
                continue
            encode = encode or encoders.setdefault(key, record_encoder(draft.model(moment)))
            self.bodies += map(encode, sequences, draft.payloads)
        self.size = sum(map(len, self.bodies))


def _other_class(root: Root, event: Draft | Run) -> Type | None:
    return None if root.is_of(event) else (root.name, root.version, root.hash)
