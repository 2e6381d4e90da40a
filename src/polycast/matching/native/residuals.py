"""What the kernel cannot ask: functions by number, one for all filters that ask the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.filters.backends.python import generate
from polycast.matching.index.lane_table import together

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.filters.normal_form.disjunction import Predicate
    from polycast.filters.tree import nodes

__all__ = ["NOTHING", "Residuals"]

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
        """They are free if no segment names them any more, and nobody reads an old one."""
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
