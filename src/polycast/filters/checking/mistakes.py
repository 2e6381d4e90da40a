"""The mistakes of a filter as problems: which part, where, why, and what would be accepted."""

from __future__ import annotations

import difflib
import operator
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from polycast.errors import FilterMistakeError
from polycast.filters.checking import inference
from polycast.filters.checking.classes import Classes, ClassMember
from polycast.filters.checking.inference import SAMPLES, Kind, Kinds, PlainEnum, results, shown
from polycast.filters.checking.walker import CertainFailure, Walker
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import render
from polycast.filters.tree.language_registry import Component, language_of, languages
from polycast.filters.tree.operators import ARITHMETIC, BUILTINS, COMPARISONS, SIGNS
from polycast.typesystem import conforming
from polycast.typesystem.class_kinds import is_protocol

_MARK = nodes.Opaque(bool, "\0here")  # its text is in no other: a constant would escape it


def copied(node: nodes.Node, change: Callable[[nodes.Node], nodes.Node | None]) -> nodes.Node:
    """The same tree of new nodes, those replaced that `change` has something for."""
    found = change(node)
    if found is not None:
        return found
    names: tuple[str, ...] = node.__slots__
    return type(node)(*[_copied_value(getattr(node, name), change) for name in names])


def _copied_value(value: Any, change: Callable[[nodes.Node], nodes.Node | None]) -> Any:
    if isinstance(value, nodes.Node):
        return copied(value, change)
    return (
        tuple(_copied_value(element, change) for element in value)
        if type(value) is tuple
        else value
    )


class Places:
    """The text of a tree in which no node occurs twice.

    `mark` tells what may stand in the place of a part, and has a text that is in no other.
    """

    def __init__(
        self,
        tree: nodes.Node,
        *,
        write: Callable[[nodes.Node], str] = render,
        mark: Callable[[nodes.Node], nodes.Node] = lambda part: _MARK,
    ) -> None:
        self._tree, self._write, self._mark = tree, write, mark
        self.text = write(tree)

    def span(self, first: nodes.Node, last: nodes.Node | None = None) -> tuple[int, int]:
        """From where to where one node stands, or two of them and what is between."""
        start, end = self._outer(first)
        if last is not None and last is not first:
            return start, self._outer(last)[1]
        # In the whole it may be in parentheses, and its variables have other names.
        inside = self.text[start:end].count("(") > self._write(first).count("(")
        return (start + 1, end - 1) if inside else (start, end)

    def of(self, first: nodes.Node, last: nodes.Node | None = None) -> str:
        """The text of that place."""
        start, end = self.span(first, last)
        return self.text[start:end]

    def _outer(self, part: nodes.Node) -> tuple[int, int]:
        here = self._mark(part)
        marked = self._write(copied(self._tree, lambda node: here if node is part else None))
        mark = self._write(here)
        start = marked.index(mark)
        return start, len(self.text) - (len(marked) - start - len(mark))


# -- messages --------------------------------------------------------------------------------------


LISTED = 12  # names in a suggestion
SEARCHED = 2_000  # subclasses


def message_of(failure: CertainFailure, places: Places, classes: Classes) -> tuple[str, str]:
    """The reason of a failure, and a suggestion."""
    return _MESSAGES[failure.code](_MessageParts(failure, places, classes))


