"""The words of an XPath expression."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from polycast.errors import FilterSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LANGUAGE", "XPathToken", "mistake", "tokens"]

LANGUAGE = "XPath"
_OPERATOR_NAMES = frozenset({"and", "or", "mod", "div"})
_OPERATORS = frozenset({"/", "//", "|", "+", "-", "=", "!=", "<", "<=", ">", ">="})
_OPENING = frozenset({"@", "::", "(", "[", ","})
# A name as XML 1.0 has it (productions 4 and 4a), without the colon and the mark of byte order.
_BEGIN = (
    r"A-Z_a-z\xc0-\xd6\xd8-\xf6\xf8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f"
    r"\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufefe\uff00-\ufffd\U00010000-\U000effff"
)
_WORD = re.compile(
    rf"""(?P<space>[ \t\r\n]+)
    | (?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
    | (?P<literal>"[^"]*"|'[^']*')
    | (?P<name>[{_BEGIN}][{_BEGIN}0-9.\-\xb7\u0300-\u036f\u203f\u2040]*)
    | (?P<symbol>::|//|!=|<=|>=|\.\.|[()\[\],@|+\-=<>/.*$:])
    """,
    re.VERBOSE,
)


class XPathToken(NamedTuple):
    """A word: its kind ("number", "literal", "name", "operator", "symbol", "end") and place."""

    kind: str
    text: str
    position: int


def mistake(text: str, position: int, problem: str, accepted: str) -> NoReturn:
    """Say what is wrong where, and what would be right."""
    raise FilterSyntaxError(
        text, language=LANGUAGE, position=position, problem=problem, accepted=accepted
    )


def tokens(text: str) -> list[XPathToken]:
    """All words, with one at the end that says so."""
    found: list[XPathToken] = []
    for kind, word, position in _words(text):
        found.append(XPathToken(_settled(kind, word, found[-1] if found else None), word, position))
    found.append(XPathToken("end", "", len(text)))
    return found


def _words(text: str) -> Iterator[tuple[str, str, int]]:
    position = 0
    while position < len(text):
        word = _WORD.match(text, position)
        if word is None:
            if text[position] in "\"'":
                mistake(text, position, "this string has no end", f"a {text[position]} at its end")
            character = text[position]
            mistake(text, position, f"{character!r} begins nothing", "paths, strings, numbers")
        kind, position = word.lastgroup or "", word.end()
        if kind != "space":
            yield kind, word[0], word.start()


def _settled(kind: str, word: str, before: XPathToken | None) -> str:
    """After an operand, `*` and a name are operators (XPath 1.0, 3.7)."""
    operand = before is not None and before.kind != "operator" and before.text not in _OPENING
    if word == "*" and kind == "symbol":
        return "operator" if operand else "name"
    if kind == "name":
        return "operator" if operand and word in _OPERATOR_NAMES else "name"
    return "operator" if kind == "symbol" and word in _OPERATORS else kind
