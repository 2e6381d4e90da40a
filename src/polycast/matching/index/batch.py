"""A batch of events, as objects or as columns of Arrow: what it has in each lane of a layout."""

from __future__ import annotations

import enum
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from polycast.errors import BadOptionError
from polycast.errors.failures import failures_here
from polycast.events.instances import anatomy_of, rebuild
from polycast.filters.normal_form.ordered_domains import ABSENT, Domain
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import insight_of
from polycast.matching.index.index_codegen import is_attribute, read_term
from polycast.matching.index.lane_table import Ordered, order_floats, order_integers, order_values
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.type_expressions import hints_of

if TYPE_CHECKING:
    from polycast.matching.index.layout import Layout


class Objects:
    """Events as they are."""

    def __init__(self, events: list[Any]) -> None:
        self._events = events

    def __len__(self) -> int:
        return len(self._events)

    def event(self, number: int, /) -> Any:
        """One of them as an object."""
        return self._events[number]

    def columns(self, layout: Layout) -> tuple[list[Ordered], set[int]]:
        """The values of each lane in order, and the events that have to be asked one by one."""
        odd: set[int] = set()
        found = [
            _ordered(domain, values, odd)
            for column, values in zip(layout.columns, layout.read_all(self._events), strict=True)
            for domain in column.lanes
        ]
        return found, odd


def _ordered(domain: Domain, values: list[Any], odd: set[int]) -> Ordered:
    """Values of one term in order; what cannot be ordered is told by its number."""
    import numpy as np

    kinds = set(map(type, values))
    if domain.numeric:
        if kinds == {float}:
            return order_floats(np.array(values))
        if kinds == {int}:
            try:
                return order_integers(np.array(values, dtype=np.int64))
            except OverflowError:
                pass
    if kinds.issubset(domain.fast) and float not in kinds:
        placed = values if domain.ordered else map(domain.place, values)
        return order_values(placed, range(len(values)))
    usable: list[Any] = []
    events: list[int] = []
    for number, value in enumerate(values):
        try:
            known = domain.coerce(value)
        except failures_here():
            odd.add(number)
            continue
        if known is not ABSENT and known == known:
            usable.append(domain.place(known))
            events.append(number)
    return order_values(usable, events)


# -- columns of Arrow ------------------------------------------------------------------------------


class ArrowRows:
    """Rows of a record batch or table, as events of a class. Objects are made as far as needed.

    A null is None. Members of an enum are strings that name them; nested objects are structs, and
    dictionaries are structs or maps.
    """

    def __init__(self, batch: Any, cls: type) -> None:
        if hasattr(batch, "combine_chunks"):
            batch = batch.combine_chunks()
        self._size: int = batch.num_rows
        self._arrays: dict[str, Any] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            several = hasattr(column, "num_chunks")
            if several and column.num_chunks > 1:
                column = column.combine_chunks()
            self._arrays[name] = column.chunk(0) if several and column.num_chunks else column
        self._class, self._make = cls, _maker(cls)
        self._hints = hints_of(cls)
        self._objects: dict[int, Any] = {}
        known = declared_defaults(cls)
        if unknown := [name for name in self._arrays if known and name not in known]:
            accepted = f"columns that are attributes of {cls.__qualname__}: {', '.join(known)}"
            raise BadOptionError("batch", f"column {unknown[0]}", accepted=accepted)

    def __len__(self) -> int:
        return self._size

    def event(self, number: int, /) -> Any:
        """One of them as an object."""
        if number not in self._objects:
            state = {name: array[number].as_py() for name, array in self._arrays.items()}
            self._objects[number] = self._make(state)
        return self._objects[number]

    def columns(self, layout: Layout) -> tuple[list[Ordered], set[int]]:
        """The values of each lane in order, and the events that have to be asked one by one."""
        odd: set[int] = set()
        found = []
        for column in layout.columns:
            values: list[Any] | None = None
            for domain in column.lanes:
                array = self.array(column.term, domain)
                if array is not None:
                    found.append(_of_array(array))
                    continue
                values = self.values(column.term) if values is None else values
                found.append(_ordered(domain, values, odd))
        return found, odd

    def values(self, term: nodes.Node) -> list[Any]:
        """The values of a term; ABSENT where it cannot be read."""
        name = self._column_of(term)
        if name is not None:
            hint = self._hints.get(name, Any)
            return [converted(value, hint) for value in self._arrays[name].to_pylist()]
        return read_term(term, [self.event(number) for number in range(self._size)])

    def array(self, term: nodes.Node, domain: Domain) -> Any | None:
        """The column of a term, if its values can be used in a domain as they are."""
        import pyarrow as pa

        name = self._column_of(term)
        if name is None:
            return None
        array = self._arrays[name]
        kind = array.type
        if domain.numeric:
            half = pa.types.is_float16(kind)
            return array if (pa.types.is_floating(kind) and not half) or _fits(kind) else None
        plain = _bare(self._hints.get(name, Any)) in (str, Any)
        textual = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        return array if str in domain.exact and plain and textual else None

    def _column_of(self, term: nodes.Node) -> str | None:
        """The column that a term reads: one of another language may just be an attribute."""
        if isinstance(term, nodes.Applied):
            term = insight_of(term).folded(term, self._class)
        return term.name if is_attribute(term) and term.name in self._arrays else None


