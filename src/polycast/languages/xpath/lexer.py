"""The lexer of XPath."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from polycast.errors import FilterSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """A token: its kind ("number", "literal", "name", "operator", "symbol", "end") and position."""

    kind: str
    text: str
    position: int


def mistake(text: str, position: int, problem: str, accepted: str) -> NoReturn:
    """Raise FilterSyntaxError: what is wrong at a position, and what would be accepted."""
    raise FilterSyntaxError(
        text, language=LANGUAGE, position=position, problem=problem, accepted=accepted
    )


class TokenStream:
    """The tokens of a text, of which one is next."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = _tokens(text)
        self._at = 0

    @property
    def next(self) -> XPathToken:
        """The token that comes next; at the end, one of the kind "end"."""
        return self._tokens[self._at]

    def after(self) -> str:
        """The text of the token after the next one."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)].text

    def take(self) -> XPathToken:
        """Take the next token."""
        token = self.next
        self._at += 1
        return token

    def is_next(self, *words: str) -> bool:
        """Whether one of some operators or symbols comes next."""
        return self.next.text in words and self.next.kind in ("operator", "symbol")

    def accept(self, *words: str) -> XPathToken | None:
        """Take one of some operators or symbols, if it comes next."""
        return self.take() if self.is_next(*words) else None

    def expect(self, word: str) -> None:
        """Take a symbol, which has to come next."""
        if not self.accept(word):
            self.wrong(f"a {word} is missing", word)

    def wrong(self, problem: str, accepted: str) -> NoReturn:
        """Raise FilterSyntaxError for the next token."""
        mistake(self.text, self.next.position, problem, accepted)


def _tokens(text: str) -> list[XPathToken]:
    """All tokens, the last of the kind "end"."""
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
