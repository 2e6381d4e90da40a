"""What is waiting to be written: records to append, and changes to make."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from polycast.events import Record, encode_record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import apsw

    from polycast.stores.contract import Draft

__all__ = ["Appending", "Change", "Job"]

T = TypeVar("T")

_CHANGE = 100  # how many records a change counts as, where a group is measured


class Job(Generic[T]):
    """Something to write, what became of it, and who waits to hear it."""

    __slots__ = ("error", "future", "result")

    result: T
    records: int  # by which groups are measured
    size: int

    def __init__(self) -> None:
        self.future: Future[T] = Future()
        self.future.set_running_or_notify_cancel()  # what is submitted cannot be taken back
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Tell who waits."""
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class Change(Job[T]):
    """A function that changes the state, or lets go of records, in the writer's transaction."""

    __slots__ = ("work",)

    records = _CHANGE
    size = 0

    def __init__(self, work: Callable[[apsw.Connection], T]) -> None:
        super().__init__()
        self.work = work


class Appending(Job[list[int]]):
    """Drafts in the form in which they are inserted, column by column.

    It is made in the thread that submits, so that the writer has little to do per record.
    """

    __slots__ = ("bodies", "drafts", "moment", "records", "sequences", "size", "sources", "types")

    def __init__(self, drafts: Sequence[Draft]) -> None:
        super().__init__()
        self.drafts = drafts = tuple(drafts)
        identities = [each.identity for each in drafts]
        self.records = len(drafts)
        self.sequences = [each.sequence for each in identities]
        self.types = [(each.name, each.version, each.hash) for each in drafts]
        self.sources = [(each.publisher, each.epoch) for each in identities]

    def encode(self, moment: float) -> None:
        """Make the bytes of the records as they are at a moment."""
        self.moment = moment
        encode: Any = encode_record
        self.bodies: list[bytes] = [
            encode(
                Record(
                    each.name,
                    each.version,
                    each.hash,
                    each.identity,
                    moment,
                    each.codec,
                    each.payload,
                    each.topic,
                    each.priority,
                    each.expires,
                    each.headers,
                )
            )
            for each in self.drafts
        ]
        self.size = sum(map(len, self.bodies))
