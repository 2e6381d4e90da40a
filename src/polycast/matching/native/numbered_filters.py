"""The filters in a kernel: it knows each by a number, and gives the keys of that number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.filters.backends.python import generate, passes
from polycast.matching.index.filter_index import with_key, without_key
from polycast.matching.index.lane_table import together

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from polycast.filters.normal_form.disjunction import Predicate
    from polycast.filters.tree import nodes
    from polycast.matching.native.kernel_form import KernelRow

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
