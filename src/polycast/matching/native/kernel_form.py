"""Conjunctions in the form that the kernel takes: predicates on columns, and what is left to ask.

A column is a term of the events in one domain. An attribute of the event gets one at once; any
other term when several filters ask for it, because reading it costs a call for every event.
"""

from __future__ import annotations

import datetime
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from polycast.filters.normal_form.ordered_domains import (
    NUMBERS,
    TEXTS,
    Differs,
    Domain,
    Interval,
    IsNone,
    Others,
    Points,
    Truth,
    domain_of_all,
    loose,
)
from polycast.filters.tree import nodes
from polycast.filters.tree.projection import slot_of
from polycast.matching.index.index_codegen import term_function

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.filters.normal_form.disjunction import Conjunction, Predicate
    from polycast.filters.normal_form.ordered_domains import Form
    from polycast.filters.tree.projection import Slot

KINDS = {
    "number": 0,
    "text": 1,
    "bytes": 2,
    "date": 4,
    "time": 5,
    "duration": 6,
    "strict number": 0,
    "strict text": 1,  # the same places: what else there is, they are told
    "strict boolean": 7,
}
MEMBER = 3  # of an enum
IN, NOT_IN, NONE, NOT_NONE, TRUE, FALSE = range(6)
LOW_AFTER, HIGH_AFTER, NAN_TOO, STRICT = 1, 2, 4, 8
MOST_VALUES = 256  # of one predicate
MOST_DAYS = 100_000_000
LONGEST = 100_000  # characters of a constant
NUMERIC = frozenset({int, float, bool, type(None)})
WORTH_READING = 4  # predicates on a term that is no attribute

Native = tuple[int, int, Any, Any, int, tuple[Any, ...] | None]


class KernelRow(NamedTuple):
    """One conjunction: what the kernel asks, and what is asked of the events that pass it."""

    asked: tuple[Native, ...]
    residual: tuple[Predicate, ...]


class KernelColumn(NamedTuple):
    """A term of the events in a domain; its number in the kernel is its place."""

    term: nodes.Node
    domain: Domain


class Columns:
    """The columns of a kernel."""

    def __init__(self, kernel: Any, most: int) -> None:
        self._kernel, self._most = kernel, most
        self.all: list[KernelColumn] = []
        self._numbers: dict[KernelColumn, int] = {}
        self._attributes: dict[tuple[str, Domain], int] = {}  # the same of those of the event
        self._of_term: dict[nodes.Node, int] = {}  # any column of it
        self._asked: Counter[nodes.Node] = Counter()

    def row(self, conjunction: Conjunction) -> KernelRow | None:
        """A conjunction as the kernel takes it; None if it takes no part of it."""
        before = len(self.all)
        row = self._row(conjunction)
        if len(self.all) > before and row.residual:
            row = self._row(conjunction)  # what came first may be of a column now
        return row if row.asked or not conjunction else None

    def _row(self, conjunction: Conjunction) -> KernelRow:
        asked: list[Native] = []
        residual: list[Predicate] = []
        for predicate in conjunction:
            native = self._native(predicate)
            if native is None:
                residual.append(predicate)
            else:
                asked.append(native)
        return KernelRow(tuple(asked), tuple(residual))

    def _native(self, predicate: Predicate) -> Native | None:
        _, term, form = predicate
        if term is None:
            return None
        if type(form) is Interval:
            domain, low, high, low_closed, high_closed, unordered_too = form
            column = self._column(term, domain) if _has_place(low) and _has_place(high) else None
            flags = (0 if low_closed else LOW_AFTER) | (HIGH_AFTER if high_closed else 0)
            flags |= NAN_TOO if unordered_too else 0
            return None if column is None else (column, IN, low, high, flags, None)
        if type(form) is Points:
            column = self._column(term, form.domain) if _have_places(form.values) else None
            return None if column is None else (column, IN, None, None, 0, form.values)
        if type(form) is Others:
            column = self._column(term, form.domain) if _have_places(form.values) else None
            return None if column is None else (column, NOT_IN, None, None, STRICT, form.values)
        return self._loose(term, form)

    def _loose(self, term: nodes.Node, form: Form | None) -> Native | None:
        """What is asked of values of all kinds."""
        if isinstance(form, Differs):
            domain, values = domain_of_all(form.values) or (None, ())
            if domain is None or not _have_places(values):
                return None
            column = self._column(term, domain)
            return None if column is None else (column, NOT_IN, None, None, 0, values)
        if not isinstance(form, IsNone | Truth):
            return None
        column = self._of_term.get(term)
        column = self._made(KernelColumn(term, NUMBERS)) if column is None else column
        yes, no = (NONE, NOT_NONE) if isinstance(form, IsNone) else (TRUE, FALSE)
        asked = yes if form.wanted else no
        return None if column is None else (column, asked, None, None, 0, None)

    def _column(self, term: nodes.Node, domain: Domain) -> int | None:
        if is_attribute(term):
            known = self._attributes.get((term.name, domain))
            if known is not None:
                return known
        if domain.ordered and domain.name not in KINDS:
            return None
        return self._made(KernelColumn(term, domain))

    def _made(self, column: KernelColumn) -> int | None:
        """The number of a column, which is made if that is worth it."""
        number = self._numbers.get(column)
        if number is not None or len(self.all) == self._most:
            return number
        term, domain = column
        if not is_attribute(term):
            self._asked[term] += 1
            if self._asked[term] < WORTH_READING:
                return None
        kind, of = (KINDS[domain.name], None) if domain.ordered else (MEMBER, *domain.exact)
        read = (term.name, None, None) if is_attribute(term) else _reading(term)
        plain = is_attribute(term) and domain in (NUMBERS, TEXTS)
        number = self._kernel.add_column(*read, kind, plain, domain.never, domain.coerce, loose, of)
        self.all.append(column)
        self._numbers[column] = number
        if is_attribute(term):
            self._attributes[term.name, domain] = number
        self._of_term.setdefault(term, number)
        return int(number)


def _reading(term: nodes.Node) -> tuple[None, Callable[[Any], Any], Callable[[type], Slot | None]]:
    """A function that reads a term, and one that tells where to look instead."""
    return None, term_function(term), partial(slot_of, term)


def is_attribute(term: nodes.Node) -> TypeGuard[nodes.Attribute]:
    """Whether it is an attribute of the event itself."""
    return type(term) is nodes.Attribute and type(term.of) is nodes.Event


def _have_places(values: tuple[Any, ...]) -> bool:
    """Whether all constants have a place, and are not too many."""
    return len(values) <= MOST_VALUES and all(map(_has_place, values))


def _has_place(value: Any) -> bool:
    """Lone surrogates have no UTF-8; a duration is counted in microseconds, with 64 bits."""
    if type(value) in NUMERIC:
        return True
    if isinstance(value, (str, bytes)) and len(value) > LONGEST:
        return False
    if isinstance(value, str) and not value.isascii():
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    return not isinstance(value, datetime.timedelta) or abs(value.days) <= MOST_DAYS
