"""The functions of other filter languages: what they do with values, by their names.

A filter of such a language is a tree like any other. What that language does in its own way, such
as comparing strictly, is a function here, and `nodes.Applied` in the tree.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from polycast.filters.xpath import terms as xpath

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["VOCABULARIES", "Vocabulary"]


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The functions of one language: pure, of values; what they cannot do, they raise."""

    name: str
    functions: Mapping[str, Callable[..., Any]]
    prepared: Mapping[str, Callable[..., Callable[[Any], Any]]] = field(default_factory=dict)
    """For some: what makes, of all arguments but the first, a function of that one."""

    def check(self, name: str, arguments: int) -> None:
        """Raise if there is no such function, or none that takes so many arguments."""
        function = self.functions.get(name)
        if function is None:
            known = ", ".join(sorted(self.functions))
            raise ValueError(f"{self.name} has no function {name}, only {known}")
        inspect.signature(function).bind(*range(arguments))


VOCABULARIES: Mapping[str, Vocabulary] = {
    "xpath": Vocabulary("xpath", xpath.FUNCTIONS, xpath.PREPARED),
}
