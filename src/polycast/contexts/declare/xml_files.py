"""Contexts in XML: loaded with the names that modules define, and dumped."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar, cast
from xml.sax.saxutils import quoteattr

from polycast.contexts.check.findings import Finding
from polycast.contexts.declare.context import Context
from polycast.contexts.declare.patterns import BadPattern, parse_pattern
from polycast.contexts.declare.rule_functions import NoName, identity, name_by_which, registered
from polycast.contexts.declare.statements import DISABLED, Direction, SourceLocation
from polycast.contexts.declare.xml_reader import (
    MOST_ERRORS,
    TooManyErrors,
    file_error,
    read_declaration,
)
from polycast.contexts.resolve.attribute_shapes import KnownTypes
from polycast.contexts.resolve.inheritance import settle
from polycast.errors import BadContextError
from polycast.registered_names import RegisteredNames, methods_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from importlib.resources.abc import Traversable
    from types import ModuleType

    from polycast.contexts.declare.xml_reader import Declaration, Element


T = TypeVar("T")
IDENTITY = "identity"
_IDENTITIES = (IDENTITY, "toIdentity", "polycast.identity")


class _UnknownName(Exception):
    """Why a name means nothing here."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def load(
    path: str | os.PathLike[str] | Traversable,
    *,
    name: str | None,
    parent: Context | Iterable[Context] | None,
    modules: Iterable[ModuleType | str],
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Context:
    """Load a context from a file; nothing is imported before the file proves well-formed."""
    declared = read_declaration(path)
    called = name or declared.name or PurePath(_file_name(path)).stem
    above = Context(called, parent=parent).parents
    names = _LookUp(registered("modules", modules, functions, where=called), above)
    return _ContextReader(str(path), declared, names).context(called, above)


def _file_name(path: str | os.PathLike[str] | Traversable) -> str:
    return os.fspath(path) if isinstance(path, str | os.PathLike) else path.name


class _ContextReader:
    def __init__(self, file: str, declared: Declaration, names: _LookUp) -> None:
        self._file, self._declared, self._names = file, declared, names
        self._errors: list[Finding] = []

    def context(self, name: str, parents: tuple[Context, ...]) -> Context:
        """The context; `BadContextError` with all that is wrong with the file."""
        try:
            context = self._declare(name, parents)
            if not self._errors:
                return context
            self._errors += self._errors_of_check(context)
        except TooManyErrors:
            pass
        errors = sorted(self._errors, key=lambda error: int(error.where.rpartition(":")[2]))
        raise file_error(self._file, errors[:MOST_ERRORS])

    def _errors_of_check(self, context: Context) -> list[Finding]:
        """The errors of a check about the lines that could be read.

        Where a type is missing, much that names it is wrong, too: that is not repeated.
        """
        if any(error.code in ("unknown-type", "ambiguous-type") for error in self._errors):
            return []
        wrong = [finding for finding in settle(context).findings if finding.severity == "error"]
        here = [finding for finding in wrong if finding.where.startswith(f"{self._file}:")]
        return [
            Finding(finding.code, finding.text, self._file + _line_of(finding.where, self._file))
            for finding in here
        ]

    def _declare(self, name: str, parents: tuple[Context, ...]) -> Context:
        declared = self._declared
        types = [self._type(element, "name") for element in declared.types]
        known = [cls for cls in types if cls is not None]
        context = Context(name, parent=parents, types=known, strict=declared.strict)
        for element in declared.mappings:
            ends = self._type(element, "from"), self._type(element, "to")
            if ends[0] is not None and ends[1] is not None:
                direction = cast("Direction", element.values["dir"])
                context.map(ends[0], ends[1], direction, place=self._place(name, element))
        vocabulary = settle(context).types
        for element in declared.rules:
            function = self._function(element, self._types_at(element, vocabulary))
            if function is not None:
                context.rule(element.values["pattern"], function, place=self._place(name, element))
        for element in declared.wholes:
            cls = self._type(element, "type")
            function = self._function(element, () if cls is None else (cls,))
            if cls is not None and function is not None:
                context.whole(cls, function, place=self._place(name, element))
        return context

    def _place(self, context: str, element: Element) -> SourceLocation:
        return SourceLocation(context, self._file, element.line)

    def _type(self, element: Element, attribute: str) -> type | None:
        return self._tried(element, lambda: self._names.type_of(element.values[attribute]))

    def _types_at(self, element: Element, known: KnownTypes) -> tuple[type, ...] | None:
        """The types whose methods a bare name may be; None if the pattern is wrong."""
        name = element.values["function"]
        if not name.isidentifier() or name in _IDENTITIES:
            return ()
        pattern = element.values["pattern"]
        return self._tried(element, lambda: parse_pattern(pattern, known)[0].last.types)

    def _function(self, element: Element, types: tuple[type, ...] | None) -> Any:
        if types is None:  # the error is reported already
            return None
        name = element.values["function"]
        return self._tried(element, lambda: self._names.function_of(name, types))

    def _tried(self, element: Element, look_up: Callable[[], T]) -> T | None:
        """What names of an element mean; None if that is an error, which is collected."""
        try:
            return look_up()
        except (_UnknownName, BadPattern) as error:
            self._errors.append(Finding(error.code, str(error), f"{self._file}:{element.line}"))
            if len(self._errors) == MOST_ERRORS:
                raise TooManyErrors from None
            return None


