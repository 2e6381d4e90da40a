"""The names in generated code: valid identifiers, none of them used for two things."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_RESERVED = re.compile(
    r"e|v|translate|copied|alike|put_together|as_sequence|as_set|missing|Lacking"
)


class GeneratedNames:
    """The globals of a generated module, and the local names of its functions."""

    def __init__(self) -> None:
        self.globals: dict[str, object] = {}
        self.local: set[str] = set()
        """The names in the function that is being written."""
        self._all_local: set[str] = set()
        self._by_id: dict[int, str] = {}  # of objects that `globals` keeps alive
        self._class_sets: dict[frozenset[type], frozenset[type]] = {}

    def of(self, value: Any, hint: str) -> str:
        """The global that holds a value."""
        name = self._by_id.get(id(value))
        if name is None:
            name = self._by_id[id(value)] = self.unique(hint)
            self.globals[name] = value
        return name

    def of_class(self, cls: type) -> str:
        """The global that holds a class."""
        return self.of(cls, cls.__name__)

    def of_classes(self, classes: tuple[type, ...]) -> str:
        """The global that holds a set of classes."""
        unique = frozenset(classes)
        kept = self._class_sets.setdefault(unique, unique)
        return self.of(kept, "_or_".join(cls.__name__ for cls in classes))

    def reserved(self, value: Callable[..., Any]) -> str:
        """The global of a function or class of ours, whose own name nothing else gets."""
        self.globals.setdefault(value.__name__, value)
        return value.__name__

    def unique(self, hint: str) -> str:
        """A new global."""
        name = _numbered(_identifier(hint), {*self.globals, *self._all_local})
        self.globals[name] = None
        return name

    def fresh(self, hint: str) -> str:
        """A new local name of the function that is being written; no global has it."""
        name = _numbered(_identifier(hint), {*self.globals, *self.local})
        self.local.add(name)
        self._all_local.add(name)
        return name


def is_name(text: str) -> bool:
    """Whether Python reads a text as a name, exactly as it is written."""
    is_normal = unicodedata.is_normalized("NFKC", text)
    return text.isidentifier() and not keyword.iskeyword(text) and is_normal


def _identifier(text: str) -> str:
    """An identifier like a text that is no keyword, no built-in and not reserved."""
    name = re.sub(r"\W", "_", unicodedata.normalize("NFKC", text)).strip("_") or "function"
    taken = keyword.iskeyword(name) or name in dir(builtins) or _RESERVED.fullmatch(name)
    return f"the_{name}" if taken or not name.isidentifier() else name


def _numbered(name: str, taken: set[str]) -> str:
    """A name that is not taken: itself, or with a number."""
    numbered, number = name, 2
    while numbered in taken:
        numbered, number = f"{name}_{number}", number + 1
    return numbered
