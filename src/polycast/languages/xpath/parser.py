"""From text to expressions. What kind of value each part has is known, and checked, here."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from polycast.errors import FilterTypeError
from polycast.languages.xpath.costs import MOST, cost
from polycast.languages.xpath.expressions import (
    ANYWHERE,
    BINARY,
    Binary,
    Connective,
    Expression,
    Filtered,
    FunctionCall,
    Literal,
    LocationPath,
    LocationStep,
    Negative,
    Number,
    depth,
    text_of,
)
from polycast.languages.xpath.lexer import LANGUAGE, XPathToken, mistake, tokens
from polycast.languages.xpath.signatures import SIGNATURES, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AXES", "DEEPEST", "LONGEST", "parse"]

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
def parse(text: str) -> Expression:
    """The expression of a text; FilterSyntaxError and FilterTypeError say what is wrong where."""
    if len(text) > LONGEST:
        mistake(text[:200], 0, f"it has {len(text)} characters", f"at most {LONGEST}")
    found = _XPathParser(text).whole()
    if (levels := depth(found)) > DEEPEST:
        mistake(text, 0, f"it nests {levels} expressions in each other", f"at most {DEEPEST}")
    if (effort := cost(found)) > MOST:
        problem = f"it costs {effort} steps for an event of 100 nodes"
        mistake(text, 0, problem, f"at most {MOST}; // in predicates costs most")
    if (written := len(text_of(found))) > LONGEST:  # a tree holds it as text, to be read again
        mistake(text, 0, f"with its spaces it has {written} characters", f"at most {LONGEST}")
    return found


class _XPathParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._next = 0
        self._depth = 0

    # -- words -------------------------------------------------------------------------------------

    @property
    def _token(self) -> XPathToken:
        return self._tokens[self._next]

    def _after(self) -> str:
        """The word after the next one."""
        return self._tokens[min(self._next + 1, len(self._tokens) - 1)].text

    def _take(self) -> XPathToken:
        token = self._token
        self._next += 1
        return token

    def _is(self, *words: str) -> bool:
        return self._token.text in words and self._token.kind in ("operator", "symbol")

    def _accept(self, *words: str) -> XPathToken | None:
        return self._take() if self._is(*words) else None

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            self._wrong(f"a {word} is missing", word)

    def _wrong(self, problem: str, accepted: str) -> NoReturn:
        mistake(self._text, self._token.position, problem, accepted)

    def _unexpected(self, accepted: str) -> NoReturn:
        token = self._token
        if token.text in _NOT_HERE and token.kind == "symbol":
            self._wrong(_NOT_HERE[token.text], accepted)
        what = (
            "the text ends too early" if token.kind == "end" else f"{token.text[:40]} is too much"
        )
        self._wrong(what, accepted)

    def _needs(self, kind: str, found: Expression, position: int, what: str) -> None:
        if kind_of(found) != kind:
            raise FilterTypeError(
                self._text,
                language=LANGUAGE,
                position=position,
                problem=f"{what} takes nodes, and this is a {kind_of(found)}",
                accepted="a path, or a union of paths",
            )

    # -- operators ---------------------------------------------------------------------------------

    def whole(self) -> Expression:
        """The expression that is all of the text."""
        found = self._expression()
        if self._token.kind != "end":
            self._unexpected("an operator, or the end")
        return found

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            self._wrong("this is nested too deeply", f"at most {DEEPEST} levels")
        found = self._joined("or", lambda: self._joined("and", self._binary))
        self._depth -= 1
        return found

    def _joined(self, operator: str, part: Callable[[], Expression]) -> Expression:
        parts = [part()]
        while self._accept(operator):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Connective(operator, _flat(operator, parts))

    def _binary(self, lowest: int = 1) -> Expression:
        """What comes next, with operators that bind at least so tightly."""
        found = self._signed()
        while (level := self._level()) >= lowest:
            found = Binary(self._take().text, found, self._binary(level + 1))
        return found

    def _level(self) -> int:
        """How tightly the next word binds; 0 if it is no such operator."""
        token = self._token
        return BINARY.get(token.text, 0) if token.kind in ("operator", "symbol") else 0

    def _signed(self) -> Expression:
        signs = 0
        while self._accept("-"):
            signs += 1
        found = self._union()
        for _ in range(signs if signs < 2 else 2 - signs % 2):  # --x is a number, ---x is -x
            found = Negative(found)
        return found

    def _union(self) -> Expression:
        position = self._token.position
        parts = [self._path()]
        while token := self._accept("|"):
            self._needs("node-set", parts[-1], position, "|")
            position = token.position
            parts.append(self._path())
            self._needs("node-set", parts[-1], position, "|")
        return parts[0] if len(parts) == 1 else Connective("|", _flat("|", parts))

    # -- paths -------------------------------------------------------------------------------------

    def _path(self) -> Expression:
        if self._begins_primary():
            return self._continued(self._primary())
        if self._accept("/"):
            return LocationPath(True, None, self._steps() if self._begins_step() else ())
        if self._accept("//"):
            return LocationPath(True, None, (ANYWHERE, *self._steps()))
        if not self._begins_step():
            self._unexpected(_OPERAND)
        return LocationPath(False, None, self._steps())

    def _begins_primary(self) -> bool:
        token = self._token
        if token.kind in ("number", "literal") or self._is("("):
            return True
        return token.kind == "name" and self._after() == "(" and token.text not in _TESTS

    def _begins_step(self) -> bool:
        return self._token.kind == "name" or self._is(".", "..", "@")

    def _continued(self, found: Expression) -> Expression:
        """Predicates and steps after an expression in parentheses or a function."""
        position = self._token.position
        if self._is("[", "/", "//"):
            self._needs("node-set", found, position, self._token.text)
        if predicates := self._predicates():
            if isinstance(found, Filtered):
                predicates = (*found.predicates, *predicates)
                found = found.of
            found = Filtered(found, predicates)
        if self._accept("/"):
            return LocationPath(False, found, self._steps())
        if self._accept("//"):
            return LocationPath(False, found, (ANYWHERE, *self._steps()))
        return found

    def _steps(self) -> tuple[LocationStep, ...]:
        steps = [self._step()]
        while token := self._accept("/", "//"):
            if token.text == "//":
                steps.append(ANYWHERE)
            steps.append(self._step())
        return tuple(steps)

    def _step(self) -> LocationStep:
        if self._accept("."):
            return LocationStep("self", "node()")
        if self._token.kind != "name":
            self._unexpected("the name of an element, *, text() or node()")
        axis = "child"
        if self._after() == "::":
            axis = self._axis()
        return LocationStep(axis, self._test(), self._predicates())

    def _axis(self) -> str:
        token = self._take()
        if token.text not in AXES:
            problem = f"there is no axis {token.text[:40]}"
            mistake(self._text, token.position, problem, _NO_AXIS)
        self._take()
        return token.text

    def _test(self) -> str:
        token = self._token
        if token.kind != "name":
            self._unexpected("the name of an element, *, text() or node()")
        self._take()
        if self._is(":"):
            self._wrong("XML-RPC has no namespaces", "a name without a prefix")
        if not self._is("("):
            return token.text
        if token.text not in _TESTS:
            problem = f"{token.text[:40]}() is no test of a node"
            mistake(self._text, token.position, problem, "text() or node()")
        self._take()
        self._expect(")")
        return f"{token.text}()"

    def _predicates(self) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while self._accept("["):
            found.append(self._expression())
            self._expect("]")
        return tuple(found)

    # -- operands ----------------------------------------------------------------------------------

    def _primary(self) -> Expression:
        token = self._token
        if token.kind == "number":
            return Number(float(self._take().text))
        if token.kind == "literal":
            return Literal(self._take().text[1:-1])
        if self._accept("("):
            found = self._expression()
            self._expect(")")
            return found
        return self._call()

    def _call(self) -> Expression:
        name = self._take()
        signature = SIGNATURES.get(name.text)
        if signature is None:
            known = ", ".join(sorted(SIGNATURES))
            mistake(self._text, name.position, f"there is no function {name.text[:40]}", known)
        self._expect("(")
        places, arguments = [self._token.position], list[Expression]()
        if not self._is(")"):
            arguments.append(self._expression())
            while self._accept(","):
                places.append(self._token.position)
                arguments.append(self._expression())
        self._expect(")")
        if not signature.least <= len(arguments) <= signature.most:
            problem = f"{name.text} was given {len(arguments)} arguments"
            mistake(self._text, name.position, problem, signature.arity)
        if signature.takes_nodes:
            for place, argument in zip(places, arguments, strict=False):
                self._needs("node-set", argument, place, f"{name.text}()")
        return _folded(FunctionCall(name.text, tuple(arguments)))


def _flat(operator: str, parts: list[Expression]) -> tuple[Expression, ...]:
    """`(a or b) or c` is `a or b or c`."""
    flat: list[Expression] = []
    for part in parts:
        same = isinstance(part, Connective) and part.operator == operator
        flat.extend(part.parts if same else (part,))  # type: ignore[union-attr]
    return tuple(flat)


def _folded(call: FunctionCall) -> Expression:
    """Strings that are put together are one: there is no other way to write both quotes."""
    texts = [argument.value for argument in call.arguments if isinstance(argument, Literal)]
    if call.name != "concat" or len(texts) < len(call.arguments):
        return call
    return Literal("".join(texts))
