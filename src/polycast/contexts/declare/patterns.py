"""Patterns: the attributes and events to which a rule applies (FOS, section 3)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from polycast.contexts.check.findings import Finding
from polycast.contexts.resolve.resolution import is_subtype
from polycast.typesystem.standard_types import is_standard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.contexts.resolve.attribute_shapes import KnownTypes

_TOKEN = re.compile(r"\s*(?:(?P<name>[^\W\d]\w*)|(?P<mark>[.:()])|(?P<other>\S))")


@dataclass(frozen=True)
class Qualifier:
    """A step of a pattern: an attribute with its types, or a type."""

    attribute: str | None
    types: tuple[type, ...]

    def __str__(self) -> str:
        names = " | ".join(cls.__name__ for cls in self.types)
        return names if self.attribute is None else f"{self.attribute}({names})"


@dataclass(frozen=True)
class Pattern:
    """`Head.q1...qm`, with all types filled in; patterns are equal if these are."""

    head: type
    qualifiers: tuple[Qualifier, ...]
    text: str = field(compare=False)

    @property
    def last(self) -> Qualifier:
        """The attribute or type to which the rule applies."""
        return self.qualifiers[-1] if self.qualifiers else Qualifier(None, (self.head,))

    def __str__(self) -> str:
        return self.text


class BadPattern(Exception):
    """A pattern is wrong: its text has a mark below the place."""

    def __init__(self, code: str, why: str, *, text: str, at: int) -> None:
        super().__init__(f"{why}\n    {text}\n    {' ' * at}^")
        self.code = code


class _Token(NamedTuple):
    text: str
    at: int
    mark: bool


def parse_pattern(text: str, types: KnownTypes) -> tuple[Pattern, list[Finding]]:
    """Parse a pattern; the second result is warnings. `BadPattern` if it is wrong."""
    parser = _PatternParser(text, types)
    return parser.parsed(), parser.warnings


class _PatternParser:
    def __init__(self, text: str, types: KnownTypes) -> None:
        self._text, self._types = text, types
        self._tokens = list(_tokens(text))
        self._next = 0
        self._written: set[type] = set()
        self.warnings: list[Finding] = []

    def parsed(self) -> Pattern:
        if not self._tokens:
            raise self._bad("bad-pattern", "the pattern is empty; it begins with a type", 0)
        head = self._type_here("a type")
        qualifiers: list[Qualifier] = []
        prefix: tuple[type, ...] = (head,)
        while self._next < len(self._tokens):
            self._expect(".")
            qualifier = self._qualifier(prefix)
            qualifiers.append(qualifier)
            prefix = qualifier.types
        return Pattern(head, tuple(qualifiers), self._text)

    # -- tokens ------------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> _Token | None:
        place = self._next + ahead
        return self._tokens[place] if place < len(self._tokens) else None

    def _expect(self, mark: str) -> None:
        token = self._peek()
        if token is None or token.text != mark:
            raise self._expected(repr(mark), token)
        self._next += 1

    def _is_mark(self, mark: str) -> bool:
        token = self._peek()
        return token is not None and token.mark and token.text == mark

    def _name(self, wanted: str) -> _Token:
        token = self._peek()
        if token is None or token.mark:
            raise self._expected(wanted, token)
        return token

    def _expected(self, wanted: str, token: _Token | None) -> BadPattern:
        at = len(self._text) if token is None else token.at
        return self._bad("bad-pattern", f"here {wanted} is expected", at)

    # -- types -------------------------------------------------------------------------------------

    def _type_here(self, wanted: str) -> type:
        """The type named by as many of the next dotted names as possible."""
        first = self._name(wanted)
        names = self._row_of_names()
        for count in range(len(names), 0, -1):
            name = ".".join(names[:count])
            types = self._types.named(name)
            if types:
                self._next += 2 * count - 1
                return self._only(types, name, first.at)
        alike = self._types.alike(names[0])
        guess = f"; did you mean {' or '.join(alike)}?" if alike else ""
        raise self._bad("unknown-type", f"there is no type {names[0]!r}{guess}", first.at)

    def _row_of_names(self) -> list[str]:
        names, place = [], 0
        while (token := self._peek(place)) is not None and not token.mark:
            names.append(token.text)
            dot = self._peek(place + 1)
            if dot is None or dot.text != ".":
                break
            place += 2
        return names

    def _only(self, types: list[type], name: str, at: int) -> type:
        if len(types) > 1:
            full = " or ".join(map(self._types.full_names, types))
            raise self._bad("ambiguous-type", f"{name!r} is two types; say {full}", at)
        [cls] = types
        if cls in self._written:
            why = f"{cls.__name__} is named twice; a path is not followed round in circles"
            raise self._bad("named-twice", why, at)
        self._written.add(cls)
        return cls

    # -- qualifiers --------------------------------------------------------------------------------

    def _qualifier(self, prefix: tuple[type, ...]) -> Qualifier:
        if self._is_mark(":"):
            self._next += 1
            return self._type_qualifier(prefix)
        token = self._name("an attribute or a type")
        declared = self._declared(prefix, token.text)
        if declared is None:
            if not self._is_a_type():
                raise self._unknown(prefix, token)
            return self._type_qualifier(prefix)
        if not all(map(is_standard, self._types.named(token.text))):  # `time` surprises nobody
            text = (
                f"{token.text!r} in {self._text!r} is an attribute and a type; it is read as the "
                f"attribute, .:{token.text} is the type"
            )
            self.warnings.append(Finding("attribute-or-type", text, ""))
        self._next += 1
        return Qualifier(token.text, self._narrowed(declared, token.text))

    def _is_a_type(self) -> bool:
        names = self._row_of_names()
        counts = range(1, len(names) + 1)
        return any(self._types.named(".".join(names[:count])) for count in counts)

    def _declared(self, prefix: tuple[type, ...], name: str) -> tuple[type, ...] | None:
        """The classes that an attribute holds; None if there is no such attribute."""
        shapes = [shape for cls in prefix if (shape := self._types.shapes(cls).get(name))]
        if not shapes:
            return None
        classes = [cls for shape in shapes for cls in shape.all_classes()]
        return tuple(dict.fromkeys(classes)) or (object,)

    def _narrowed(self, declared: tuple[type, ...], attribute: str) -> tuple[type, ...]:
        if not self._is_mark("("):
            return declared
        self._next += 1
        at = self._name("a type").at
        cls = self._type_here("a type")
        self._expect(")")
        if declared != (object,) and not any(is_subtype(cls, above) for above in declared):
            names = " | ".join(above.__name__ for above in declared)
            why = f"{cls.__name__} is no subtype of {names}, which {attribute!r} holds"
            raise self._bad("not-a-subtype", why, at)
        return (cls,)

    def _type_qualifier(self, prefix: tuple[type, ...]) -> Qualifier:
        at = self._name("a type").at
        cls = self._type_here("a type")
        owner = " | ".join(cls.__name__ for cls in prefix)
        if self._next < len(self._tokens):
            direct = {
                met
                for part in prefix
                for shape in self._types.shapes(part).values()
                for held in shape.all_classes()
                for met in self._types.subtypes(held)
            }
            if not any(is_subtype(met, cls) for met in direct):
                why = f"{owner} has no attribute of type {cls.__name__}"
                raise self._bad("not-an-attribute", why, at)
        elif not any(is_subtype(met, cls) for met in self._types.reached(prefix)):
            # An attribute declared with a supertype may hold it.
            why = f"no {cls.__name__} is to be found anywhere in {owner}"
            raise self._bad("not-reachable", why, at)
        return Qualifier(None, (cls,))

    def _unknown(self, prefix: tuple[type, ...], token: _Token) -> BadPattern:
        owner = " | ".join(cls.__name__ for cls in prefix)
        names = [name for cls in prefix for name in self._types.shapes(cls)]
        has = f"it has {', '.join(names)}" if names else "it has no attributes"
        why = f"{token.text!r} is no attribute of {owner} and no type; {has}"
        return self._bad("unknown-attribute", why, token.at)

    def _bad(self, code: str, why: str, at: int) -> BadPattern:
        return BadPattern(code, why, text=self._text, at=at)


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        assert match is not None  # `other` takes what nothing else does
        kind = match.lastgroup or ""
        at = match.start(kind)
        if kind == "other":
            why = f"{match[kind]!r} has no place in a pattern"
            raise BadPattern("bad-pattern", why, text=text, at=at)
        yield _Token(match[kind], at, kind == "mark")
        place = match.end()
