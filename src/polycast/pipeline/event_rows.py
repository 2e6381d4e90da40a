"""Events as rows, and rows as Arrow arrays: the attributes that are columns, in their plain form.

Most events are regular: msgspec reads the columns straight from the bytes, of many events at once,
and makes nothing else. An event that it refuses, for instance because a value is not of its
declared type, is decoded as any other, and converted attribute by attribute.

Values in their plain form are numbers, texts, bytes, Decimals, dates, datetimes, UUIDs. An enum is
the name of its member, an array is a list, and an object has `f0`, `f1`, ... in the order of its
fields. A value that does not fit raises `Irregular`, or an error of Arrow.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from contextlib import suppress
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.events import JSON, Record, codec_for
from polycast.events.wire_forms import CLASS
from polycast.pipeline.table_schema import PLAIN, ColumnShape, Field, field_of
from polycast.typesystem import Registry, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa


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


def _enum_array(shape: ColumnShape, values: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    unknown = set(values) - shape.members - {None}
    if unknown:
        raise Irregular(f"{min(unknown)!r} is no member of {shape.name}")
    return pa.array(values, kind)


def _uuid(shape: ColumnShape, values: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if value is None else str(value) for value in values], kind)


def _datetime_array(shape: ColumnShape, values: list[Any], kind: pa.StructType) -> pa.Array:
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
    "enum": _enum_array,
    "uuid": _uuid,
    "datetime": _datetime_array,
    "list": _sequence,
    "tuple": _sequence,
    "set": _sequence,
    "frozenset": _sequence,
    "dict": _mapping,
    "object": _object,
}


# -- rows ------------------------------------------------------------------------------------------

_LOW, _HIGH = -(2**63), 2**63 - 1
_WHOLE = 2**53  # up to which a float has every int
_LAST_DIGIT, _DIGITS = decimal.Decimal("1e-18"), decimal.Context(prec=38)
_UNSET: Any = msgspec.UNSET
_LIST: Any = list
_DICT: Any = dict


class Misfit(Exception):
    """Why an event has no row: the attribute, its value, and what would be accepted."""

    def __init__(self, path: str, value: object, accepted: str) -> None:
        self.path, self.value, self.accepted = path, value, accepted
        super().__init__(f"{path} is {value!r:.200}, accepted: {accepted}")


class EventRows:
    """Makes rows of one set of columns from events of any class that has them."""

    def __init__(self, fields: Sequence[Field], registry: Registry) -> None:
        self._fields = tuple(fields)
        self._registry = registry
        self._quick: dict[tuple[str, str], Callable[[bytes], list[Any]] | None] = {}
        self._later: dict[str, list[Field]] = {}
        self._plain = _plain_row(self._fields)

    # -- many at once ------------------------------------------------------------------------------

    def read(self, records: Sequence[Record]) -> list[Any]:
        """Read the rows of regular events; `Irregular`, or an error of msgspec, if one is not."""
        hashes, codecs = {record.hash for record in records}, {record.codec for record in records}
        if len(hashes) == len(codecs) == 1:  # two sets are made faster than one of pairs
            return self._read(records)
        groups: dict[tuple[str, str], list[int]] = {}
        for place, record in enumerate(records):
            groups.setdefault((record.hash, record.codec), []).append(place)
        rows: list[Any] = [None] * len(records)
        for places in groups.values():
            group = self._read([records[place] for place in places])
            for place, row in zip(places, group, strict=True):
                rows[place] = row
        return rows

    def _read(self, records: Sequence[Record]) -> list[Any]:
        first = records[0]
        key = (first.hash, first.codec)
        if key not in self._quick:
            self._quick[key] = self._decoder(first)
        decode = self._quick[key]
        if decode is None:
            raise Irregular(f"{first.name} is not regular")
        return decode(_joined([record.payload for record in records], first.codec))

    def _decoder(self, record: Record) -> Callable[[bytes], list[Any]] | None:
        """The decoder for a list of payloads of one class; None if the class does not fit."""
        described = self._registry.described(record.hash)
        if described is None:
            return None
        written = [field_of(attribute, self._registry) for attribute in described.attributes]
        read = _twin(self._fields, [field for field in written if field is not None])
        if read is None:
            return None
        module: Any = msgspec.json if record.codec == "json" else msgspec.msgpack
        decode: Callable[[bytes], list[Any]] = module.Decoder(_LIST[read]).decode
        return decode

    # -- one by one --------------------------------------------------------------------------------

    def row(self, record: Record) -> Any:
        """Read the row of an event; `Misfit` or `NotDecodableError` if it has none."""
        return self.row_of(self.decoded(record))

    def decoded(self, record: Record) -> Any:
        """Decode an event, with defaults for attributes that were added after it was written."""
        event = codec_for(record.codec).decode(record, registry=self._registry)
        if record.hash not in self._later:
            self._later[record.hash] = self._later_than(record)
        for field in self._later[record.hash]:
            if getattr(event, field.name, _UNSET) is _UNSET:
                with suppress(AttributeError):  # it has no place for it
                    event.__dict__[field.name] = field.default
        return event

    def _later_than(self, record: Record) -> list[Field]:
        written = self._registry.described(record.hash)
        known = frozenset() if written is None else written.attribute_names
        return [
            field
            for field in self._fields
            if field.name not in known and field.default is not _UNSET
        ]

    def row_of(self, event: Any) -> Any:
        """Make the row of a decoded event."""
        return self._plain(*_values(self._fields, event, ""))


class EventTexts:
    """Makes a text of each event: JSON, as `docs/record.md` describes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def read(self, records: Sequence[Record]) -> list[Any]:
        """Read the texts of some events."""
        return list(map(self.row, records))

    def row_of(self, event: Any) -> str:
        """Make the text of a decoded event."""
        return JSON.encode(event, registry=self._registry).payload.decode()

    def row(self, record: Record) -> str:
        """Read the text of an event; `NotDecodableError` if it cannot be decoded."""
        if record.codec == "json":
            return record.payload.decode()
        return self.row_of(self.decoded(record))

    def decoded(self, record: Record) -> Any:
        """Decode an event."""
        return codec_for(record.codec).decode(record, registry=self._registry)


