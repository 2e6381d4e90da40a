"""Filters in the form that the kernel takes: a number, predicates on columns, what is left to ask.

A column is a term of the events in one domain. An attribute of the event gets one at once; any
other term when several filters ask for it, because reading it costs a call for every event.
"""

from __future__ import annotations

import datetime
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.filters.backends.python import generate, passes
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
from polycast.filters.tree.projection import Slot, slot_of
from polycast.matching.index.filter_index import with_key, without_key
from polycast.matching.index.index_codegen import is_attribute, term_function
from polycast.matching.index.lane_table import together

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from polycast.filters.normal_form.disjunction import Conjunction, Predicate
    from polycast.filters.normal_form.ordered_domains import Form
    from polycast.filters.tree import nodes


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


GONE = object()


class NumberedFilters:
    """The kernel of an index, and what belongs to each of its numbers.

    A number is given again when no segment of the kernel names it any more.
    """

    def __init__(self, module: Any, limits: tuple[int, int, int]) -> None:
        self.kernel = module.Kernel(self._match_odd, *limits)
        self.hash_tree: Callable[[nodes.Node], int | None] = module.hash_tree
        self._residuals = Residuals(self.kernel.residuals)
        self._trees: list[nodes.Node | None] = []  # by number
        self._keys: list[Any] = []  # a key; several, if the number is one of these:
        self._several: set[int] = set()
        self._foreign = 0  # keys that are no numbers of 64 bits
        self._asked: dict[int, list[int]] = {}  # residuals of filters that have any
        self._free: list[int] = []
        self._dead: list[int] = []  # numbers that segments may still have
        self._functions: dict[int, Callable[[Any], object]] = {}  # of filters, for odd events

    def __len__(self) -> int:
        return len(self._trees)

    def count(self, key: Hashable, by: int) -> None:
        """Count a key in or out: arrays of keys are made of numbers, if all of them are."""
        if type(key) is not int or abs(key) >= 2**63:
            self._foreign += by
        self.kernel.whole = not self._foreign

    def take(self, tree: nodes.Node, key: Hashable) -> int | None:
        """The number of a filter that the kernel reads from its tree; None if it does not."""
        number = self._next()
        if not self.kernel.take(number, tree):
            self._free.append(number)
            return None
        self._keep(number, tree, key)
        return number

    def put(self, tree: nodes.Node, key: Hashable, rows: list[KernelRow]) -> int:
        """The number of a filter that comes as conjunctions."""
        number = self._next()
        self._keep(number, tree, key)
        for asked, rest in rows:
            residual = self._residuals.number(rest) if rest else NOTHING
            if rest:
                self._asked.setdefault(number, []).append(residual)
            self.kernel.put(number, residual, asked)
        return number

    def _next(self) -> int:
        """A number that no filter has."""
        if self._free:
            return self._free.pop()
        self._trees.append(None)
        self._keys.append(GONE)
        return len(self._trees) - 1

    def _keep(self, number: int, tree: nodes.Node, key: Hashable) -> None:
        self._trees[number], self._keys[number] = tree, key
        self.kernel.set_key(number, key, 0)

    # -- keys --------------------------------------------------------------------------------------

    def add_key(self, number: int, key: Hashable) -> None:
        """One key more wants what passes a filter."""
        keys = self._keys[number]
        self._set(number, with_key(keys if number in self._several else (keys,), key))

    def remove_key(self, number: int, key: Hashable) -> bool:
        """One key less does; whether there are others."""
        keys = without_key(self._keys[number], key) if number in self._several else ()
        if keys:
            self._set(number, keys)
        return bool(keys)

    def _set(self, number: int, keys: Any) -> None:
        self._several.add(number)
        self._keys[number] = keys
        self.kernel.set_key(number, keys, 1)

    # -- filters that are gone ---------------------------------------------------------------------

    def forget(self, number: int) -> None:
        """Let a filter match nothing more. It loses its number when segments are merged."""
        self.kernel.set_key(number, None, -1)
        self._trees[number], self._keys[number] = None, GONE
        self._several.discard(number)
        self._functions.pop(number, None)
        for residual in self._asked.pop(number, ()):
            self._residuals.leave(residual)
        self._dead.append(number)

    @property
    def gone(self) -> int:
        """How many filters are gone whose numbers segments may still have."""
        return len(self._dead)

    def take_gone(self) -> Callable[[bool], None]:
        """Those there are now, as a function that is told whether nothing names them any more."""
        dead, self._dead = self._dead, []
        residuals = self._residuals.take_dead()

        def give_back(free: bool) -> None:  # noqa: FBT001
            (self._free if free else self._dead).extend(dead)
            self._residuals.give_back(residuals, free=free)

        return give_back

    # -- events with odd values --------------------------------------------------------------------

    def _match_odd(self, event: Any, sure: list[int], unsure: Iterable[int]) -> list[Any]:
        """Of some filters it depends on a value that only they can judge."""
        numbers = set(sure)
        for number in set(unsure) - numbers:
            if self._passes(number, event):
                numbers.add(number)
        found: list[Any] = []
        for number in numbers:
            keys = self._keys[number]
            if number in self._several:
                found += keys
            elif keys is not GONE:
                found.append(keys)
        return found

    def _passes(self, number: int, event: Any) -> bool:
        tree = self._trees[number]
        if tree is None:
            return False
        function = self._functions.get(number)
        if function is None:
            function = self._functions[number] = generate(tree).function
        return passes(function, event)


# -- what the kernel cannot ask --------------------------------------------------------------------


NOTHING = -1

Asked = tuple["Predicate", ...]


class Use(NamedTuple):
    """What is asked, and by how many filters."""

    asked: Asked
    filters: int


class Residuals:
    """They are in the list that the kernel reads; a number is given again when it is free."""

    def __init__(self, functions: list[Any]) -> None:
        self._functions = functions
        self._numbers: dict[Asked, int] = {}
        self._uses: dict[int, Use] = {}
        self._free: list[int] = []
        self._dead: list[int] = []

    def number(self, asked: Asked) -> int:
        """The number of what is left to ask; one filter more asks it."""
        number = self._numbers.get(asked)
        if number is None:
            number = self._numbers[asked] = self._new(_lazy(together(list(asked))))
            self._uses[number] = Use(asked, 0)
        self._uses[number] = Use(asked, self._uses[number].filters + 1)
        return number

    def _new(self, function: Any) -> int:
        if not self._free:
            self._functions.append(function)
            return len(self._functions) - 1
        number = self._free.pop()
        self._functions[number] = function
        return number

    def leave(self, number: int) -> None:
        """One filter less asks it."""
        asked, filters = self._uses[number]
        if filters > 1:
            self._uses[number] = Use(asked, filters - 1)
            return
        del self._uses[number], self._numbers[asked]
        self._functions[number] = None
        self._dead.append(number)

    def take_dead(self) -> list[int]:
        """Those that segments may still name."""
        dead, self._dead = self._dead, []
        return dead

    def give_back(self, dead: list[int], *, free: bool) -> None:
        """They are free if no segment names them any more, and no reader has an old one."""
        (self._free if free else self._dead).extend(dead)


def _lazy(tree: nodes.Node) -> Callable[[Any], object]:
    """The function of an expression, made when it is first asked."""
    function: Callable[[Any], object] | None = None

    def ask(event: Any) -> object:
        nonlocal function
        if function is None:
            function = generate(tree).function
        return function(event)

    return ask