def _line_of(where: str, file: str) -> str:
    """`:7` of `us.xml:7, rule 'Line.price'`."""
    return where.removeprefix(file).partition(",")[0]


class _LookUp:
    """Looks up names: in what is registered, and for types in the contexts above."""

    def __init__(self, names: RegisteredNames, parents: tuple[Context, ...]) -> None:
        self._names = names
        self._above = KnownTypes([cls for parent in parents for cls in settle(parent).types.types])
        ancestors = (ancestor for parent in parents for ancestor in parent.lineage())
        listed = (cls.__module__ for ancestor in ancestors for cls in ancestor.types)
        self._homes = frozenset((*names.modules, *listed))
        self._imported = self._types_imported()

    def _types_imported(self) -> dict[str, list[type]]:
        """Types of the contexts above, by the names under which modules import them."""
        types: dict[str, list[type]] = {}
        for home, module in self._names.modules.items():
            for name, value in vars(module).items():
                if isinstance(value, type) and value in self._above.types:
                    for spelling in (name, f"{home}.{name}"):
                        types.setdefault(spelling, []).append(value)
        return types

    def type_of(self, name: str) -> type:
        """The class of a name."""
        _check_words(name, "unknown-type")
        above = [cls for cls in self._above.named(name) if cls in self._above.types]
        inside = [named for named in self._names.spelled(name) if isinstance(named, type)]
        meanings = [*above, *inside, *self._imported.get(name, ())]
        return cast("type", self._only(name, meanings, "type"))

    def function_of(self, name: str, types: tuple[type, ...]) -> Any:
        """The function of a name; a bare one may be a method of the types at the pattern."""
        if name == DISABLED:
            return DISABLED
        if name in _IDENTITIES:
            return identity
        _check_words(name, "unknown-function")
        for cls in types:
            method = methods_of(cls, self._homes).get(name)
            if method is not None:
                return method
        return self._only(name, self._names.spelled(name), "function")

    def _only(self, name: str, meanings: list[Any], what: str) -> Any:
        """The one thing that a name means."""
        unique = list({id(meaning): meaning for meaning in meanings}.values())
        if len(unique) == 1:
            return unique[0]
        if unique:
            full = " or ".join(sorted(f"{one.__module__}.{one.__qualname__}" for one in unique))
            code = "ambiguous-type" if what == "type" else "unknown-function"
            raise _UnknownName(code, f"{name!r} is two things; say {full}")
        modules = ", ".join(self._names.modules) or "none are given"
        where = " or in a context above" if what == "type" else ""
        text = f"there is no {what} {name!r} in the modules ({modules}){where}"
        home = self._names.homes(name)
        if home is not None:
            text = f"{name!r} is defined in {home}, which is not among the modules ({modules})"
        rest = "only what modules=[...] define is looked up"
        raise _UnknownName(f"unknown-{what}", f"{text}; {rest}{self._names.near(name)}")


def _check_words(name: str, code: str) -> None:
    words = name.split(".")
    if not all(word.isidentifier() for word in words):
        raise _UnknownName(code, f"{name!r} is no dotted name, such as 'shop.us.to_dollars'")
    if any(word.startswith("__") for word in words):
        raise _UnknownName(code, f"{name!r}: names that begin with '__' are not looked up")


def dump(context: Context) -> str:
    """The XML of a context's own statements, without those that annotations stand for."""
    strict = ' strict="true"' if context.strict else ""
    lines = [f"<context name={quoteattr(context.name)}{strict}>"]
    lines += _section("types", _types(context))
    lines += _section("mappings", _mappings(context))
    lines += _section("rules", _rules(context))
    return "\n".join([*lines, "</context>", ""])


def _section(name: str, inside: Iterator[str]) -> list[str]:
    lines = [f"    {line}" for line in inside]
    return [f"  <{name}>", *lines, f"  </{name}>"] if lines else []


def _types(context: Context) -> Iterator[str]:
    for cls in context.types:
        yield _element("type", name=_named(context, cls, "a type"))


def _mappings(context: Context) -> Iterator[str]:
    for line in context.mapping_lines:
        what = f"the mapping {str(line)!r}"
        source, target = (_named(context, end, what) for end in (line.source, line.target))
        yield _element("mapping", **{"from": source, "to": target, "dir": line.direction})


def _rules(context: Context) -> Iterator[str]:
    for line in context.rule_lines:
        function = _function(context, line.function, f"the rule {line.pattern!r}")
        yield _element("rule", pattern=line.pattern, function=function)
    for whole in context.whole_lines:
        what = f"the whole {whole.source.__name__!r}"
        cls = _named(context, whole.source, what)
        yield _element("whole", type=cls, function=_function(context, whole.function, what))


def _function(context: Context, function: Any, what: str) -> str:
    if function == DISABLED:
        return DISABLED
    return IDENTITY if function is identity else _named(context, function, what)


def _named(context: Context, named: Any, what: str) -> str:
    try:
        return ".".join(name_by_which(named))
    except NoName as error:
        accepted = f"what a module defines under a name, and {error}"
        raise BadContextError(f"in {what}", named, accepted=accepted, where=context.name) from None


def _element(kind: str, /, **values: str) -> str:
    return f"<{kind} {' '.join(f'{key}={_quoted(value)}' for key, value in values.items())}/>"


def _quoted(text: str) -> str:
    if not text.replace("\n", "").replace("\t", "").isprintable():
        raise BadContextError("a text", text, accepted="one whose characters can stand in XML")
    return quoteattr(text)
