"""Recipes as Python functions: nothing is looked up, compared or decided twice (FOS, 5.4).

The source holds only names that are checked to be identifiers, and texts by their `repr`; all
values come in as globals.
"""

from __future__ import annotations

import collections
import collections.abc
import linecache
from collections import deque
from typing import TYPE_CHECKING, Any

from polycast.contexts.compile import translation_ir as ir
from polycast.contexts.compile.generated_source import (
    GeneratedNames,
    chain,
    group,
    is_name,
    laid_out,
)
from polycast.contexts.compile.object_makers import (
    alike,
    completing,
    is_closed,
    maker_of,
    may_hold_more,
    open_attributes,
    put_together,
)
from polycast.events.isolation import copied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.contexts.check.assignability import ExpectedResult
    from polycast.typesystem.attributes import Default

    Newly = Callable[[ir.Choice, dict[type, Callable[[Any], Any]], Any], Any]

_INLINE_CASES = 3  # more cases are looked up by class


class Code:
    """A generated function and its source."""

    def __init__(self, source: str, names: dict[str, object], label: str) -> None:
        self.source = source
        exec(compile(source, label, "exec"), names)  # noqa: S102  (made from checked recipes)
        self.run: Callable[[Any], Any] = names["translate"]  # type: ignore[assignment]
        # A traceback and a debugger then show the lines.
        linecache.cache[label] = (len(source), None, source.splitlines(keepends=True), label)


def as_sequence(like: object, items: list[Any]) -> Any:
    """Elements in a container like the one they come from."""
    return tuple(items) if isinstance(like, tuple) else items


def as_set(like: object, items: list[Any]) -> Any:
    """Elements in a set like the one they come from."""
    return frozenset(items) if isinstance(like, frozenset) else set(items)


class Lacking(Exception):
    """The target does not accept a value."""


def missing(value: object) -> Any:
    """Called in place of a conversion where the target does not accept the value."""
    raise Lacking(type(value).__name__)


def write(recipe: ir.Recipe, *, label: str, newly: Newly, unsure: Callable[[], None]) -> Code:
    """The function that follows a recipe; it calls `newly` for a class that the recipe lacks.

    It calls `unsure` when a rule's function returns an object of another class than annotated.
    """
    writer = _CodeWriter(newly, unsure)
    source = writer.module(recipe)
    return Code(source, writer.names.globals, label)


