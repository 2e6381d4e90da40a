"""Functions compiled from generated source: the only place in this package that runs it.

The source holds numbered names only. The names of a class's attributes are put into the compiled
code, in place of `attr_0`, `attr_1` and so on; every other value of a user comes in as a global.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any


class GeneratedFunction:
    """A function under construction: its source, and the values of its names."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._lines: list[str] = []

    def name(self, prefix: str, value: Any) -> str:
        """Return a numbered name for a value."""
        name = f"{prefix}_{len(self.values)}"
        self.values[name] = value
        return name

    def add(self, *lines: str) -> None:
        """Append lines to the body."""
        self._lines += lines

    def function(self, parameter: str, attributes: Sequence[str]) -> Callable[[Any], Any]:
        """Compile the function, with the real names of the attributes."""
        lines = (f"def made({parameter}):", *self._lines)
        code = _compiled("\n ".join(lines))
        real = {attribute_name(at): name for at, name in enumerate(attributes)}
        names = tuple(real.get(name, name) for name in code.co_names)
        return FunctionType(code.replace(co_names=names), self.values)


def attribute_name(at: int) -> str:
    """Return the name of an attribute in the source."""
    return f"attr_{at}"


@functools.lru_cache(maxsize=1_000)
def _compiled(source: str) -> CodeType:
    module = compile(source, "<polycast codec>", "exec")
    return next(part for part in module.co_consts if isinstance(part, CodeType))