class _MessageParts:
    """The parts of the messages about one failure."""

    def __init__(self, failure: CertainFailure, places: Places, classes: Classes) -> None:
        self.failure, self.places, self.classes = failure, places, classes
        self.what = failure.what

    def text(self, at: int) -> str:
        return self.failure.before or self.places.of(self.failure.operands[at][0])

    def kinds(self, at: int) -> Kinds:
        return self.failure.operands[at][1]

    def is_event(self, at: int) -> bool:
        return isinstance(self.failure.operands[at][0], nodes.Event) and not self.failure.before

    def operands(self) -> str:
        """`event.stars` is int and `'many'` is str."""
        many = range(len(self.failure.operands))
        return " and ".join(f"`{self.text(at)}` is {shown(self.kinds(at))}" for at in many)

    @property
    def component(self) -> Component | None:
        """The component of another language that it is about, if it is one."""
        part = self.failure.first
        return language_of(part).component(part) if isinstance(part, nodes.Applied) else None

    def offered(self, cls: type) -> list[str]:
        """The names that may stand there instead; another language calls no methods."""
        names, component = self.classes.offered(cls), self.component
        if component is None:
            return names
        if not component.has_members(cls):
            return []
        return [name for name in names if not self.classes.member(cls, name).is_method]

    def owners(self) -> list[type]:
        return list(dict.fromkeys(cls for kind in self.kinds(0) or () for cls in kind.classes()))


# -- attributes ------------------------------------------------------------------------------------


def _no_attribute(words: _MessageParts) -> tuple[str, str]:
    owner, name = shown(words.kinds(0)), words.what
    several = " | " in owner
    if words.is_event(0):
        has = f"none of {owner} has an" if several else f"{owner} has no"
    else:
        which = "of which none has an" if several else "which has no"
        has = f"`{words.text(0)}` is {owner}, {which}"
    why = f"{has} attribute `{name}`"
    return why, _attribute_suggested(words)


def _attribute_suggested(words: _MessageParts) -> str:
    owners = words.owners()
    names = sorted({name for cls in owners for name in words.offered(cls)})
    near = difflib.get_close_matches(words.what, names, n=1)
    having = _having(words, owners)
    parts = [f"did you mean `{near[0]}`?"] if near else []
    if having:
        others = ", ".join(dict.fromkeys(cls.__name__ for cls in having[1:4]))
        more = f" (so has {others})" if others else ""
        parts.append(f"a subtype has it{more}: {_asked(words, having[0].__name__)}")
    if not parts:
        language = None if words.component is None or names else words.component.language
        parts.append(f"it has no members in {language}" if language else f"it has {_listed(names)}")
        if not any(cls in SAMPLES for cls in owners):
            parts.append(f"if a subtype has it, ask first: {_asked(words, 'Subtype')}")
    return "; ".join(parts)


def _asked(words: _MessageParts, name: str) -> str:
    condition = words.places.of(words.failure.condition)
    if words.component is not None:
        return f"`{words.component.guarded(condition)}`"
    return f"`isinstance({words.text(0)}, {name}) and {condition}`"


def _having(words: _MessageParts, owners: list[type]) -> list[type]:
    try:
        return [cls for owner in owners for cls in _subtypes(owner) if _has(cls, words)]
    except Exception:  # a user's metaclass failed: suggest less
        return []


def _has(cls: type, words: _MessageParts) -> bool:
    names = words.classes.names(cls)
    return words.what in (names if names is not None else words.classes.offered(cls))


def _subtypes(owner: type) -> list[type]:
    if owner in SAMPLES or owner is bool:
        return []
    found = conforming(owner) if is_protocol(owner) else set(_subclasses(owner))
    return sorted(found - {owner}, key=lambda cls: cls.__name__)


def _subclasses(owner: type) -> Iterator[type]:
    waiting, seen = [owner], {owner}
    while waiting and len(seen) < SEARCHED:
        cls: type
        for cls in type.__subclasses__(waiting.pop()):
            if cls not in seen:
                seen.add(cls)
                waiting.append(cls)
                yield cls


def _bad_arguments(words: _MessageParts) -> tuple[str, str]:
    member = words.failure.member or ClassMember()
    owner, least, most = shown(words.kinds(0)), member.least, member.most
    if least == float("inf"):
        return f"{owner}.{words.what}() needs keywords", "a filter gives arguments by position only"
    accepted = f"{least:g} to {most:g}" if least != most else f"{least:g}" if least else "none"
    if most == float("inf"):
        accepted = f"at least {least:g}"
    return f"{owner}.{words.what}() does not take these arguments", f"it takes {accepted}"


