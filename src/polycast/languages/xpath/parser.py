"""The parser of XPath: tokens first, then expressions, whose types and cost it checks, too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, NoReturn

from polycast.errors import FilterSyntaxError, FilterTypeError
from polycast.languages.xpath import syntax
from polycast.languages.xpath.core_library import FUNCTIONS
from polycast.languages.xpath.syntax import MOST, cost, kind_of

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


# -- the parser ------------------------------------------------------------------------------------


LONGEST = 10_000  # characters
DEEPEST = 32  # expressions in each other
AXES = ("child", "descendant", "descendant-or-self", "self")
_TESTS = ("node", "text")
_NOT_HERE = {
    "@": "XML-RPC has no attributes",
    "..": "there is no way up",
    "$": "there are no variables",
}
_NO_AXIS = "elements are reached from above: " + ", ".join(f"{axis}::" for axis in AXES)
_OPERAND = "a path, a string, a number, a function or ("


@lru_cache(maxsize=256)  # a text may take a megabyte
def parse(text: str) -> syntax.Expression:
    """The expression of a text; FilterSyntaxError and FilterTypeError say what is wrong where."""
    if len(text) > LONGEST:
        mistake(text[:200], 0, f"it has {len(text)} characters", f"at most {LONGEST}")
    found = _XPathParser(text).whole()
    if (levels := syntax.depth(found)) > DEEPEST:
        mistake(text, 0, f"it nests {levels} expressions in each other", f"at most {DEEPEST}")
    if (effort := cost(found)) > MOST:
        problem = f"it costs {effort} steps for an event of 100 nodes"
        mistake(text, 0, problem, f"at most {MOST}; // in predicates costs most")
    # A tree holds it as text, to be read again.
    if (written := len(syntax.text_of(found))) > LONGEST:
        mistake(text, 0, f"with its spaces it has {written} characters", f"at most {LONGEST}")
    return found


class _XPathParser:
    """A recursive descent parser of one text."""

    def __init__(self, text: str) -> None:
        self._tokens = TokenStream(text)
        self._depth = 0

    def _unexpected(self, accepted: str) -> NoReturn:
        token = self._tokens.next
        if token.text in _NOT_HERE and token.kind == "symbol":
            self._tokens.wrong(_NOT_HERE[token.text], accepted)
        early = token.kind == "end"
        what = "the text ends too early" if early else f"{token.text[:40]} is too much"
        self._tokens.wrong(what, accepted)

    def _check_nodes(self, part: syntax.Expression, position: int, what: str) -> None:
        """Raise FilterTypeError unless a part gives nodes."""
        if kind_of(part) != "node-set":
            raise FilterTypeError(
                self._tokens.text,
                language=LANGUAGE,
                position=position,
                problem=f"{what} takes nodes, and this is a {kind_of(part)}",
                accepted="a path, or a union of paths",
            )

    # -- operators ---------------------------------------------------------------------------------

    def whole(self) -> syntax.Expression:
        """The expression that is all of the text."""
        found = self._expression()
        if self._tokens.next.kind != "end":
            self._unexpected("an operator, or the end")
        return found

    def _expression(self) -> syntax.Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            self._tokens.wrong("this is nested too deeply", f"at most {DEEPEST} levels")
        found = self._joined("or", lambda: self._joined("and", self._binary))
        self._depth -= 1
        return found

    def _joined(self, operator: str, part: Callable[[], syntax.Expression]) -> syntax.Expression:
        parts = [part()]
        while self._tokens.accept(operator):
            parts.append(part())
        return parts[0] if len(parts) == 1 else syntax.Connective(operator, _flat(operator, parts))

    def _binary(self, lowest: int = 1) -> syntax.Expression:
        """Parse an expression whose operators bind at least as tightly as the given level."""
        found = self._signed()
        while (level := _precedence(self._tokens.next)) >= lowest:
            found = syntax.Binary(self._tokens.take().text, found, self._binary(level + 1))
        return found

    def _signed(self) -> syntax.Expression:
        signs = 0
        while self._tokens.accept("-"):
            signs += 1
        found = self._union()
        for _ in range(signs if signs < 2 else 2 - signs % 2):  # --x is a number, ---x is -x
            found = syntax.Negative(found)
        return found

    def _union(self) -> syntax.Expression:
        position = self._tokens.next.position
        parts = [self._path()]
        while token := self._tokens.accept("|"):
            self._check_nodes(parts[-1], position, "|")
            position = token.position
            parts.append(self._path())
            self._check_nodes(parts[-1], position, "|")
        return parts[0] if len(parts) == 1 else syntax.Connective("|", _flat("|", parts))

    # -- paths -------------------------------------------------------------------------------------

    def _path(self) -> syntax.Expression:
        if self._begins_primary():
            return self._continued(self._primary())
        if self._tokens.accept("/"):
            return syntax.LocationPath(True, None, self._steps() if self._begins_step() else ())
        if self._tokens.accept("//"):
            return syntax.LocationPath(True, None, (syntax.ANYWHERE, *self._steps()))
        if not self._begins_step():
            self._unexpected(_OPERAND)
        return syntax.LocationPath(False, None, self._steps())

    def _begins_primary(self) -> bool:
        token = self._tokens.next
        if token.kind in ("number", "literal") or self._tokens.is_next("("):
            return True
        return token.kind == "name" and self._tokens.after() == "(" and token.text not in _TESTS

    def _begins_step(self) -> bool:
        return self._tokens.next.kind == "name" or self._tokens.is_next(".", "..", "@")

    def _continued(self, found: syntax.Expression) -> syntax.Expression:
        """Predicates and steps after an expression in parentheses or a function."""
        position = self._tokens.next.position
        if self._tokens.is_next("[", "/", "//"):
            self._check_nodes(found, position, self._tokens.next.text)
        if predicates := self._predicates():
            if isinstance(found, syntax.Filtered):
                predicates = (*found.predicates, *predicates)
                found = found.of
            found = syntax.Filtered(found, predicates)
        if self._tokens.accept("/"):
            return syntax.LocationPath(False, found, self._steps())
        if self._tokens.accept("//"):
            return syntax.LocationPath(False, found, (syntax.ANYWHERE, *self._steps()))
        return found

    def _steps(self) -> tuple[syntax.LocationStep, ...]:
        steps = [self._step()]
        while token := self._tokens.accept("/", "//"):
            if token.text == "//":
                steps.append(syntax.ANYWHERE)
            steps.append(self._step())
        return tuple(steps)

    def _step(self) -> syntax.LocationStep:
        if self._tokens.accept("."):
            return syntax.LocationStep("self", "node()")
        if self._tokens.next.kind != "name":
            self._unexpected("the name of an element, *, text() or node()")
        axis = "child"
        if self._tokens.after() == "::":
            axis = self._axis()
        return syntax.LocationStep(axis, self._test(), self._predicates())

    def _axis(self) -> str:
        token = self._tokens.take()
        if token.text not in AXES:
            problem = f"there is no axis {token.text[:40]}"
            mistake(self._tokens.text, token.position, problem, _NO_AXIS)
        self._tokens.take()
        return token.text

    def _test(self) -> str:
        token = self._tokens.next
        if token.kind != "name":
            self._unexpected("the name of an element, *, text() or node()")
        self._tokens.take()
        if self._tokens.is_next(":"):
            self._tokens.wrong("XML-RPC has no namespaces", "a name without a prefix")
        if not self._tokens.is_next("("):
            return token.text
        if token.text not in _TESTS:
            problem = f"{token.text[:40]}() is no test of a node"
            mistake(self._tokens.text, token.position, problem, "text() or node()")
        self._tokens.take()
        self._tokens.expect(")")
        return f"{token.text}()"

    def _predicates(self) -> tuple[syntax.Expression, ...]:
        found: list[syntax.Expression] = []
        while self._tokens.accept("["):
            found.append(self._expression())
            self._tokens.expect("]")
        return tuple(found)

    # -- operands ----------------------------------------------------------------------------------

    def _primary(self) -> syntax.Expression:
        token = self._tokens.next
        if token.kind == "number":
            return syntax.Number(float(self._tokens.take().text))
        if token.kind == "literal":
            return syntax.Literal(self._tokens.take().text[1:-1])
        if self._tokens.accept("("):
            found = self._expression()
            self._tokens.expect(")")
            return found
        return self._call()

    def _call(self) -> syntax.Expression:
        name = self._tokens.take()
        function = FUNCTIONS.get(name.text)
        if function is None:
            known = ", ".join(sorted(FUNCTIONS))
            problem = f"there is no function {name.text[:40]}"
            mistake(self._tokens.text, name.position, problem, known)
        self._tokens.expect("(")
        places, arguments = [self._tokens.next.position], list[syntax.Expression]()
        if not self._tokens.is_next(")"):
            arguments.append(self._expression())
            while self._tokens.accept(","):
                places.append(self._tokens.next.position)
                arguments.append(self._expression())
        self._tokens.expect(")")
        if not function.least <= len(arguments) <= function.most:
            problem = f"{name.text} was given {len(arguments)} arguments"
            mistake(self._tokens.text, name.position, problem, function.arity)
        if function.takes == "node-set":
            for place, argument in zip(places, arguments, strict=False):
                self._check_nodes(argument, place, f"{name.text}()")
        return _folded(syntax.FunctionCall(name.text, tuple(arguments)))


def _precedence(token: XPathToken) -> int:
    """How tightly a token binds; 0 if it is no binary operator."""
    return syntax.BINARY.get(token.text, 0) if token.kind in ("operator", "symbol") else 0


def _flat(operator: str, parts: list[syntax.Expression]) -> tuple[syntax.Expression, ...]:
    """`(a or b) or c` is `a or b or c`."""
    flat: list[syntax.Expression] = []
    for part in parts:
        same = isinstance(part, syntax.Connective) and part.operator == operator
        flat.extend(part.parts if same else (part,))  # type: ignore[union-attr]
    return tuple(flat)


def _folded(call: syntax.FunctionCall) -> syntax.Expression:
    """Strings that are put together are one: there is no other way to write both quotes."""
    texts = [argument.value for argument in call.arguments if isinstance(argument, syntax.Literal)]
    if call.name != "concat" or len(texts) < len(call.arguments):
        return call
    return syntax.Literal("".join(texts))
