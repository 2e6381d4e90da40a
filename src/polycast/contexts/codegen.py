"""Recipes as Python functions: nothing is looked up, compared or decided twice (FOS, 5.4).

The source holds names of classes, functions and attributes that are checked to be identifiers, and
texts by their `repr`; all values come in as globals.
"""

from __future__ import annotations

import builtins
import collections.abc
import copy
import keyword
import linecache
import re
from collections import deque
from typing import TYPE_CHECKING, Any

from polycast.contexts.recipes import (
    Apply,
    Build,
    Choice,
    Duplicate,
    Each,
    Keep,
    Missing,
    Otherwise,
)
from polycast.contexts.values import is_closed, maker_of, put_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.contexts.recipes import Recipe
    from polycast.typesystem.attributes import Default

    Newly = Callable[[Choice, dict[type, Callable[[Any], Any]], Any], Any]

__all__ = ["Code", "as_sequence", "write"]

_INLINE_CASES = 3  # more are looked up by class
_WRAP = 88


class Code:
    """A generated function, its source, and what is in it."""

    def __init__(self, source: str, names: dict[str, object], label: str) -> None:
        self.source = source
        exec(compile(source, label, "exec"), names)
        self.run: Callable[[Any], Any] = names["translate"]  # type: ignore[assignment]
        # So that a traceback shows the line.
        linecache.cache[label] = (len(source), None, source.splitlines(keepends=True), label)


def as_sequence(like: object, items: list[Any]) -> Any:
    """Elements in a container like the one they come from."""
    return tuple(items) if isinstance(like, tuple) else items


class Lacking(Exception):
    """A value that the target does not take."""


def missing(value: object) -> Any:
    """In place of what the target does not take."""
    raise Lacking(type(value).__name__)


def write(recipe: Recipe, *, label: str, newly: Newly) -> Code:
    """The function that follows a recipe; `newly` is asked about classes that it does not know."""
    writer = _Writer(newly)
    source = writer.module(recipe)
    return Code(source, writer.names, label)


