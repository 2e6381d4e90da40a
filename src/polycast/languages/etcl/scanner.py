"""The scanner of ETCL: names, numbers, strings, and errors that show the position."""

from __future__ import annotations

import math
import re
from typing import NamedTuple, NoReturn

from polycast.errors import FilterSyntaxError, FilterTypeError

LANGUAGE = "etcl"
KEYWORDS = frozenset({"and", "or", "not", "in", "exist", "default", "true", "false"})
SPACE = frozenset(" \t\r\n")
DIGITS = frozenset("0123456789")
USUAL_NAME = re.compile("[A-Za-z_][A-Za-z_0-9]*")  # others are looked at letter by letter
PLACE = re.compile("[0-9]+")
NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
STRING = re.compile(r"'((?:\\[\\']|[^'])*+)'")  # what is escaped is never read as the end
ESCAPED = re.compile(r"\\([\\'])")
LONGEST = 100_000  # characters of a filter
LONGEST_NUMBER = 1_000  # characters of a number


class Name(NamedTuple):
    """A name as it stands there."""

    text: str
    escaped: bool
    begin: int

    @property
    def keyword(self) -> str | None:
        """The keyword that it is, in any case of letters; a backslash makes it an ordinary name."""
        word = self.text.lower()
        return word if not self.escaped and word in KEYWORDS else None


class Scanner:
    """A position in a text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        if len(text) > LONGEST:
            self.wrong(LONGEST, "the filter is too long", accepted=f"at most {LONGEST} characters")

    def wrong(self, at: int, problem: str, *, accepted: str) -> NoReturn:
        """Raise FilterSyntaxError for a position."""
        raise FilterSyntaxError(
            self.text, language=LANGUAGE, position=at, problem=problem, accepted=accepted
        )

    def mistyped(self, at: int, problem: str, *, accepted: str) -> NoReturn:
        """Raise FilterTypeError for a position."""
        raise FilterTypeError(
            self.text, language=LANGUAGE, position=at, problem=problem, accepted=accepted
        )

    def unexpected(self, *, accepted: str) -> NoReturn:
        """Raise FilterSyntaxError: something else should stand here."""
        self.space()
        name = self.peek_name() if self.text[self.at : self.at + 1] != "\\" else None
        here = self.text[self.at : self.at + 1] if name is None else name.text[:40]
        problem = f"{here!r} cannot stand here" if here else "the filter ends too early"
        self.wrong(self.at, problem, accepted=accepted)

    def space(self) -> str:
        """Skip white space and return the next character; "" at the end."""
        text, at = self.text, self.at
        first = text[at : at + 1]
        while first in SPACE:
            at += 1
            first = text[at : at + 1]
        self.at = at
        return first

    def take(self, *signs: str) -> str | None:
        """Take one of the signs if it comes next; the first that matches."""
        self.space()
        if not self.text.startswith(signs, self.at):
            return None
        found = next(sign for sign in signs if self.text.startswith(sign, self.at))
        self.at += len(found)
        return found

    def expect(self, sign: str, *, accepted: str) -> None:
        """Take a sign that has to come next."""
        if self.take(sign) is None:
            self.unexpected(accepted=accepted)

    # -- names -------------------------------------------------------------------------------------

    def peek_name(self) -> Name | None:
        """The name that comes next, not taken."""
        before = self.at
        found = self.name()
        self.at = before
        return found

    def name(self) -> Name | None:
        """Take the name that comes next; None if there is none."""
        first = self.space()
        begin, text = self.at, self.text
        escaped = first == "\\"
        at = begin + escaped
        usual = USUAL_NAME.match(text, at)
        end = at if usual is None else usual.end()
        while end < len(text) and (text[end].isidentifier() or (end > at and text[end] in DIGITS)):
            end += 1
        if end == at:
            if escaped:
                self.wrong(at, "a backslash without a name", accepted=r"a name, as in \in")
            return None
        self.at = end
        return Name(text[at:end], escaped, begin)

    # -- literals ----------------------------------------------------------------------------------

    def place(self, *, accepted: str) -> int:
        """A position, the number of an element or of a tag."""
        self.space()
        digits = self._matching(PLACE)
        if digits is None:
            self.unexpected(accepted=accepted)
        return int(digits)

    def number(self) -> int | float | None:
        """Take a number without a sign; None if there is none."""
        self.space()
        begin, text = self.at, self._matching(NUMBER)
        if text is None:
            return None
        found = int(text) if text.isdigit() else float(text)
        if isinstance(found, float) and math.isinf(found):
            self.wrong(begin, "the number is too big", accepted="what a double can hold")
        return found

    def _matching(self, number: re.Pattern[str]) -> str | None:
        """Take the digits that come next; None if there are none."""
        match = number.match(self.text, self.at)
        if match is None:
            return None
        begin, self.at = match.span()
        if self.at - begin > LONGEST_NUMBER:
            accepted = f"at most {LONGEST_NUMBER} characters"
            self.wrong(begin, "the number is too long", accepted=accepted)
        return match[0]

    def string(self) -> str | None:
        """Take a text in quotes; None if there is none."""
        if self.space() != "'":
            return None
        match = STRING.match(self.text, self.at)
        if match is None:
            self.wrong(self.at, "the string does not end", accepted="a quote at its end")
        self.at = match.end()
        return ESCAPED.sub(r"\1", match[1])


def quoted(text: str) -> str:
    """A text as a literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def written_name(name: str) -> str:
    """A name as it has to be written not to be a keyword."""
    return f"\\{name}" if name.lower() in KEYWORDS else name
