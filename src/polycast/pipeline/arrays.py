"""Values as Arrow arrays, a column at a time.

Values are in their plain form: numbers, texts, bytes, Decimals, dates, datetimes, UUIDs. An enum is
the name of its member, an array is a list, and an object has `f0`, `f1`, ... in the order of its
fields. A value that does not fit raises `Irregular`, or an error of Arrow.
"""

from __future__ import annotations

from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from polycast.events.wire_forms import CLASS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from polycast.pipeline.table_schema import ColumnShape, Field


class Irregular(ValueError):
    """A value that a column cannot hold."""


def arrays_of(fields: Sequence[Field], rows: Sequence[Any], schema: Any) -> list[pa.Array]:
    """Return the columns of some rows, none of which is None."""
    return [
        _array(field.shape, list(map(attrgetter(f"f{at}"), rows)), kind)
        for at, (field, kind) in enumerate(zip(fields, schema, strict=True))
    ]


def _array(shape: ColumnShape, values: list[Any], kind: pa.DataType) -> pa.Array:
    rule = _RULES.get(shape.kind)
    if rule is not None:
        return rule(shape, values, kind)
    import pyarrow as pa

    return pa.array(values, kind)


def _enum(shape: ColumnShape, values: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    strange = set(values) - shape.members - {None}
    if strange:
        raise Irregular(f"{min(strange)!r} is no member of {shape.name}")
    return pa.array(values, kind)


def _uuid(shape: ColumnShape, values: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if value is None else str(value) for value in values], kind)


def _datetime(shape: ColumnShape, values: list[Any], kind: pa.StructType) -> pa.Array:
    """The time in UTC with its offset, or the plain time if it has no zone."""
    import pyarrow as pa

    at = [None if value is None else value.replace(tzinfo=None) for value in values]
    if all(value is None or value.tzinfo is None for value in values):
        offsets: list[Any] = [None] * len(values)
    else:
        offsets = [None if value is None else value.utcoffset() for value in values]
        at = [one if other is None else one - other for one, other in zip(at, offsets, strict=True)]
    parts = [pa.array(at, kind.field(0).type), pa.array(offsets, kind.field(1).type)]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=_mask(values))


def _sequence(shape: ColumnShape, values: list[Any], kind: pa.ListType) -> pa.Array:
    import pyarrow as pa

    assert shape.element is not None
    inside = list(chain.from_iterable(value for value in values if value is not None))
    elements = _array(shape.element, inside, kind.value_type)
    return pa.ListArray.from_arrays(_offsets(values), elements, type=kind, mask=_mask(values))


def _mapping(shape: ColumnShape, values: list[Any], kind: pa.MapType) -> pa.Array:
    import pyarrow as pa

    assert shape.element is not None
    present = [value for value in values if value is not None]
    names = list(chain.from_iterable(present))
    if CLASS in names:  # it may be a mark, and the value something else
        raise Irregular(f"{CLASS!r} is among its keys")
    inside = list(chain.from_iterable(value.values() for value in present))
    items = _array(shape.element, inside, kind.item_type)
    keys = pa.array(names, kind.key_type)
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=kind, mask=_mask(values))


def _object(shape: ColumnShape, values: list[Any], kind: pa.StructType) -> pa.Array:
    import pyarrow as pa

    mask = _mask(values)
    parts = []
    for at, field in enumerate(shape.fields):
        take = attrgetter(f"f{at}")
        if mask is None:
            inside = list(map(take, values))
        else:
            inside = [None if value is None else take(value) for value in values]
        parts.append(_array(field.shape, inside, kind.field(at).type))
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)


def _offsets(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    lengths = (0 if value is None else len(value) for value in values)
    return pa.array(accumulate(lengths, initial=0), pa.int32())


def _is_none(value: object) -> bool:
    return value is None


def _mask(values: list[Any]) -> pa.Array | None:
    """Which values are None, if any is."""
    import pyarrow as pa

    return pa.array([value is None for value in values]) if any(map(_is_none, values)) else None


_RULES: dict[str, Callable[[ColumnShape, list[Any], Any], Any]] = {
    "enum": _enum,
    "uuid": _uuid,
    "datetime": _datetime,
    "list": _sequence,
    "tuple": _sequence,
    "set": _sequence,
    "frozenset": _sequence,
    "dict": _mapping,
    "object": _object,
}
