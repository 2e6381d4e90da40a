"""Contexts in XML (FOS, section 4.3): read, loaded with names that modules define, and dumped."""

from __future__ import annotations

import os
import re
import zipfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from polycast.contexts.check.findings import Finding
from polycast.contexts.declare.context import Context
from polycast.contexts.declare.patterns import BadPattern, parse_pattern
from polycast.contexts.declare.rule_functions import NoName, identity, name_by_which, registered
from polycast.contexts.declare.statements import DIRECTIONS, DISABLED, Direction, SourceLocation
from polycast.contexts.resolve.attribute_shapes import KnownTypes
from polycast.contexts.resolve.inheritance import settle
from polycast.errors import BadContextError
from polycast.registered_names import RegisteredNames, methods_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from importlib.resources.abc import Traversable
    from types import ModuleType

LARGEST = 5_000_000  # bytes
DEEPEST = 32
MOST_ERRORS = 100


@dataclass(frozen=True)
class _Form:
    """What an element may hold."""

    inside: str
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    has_text: bool = False


_FORMS = {
    "context": _Form("", optional=("name", "strict")),
    "types": _Form("context", has_text=True),
    "type": _Form("types", needed=("name",)),
    "mappings": _Form("context"),
    "mapping": _Form("mappings", needed=("from", "to", "dir")),
    "rules": _Form("context"),
    "rule": _Form("rules", needed=("pattern", "function")),
    "whole": _Form("rules", needed=("type", "function")),
}


class Element(NamedTuple):
    """An element: its attributes, and its line."""

    values: dict[str, str]
    line: int


@dataclass
class Declaration:
    """What a file declares; none of the names is looked up yet."""

    name: str | None = None
    strict: bool = False
    elements: dict[str, list[Element]] = field(default_factory=lambda: defaultdict(list))
    """The types, mappings, rules and wholes, by the name of the element."""


class TooManyErrors(Exception):
    """A file has so many errors that reading on makes no sense."""


def file_error(file: str, errors: list[Finding]) -> BadContextError:
    """An error with all that is wrong with a file."""
    count = "this error" if len(errors) == 1 else f"these {len(errors)} errors"
    if len(errors) >= MOST_ERRORS:
        count += ", and perhaps more: the rest of the file was not looked at"
    accepted = f"one without {count}"
    return BadContextError("the file of a context", file, accepted=accepted, errors=errors)


def read_declaration(path: str | os.PathLike[str] | Traversable) -> Declaration:
    """Read a file; `BadContextError` with all that is wrong in it."""
    file = str(path)
    with _place_of(path).open("rb") as opened:
        data = opened.read(LARGEST + 1)
    if len(data) > LARGEST:
        text = f"the file is larger than {LARGEST:,} bytes; a context is smaller"
        raise file_error(file, [Finding("bad-xml", text, file)])
    reader = _DeclarationReader(file)
    reader.read(data)
    if reader.errors:
        raise file_error(file, reader.errors)
    return reader.declared


def _place_of(path: str | os.PathLike[str] | Traversable) -> Path | Traversable:
    """The file of a path, in a folder or in a zip."""
    if not isinstance(path, str | os.PathLike):
        if not hasattr(path, "open"):
            raise BadContextError("the file of a context", path, accepted="a path")
        return path
    file = Path(path)
    if file.exists():
        return file
    for above in file.parents:  # the `__file__` of a module in a zip has such a path
        if above.is_file() and zipfile.is_zipfile(above):
            return zipfile.Path(above, file.relative_to(above).as_posix())
    return file


