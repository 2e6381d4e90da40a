"""A predicate on events of one type."""

from __future__ import annotations

import inspect
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_args, overload

from polycast.errors import BadOptionError, FilterError
from polycast.errors.failures import failures_here
from polycast.filters.backends import interpreter
from polycast.filters.backends.python import Generated, SourceWriter, generate
from polycast.filters.conditions import Condition
from polycast.filters.explanation import NO_EVENT, FilterExplanation, Verdict, explained, verdicts
from polycast.filters.lifting.function import lift_function
from polycast.filters.normal_form.disjunction import conjunctions
from polycast.filters.normal_form.ordered_domains import Interval, Points
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical import folded, made_canonical, on_topic
from polycast.filters.tree.canonical_text import parse, render
from polycast.filters.tree.language_registry import languages
from polycast.filters.tree.untrusted import check_untrusted

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeForm

    from polycast.config import Clock
    from polycast.filters.backends.spark import Column

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
FORMAT = 1
DEEPEST = 80
_WRITTEN = (nodes.Node, Condition)


class Filter(Generic[T_contra]):
    """A predicate on events: a tree, and a function generated from it. What fails does not match.

    Two filters are equal if their trees are.
    """

    __slots__ = ("_generated", "_indexed", "_topical", "origin", "tree")

    def __init__(self, function: Callable[[T_contra], object] | nodes.Node) -> None:
        self._generated: Generated | None = None
        self._topical: bool | None = None
        self._indexed: bool | None = None
        self.origin: Callable[..., object] | None = None
        """The function that it was lifted from."""
        if isinstance(function, Filter):
            self.origin = function.origin
            self.tree: nodes.Node = function.tree
            self._generated, self._topical = function._generated, function._topical
            return
        if not isinstance(function, _WRITTEN):
            _check_shape(function)
            self.origin = function
            self.tree = lift_function(function)
            self._topical = False
            return
        tree = function if isinstance(function, nodes.Node) else function.node()
        everything = nodes.everything(tree)
        if len(everything) > DEEPEST and nodes.depth(tree) > DEEPEST:
            raise FilterError(f"a filter nests at most {DEEPEST} expressions in each other")
        below = {*map(type, everything[1:])}
        if nodes.Opaque not in below and type(tree) is not nodes.Opaque:
            self._topical = False
        self.tree = made_canonical(tree, below)

    @property
    def function(self) -> Callable[[T_contra], object]:
        """The generated function, made when it is first needed."""
        return cast("Callable[[T_contra], object]", self._code().function)

    @property
    def source(self) -> str:
        """The source of the generated function."""
        return self._code().source

    def _code(self) -> Generated:
        if self._generated is None:
            self._generated = generate(self.tree)
        return self._generated

    def __call__(self, event: T_contra, /) -> object:
        """What the predicate says, or raises."""
        return self.function(event)

    def matches(self, event: T_contra, /, *, topic: str | None = None) -> bool:
        """Whether the event passes; an evaluation that fails does not match."""
        function = self.on(topic).function
        try:
            return bool(function(event))
        except failures_here():
            return False

    def interpret(self, event: T_contra, /, *, topic: str | None = None) -> bool:
        """The same by walking the tree: the slow reference."""
        return interpreter.matches(self.on(topic).tree, event)

    def on(self, topic: str | None) -> Filter[T_contra]:
        """The filter for events of one topic; only a user's own conditions read the topic."""
        return Filter(on_topic(self.tree, topic)) if self.is_topical else self

    @property
    def is_topical(self) -> bool:
        """Whether a part of it reads the topic of an event."""
        if self._topical is None:
            self._topical = any(part.topical for part in self.opaque_parts())
        return self._topical

    @property
    def is_indexed(self) -> bool:
        """Whether an index can look it up, instead of evaluating it for every event."""
        if self._indexed is None:
            self._indexed = all(
                any(isinstance(predicate.form, (Points, Interval)) for predicate in conjunction)
                for conjunction in conjunctions(self.tree)
            )
        return self._indexed

    def to_python(self, cls: type | None = None) -> str:
        """The source of the generated function; for events of exactly one class, if it is given."""
        if cls is None:
            return self.source
        return generate(folded(self.tree, _class(cls)), cls=cls).source

    def to_spark(self, cls: type) -> Column:
        """The filter over the rows of a DataFrame of such events; it refuses what is not exact."""
        _class(cls)
        from polycast.filters.backends.spark import column

        return column(self.tree, cls)

    def to_etcl(self) -> str:
        """The filter in ETCL, to be read again; it refuses what ETCL cannot say."""
        return languages()["etcl"].write(self)

    def to_xpath(self) -> str:
        """The filter in XPath, to be read again; it refuses what XPath cannot say."""
        return languages()["xpath"].write(self)

    def explain(self, cls: type | None = None, event: object = NO_EVENT) -> FilterExplanation:
        """What each way of running the filter makes of it, or what it says about one event."""
        return explained(self.tree, None if cls is None else _class(cls), event)

    def expression(self, prefix: str, cls: type) -> tuple[str, dict[str, Any]]:
        """Its source for events of exactly one class, to be embedded in other generated code."""
        writer = SourceWriter(prefix, cls=cls, local=True)
        return writer.write(folded(self.tree, cls)), writer.names

    def opaque_parts(self) -> tuple[nodes.Opaque, ...]:
        """The parts that could not be looked into."""
        return tuple(part for part in nodes.walk(self.tree) if isinstance(part, nodes.Opaque))

    def verdicts(self, event: T_contra, /) -> tuple[Verdict, ...]:
        """The verdict of each condition about an event, which shows which of them failed."""
        return tuple(verdicts(self.tree, event))

    def check(self, *types: type, every: bool = False) -> None:
        """Raise FilterMistakeError if a part certainly fails for all events of one of the types.

        With `every`, events conform to all of them.
        """
        from polycast.filters import checking  # here, because it takes a while to load

        flat = [cls for what in types for cls in (get_args(what) or (what,))]
        checking.check(self.tree, tuple(map(_class, flat)), every=every)

    def to_json(self) -> dict[str, object]:
        """The filter as data, for a store or a wire; an opaque part has none."""
        for part in self.opaque_parts():
            raise FilterError(f"a part of the filter cannot leave this process: {part.why}")
        check_untrusted(self.tree)  # else it could not be read again
        return {"format": FORMAT, "filter": str(self)}

    @classmethod
    def from_json(
        cls, data: object, *, class_named: Callable[[str], type | None] | None = None
    ) -> Filter[Any]:
        """The filter of such data; classes that it names are this process's, or those given."""
        known = isinstance(data, dict) and type(data.get("format")) is int
        if not known or data["format"] != FORMAT:  # type: ignore[index]
            raise FilterError(f"not a filter of format {FORMAT}: {str(data)[:80]}")
        text: str = data.get("filter", "")  # type: ignore[attr-defined]
        tree = parse(text) if class_named is None else parse(text, class_named)
        check_untrusted(tree)
        return Filter(tree)

    def __and__(self, other: Callable[[T_contra], object]) -> Filter[T_contra]:
        return Filter(nodes.And((self.tree, _tree_of(other))))

    def __rand__(self, other: Callable[[T_contra], object]) -> Filter[T_contra]:
        return Filter(nodes.And((_tree_of(other), self.tree)))

    def __or__(self, other: Callable[[T_contra], object]) -> Filter[T_contra]:
        return Filter(nodes.Or((self.tree, _tree_of(other))))

    def __ror__(self, other: Callable[[T_contra], object]) -> Filter[T_contra]:
        return Filter(nodes.Or((_tree_of(other), self.tree)))

    def __invert__(self) -> Filter[T_contra]:
        return Filter(nodes.Not(self.tree))

    def __bool__(self) -> bool:
        raise TypeError("a filter has no truth of its own; combine filters with &, | and ~")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.tree == other.tree

    def __hash__(self) -> int:
        return hash(self.tree)

    def __str__(self) -> str:
        return render(self.tree)

    def __repr__(self) -> str:
        return f"Filter({self})"