def _not_callable(words: _MessageParts) -> tuple[str, str]:
    return (
        f"`{words.what}` is {shown(words.kinds(0))}, not a method",
        f"leave the parentheses away: `.{words.what}`",
    )


# -- operators -------------------------------------------------------------------------------------


def _never_comparable(words: _MessageParts) -> tuple[str, str]:
    function = COMPARISONS.get(words.what, operator.lt)
    compared = "{} can be compared with {}"
    return f"{words.operands()}, which have no order", _taken(words, function, compared)


def _bad_operand(words: _MessageParts) -> tuple[str, str]:
    if len(words.failure.operands) == 1:
        unary: Callable[..., Any] = {**BUILTINS, **SIGNS}[words.what]
        takes = _listed([name for name, cls in _NAMES.items() if results(unary, cls)])
        return f"{words.operands()}, which `{words.what}` does not take", f"it takes {takes}"
    function = ARITHMETIC.get(words.what, operator.getitem)
    taken = f"`{words.what}` takes {{}} with {{}}"
    return f"{words.operands()}, which `{words.what}` does not take", _taken(words, function, taken)


def _taken(words: _MessageParts, function: Callable[..., Any], sentence: str) -> str:
    """What the left operand, or else the right one, would be taken with."""
    for at in (0, 1):
        types = {kind.operand() for kind in words.kinds(at) or ()}
        if PlainEnum in types:
            return f"an enum has no operators: take its value, `{words.text(at)}.value`"
        names = [n for n, cls in _NAMES.items() if _is_taken(function, types, cls, at)]
        if names:
            return sentence.format(shown(words.kinds(at)), _listed(names))
    return "only `==`, `!=`, `is` and `is not` are defined between them"


def _is_taken(function: Callable[..., Any], types: set[type | None], cls: type, at: int) -> bool:
    pairs = [(type_, cls) if at == 0 else (cls, type_) for type_ in types if type_ is not None]
    return any(results(function, *pair) is not None for pair in pairs)


_NAMES = {cls.__name__: cls for cls in SAMPLES if cls is not PlainEnum and cls is not type(None)}


def _no_container(words: _MessageParts) -> tuple[str, str]:
    types = {kind.operand() for kind in words.kinds(1) or ()}
    names = [n for n, cls in _NAMES.items() if _is_taken(COMPARISONS["in"], types, cls, 1)]
    if not names:
        why = f"`{words.text(1)}` is {shown(words.kinds(1))}, which contains nothing"
        return why, "`in` needs a str, bytes, list, tuple, set, frozenset or dict on its right"
    held = f"{shown(words.kinds(1))} can contain {_listed(names)}"
    return f"{words.operands()}, which can never contain it", held


def _without(what: str, suggestion: str) -> Callable[[_MessageParts], tuple[str, str]]:
    """The message about a value that has no length, items or elements."""
    return lambda words: (f"{words.operands()}, which has no {what}", suggestion)


_CONTAINERS = "`{}` takes a str, bytes, list, tuple, set, frozenset or dict"


def _listed(names: list[str]) -> str:
    more = ", ..." if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more if names else "no public attributes"


_MESSAGES: dict[str, Callable[[_MessageParts], tuple[str, str]]] = {
    "no-attribute": _no_attribute,
    "bad-arguments": _bad_arguments,
    "not-callable": _not_callable,
    "never-comparable": _never_comparable,
    "bad-operand": _bad_operand,
    "no-container": _no_container,
    "no-length": _without("length", _CONTAINERS.format("len")),
    "no-subscript": _without("items", "str, bytes, list, tuple and dict have"),
    "not-iterable": _without("elements", _CONTAINERS.format("for ... in")),
}


# -- problems --------------------------------------------------------------------------------------


WIDEST = 160  # characters of a filter's text around a place

_classes = Classes()