class _DeclarationReader:
    def __init__(self, file: str) -> None:
        self._file = file
        self.declared = Declaration()
        self.errors: list[Finding] = []
        self._open: list[str] = []
        self._unknown = 0  # how many open elements are unknown, or inside an unknown one
        self._text: list[tuple[int, str]] = []  # pieces, and the line on which each begins
        parser = self._parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._doctype
        parser.ProcessingInstructionHandler = self._instruction

    def read(self, data: bytes) -> None:
        try:
            self._parser.Parse(data, True)
        except TooManyErrors:
            pass
        except expat.ExpatError as error:
            why = expat.ErrorString(error.code)
            text = f"this is no well-formed XML: {why}"
            if why == "junk after document element":
                text += "; types, mappings and rules stand in one <context>"
            self._error(text, error.lineno)
        except (LookupError, ValueError) as error:  # an encoding that Python does not have
            self._error(f"this is no well-formed XML: {error}")

    def _error(self, text: str, line: int | None = None) -> None:
        number = self._parser.CurrentLineNumber if line is None else line
        self.errors.append(Finding("bad-xml", text, f"{self._file}:{number}"))
        if len(self.errors) == MOST_ERRORS:
            raise TooManyErrors

    # -- called by the parser ----------------------------------------------------------------------

    def _doctype(self, name: str, *rest: object) -> None:
        self._error("a document type and entities have no place in a context")
        raise TooManyErrors

    def _instruction(self, target: str, data: str) -> None:
        self._error(f"<?{target}?> has no place in a context")

    def _start(self, name: str, values: dict[str, str]) -> None:
        if len(self._open) + self._unknown >= DEEPEST:
            self._error(f"elements are nested more than {DEEPEST} deep")
            raise TooManyErrors
        if self._unknown or not self._is_known(name):
            self._unknown += 1
            return
        self._take_text()
        self._open.append(name)
        if self._check_attributes(name, values):
            self._take(name, values)

    def _is_known(self, name: str) -> bool:
        outer = self._open[-1] if self._open else ""
        form = _FORMS.get(name)
        if form is not None and form.inside == outer:
            return True
        inner = [tag for tag, known in _FORMS.items() if known.inside == outer]
        place = f"in <{outer}>" if outer else "as the outermost element"
        expected = " or ".join(f"<{tag}>" for tag in inner) or "nothing"
        self._error(f"<{name}> has no place {place}; {expected} has")
        return False

    def _check_attributes(self, name: str, values: dict[str, str]) -> bool:
        form, count = _FORMS[name], len(self.errors)
        known = (*form.needed, *form.optional)
        has = f"it has {', '.join(known)}" if known else "it has none"
        for attribute in values:
            if attribute not in known:
                self._error(f"<{name}> has no attribute {attribute!r}; {has}")
        for attribute in form.needed:
            if not values.get(attribute, "").strip():
                fault = "is empty" if attribute in values else "is missing"
                self._error(f"the attribute {attribute!r} of <{name}> {fault}; {has}")
        return len(self.errors) == count

    def _take(self, name: str, values: dict[str, str]) -> None:
        element = Element(
            {key: value.strip() for key, value in values.items()}, self._parser.CurrentLineNumber
        )
        if name == "context":
            self.declared.name = element.values.get("name")
            self.declared.strict = self._truth("strict", element)
        elif name == "mapping" and element.values["dir"] not in DIRECTIONS:
            self._error(
                f"the direction of a mapping is '?' (from the root to the context) or '!' "
                f"(from the context to the root), not {element.values['dir']!r}"
            )
        self.declared.elements[name].append(element)

    def _truth(self, attribute: str, element: Element) -> bool:
        text = element.values.get(attribute, "false")
        if text not in ("true", "false"):
            self._error(f"{attribute!r} is 'true' or 'false', not {text!r}")
        return text == "true"

    def _end(self, name: str) -> None:
        if self._unknown:
            self._unknown -= 1
            return
        self._take_text()
        self._open.pop()

    def _characters(self, text: str) -> None:
        if self._unknown:
            return
        name = self._open[-1]
        if _FORMS[name].has_text:
            self._text.append((self._parser.CurrentLineNumber, text))
        elif text.strip():
            shown = " ".join(text.split())[:40]
            self._error(f"the text {shown!r} has no place in <{name}>")

    def _take_text(self) -> None:
        """Types written as plain text, one after the other, as the paper does."""
        text = "".join(piece for _, piece in self._text)
        lines = [line for line, piece in self._text for _ in piece]
        for word in re.finditer(r"\S+", text):
            element = Element({"name": word[0]}, lines[word.start()])
            self.declared.elements["type"].append(element)
        self._text.clear()


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
        elements = self._declared.elements
        types = [self._type(element, "name") for element in elements["type"]]
        known = [cls for cls in types if cls is not None]
        context = Context(name, parent=parents, types=known, strict=self._declared.strict)
        for element in elements["mapping"]:
            ends = self._type(element, "from"), self._type(element, "to")
            if ends[0] is not None and ends[1] is not None:
                direction = cast("Direction", element.values["dir"])
                context.map(ends[0], ends[1], direction, place=self._place(name, element))
        vocabulary = settle(context).types
        for element in elements["rule"]:
            function = self._function(element, self._types_at(element, vocabulary))
            if function is not None:
                context.rule(element.values["pattern"], function, place=self._place(name, element))
        for element in elements["whole"]:
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


# -- dumping ---------------------------------------------------------------------------------------


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
