"""Generated source: names that do not clash, and long lines broken."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Callable
from typing import Any

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


_WIDTH = 88
_MARKS = "\x0e\x0f\x10\x11\x12"  # in no name and in no `repr`
_OPEN, _BREAK, _LAST, _CLOSE, _SOFT = list(_MARKS)

_ON_ONE_LINE = {ord(mark): " " if mark == _BREAK else "" for mark in _MARKS}


def group(opening: str, items: list[str], closing: str) -> str:
    """Arguments: on one line, or each on its own with a comma."""
    if not items:
        return opening + closing
    inner = f",{_BREAK}".join(items)
    return f"{opening}{_OPEN}{inner}{_LAST}{_CLOSE}{closing}"


def chain(opening: str, pieces: list[str], closing: str) -> str:
    """Pieces of one expression: on one line, or each on its own.

    Without an opening and a closing, they are in parentheses where they need several lines.
    """
    return f"{opening or _SOFT}{_OPEN}{_BREAK.join(pieces)}{_CLOSE}{closing}"


def laid_out(text: str, before: str, after: str = "") -> str:
    """An expression between an indented beginning and an end, on as many lines as it needs."""
    flat = before + _flat(text) + after
    start = text.find(_OPEN)
    if len(flat) <= _WIDTH or start < 0:
        return flat
    end = _end(text, start)
    indent = " " * (len(before) - len(before.lstrip()))
    opening, closing = text[:start], text[end + 1 :]
    if opening.endswith(_SOFT):
        opening, closing = f"{opening[:-1]}(", f"){closing}"
    lines = [before + _flat(opening)]
    for piece in _pieces(text[start + 1 : end]):
        is_last = piece.endswith(_LAST)
        lines.append(laid_out(piece.removesuffix(_LAST), indent + "    ", "," if is_last else ""))
    return "\n".join([*lines, laid_out(closing, indent, after)])


def _flat(text: str) -> str:
    return text.translate(_ON_ONE_LINE)


def _end(text: str, start: int) -> int:
    """The place where a group that opens at another is closed."""
    depth = 0
    for place in range(start, len(text)):
        depth += {_OPEN: 1, _CLOSE: -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise AssertionError(text)


def _pieces(text: str) -> list[str]:
    """The parts between the breaks that are not inside another group."""
    pieces, depth = [""], 0
    for letter in text:
        depth += {_OPEN: 1, _CLOSE: -1}.get(letter, 0)
        if letter == _BREAK and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return pieces
