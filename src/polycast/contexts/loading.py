"""From the XML of a context to the context: what it names is looked up in the modules given."""

from __future__ import annotations

import importlib
import inspect
import os
from pathlib import PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from polycast.contexts.context import Context
from polycast.contexts.declarations import (
    MOST_ERRORS,
    TooManyErrors,
    file_error,
    read_declaration,
)
from polycast.contexts.findings import Finding
from polycast.contexts.functions import identity
from polycast.contexts.inheritance import settle
from polycast.contexts.lines import DISABLED, Place
from polycast.contexts.patterns import BadPattern, parse_pattern
from polycast.contexts.vocabulary import Vocabulary
from polycast.errors import BadContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.resources.abc import Traversable

    from polycast.contexts.declarations import Declared, Element
    from polycast.contexts.lines import Direction

__all__ = ["IDENTITY", "load"]

IDENTITY = "identity"
_IDENTITIES = (IDENTITY, "toIdentity", "polycast.identity")


class _Unknown(Exception):
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
) -> Context:
    """The context of a file. Nothing is imported before the file is known to be well-formed."""
    declared = read_declaration(path)
    called = name or declared.name or PurePath(_file_name(path)).stem
    above = Context(called, parent=parent).parents
    names = _Names(_imported(called, modules), above)
    return _Loading(str(path), declared, names).context(called, above)


def _file_name(path: str | os.PathLike[str] | Traversable) -> str:
    return os.fspath(path) if isinstance(path, str | os.PathLike) else path.name


def _imported(context: str, modules: object) -> dict[str, ModuleType]:
    found: dict[str, ModuleType] = {}
    accepted = "modules, or their names, in a list"
    if isinstance(modules, str | ModuleType) or not hasattr(modules, "__iter__"):
        raise BadContext("modules", modules, accepted=accepted, where=context)
    for each in modules:
        module = each
        if isinstance(each, str):
            try:
                module = importlib.import_module(each)
            except (ImportError, ValueError) as error:
                accepted = f"modules that can be imported ({error})"
                raise BadContext("modules", each, accepted=accepted, where=context) from error
        if not isinstance(module, ModuleType):
            raise BadContext("modules", each, accepted=accepted, where=context)
        found[module.__name__] = module
    return found


class _Loading:
    def __init__(self, file: str, declared: Declared, names: _Names) -> None:
        self._file, self._declared, self._names = file, declared, names
        self._errors: list[Finding] = []

    def context(self, name: str, parents: tuple[Context, ...]) -> Context:
        """The context, or all that is wrong with the file."""
        try:
            made = self._made(name, parents)
            if not self._errors:
                return made
            self._errors += self._wrong_lines(made)  # all at once
        except TooManyErrors:
            pass
        errors = sorted(self._errors, key=lambda each: int(each.where.rpartition(":")[2]))
        raise file_error(self._file, errors[:MOST_ERRORS])

    def _wrong_lines(self, made: Context) -> list[Finding]:
        """What a check says of the patterns and functions of the lines that could be read.

        Where a type is missing, much that names it is wrong, too: that is not said.
        """
        if any(each.code in ("unknown-type", "ambiguous-type") for each in self._errors):
            return []
        wrong = [each for each in settle(made).findings if each.severity == "error"]
        here = [each for each in wrong if each.where.startswith(f"{self._file}:")]
        return [
            Finding(each.code, each.text, self._file + _line_of(each.where, self._file))
            for each in here
        ]

    def _made(self, name: str, parents: tuple[Context, ...]) -> Context:
        declared = self._declared
        types = [self._type(each, "name") for each in declared.types]
        made = Context(name, parent=parents, types=[cls for cls in types if cls is not None])
        for each in declared.mappings:
            ends = self._type(each, "from"), self._type(each, "to")
            if ends[0] is not None and ends[1] is not None:
                direction = cast("Direction", each.values["dir"])
                made.map(ends[0], ends[1], direction, place=self._place(name, each))
        known = settle(made).types
        for each in declared.rules:
            function = self._function(each, self._types_at(each, known))
            if function is not None:
                made.rule(each.values["pattern"], function, place=self._place(name, each))
        for each in declared.wholes:
            cls = self._type(each, "type")
            function = self._function(each, () if cls is None else (cls,))
            if cls is not None and function is not None:
                made.whole(cls, function, place=self._place(name, each))
        return made

    def _place(self, context: str, element: Element) -> Place:
        return Place(context, self._file, element.line)

    def _type(self, element: Element, attribute: str) -> type | None:
        try:
            return self._names.type_of(element.values[attribute])
        except _Unknown as error:
            self._error(error.code, str(error), element)
            return None

    def _types_at(self, element: Element, known: Vocabulary) -> tuple[type, ...] | None:
        """The types at a pattern, of which a bare name may be a method; None if it is wrong."""
        name = element.values["function"]
        if not name.isidentifier() or name in _IDENTITIES:
            return ()
        try:
            return parse_pattern(element.values["pattern"], known)[0].last.types
        except BadPattern as error:
            self._error(error.code, error.told(), element)
            return None

    def _function(self, element: Element, types: tuple[type, ...] | None) -> Any:
        if types is None:  # what is wrong is known
            return None
        try:
            return self._names.function_of(element.values["function"], types)
        except _Unknown as error:
            self._error(error.code, str(error), element)
            return None

    def _error(self, code: str, text: str, element: Element) -> None:
        self._errors.append(Finding(code, text, f"{self._file}:{element.line}"))
        if len(self._errors) == MOST_ERRORS:
            raise TooManyErrors