class _CodeWriter:
    def __init__(self, newly: Newly, unsure: Callable[[], None]) -> None:
        self._newly, self._unsure = newly, unsure
        self.names = GeneratedNames()
        self._functions: dict[int, str] = {}  # the name of a build's function, by the build's id
        self._waiting: deque[tuple[str, ir.Build]] = deque()
        self._parts: list[str] = []  # functions that come last
        self._tables: list[str] = []  # of functions, by the class of their argument

    def module(self, recipe: ir.Recipe) -> str:
        """`translate(e)`, and the functions that it needs."""
        if isinstance(recipe, ir.Build):
            self._functions[id(recipe)] = "translate"
            parts = [self._function("translate", recipe)]
        else:
            returned = laid_out(self._expression(recipe, "e"), "    return ")
            parts = [f"def translate(e):\n{returned}"]
        while self._waiting:
            parts.append(self._function(*self._waiting.popleft()))
        return "\n\n\n".join([*parts, *self._parts, *self._tables]) + "\n"

    def _function(self, name: str, build: ir.Build) -> str:
        self.names.local = {"e"}
        lines = [f"def {name}(e):"]
        kept = _kept_if(build, "e", self.names.of_class)
        if kept:
            # A view of a subclass as its supertype is not kept.
            condition = f"type(e) is {self.names.of_class(build.source)} and {kept}"
            lines += [laid_out(condition, "    if ", ":"), "        return e"]
        return "\n".join([*lines, laid_out(self._made(build, "e"), "    return ")])

    # -- objects -----------------------------------------------------------------------------------

    def _made(self, build: ir.Build, value: str) -> str:
        """The call that makes an object."""
        maker, target = maker_of(build.target), self.names.of_class(build.target)
        parts = {
            name: self._expression(recipe, _read(value, name))
            for name, recipe in build.parts.items()
        }
        for name, default in maker.defaults:
            if name not in parts:
                parts[name] = f"{self._made_by(default)}()"
        if maker.by_state:
            items = [f"{name!r}: {part}" for name, part in parts.items()]
            made = f"{self.names.reserved(put_together)}({target}, {group('{', items, '}')})"
        else:
            made = group(f"{target}(", _arguments(maker.places, dict(maker.names), parts), ")")
        if build.mapping is None and may_hold_more(build.target):
            complete = completing(build.target)
            return f"{self.names.of(complete, 'completed')}({value}, {made})"
        return made

    def _build(self, build: ir.Build) -> str:
        """The name of the function that makes an object."""
        known = self._functions.get(id(build))
        if known is None:
            source, target = build.source.__name__, build.target.__name__
            hint = f"{source}_again" if source == target else f"{source}_to_{target}"
            known = self._functions[id(build)] = self.names.unique(hint)
            self._waiting.append((known, build))
        return known

    # -- values ------------------------------------------------------------------------------------

    def _expression(self, recipe: ir.Recipe, value: str) -> str:
        match recipe:
            case ir.Keep():
                return value
            case ir.Duplicate():
                return f"{self.names.reserved(copied)}({value})"
            case ir.Apply() | ir.Whole():
                return self._called(recipe, value)
            case ir.Build():
                return f"{self._build(recipe)}({value})"
            case ir.Each():
                return self._each(recipe, value)
            case ir.Missing():
                return f"{self.names.reserved(missing)}({value})"
            case ir.Otherwise():
                return self._otherwise_default(recipe, value)
            case ir.Choice():
                return self._choice(recipe, value)

    def _called(self, recipe: ir.Apply | ir.Whole, value: str, opening: str = "") -> str:
        """The call of a function, whose result is checked unless its class is as expected."""
        called, result = recipe.function, recipe.result
        function = self.names.of(called.call, called.name.rpartition(".")[2])
        call = f"{function}({self._expression(recipe.before, value)})"
        sure = result.sure
        checked = self._noticed(result) if sure else result.checked
        check = self.names.of(checked, f"checked_{function}")
        if not sure:
            return f"{check}({call})"
        made = self.names.fresh("made")
        is_single = len(sure) == 1
        kind = self.names.of_class(sure[0]) if is_single else self.names.of_classes(sure)
        test = f"{'is' if is_single else 'in'} {kind}"
        pieces = [f"{made} if type({made} := {call}) {test}", f"else {check}({made})"]
        return chain(opening, pieces, ")" if opening else "")

    def _noticed(self, result: ExpectedResult) -> Callable[[Any], Any]:
        unsure = self._unsure

        def checked(value: Any) -> Any:
            unsure()
            return result.checked(value)

        return checked

    def _operand(self, recipe: ir.Recipe, value: str) -> str:
        """An expression that stands before an `if`."""
        if isinstance(recipe, ir.Apply | ir.Whole):
            return self._called(recipe, value, "(")
        return self._expression(recipe, value)

    def _each(self, elements: ir.Each, value: str) -> str:
        kind, item = elements.kind, self.names.fresh("x")
        inner = self._expression(elements.inner, item)
        make = self.names.reserved(_MAKERS[kind]) if kind in _MAKERS else None
        if inner == item and kind not in _ALIKE:
            return _COPIES.get(kind, "{0}").format(value)
        if issubclass(kind, dict):
            key = self.names.fresh("k")
            pieces = [f"{key}: {inner}", f"for {key}, {item} in {value}.items()"]
        else:
            pieces = [inner, f"for {item} in {value}"]
        brackets = "{}" if kind is set or issubclass(kind, dict) else "[]"
        items = chain(brackets[0], pieces, brackets[1])
        if make is not None:
            return f"{make}({value}, {items})"
        return items if kind in (list, set, dict) else f"{kind.__name__}({items})"

    def _otherwise_default(self, recipe: ir.Otherwise, value: str) -> str:
        """The call of a function of its own: only a statement can catch `Lacking`."""
        name = self.names.unique("or_default")
        lacking = self.names.reserved(Lacking)
        default = self._made_by(recipe.default)
        inner = self._returned(recipe.inner, "        return ")
        self._parts.append(
            f"def {name}(v):\n    try:\n{inner}\n    except {lacking}:\n        return {default}()"
        )
        return f"{name}({value})"

    def _returned(self, recipe: ir.Recipe, before: str) -> str:
        """The only line of a function of one argument, `v`."""
        outer, self.names.local = self.names.local, {"v"}
        line = laid_out(self._expression(recipe, "v"), before)
        self.names.local = outer
        return line

    def _made_by(self, default: Default) -> str:
        return self.names.of(default.make, "default")

    def _choice(self, choice: ir.Choice, value: str) -> str:
        alone = _alone(choice)
        if alone is not None:
            return self._expression(alone, value)
        name = value if value.isidentifier() else self.names.fresh(choice.attribute)
        tests: list[tuple[str, str]] = []
        if choice.none is not None:
            none = "None" if isinstance(choice.none, ir.Keep) else self._operand(choice.none, name)
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

    def _tests(self, choice: ir.Choice, name: str) -> Iterator[tuple[str, str]]:
        """Tests of what a value is, with the results; an empty test always holds."""
        kinds_held = tuple(wide for kind, _ in choice.containers for wide in _met_as(kind))
        first = [met for met in choice.cases if met is not tuple and issubclass(met, kinds_held)]
        for met in first:  # a named tuple is a tuple, too
            test = f"type({{0}}) is {self.names.of_class(met)}"
            yield test, self._operand(choice.cases[met], name)
        for kind, recipe in choice.containers:
            is_alone = not choice.cases and len(choice.containers) == 1
            kinds = _CLASSES.get(kind, kind.__name__)
            kinds = self.names.of_class(kind) if kind in _ALIKE else kinds
            test = "" if is_alone else f"isinstance({{0}}, {kinds})"
            yield test, self._operand(recipe, name)
        cases = [(met, recipe) for met, recipe in choice.cases.items() if met not in first]
        if len(choice.cases) > _INLINE_CASES:
            return
        for met, recipe in cases:
            alone = len(choice.cases) == 1 and is_closed(met) and not choice.containers
            test = "" if alone else f"type({{0}}) is {self.names.of_class(met)}"
            yield test, self._operand(recipe, name)

    def _case(self, choice: ir.Choice, met: type, recipe: ir.Recipe) -> str:
        """The name of the function for values of one class."""
        if isinstance(recipe, ir.Build):
            return self._build(recipe)
        name = self.names.unique(f"{choice.attribute}_of_{met.__name__}")
        self._parts.append(f"def {name}(v):\n{self._returned(recipe, '    return ')}")
        return name

    def _learnt(self, choice: ir.Choice, name: str, value: str) -> str:
        """The expression for values of other classes, which are looked up and then remembered."""
        functions: dict[type, Callable[[Any], Any]] = {}
        newly = self._newly

        def new(value: Any) -> Any:
            return newly(choice, functions, value)

        def other(value: Any) -> Any:
            return functions.get(type(value), new)(value)

        if choice.cases and len(choice.cases) <= _INLINE_CASES:
            return f"{self.names.of(other, f'other_{choice.attribute}')}({value})"
        known = self.names.of(functions, f"by_type_{choice.attribute}")
        table = [
            f"{self.names.of_class(met)}: {self._case(choice, met, recipe)}"
            for met, recipe in choice.cases.items()
        ]
        if table:
            self._tables.append(laid_out(group(f"{known}.update({{", table, "})"), ""))
        learn = self.names.of(new, f"new_{choice.attribute}")
        bound = name if name == value else f"{name} := {value}"
        return f"{known}.get(type({bound}), {learn})({name})"


