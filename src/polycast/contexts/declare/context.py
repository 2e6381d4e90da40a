"""A context: the types, mappings and rules by which a party sees events (FOS, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Mapping as AnyMapping
from typing import TYPE_CHECKING, Any

from polycast.config import check_name
from polycast.contexts.check.checker import check
from polycast.contexts.declare.statements import (
    DIRECTIONS,
    DISABLED,
    Mapping,
    RuleLine,
    SourceLocation,
    WholeLine,
)
from polycast.contexts.resolve.inheritance import forget, settle
from polycast.contexts.resolve.resolution import ResolvedRule, Resolver
from polycast.contexts.run.translator import Translator
from polycast.errors import BadContextError, BadOptionError, ContextFrozenError

if TYPE_CHECKING:
    import os
    from importlib.resources.abc import Traversable
    from types import ModuleType

    from polycast.contexts.check.findings import Report
    from polycast.contexts.declare.statements import Direction
    from polycast.contexts.resolve.listing import Listing


class Context:
    """Local types, and how events come in from the root and go out to it.

    A context without a parent is a root: its types are those that all parties refer to.
    """

    def __init__(
        self,
        name: str,
        *,
        parent: Context | Iterable[Context] | None = None,
        types: Iterable[type] = (),
        strict: bool = False,
    ) -> None:
        """With `strict`, a check reports an attribute that would take its default as an error."""
        self.name = check_name("name", name)
        self.strict = _checked_strict(name, strict)
        self.parents = _checked_parents(name, parent)
        self.types = _checked_types(name, types)
        self.mapping_lines: list[Mapping] = []
        self.rule_lines: list[RuleLine] = []
        self.whole_lines: list[WholeLine] = []
        self._frozen = False

    # -- declaring ---------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | Traversable,
        *,
        name: str | None = None,
        parent: Context | Iterable[Context] | None = None,
        modules: Iterable[ModuleType | str] = (),
        functions: AnyMapping[str, Callable[..., Any]] | None = None,
    ) -> Context:
        """Read a context from XML; it may name what the modules define, and `functions`, no more.

        Its name is the one given, else that of `<context name="...">`, else that of the file. The
        file may be inside a zip, or come from `importlib.resources.files(...)`.
        """
        from polycast.contexts.declare.xml_files import load

        return load(path, name=name, parent=parent, modules=modules, functions=functions)

    def dump(self) -> str:
        """The context as XML that `load` reads; functions and types must have dotted names."""
        from polycast.contexts.declare.xml_files import dump

        return dump(self)

    def map(
        self,
        source: type,
        target: type,
        direction: Direction,
        *,
        place: SourceLocation | None = None,
    ) -> None:
        """Translate events of one type to another: incoming (`?`) or outgoing (`!`)."""
        self._check_open("map()")
        if direction not in DIRECTIONS:
            raise BadOptionError.choice("direction", direction, DIRECTIONS)
        ends = (_checked_type(self.name, source), _checked_type(self.name, target))
        self.mapping_lines.append(Mapping(*ends, direction, place or SourceLocation(self.name)))

    def rule(
        self,
        pattern: str,
        function: Callable[[Any], Any] | str,
        *,
        place: SourceLocation | None = None,
    ) -> None:
        """Apply a function where a pattern says; `-` disables an inherited rule."""
        self._check_open("rule()")
        given: object = pattern
        if not isinstance(given, str):
            accepted = "a text such as 'InvoiceLine.amountToPay'"
            raise BadContextError("a pattern", pattern, accepted=accepted, where=self.name)
        if isinstance(function, str) and function != DISABLED:
            what, accepted = (
                "the function of a rule",
                "a function, or '-' to disable an inherited rule",
            )
            raise BadContextError(what, function, accepted=accepted, where=self.name)
        self.rule_lines.append(RuleLine(pattern, function, place or SourceLocation(self.name)))

    def whole(
        self, source: type, function: Callable[[Any], Any], *, place: SourceLocation | None = None
    ) -> None:
        """Let a function make the whole target of events of a type.

        It takes the source as it is: no rule and no unit of its mapping applies to it.
        """
        self._check_open("whole()")
        cls = _checked_type(self.name, source)
        self.whole_lines.append(WholeLine(cls, function, place or SourceLocation(self.name)))

    # -- inspecting --------------------------------------------------------------------------------

    @property
    def root(self) -> Context:
        """The context at the top."""
        return self.parents[0].root if self.parents else self

    def lineage(self) -> list[Context]:
        """The context and all above it, itself first."""
        lineage: dict[int, Context] = {}
        waiting = [self]
        for context in waiting:
            if id(context) not in lineage:
                lineage[id(context)] = context
                waiting += context.parents
        return list(lineage.values())

    def check(self) -> Report:
        """Report what is wrong, doubtful or worth knowing."""
        return check(self)

    def resolve(self, cls: type) -> list[ResolvedRule]:
        """The rule that applies at each path of events of a type, and why that one."""
        settled = settle(self)
        cls = _checked_type(self.name, cls)
        mappings = [mapping for way in DIRECTIONS if (mapping := settled.mapping_for(cls, way))]
        if mappings and all(mapping.source in settled.wholes for mapping in mappings):
            return []  # a function makes all of it
        return Resolver(settled.rules, settled.types).rows(cls)

    def source(self, cls: type, direction: Direction | None = None) -> str:
        """The generated code for events of a type."""
        settled = settle(self)
        cls = _checked_type(self.name, cls)
        if direction not in (None, *DIRECTIONS):
            raise BadOptionError.choice("direction", direction, DIRECTIONS)
        ways = DIRECTIONS if direction is None else (direction,)
        for way in ways:
            translator = Translator(settled, way, lambda finding: None)
            if translator.mapping(cls) is not None:
                return translator.code(cls).source
        sources = {source.__name__ for source, way in settled.mappings if way in ways}
        accepted = ", ".join(sorted(sources)) or "none"
        raise BadContextError("a type with a mapping", cls, accepted=accepted, where=self.name)

    def show(self, cls: type) -> Listing:
        """List how events of a type come in and go out, path by path."""
        from polycast.contexts.resolve.listing import show

        return show(self, _checked_type(self.name, cls))

    # -- freezing and copying ----------------------------------------------------------------------

    @property
    def is_frozen(self) -> bool:
        """Whether it is in a federation, and can no longer change."""
        return self._frozen

    def freeze(self) -> None:
        """Prevent changes: a federation relies on it."""
        self._frozen = True

    def thaw(self) -> None:
        """Allow changes again: it did not get into the federation for which it was frozen."""
        self._frozen = False
        forget(self)

    def copy(
        self, name: str | None = None, *, parent: Context | Iterable[Context] | None = None
    ) -> Context:
        """A copy that may be changed; with another name, or other parents."""
        above = self.parents if parent is None else parent
        copied = Context(
            name or self.name, parent=above or None, types=self.types, strict=self.strict
        )
        copied.mapping_lines = list(self.mapping_lines)
        copied.rule_lines = list(self.rule_lines)
        copied.whole_lines = list(self.whole_lines)
        return copied

    def _check_open(self, operation: str) -> None:
        if self._frozen:
            raise ContextFrozenError(self.name, operation)

    def __repr__(self) -> str:
        parents = ", ".join(parent.name for parent in self.parents)
        return f"Context({self.name!r}{f', parent={parents}' if parents else ''})"


def _checked_parents(name: str, parent: Context | Iterable[Context] | None) -> tuple[Context, ...]:
    given = () if parent is None else (parent,) if isinstance(parent, Context) else tuple(parent)
    others: list[object] = [other for other in given if not isinstance(other, Context)]
    if others:
        accepted = "a context, or several in a list"
        raise BadContextError("parent", others[0], accepted=accepted, where=name)
    if len({id(parent.root) for parent in given}) > 1:
        names, accepted = [parent.name for parent in given], "parents of the same root"
        raise BadContextError("parent", names, accepted=accepted, where=name)
    above = {context.name for parent in given for context in parent.lineage()}
    if name in above:
        accepted = f"a name that no context above it has ({', '.join(sorted(above))})"
        raise BadContextError("the name of a context", name, accepted=accepted)
    return given


def _checked_strict(name: str, strict: object) -> bool:
    if not isinstance(strict, bool):
        raise BadContextError("strict", strict, accepted="True or False", where=name)
    return strict


def _checked_types(name: str, types: object) -> tuple[type, ...]:
    if isinstance(types, type | str) or not isinstance(types, Iterable):
        raise BadContextError("types", types, accepted="classes, in a list", where=name)
    return tuple(dict.fromkeys(_checked_type(name, cls) for cls in types))


def _checked_type(name: str, cls: object) -> type:
    if not isinstance(cls, type):
        raise BadContextError("a type", cls, accepted="a class", where=name)
    return cls