EventBatch = Objects | ArrowRows
"""Some events of one class."""


def _fits(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind)) and kind != pa.uint64()


def _of_array(array: Any) -> Ordered:
    import numpy as np
    import pyarrow as pa

    if not (pa.types.is_floating(array.type) or _fits(array.type)):
        return _of_texts(array)
    events = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
    values = array.drop_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(array.type):
        return order_floats(values.astype(np.float64)).among(events)
    return order_integers(values.astype(np.int64)).among(events)


def _of_texts(array: Any) -> Ordered:
    """Each distinct text is looked at once."""
    import numpy as np

    encoded = array.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    order = sorted(range(len(texts)), key=texts.__getitem__)
    rank = np.empty(len(texts), dtype=np.int64)
    rank[order] = np.arange(len(texts))
    events = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
    codes = encoded.indices.drop_null().to_numpy(zero_copy_only=False)
    return Ordered.of_ranks(rank[codes], events, [texts[number] for number in order])


def _maker(cls: type) -> Callable[[dict[str, Any]], Any]:
    """Makes an object of a class from its attributes, without calling anything of its own."""
    anatomy, hints = anatomy_of(cls), hints_of(cls)

    def make(state: dict[str, Any]) -> Any:
        found = {name: converted(value, hints.get(name, Any)) for name, value in state.items()}
        return rebuild(cls, anatomy, found, {})

    return make


def converted(value: Any, hint: Any) -> Any:
    """A value of Arrow as the value of an attribute with such an annotation."""
    hint = _bare(hint)
    if value is None or hint is Any:
        return value
    origin, parameters = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(value, list) and origin in (list, tuple, set, frozenset):
        inner = parameters[0] if parameters else Any
        return origin(converted(element, inner) for element in value)
    if (origin or hint) in (dict, Mapping) and _is_map(value):
        key, inner = parameters or (Any, Any)
        return {converted(name, key): converted(held, inner) for name, held in value}
    if not isinstance(hint, type):
        return value
    if isinstance(value, str) and issubclass(hint, enum.Enum):
        if value not in hint.__members__:
            raise BadOptionError(
                "batch", value, accepted=f"names of members of {hint.__qualname__}"
            )
        return hint[value]
    if isinstance(value, str) and hint is uuid.UUID:
        return uuid.UUID(value)
    if isinstance(value, dict) and declared_defaults(hint):
        return _maker(hint)(value)
    if isinstance(value, list) and hint in (tuple, set, frozenset):
        return hint(value)
    return value


def _is_map(value: Any) -> bool:
    """Whether it was a map in Arrow: pairs, which no list of Arrow has."""
    return isinstance(value, list) and all(isinstance(pair, tuple) for pair in value)


def _bare(hint: Any) -> Any:
    """An annotation without `Annotated` and `| None`."""
    if typing.get_origin(hint) is typing.Annotated:
        return _bare(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [member for member in typing.get_args(hint) if member is not type(None)]
        return _bare(others[0]) if len(others) == 1 else Any
    return hint