@overload
def lift(function: Callable[[T], object], /) -> Filter[T]: ...
@overload
def lift(what: type[T], function: Callable[[T], object], /) -> Filter[T]: ...
@overload
def lift(what: TypeForm[T], function: Callable[[T], object], /) -> Filter[T]: ...
def lift(what: Any, function: Any = NO_EVENT, /) -> Filter[Any]:
    """The filter of a Python function, looked into as far as possible; `str()` shows its tree."""
    if function is NO_EVENT:
        return Filter(what)
    if not isinstance(what, type) and callable(what):
        accepted = "a type first, then the function: lift(Talk, ...)"
        raise BadOptionError("what", what, accepted=accepted)
    return Filter(function)


def parse_filter(text: str, language: str, *, clock: Clock | None = None) -> Filter[Any]:
    """The filter that a text means in a language: "etcl" or "xpath".

    Where the text asks for the time, as `$curtime` does, it is that of the clock.
    """
    if not isinstance(text, str):
        raise BadOptionError("text", text, accepted="a string")
    spoken = languages().get(language) if isinstance(language, str) else None
    if spoken is None:
        known = " or ".join(repr(name) for name in sorted(languages()))
        raise BadOptionError("language", language, accepted=known)
    if clock is not None and not callable(getattr(clock, "time", None)):
        raise BadOptionError("clock", clock, accepted="a pc.Clock, or None for that of the machine")
    return Filter(spoken.parse(text, clock))


def _class(what: Any) -> type:
    if not isinstance(what, type):
        raise BadOptionError("cls", what, accepted="the class of the events, one at a time")
    return what


def _tree_of(other: Any) -> nodes.Node:
    return other.tree if isinstance(other, Filter) else Filter(other).tree


def _takes_one(function: object) -> bool:
    """Whether it evidently takes the event and returns a result: most are lambdas."""
    if type(function) is not FunctionType or hasattr(function, "__signature__"):
        return False
    code = function.__code__
    alone = code.co_argcount == 1 and not code.co_kwonlyargcount
    later = code.co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR)
    return alone and not later and not inspect.iscoroutinefunction(function)


def _check_shape(function: object) -> None:
    """Refuse at once what could never decide about an event."""
    if _takes_one(function):
        return
    accepted = "a callable that takes the event, or None"
    if not callable(function):
        raise BadOptionError("where", function, accepted=accepted)
    if isinstance(function, type) and function is not bool:
        why = "this one is a class, whose objects all count as true"
        raise BadOptionError("where", function, accepted=f"{accepted}; {why}")
    for called in (function, vars(type(function)).get("__call__")):
        if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
            raise BadOptionError("where", function, accepted=f"{accepted}; this one is async")
        if inspect.isgeneratorfunction(called):
            why = "this one is a generator, which always counts as true"
            raise BadOptionError("where", function, accepted=f"{accepted}; {why}")
    try:
        inspect.signature(function, follow_wrapped=False).bind(object())
    except TypeError as error:
        raise BadOptionError("where", function, accepted=f"{accepted}: {error}") from error
    except ValueError:  # some built-ins tell nothing about themselves
        pass