def _joined(payloads: list[bytes], codec: str) -> bytes:
    """Join payloads to the payload of a list."""
    if codec == "json":
        return b"[" + b",".join(payloads) + b"]"
    return b"\xdd" + len(payloads).to_bytes(4, "big") + b"".join(payloads)


def _plain_row(fields: Sequence[Field]) -> Callable[..., Any]:
    return msgspec.defstruct("Row", [(f"f{at}", Any) for at in range(len(fields))], gc=False)


# -- what msgspec reads ----------------------------------------------------------------------------


def _twin(fields: Sequence[Field], written: Sequence[Field]) -> type | None:
    """A Struct of the columns, for objects with the attributes that were written."""
    there = {field.name: field.shape for field in written}
    parts: list[Any] = []
    for at, field in enumerate(fields):
        if field.name in there:
            read = _type(field.shape, there[field.name])
            parts.append((f"f{at}", read))
        else:
            read = _default(field)
            parts.append((f"f{at}", Any, read))
        if read is None:
            return None
    names = {f"f{at}": field.name for at, field in enumerate(fields)}
    if fields and not there.keys() & set(names.values()):
        return None  # anything would do
    return msgspec.defstruct("Row", parts, rename=names, kw_only=True, gc=False)


def _default(field: Field) -> Any:
    """What msgspec uses for an attribute that was not written; None if nothing fits."""
    if field.default is _UNSET:
        return None
    try:
        fitting = _lowered(field.shape, field.default, field.name)
    except Misfit:
        return None
    kind = type(fitting)
    return (
        msgspec.field(default_factory=kind)
        if kind in (list, dict)
        else msgspec.field(default=fitting)
    )


def _type(shape: ColumnShape, written: ColumnShape) -> Any:
    """The type that msgspec reads for a column; None if another kind was written."""
    if shape.kind != written.kind:
        return None
    kind: Any = PLAIN.get(shape.kind)  # which msgspec reads as the codec of events does
    if shape.element is not None and written.element is not None:
        inner = _type(shape.element, written.element)
        if inner is not None:
            kind = _DICT[str, inner] if shape.kind == "dict" else _LIST[inner]
    elif shape.kind == "object":
        kind = _twin(shape.fields, written.fields)
    return kind | None if kind is not None and shape.nullable else kind


