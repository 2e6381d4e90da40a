"""Reads the XML of a context (FOS, section 4.3), without looking up any of its names."""

from __future__ import annotations

import os
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.parsers import expat

from polycast.contexts.check.findings import Finding
from polycast.contexts.declare.statements import DIRECTIONS
from polycast.errors import BadContextError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

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
    types: list[Element] = field(default_factory=list)
    mappings: list[Element] = field(default_factory=list)
    rules: list[Element] = field(default_factory=list)
    wholes: list[Element] = field(default_factory=list)


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
        declared = self.declared
        match name:
            case "context":
                declared.name = element.values.get("name")
                declared.strict = self._truth("strict", element)
            case "type":
                declared.types.append(element)
            case "mapping":
                if element.values["dir"] not in DIRECTIONS:
                    self._error(
                        f"the direction of a mapping is '?' (from the root to the context) or '!' "
                        f"(from the context to the root), not {element.values['dir']!r}"
                    )
                declared.mappings.append(element)
            case "rule":
                declared.rules.append(element)
            case "whole":
                declared.wholes.append(element)

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
            self.declared.types.append(Element({"name": word[0]}, lines[word.start()]))
        self._text.clear()
