"""Recipes as Python functions: nothing is looked up, compared or decided twice (FOS, 5.4).

The source holds names of classes, functions and attributes that are checked to be identifiers, and
texts by their `repr`; all values come in as globals.
"""

from __future__ import annotations

import builtins
import collections
import collections.abc
import keyword
import linecache
import re
import unicodedata
from collections import deque
from typing import TYPE_CHECKING, Any

from polycast.contexts.compile.line_breaks import chain, group, laid_out
from polycast.contexts.compile.object_makers import (
    alike,
    copied,
    is_closed,
    maker_of,
    open_attributes,
    put_together,
)
from polycast.contexts.compile.translation_ir import (
    Apply,
    Build,
    Choice,
    Duplicate,
    Each,
    Keep,
    Missing,
    Otherwise,
    Whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.contexts.compile.translation_ir import Recipe
    from polycast.contexts.declare.rule_functions import RuleFunction
    from polycast.contexts.run.result_checks import ExpectedResult
    from polycast.typesystem.attributes import Default

    Newly = Callable[[Choice, dict[type, Callable[[Any], Any]], Any], Any]

__all__ = ["Code", "as_sequence", "as_set", "write"]

_INLINE_CASES = 3  # more are looked up by class


class Code:
    """A generated function, its source, and what is in it."""

    def __init__(self, source: str, names: dict[str, object], label: str) -> None:
        self.source = source
        exec(compile(source, label, "exec"), names)  # noqa: S102  (made from checked recipes)
        self.run: Callable[[Any], Any] = names["translate"]  # type: ignore[assignment]
        # So that a traceback shows the line.
        linecache.cache[label] = (len(source), None, source.splitlines(keepends=True), label)


def as_sequence(like: object, items: list[Any]) -> Any:
    """Elements in a container like the one they come from."""
    return tuple(items) if isinstance(like, tuple) else items


def as_set(like: object, items: list[Any]) -> Any:
    """The same of sets."""
    return frozenset(items) if isinstance(like, frozenset) else set(items)


class Lacking(Exception):
    """A value that the target does not take."""


def missing(value: object) -> Any:
    """In place of what the target does not take."""
    raise Lacking(type(value).__name__)


def write(recipe: Recipe, *, label: str, newly: Newly, unsure: Callable[[], None]) -> Code:
    """The function that follows a recipe; `newly` is asked about classes that it does not know.

    `unsure` is called when a function gives an object of another class than it says.
    """
    writer = _Writer(newly, unsure)
    source = writer.module(recipe)
    return Code(source, writer.names, label)


class _Writer:
    def __init__(self, newly: Newly, unsure: Callable[[], None]) -> None:
        self._newly, self._unsure = newly, unsure
        self.names: dict[str, object] = {}
        self._named: dict[int, str] = {}
        self._functions: dict[int, str] = {}
        self._waiting: deque[tuple[str, Build]] = deque()
        self._local: set[str] = set()  # in the function that is being written
        self._locals: set[str] = set()  # in any of them
        self._parts: list[str] = []  # functions that come last
        self._tables: list[str] = []  # of functions, by the class of what they are given
        self._sets: dict[frozenset[type], frozenset[type]] = {}
        self._kept: list[object] = []  # what is known by its id stays alive

    def module(self, recipe: Recipe) -> str:
        """`translate(e)`, and the functions that it needs."""
        if isinstance(recipe, Build):
            self._functions[id(recipe)] = "translate"
            parts = [self._function("translate", recipe)]
        else:
            returned = laid_out(self._expression(recipe, "e"), "    return ")
            parts = [f"def translate(e):\n{returned}"]
        while self._waiting:
            parts.append(self._function(*self._waiting.popleft()))
        return "\n\n\n".join([*parts, *self._parts, *self._tables]) + "\n"

    def _function(self, name: str, build: Build) -> str:
        self._local = {"e"}
        lines = [f"def {name}(e):"]
        kept = _kept_if(build, "e", self._class)
        if kept:
            is_one = f"type(e) is {self._class(build.source)}"  # not one taken for its supertype
            lines += [laid_out(f"{is_one} and {kept}", "    if ", ":"), "        return e"]
        return "\n".join([*lines, laid_out(self._made(build, "e"), "    return ")])

    # -- names -------------------------------------------------------------------------------------

    def _name(self, value: Any, hint: str) -> str:
        """The global by which a value is known."""
        known = self._named.get(id(value))
        if known is None:
            known = self._named[id(value)] = self._unique(hint)
            self.names[known] = value
        return known

    def _class(self, cls: type) -> str:
        return self._name(cls, cls.__name__)

    def _unique(self, hint: str) -> str:
        name = _numbered(_identifier(hint), {*self.names, *self._locals})
        self.names[name] = None
        return name

    def _fresh(self, hint: str) -> str:
        """A name inside the function that is being written; no global has it."""
        name = _numbered(_identifier(hint), {*self.names, *self._local})
        self._local.add(name)
        self._locals.add(name)
        return name

    # -- objects -----------------------------------------------------------------------------------

    def _made(self, build: Build, value: str) -> str:
        """The call that makes an object."""
        maker, target = maker_of(build.target), self._class(build.target)
        parts = {
            name: self._expression(recipe, _read(value, name))
            for name, recipe in build.parts.items()
        }
        for name, default in maker.defaults:
            if name not in parts:
                parts[name] = f"{self._made_by(default)}()"
        if maker.by_state:
            self.names.setdefault("put_together", put_together)
            items = [f"{name!r}: {part}" for name, part in parts.items()]
            made = f"put_together({target}, {group('{', items, '}')})"
        else:
            made = group(f"{target}(", _arguments(maker.places, dict(maker.names), parts), ")")
        return made

    def _build(self, build: Build) -> str:
        """The function that makes an object."""
        known = self._functions.get(id(build))
        if known is None:
            source, target = build.source.__name__, build.target.__name__
            hint = f"{source}_again" if source == target else f"{source}_to_{target}"
            known = self._functions[id(build)] = self._unique(hint)
            self._waiting.append((known, build))
        return known

    # -- values ------------------------------------------------------------------------------------

    def _expression(self, recipe: Recipe, value: str) -> str:
        match recipe:
            case Keep():
                return value
            case Duplicate():
                self.names.setdefault("copied", copied)
                return f"copied({value})"
            case Apply() | Whole():
                return self._called(recipe, value)
            case Build():
                return f"{self._build(recipe)}({value})"
            case Each():
                return self._each(recipe, value)
            case Missing():
                self.names.setdefault("missing", missing)
                return f"missing({value})"
            case Otherwise():
                return self._otherwise_default(recipe, value)
            case Choice():
                return self._choice(recipe, value)

    def _function_name(self, function: RuleFunction) -> str:
        return self._name(function.call, function.name.rpartition(".")[2])

    def _called(self, recipe: Apply | Whole, value: str, opening: str = "") -> str:
        """What a function gives, if it is of the class that it should be; else it is looked at."""
        function, result = self._function_name(recipe.function), recipe.result
        call = f"{function}({self._expression(recipe.before, value)})"
        if result is None:
            return call
        self._kept.append(result)
        sure = result.sure
        checked = self._noticed(result) if sure else result.checked
        check = self._name(checked, f"checked_{function}")
        if not sure:
            return f"{check}({call})"
        made = self._fresh("made")
        test = f"is {self._class(sure[0])}" if len(sure) == 1 else f"in {self._classes(sure)}"
        pieces = [f"{made} if type({made} := {call}) {test}", f"else {check}({made})"]
        return chain(opening, pieces, ")" if opening else "")

    def _noticed(self, result: ExpectedResult) -> Callable[[Any], Any]:
        unsure = self._unsure

        def checked(value: Any) -> Any:
            unsure()
            return result.checked(value)

        return checked

    def _classes(self, classes: tuple[type, ...]) -> str:
        """The global for several classes of which one is met."""
        found = self._sets.setdefault(frozenset(classes), frozenset(classes))
        return self._name(found, "_or_".join(each.__name__ for each in classes))

    def _operand(self, recipe: Recipe, value: str) -> str:
        """An expression that stands before an `if`."""
        if isinstance(recipe, Apply | Whole):
            return self._called(recipe, value, "(")
        return self._expression(recipe, value)

    def _each(self, each: Each, value: str) -> str:
        item = self._fresh("x")
        inner = self._expression(each.inner, item)
        if each.kind in _ALIKE:
            self.names.setdefault("alike", alike)
            if issubclass(each.kind, dict):
                key = self._fresh("k")
                pieces = [f"{key}: {inner}", f"for {key}, {item} in {value}.items()"]
                return f"alike({value}, {chain('{', pieces, '}')})"
            return f"alike({value}, {chain('[', [inner, f'for {item} in {value}'], ']')})"
        if inner == item:
            if each.kind in _ABSTRACT:
                self._name_what_makes(each.kind)
            return _COPIES.get(each.kind, "{0}").format(value)
        if each.kind is dict:
            key = self._fresh("k")
            return chain("{", [f"{key}: {inner}", f"for {key}, {item} in {value}.items()"], "}")
        pieces = [inner, f"for {item} in {value}"]
        if each.kind is set:
            return chain("{", pieces, "}")
        items = chain("[", pieces, "]")
        if each.kind in _ABSTRACT:
            return f"{self._name_what_makes(each.kind)}({value}, {items})"
        return items if each.kind is list else f"{each.kind.__name__}({items})"

    def _name_what_makes(self, kind: type) -> str:
        """What makes an object where an annotation names no class of it."""
        make = _ABSTRACT[kind][0]
        self.names.setdefault(make.__name__, make)
        return make.__name__

    def _otherwise_default(self, recipe: Otherwise, value: str) -> str:
        """A function of its own: only a statement can catch that something is missing."""
        name = self._unique("or_default")
        self.names.setdefault("Lacking", Lacking)
        default = self._made_by(recipe.default)
        inner = self._returned(recipe.inner, "        return ")
        self._parts.append(
            f"def {name}(v):\n    try:\n{inner}\n    except Lacking:\n        return {default}()"
        )
        return f"{name}({value})"

    def _returned(self, recipe: Recipe, before: str) -> str:
        """The only line of a function of its own, of an argument `v`."""
        outer, self._local = self._local, {"v"}
        line = laid_out(self._expression(recipe, "v"), before)
        self._local = outer
        return line

    def _made_by(self, default: Default) -> str:
        make = default.make
        self._kept.append(make)
        return self._name(make, "default")

    def _choice(self, choice: Choice, value: str) -> str:
        alone = _alone(choice)
        if alone is not None:
            return self._expression(alone, value)
        name = value if value.isidentifier() else self._fresh(choice.attribute)
        tests: list[tuple[str, str]] = []
        if choice.none is not None:
            none = "None" if isinstance(choice.none, Keep) else self._operand(choice.none, name)
            tests.append(("{1} is None", none))
        tests += list(self._tests(choice, name))
        if not tests:
            return self._learnt(choice, name, value)
        last = self._learnt(choice, name, name) if tests[-1][0] else tests.pop()[1]
        pieces = []
        for place, (test, result) in enumerate(tests):
            bound = f"{name} := {value}" if place == 0 and name != value else name
            condition = test.format(bound, bound if bound == name else f"({bound})")
            pieces.append(f"{'else ' if place else ''}{result} if {condition}")
        return chain("", [*pieces, f"else {last}"], "")

    def _tests(self, choice: Choice, name: str) -> Iterator[tuple[str, str]]:
        """What a value may be, and what is done then; an empty test always holds."""
        kinds_held = tuple(wide for kind, _ in choice.containers for wide in _met_as(kind))
        first = [met for met in choice.cases if met is not tuple and issubclass(met, kinds_held)]
        for met in first:  # a named tuple is a tuple, too
            yield f"type({{0}}) is {self._class(met)}", self._operand(choice.cases[met], name)
        for kind, recipe in choice.containers:
            is_alone = not choice.cases and len(choice.containers) == 1
            kinds = _ABSTRACT[kind][1] if kind in _ABSTRACT else kind.__name__
            kinds = self._class(kind) if kind in _ALIKE else kinds
            test = "" if is_alone else f"isinstance({{0}}, {kinds})"
            yield test, self._operand(recipe, name)
        cases = [(met, recipe) for met, recipe in choice.cases.items() if met not in first]
        if len(choice.cases) > _INLINE_CASES:
            return
        for met, recipe in cases:
            alone = len(choice.cases) == 1 and is_closed(met) and not choice.containers
            test = "" if alone else f"type({{0}}) is {self._class(met)}"
            yield test, self._operand(recipe, name)

    def _case(self, choice: Choice, met: type, recipe: Recipe) -> str:
        """The function for values of one class."""
        if isinstance(recipe, Build):
            return self._build(recipe)
        name = self._unique(f"{choice.attribute}_of_{met.__name__}")
        self._parts.append(f"def {name}(v):\n{self._returned(recipe, '    return ')}")
        return name

    def _learnt(self, choice: Choice, name: str, value: str) -> str:
        """What is done with values of other classes: they are looked up, and learnt."""
        functions: dict[type, Callable[[Any], Any]] = {}
        newly = self._newly

        def new(value: Any) -> Any:
            return newly(choice, functions, value)

        def other(value: Any) -> Any:
            return functions.get(type(value), new)(value)

        if choice.cases and len(choice.cases) <= _INLINE_CASES:
            return f"{self._name(other, f'other_{choice.attribute}')}({value})"
        known = self._name(functions, f"by_type_{choice.attribute}")
        table = [
            f"{self._class(met)}: {self._case(choice, met, recipe)}"
            for met, recipe in choice.cases.items()
        ]
        if table:
            self._tables.append(laid_out(group(f"{known}.update({{", table, "})"), ""))
        learn = self._name(new, f"new_{choice.attribute}")
        bound = name if name == value else f"{name} := {value}"
        return f"{known}.get(type({bound}), {learn})({name})"


def _met_as(kind: type) -> tuple[type, ...]:
    return (list, tuple) if kind is collections.abc.Sequence else (kind,)


def _alone(choice: Choice) -> Recipe | None:
    """What is done in any case, if there is nothing to choose."""
    if choice.none is not None or len(choice.containers) + len(choice.cases) != 1:
        return None
    for _, recipe in choice.containers:
        return recipe
    ((met, recipe),) = choice.cases.items()
    return recipe if is_closed(met) else None


def _kept_if(build: Build, value: str, class_name: Callable[[type], str]) -> str | None:
    """When an object that nobody can change is what would be made of it; None: one cannot say."""
    is_same = build.source is build.target and not build.recursive
    names = open_attributes(build.source)
    if not is_same or names is None or not build.parts.keys() >= set(names):
        return None
    pieces: list[str] = []
    for name, recipe in build.parts.items():
        found = _part_kept_if(recipe, _read(value, name), class_name)
        if found is None:
            return None
        pieces += [found] if found else []
    return " and ".join(pieces)


def _part_kept_if(recipe: Recipe, value: str, class_name: Callable[[type], str]) -> str | None:
    """The same of an attribute; an empty condition always holds."""
    if isinstance(recipe, Keep):
        return ""
    if not isinstance(recipe, Choice) or recipe.containers or len(recipe.cases) != 1:
        return None
    ((met, inner),) = recipe.cases.items()
    condition = f"type({value}) is {class_name(met)}"
    if isinstance(inner, Build):
        deeper = _kept_if(inner, value, class_name)
        if deeper is None:
            return None
        condition = f"{condition} and {deeper}" if deeper else condition
    elif not isinstance(inner, Keep):
        return None
    if recipe.none is None:
        return condition
    return f"({value} is None or {condition})" if isinstance(recipe.none, Keep) else None


_ALIKE = (collections.deque, collections.OrderedDict, collections.defaultdict)
_COPIES: dict[type, str] = {
    list: "[*{0}]",
    dict: "{{**{0}}}",
    set: "{{*{0}}}",
    collections.abc.Sequence: "as_sequence({0}, [*{0}])",
    collections.abc.Set: "as_set({0}, [*{0}])",
}
_ABSTRACT: dict[type, tuple[Callable[..., Any], str]] = {  # what makes one, and what it may be
    collections.abc.Sequence: (as_sequence, "(list, tuple)"),
    collections.abc.Set: (as_set, "(set, frozenset)"),
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
    """Whether a text is a name that Python reads as it is written."""
    is_plain = unicodedata.is_normalized("NFKC", text)
    return text.isidentifier() and not keyword.iskeyword(text) and is_plain


_OURS = re.compile(r"e|v|translate|copied|alike|put_together|as_sequence|as_set|missing|Lacking")


def _identifier(text: str) -> str:
    """A name that is nothing else: no keyword, no built-in, none of those used here."""
    found = re.sub(r"\W", "_", unicodedata.normalize("NFKC", text)).strip("_") or "function"
    taken = keyword.iskeyword(found) or found in dir(builtins) or _OURS.fullmatch(found)
    return f"the_{found}" if taken or not found.isidentifier() else found


def _numbered(name: str, taken: set[str]) -> str:
    """A name that is not taken: itself, or with a number."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found
