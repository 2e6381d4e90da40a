"""Columns of Arrow for the kernel, and threads that share the work.

The kernel lets the interpreter go, so threads run at the same time. They share the events, or the
filters: then each asks, for all events, those that are anchored on some of the columns.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.filters.backends.python import passes
from polycast.matching.index import ArrowRows, Matches

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from polycast.matching.native.kernel_form import KernelColumn

    Numbers = NDArray[np.int64]

EVERYTHING = 2**32 - 1  # all columns that filters are anchored on, and what has no anchor
TYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("float", "double", "string", "large_string"),
)
LEARNT = 256  # events; with fewer, the batch is looked at first


class Sharing(NamedTuple):
    """How many threads there are, and whether they share the events or the filters."""

    threads: int = 1
    filters: bool = False


ALONE = Sharing()

Part = tuple[bytes, bytes, list[tuple[int, int, int]], list[int]]


def match_columns(
    kernel: Any,
    columns: list[KernelColumn],
    batch: ArrowRows,
    sharing: Sharing,
    tend: Callable[[], None],
) -> Matches:
    """The keys that the kernel has for each row."""
    kernel.hold()
    try:
        while True:
            try:
                return _matched(kernel, list(columns), batch, sharing, tend)
            except LookupError:  # a column came meanwhile; there are not many
                continue
    finally:
        kernel.release()


def _matched(
    kernel: Any,
    columns: list[KernelColumn],
    batch: ArrowRows,
    sharing: Sharing,
    tend: Callable[[], None],
) -> Matches:
    size = len(batch)
    arrays = [batch.array(column.term, column.domain) for column in columns]
    sources = tuple(
        batch.values(column.term) if array is None else _source(array)
        for array, column in zip(arrays, columns, strict=True)
    )
    if kernel.sampled < LEARNT and size:
        kernel.match_columns(sources, 0, size, 0)
        tend()
    parts = _parts(kernel, sources, size, sharing)
    return _matches(kernel, _joined(parts, size, sharing), batch)


def _source(array: Any) -> tuple[int, int, int, int, int]:
    """The addresses of an array's buffers; whoever has the array keeps them."""
    valid, data, *chars = (
        buffer.address if buffer is not None else 0 for buffer in array.buffers()
    )
    return TYPES.index(str(array.type)), data, valid, chars[0] if chars else 0, array.offset


# -- sharing ---------------------------------------------------------------------------------------


def _parts(kernel: Any, sources: tuple[Any, ...], size: int, sharing: Sharing) -> list[Part]:
    count = max(1, min(sharing.threads, size))
    if count == 1:
        return [kernel.match_columns(sources, 0, size, EVERYTHING)]
    if sharing.filters:
        tasks = [(0, size, group) for group in _groups(kernel, count)]
    else:
        ends = [size * number // count for number in range(count + 1)]
        tasks = [(begin, end, EVERYTHING) for begin, end in pairwise(ends)]
    mine, *others = tasks
    with ThreadPoolExecutor(count, "polycast-sharing") as pool:
        theirs = [pool.submit(kernel.match_columns, sources, *task) for task in others]
        return [kernel.match_columns(sources, *mine), *(future.result() for future in theirs)]


def _groups(kernel: Any, count: int) -> list[int]:
    """Columns for each thread, so that about as many filters are asked by each: the most first."""
    loads = [
        sum(load) for load in zip(*(segment.loads for segment in kernel.segments), strict=True)
    ]
    loads = loads or [0.0] * 32
    groups, sums = [0] * count, [0.0] * count
    for column in sorted(range(len(loads)), key=lambda column: -loads[column]):
        least = sums.index(min(sums))
        groups[least] |= 1 << column
        sums[least] += loads[column]
    return [group for group in groups if group]


class Joined(NamedTuple):
    """What all threads found."""

    offsets: Any
    numbers: Any
    asked: list[tuple[int, int, int]]
    odd: list[int]


def _joined(parts: list[Part], size: int, sharing: Sharing) -> Joined:
    import numpy as np

    asked = [question for part in parts for question in part[2]]
    odd = [row for part in parts for row in part[3]]
    if len(parts) == 1:
        return Joined(parts[0][0], parts[0][1], asked, odd)
    offsets = [np.frombuffer(part[0], dtype=np.int64) for part in parts]
    numbers = [np.frombuffer(part[1], dtype=np.uint32) for part in parts]
    if sharing.filters:
        return Joined(*_interleaved(offsets, numbers, size), asked, odd)
    counts = np.concatenate([np.diff(starts) for starts in offsets])
    return Joined(_ends(counts), np.concatenate(numbers), asked, odd)


def _ends(counts: Numbers) -> Numbers:
    import numpy as np

    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _interleaved(offsets: list[Any], numbers: list[Any], size: int) -> tuple[Any, Any]:
    """The filters that several threads found for the same rows, row by row."""
    import numpy as np

    ends = _ends(sum((np.diff(starts) for starts in offsets), np.zeros(size, np.int64)))
    found = np.empty(int(ends[-1]), dtype=np.uint32)
    begins = ends[:-1].copy()
    for starts, mine in zip(offsets, numbers, strict=True):
        counts = np.diff(starts)
        found[np.arange(len(mine)) + np.repeat(begins - starts[:-1], counts)] = mine
        begins += counts
    return ends, found


# -- keys ------------------------------------------------------------------------------------------


def _matches(kernel: Any, found: Joined, batch: ArrowRows) -> Matches:
    import numpy as np

    offsets, keys = kernel.keys_for(found.offsets, found.numbers)
    if not isinstance(keys, list):
        keys = np.frombuffer(keys, dtype=np.int64)
    matches = Matches(np.frombuffer(offsets, dtype=np.int64), keys)
    if not found.asked and not found.odd:
        return matches
    lists = matches.lists()
    for row, number, what in found.asked:
        function = kernel.residuals[what]
        if function is not None and passes(function, batch.event(row)):
            lists[row] = [*lists[row], *_keys_of(kernel, number)]
    for row in found.odd:
        lists[row] = kernel.match(batch.event(row))
    return Matches.of(lists)


def _keys_of(kernel: Any, number: int) -> list[Any]:
    import numpy as np

    _, keys = kernel.keys_for(np.array([0, 1], np.int64), np.array([number], np.uint32))
    return keys if isinstance(keys, list) else np.frombuffer(keys, dtype=np.int64).tolist()