# -- with care -------------------------------------------------------------------------------------


def _values(fields: Sequence[Field], value: Any, path: str) -> list[Any]:
    values = []
    for field in fields:
        part = getattr(value, field.name, _UNSET)
        part = field.default if part is _UNSET else part
        name = f"{path}{field.name}"
        if part is _UNSET:
            why = "a value; it was not written, and its type has no default that is plain data"
            raise Misfit(name, "missing", why)
        values.append(_lowered(field.shape, part, name))
    return values


def _lowered(shape: ColumnShape, value: Any, path: str) -> Any:
    """The plain form of a value, if a column can hold it exactly."""
    if value is None:
        if not shape.nullable:
            raise Misfit(path, value, f"{shape.kind}, because its type does not say None")
        return None
    if shape.element is not None:
        return _contents(shape, shape.element, value, path)
    if shape.kind == "object":
        names = {field.name for field in shape.fields}
        if names.isdisjoint(describe(type(value)).attribute_names):
            raise Misfit(path, value, f"an object of {shape.name}")
        return _plain_row(shape.fields)(*_values(shape.fields, value, f"{path}."))
    exact = _EXACT[shape.kind](shape, value)
    if exact is _UNSET:
        raise Misfit(path, value, _ACCEPTED.get(shape.kind, shape.kind))
    return exact


def _contents(shape: ColumnShape, element: ColumnShape, value: Any, path: str) -> Any:
    if type(value) not in CONTAINERS[shape.kind]:
        raise Misfit(path, value, shape.kind)
    if shape.kind != "dict":
        return [_lowered(element, item, f"{path}[{n}]") for n, item in enumerate(value)]
    for key in value:
        if type(key) is not str or key == "$":
            raise Misfit(path, value, "keys that are texts, and not '$'")
    return {key: _lowered(element, item, f"{path}[{key!r}]") for key, item in value.items()}


def _same(cls: type) -> Callable[[ColumnShape, Any], Any]:
    return lambda shape, value: value if type(value) is cls else _UNSET


def _int(shape: ColumnShape, value: Any) -> Any:
    return int(value) if type(value) in (int, bool) and _LOW <= value <= _HIGH else _UNSET


def _float(shape: ColumnShape, value: Any) -> Any:
    """An int where a float is declared is the float that it equals."""
    if type(value) is int and abs(value) <= _WHOLE:
        return float(value)
    return value if type(value) is float else _UNSET


def _decimal(shape: ColumnShape, value: Any) -> Any:
    if type(value) is not decimal.Decimal:
        return _UNSET
    try:
        fitted = value.quantize(_LAST_DIGIT, context=_DIGITS)
    except decimal.InvalidOperation:  # it has too many digits, or is no number
        return _UNSET
    return fitted if fitted == value else _UNSET


def _datetime(shape: ColumnShape, value: Any) -> Any:
    if type(value) is not datetime.datetime:
        return _UNSET
    try:
        value.replace(tzinfo=None) - (value.utcoffset() or datetime.timedelta())
    except OverflowError:  # its time in UTC is in no year of Python's
        return _UNSET
    return value


def _enum(shape: ColumnShape, value: Any) -> Any:
    known = isinstance(value, enum.Enum) and value.name in shape.members
    return value.name if known else _UNSET


_EXACT: dict[str, Callable[[ColumnShape, Any], Any]] = {
    "bool": _same(bool),
    "int": _int,
    "float": _float,
    "str": _same(str),
    "bytes": _same(bytes),
    "decimal": _decimal,
    "date": _same(datetime.date),
    "datetime": _datetime,
    "enum": _enum,
    "uuid": _same(uuid.UUID),
}
CONTAINERS: dict[str, tuple[type, ...]] = {
    "list": (list, tuple),
    "tuple": (list, tuple),
    "set": (set, frozenset),
    "frozenset": (set, frozenset),
    "dict": (dict,),
}
_ACCEPTED = {
    "float": "a float, or an int of at most 2**53",
    "int": "an int from -2**63 to 2**63 - 1",
    "decimal": "a finite Decimal below 10**20 with at most 18 digits after the point",
    "datetime": "a datetime whose time in UTC is in the years 1 to 9999",
    "enum": "a member that the type of the table has",
}