@dataclass(frozen=True, slots=True)
class FilterProblem:
    """A part of a filter that fails for every event of the type."""

    part: str
    why: str
    suggestion: str
    code: str
    filter: str = field(repr=False)
    start: int = field(repr=False)  # of the part in the filter's text

    def __str__(self) -> str:
        end = self.start + len(self.part)
        spare = max(0, WIDEST - len(self.part)) // 2
        low, high = max(0, self.start - spare), min(len(self.filter), end + spare)
        before, after = "... " if low else "", " ..." if high < len(self.filter) else ""
        line = f"{before}{self.filter[low:high]}{after}"
        caret = " " * (len(before) + self.start - low) + "^" * len(self.part)
        return f"  {line}\n  {caret}\n  {self.why}; {self.suggestion}"


def check(tree: nodes.Node, types: tuple[type, ...], *, every: bool = False) -> None:
    """Raise `FilterMistakeError` if a part certainly fails for all events of the types."""
    mistakes = problems(tree, types, every=every)
    if mistakes:
        raise FilterMistakeError(mistakes, shown(_event(types, every=every)))


def problems(
    tree: nodes.Node, types: tuple[type, ...], *, every: bool = False
) -> list[FilterProblem]:
    """The parts that certainly fail for events of one of the types, or of all if `every`.

    Where anything is not known there is no problem.
    """
    try:
        return _problems(tree, types, every=every)
    except Exception:  # an odd class or too deep a tree: nothing is certain
        return []


def _problems(tree: nodes.Node, types: tuple[type, ...], *, every: bool) -> list[FilterProblem]:
    if not failures(tree, types, every=every, classes=_classes):
        return []
    # Once more, slowly: classes may have changed since they were looked at, and a node that
    # stands in two places is made two.
    fresh, apart = Classes(), copied(tree, lambda node: None)
    places = _places(apart)
    described = [
        _described(failure, places, fresh)
        for failure in failures(apart, types, every=every, classes=fresh)
    ]
    first = {(problem.part, problem.why): problem for problem in reversed(described)}
    return list(first.values())[::-1]


def failures(
    tree: nodes.Node, types: tuple[type, ...], *, every: bool, classes: Classes
) -> list[CertainFailure]:
    """What a walk over the tree finds."""
    needed = frozenset(map(id, _needed(tree, wanted=True)))
    walker = Walker(_event(types, every=every), classes, needed=needed)
    walker.condition(tree)
    return walker.failures


def _event(types: tuple[type, ...], *, every: bool) -> Kinds:
    if not every or len(types) < 2:
        return inference.joined(inference.kinds_of(cls) for cls in types)
    first, *others = [cls for cls in types if cls is not object] or [object]
    return (Kind(weakref.ref(first), also=tuple(map(weakref.ref, others))),)


def _places(tree: nodes.Node) -> Places:
    """The places of parts in the text of a filter: in the language that it was written in."""
    several = (language.places(tree) for language in languages().values())
    return next((places for places in several if places is not None), None) or Places(tree)


def _described(failure: CertainFailure, places: Places, classes: Classes) -> FilterProblem:
    start, end = places.span(failure.first, failure.last)
    why, suggestion = message_of(failure, places, classes)
    return FilterProblem(places.text[start:end], why, suggestion, failure.code, places.text, start)


# -- what a match needs ----------------------------------------------------------------------------


def _needed(node: nodes.Node, *, wanted: bool | None) -> Iterator[nodes.Node]:
    """The calls of functions that are made whenever a part is as wanted; None: in any case.

    A later part of an `or` may not be asked.
    """
    match node:
        case nodes.And(parts) | nodes.Or(parts):
            if wanted is isinstance(node, nodes.And):
                for part in parts:
                    yield from _needed(part, wanted=wanted)
            else:
                yield from _needed(parts[0], wanted=None)
        case nodes.Not(operand):
            yield from _needed(operand, wanted=None if wanted is None else not wanted)
        case nodes.Applied(_, _, arguments):
            yield node
            for argument in arguments:
                yield from _needed(argument, wanted=None)