def _line_of(where: str, file: str) -> str:
    """`:7` of `us.xml:7, rule 'Line.price'`."""
    return where.removeprefix(file).partition(",")[0]


class _Names:
    """What names mean: in the modules given, and for types in the contexts above."""

    def __init__(self, modules: dict[str, ModuleType], parents: tuple[Context, ...]) -> None:
        self._modules = modules
        self._known: dict[str, type] = {}
        self._above = Vocabulary([cls for each in parents for cls in settle(each).types.types])

    def type_of(self, name: str) -> type:
        """The class of a name."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._looked_up(name)
        return found

    def _looked_up(self, name: str) -> type:
        words = _words(name, "unknown-type")
        above = [cls for cls in self._above.named(name) if cls in self._above.types]
        inside = [each for each in self._found(words) if isinstance(each, type)]
        found = [*above, *(cls for cls in inside if self._is_ours(cls) or cls in self._above.types)]
        return cast("type", self._only(name, found, inside, "type"))

    def function_of(self, name: str, types: tuple[type, ...]) -> Any:
        """The function of a name; a bare one may be a method of the types at the pattern."""
        if name == DISABLED:
            return DISABLED
        if name in _IDENTITIES:
            return identity
        words = _words(name, "unknown-function")
        if len(words) == 1:
            for cls in types:
                method = _member(cls, name)
                if callable(method):
                    return method
        inside = [each for each in self._found(words) if callable(each)]
        return self._only(
            name, [each for each in inside if self._is_ours(each)], inside, "function"
        )

    def _only(self, name: str, found: list[Any], inside: list[Any], what: str) -> Any:
        """The one thing that a name means."""
        unique = list({id(each): each for each in found}.values())
        if len(unique) == 1:
            return unique[0]
        if unique:
            full = " or ".join(sorted(f"{each.__module__}.{each.__qualname__}" for each in unique))
            code = "ambiguous-type" if what == "type" else "unknown-function"
            raise _Unknown(code, f"{name!r} is two things; say {full}")
        modules = ", ".join(self._modules) or "none are given"
        where = " or in a context above" if what == "type" else ""
        text = f"there is no {what} {name!r} in the modules ({modules}){where}"
        if inside:
            home = getattr(inside[0], "__module__", None) or type(inside[0]).__module__
            text = f"{name!r} is defined in {home}, which is not among the modules ({modules})"
        raise _Unknown(f"unknown-{what}", f"{text}; only what modules=[...] define is looked up")

    def _found(self, words: list[str]) -> list[Any]:
        """What a path leads to: from a module by its full name, or in any of them."""
        starts: list[tuple[ModuleType, list[str]]] = [
            (module, words[count:])
            for name, module in self._modules.items()
            if (count := name.count(".") + 1) < len(words) and words[:count] == name.split(".")
        ]
        starts += [(module, words) for module in self._modules.values()]
        found = [_reached(module, rest) for module, rest in starts]
        return [each for each in found if each is not None]

    def _is_ours(self, found: Any) -> bool:
        """Whether it is defined in the modules, not only imported there."""
        home = getattr(found, "__module__", None) or ""
        return any(home == name or home.startswith(f"{name}.") for name in self._modules)


def _words(name: str, code: str) -> list[str]:
    words = name.split(".")
    if not all(word.isidentifier() for word in words):
        raise _Unknown(code, f"{name!r} is no dotted name, such as 'shop.us.to_dollars'")
    if any(word.startswith("__") for word in words):
        raise _Unknown(code, f"{name!r}: names that begin with '__' are not looked up")
    return words


def _reached(module: ModuleType, words: list[str]) -> Any:
    """What a path inside a module leads to; it goes on in classes only, never in other modules."""
    found: Any = vars(module).get(words[0])
    for word in words[1:]:
        if not isinstance(found, type):
            return None
        found = _member(found, word)
    return None if isinstance(found, ModuleType) else found


def _member(cls: type, name: str) -> Callable[..., Any] | None:
    """A method of a class, or a class in it; properties and values are not run."""
    found = inspect.getattr_static(cls, name, None)
    if isinstance(found, staticmethod | classmethod):
        return found.__get__(None, cls)
    return found if callable(found) else None