def _met_as(kind: type) -> tuple[type, ...]:
    return (list, tuple) if kind is collections.abc.Sequence else (kind,)


def _alone(choice: ir.Choice) -> ir.Recipe | None:
    """The only recipe of a choice, if there is nothing to choose."""
    if choice.none is not None or len(choice.containers) + len(choice.cases) != 1:
        return None
    for _, recipe in choice.containers:
        return recipe
    ((met, recipe),) = choice.cases.items()
    return recipe if is_closed(met) else None


def _kept_if(build: ir.Build, value: str, class_name: Callable[[type], str]) -> str | None:
    """The condition under which an immutable object is its own translation; None if unknown."""
    is_same = build.source is build.target and not build.recursive
    names = open_attributes(build.source)
    if not is_same or names is None or not build.parts.keys() >= set(names):
        return None
    pieces: list[str] = []
    for name, recipe in build.parts.items():
        condition = _part_kept_if(recipe, _read(value, name), class_name)
        if condition is None:
            return None
        pieces += [condition] if condition else []
    return " and ".join(pieces)


def _part_kept_if(recipe: ir.Recipe, value: str, class_name: Callable[[type], str]) -> str | None:
    """The same condition for an attribute; an empty one always holds."""
    if isinstance(recipe, ir.Keep):
        return ""
    if not isinstance(recipe, ir.Choice) or recipe.containers or len(recipe.cases) != 1:
        return None
    ((met, inner),) = recipe.cases.items()
    condition = f"type({value}) is {class_name(met)}"
    if isinstance(inner, ir.Build):
        deeper = _kept_if(inner, value, class_name)
        if deeper is None:
            return None
        condition = f"{condition} and {deeper}" if deeper else condition
    elif not isinstance(inner, ir.Keep):
        return None
    if recipe.none is None:
        return condition
    return f"({value} is None or {condition})" if isinstance(recipe.none, ir.Keep) else None


_ALIKE = (collections.deque, collections.OrderedDict, collections.defaultdict)
_COPIES: dict[type, str] = {
    list: "[*{0}]",
    dict: "{{**{0}}}",
    set: "{{*{0}}}",
    collections.abc.Sequence: "as_sequence({0}, [*{0}])",
    collections.abc.Set: "as_set({0}, [*{0}])",
}
_CLASSES: dict[type, str] = {  # of the objects of an abstract kind
    collections.abc.Sequence: "(list, tuple)",
    collections.abc.Set: "(set, frozenset)",
}
_MAKERS: dict[type, Callable[..., Any]] = {  # of kinds that are made like the original
    collections.abc.Sequence: as_sequence,
    collections.abc.Set: as_set,
    **dict.fromkeys(_ALIKE, alike),
}


def _arguments(
    places: tuple[str, ...], keywords: dict[str, str], parts: dict[str, str]
) -> list[str]:
    arguments, rest = [], dict(parts)
    for name in places:
        if name not in rest:
            break
        arguments.append(rest.pop(name))
    for name, part in rest.items():
        word = keywords[name]
        arguments.append(f"{word}={part}" if is_name(word) else f"**{{{word!r}: {part}}}")
    return arguments


def _read(value: str, name: str) -> str:
    return f"{value}.{name}" if is_name(name) else f"getattr({value}, {name!r})"