class _Writer:
    def __init__(self, newly: Newly) -> None:
        self._newly = newly
        self.names: dict[str, object] = {}
        self._named: dict[int, str] = {}
        self._functions: dict[int, str] = {}
        self._waiting: deque[tuple[str, Build]] = deque()
        self._count = 0
        self._parts: list[str] = []  # functions that come last
        self._kept: list[object] = []  # what is known by its id stays alive

    def module(self, recipe: Recipe) -> str:
        """`translate(e)`, and the functions that it needs."""
        if isinstance(recipe, Build):
            self._functions[id(recipe)] = "translate"
            parts = ["\n".join(self._function("translate", recipe))]
        else:
            parts = [f"def translate(e):\n    return {self._expression(recipe, 'e')}"]
        while self._waiting:
            name, build = self._waiting.popleft()
            parts.append("\n".join(self._function(name, build)))
        return "\n\n\n".join([*parts, *self._parts]) + "\n"

    def _function(self, name: str, build: Build) -> Iterator[str]:
        yield f"def {name}(e):"
        opening, arguments, closing = self._made(build, "e")
        line = f"    return {opening}{', '.join(arguments)}{closing}"
        if len(line) <= _WRAP:
            yield line
            return
        yield f"    return {opening}"
        for argument in arguments:
            yield f"        {argument},"
        yield f"    {closing}"

    # -- names -------------------------------------------------------------------------------------

    def _name(self, value: Any, hint: str) -> str:
        """The global by which a value is known."""
        known = self._named.get(id(value))
        if known is None:
            known = self._named[id(value)] = self._unique(hint)
            self.names[known] = value
        return known

    def _unique(self, hint: str) -> str:
        name, number = _identifier(hint), 2
        while name in self.names:
            name = f"{_identifier(hint)}_{number}"
            number += 1
        self.names[name] = None
        return name

    def _fresh(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    # -- objects -----------------------------------------------------------------------------------

    def _made(self, build: Build, value: str) -> tuple[str, list[str], str]:
        """The call that makes an object: what is before, between and after its arguments."""
        maker, target = maker_of(build.target), self._name(build.target, build.target.__name__)
        parts = {
            name: self._expression(recipe, _read(value, name))
            for name, recipe in build.parts.items()
        }
        for name, default in maker.defaults:
            if name not in parts:
                parts[name] = f"{self._made_by(default)}()"
        if maker.by_state:
            self.names.setdefault("put_together", put_together)
            arguments = [f"{name!r}: {part}" for name, part in parts.items()]
            opening, closing = f"put_together({target}, {{", "})"
        else:
            arguments = _arguments(maker.places, dict(maker.names), parts)
            opening, closing = f"{target}(", ")"
        if build.whole is not None:
            function = self._name(build.whole.call, build.whole.name.rpartition(".")[2])
            opening, closing = f"{function}({opening}", f"{closing})"
        return opening, arguments, closing

    def _build(self, build: Build, value: str) -> str:
        known = self._functions.get(id(build))
        if known is None and not build.recursive and value.isidentifier():
            opening, arguments, closing = self._made(build, value)
            return f"{opening}{', '.join(arguments)}{closing}"
        if known is None:
            known = self._unique(f"{build.source.__name__}_to_{build.target.__name__}")
            self._functions[id(build)] = known
            self._waiting.append((known, build))
        return f"{known}({value})"

    # -- values ------------------------------------------------------------------------------------

    def _expression(self, recipe: Recipe, value: str) -> str:
        match recipe:
            case Keep():
                return value
            case Duplicate():
                self.names.setdefault("deepcopy", copy.deepcopy)
                return f"deepcopy({value})"
            case Apply():
                name = self._name(recipe.function.call, recipe.function.name.rpartition(".")[2])
                return f"{name}({self._expression(recipe.before, value)})"
            case Build():
                return self._build(recipe, value)
            case Each():
                return self._each(recipe, value)
            case Missing():
                self.names.setdefault("missing", missing)
                return f"missing({value})"
            case Otherwise():
                return self._otherwise_default(recipe, value)
            case Choice():
                return self._choice(recipe, value)

    def _each(self, each: Each, value: str) -> str:
        item = self._fresh("x")
        inner = self._expression(each.inner, item)
        if inner == item:
            return _COPIES.get(each.kind, "{0}").format(value)
        if each.kind is dict:
            key = self._fresh("k")
            return f"{{{key}: {inner} for {key}, {item} in {value}.items()}}"
        if each.kind is set:
            return f"{{{inner} for {item} in {value}}}"
        items = f"[{inner} for {item} in {value}]"
        if each.kind is collections.abc.Sequence:
            self.names.setdefault("as_sequence", as_sequence)
            return f"as_sequence({value}, {items})"
        return items if each.kind is list else f"{each.kind.__name__}({items})"

    def _otherwise_default(self, recipe: Otherwise, value: str) -> str:
        """A function of its own: only a statement can catch that something is missing."""
        name = self._unique("or_default")
        self.names.setdefault("Lacking", Lacking)
        default = self._made_by(recipe.default)
        inner = self._expression(recipe.inner, "v")
        self._parts.append(
            f"def {name}(v):\n    try:\n        return {inner}\n    except Lacking:\n"
            f"        return {default}()"
        )
        return f"{name}({value})"

    def _made_by(self, default: Default) -> str:
        make = default.make
        self._kept.append(make)
        return self._name(make, "default")

    def _choice(self, choice: Choice, value: str) -> str:
        name = value if value.isidentifier() else self._fresh("v")
        tests: list[tuple[str, str]] = []
        if choice.none is not None:
            none = "None" if isinstance(choice.none, Keep) else self._expression(choice.none, name)
            tests.append(("is None", none))
        tests += list(self._tests(choice, name))
        if tests and not tests[-1][0]:
            last = tests.pop()[1]
            if not tests:
                return self._alone(choice, value)
        elif tests:
            last = self._learnt(choice, name, name)
        else:
            return self._learnt(choice, name, value)
        texts = []
        for place, (test, result) in enumerate(tests):
            bound = f"({name} := {value})" if place == 0 and name != value else name
            condition = test.format(bound) if "{0}" in test else f"{bound} {test}"
            texts.append(f"{result} if {condition} else ")
        return f"({''.join(texts)}{last})"

    def _alone(self, choice: Choice, value: str) -> str:
        """A choice without anything to choose."""
        recipes = [recipe for _, recipe in choice.containers] or list(choice.cases.values())
        return self._expression(recipes[0], value)

    def _tests(self, choice: Choice, name: str) -> Iterator[tuple[str, str]]:
        """What a value may be, and what is done then; an empty test always holds."""
        for place, (kind, recipe) in enumerate(choice.containers):
            is_last = not choice.cases and place == len(choice.containers) - 1
            kinds = "(list, tuple)" if kind is collections.abc.Sequence else kind.__name__
            test = "" if is_last else f"isinstance({{0}}, {kinds})"
            yield test, self._expression(recipe, name)
        cases = list(choice.cases.items())
        if len(cases) > _INLINE_CASES:
            return
        for met, recipe in cases:
            alone = len(cases) == 1 and is_closed(met)
            cls = "" if alone else self._name(met, met.__name__)
            yield "" if alone else f"type({{0}}) is {cls}", self._expression(recipe, name)

    def _learnt(self, choice: Choice, name: str, value: str) -> str:
        """What is done with values of other classes: they are looked up, and learnt."""
        functions: dict[type, Callable[[Any], Any]] = {}
        newly = self._newly

        def new(value: Any) -> Any:
            return newly(choice, functions, value)

        known = self._name(functions, f"cases_{self._count}")
        learn = self._name(new, f"new_{self._count}")
        bound = name if name == value else f"({name} := {value})"
        return f"{known}.get(type({bound}), {learn})({name})"


_COPIES: dict[type, str] = {
    list: "[*{0}]",
    dict: "{{**{0}}}",
    set: "{{*{0}}}",
    collections.abc.Sequence: "as_sequence({0}, [*{0}])",
}


def _arguments(
    places: tuple[str, ...], keywords: dict[str, str], parts: dict[str, str]
) -> list[str]:
    found, rest = [], dict(parts)
    for name in places:
        if name not in rest:
            break
        found.append(rest.pop(name))
    for name, part in rest.items():
        word = keywords[name]
        found.append(f"{word}={part}" if _is_name(word) else f"**{{{word!r}: {part}}}")
    return found


def _read(value: str, name: str) -> str:
    return f"{value}.{name}" if _is_name(name) else f"getattr({value}, {name!r})"


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


_OURS = re.compile(r"e|v|translate|deepcopy|put_together|as_sequence|missing|Lacking|[vxk]\d+")


def _identifier(text: str) -> str:
    """A name that is nothing else: no keyword, no built-in, none of those used here."""
    found = re.sub(r"\W", "_", text).strip("_") or "function"
    taken = keyword.iskeyword(found) or found in dir(builtins) or _OURS.fullmatch(found)
    return f"the_{found}" if taken or not found.isidentifier() else found
