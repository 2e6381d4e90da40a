"""Breaks the lines of generated code where they are too long."""

from __future__ import annotations

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
