"""Writes a context as XML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from polycast.contexts.declare.function_names import NoName, name_by_which
from polycast.contexts.declare.rule_functions import identity
from polycast.contexts.declare.statements import DISABLED
from polycast.contexts.declare.xml_loader import IDENTITY
from polycast.errors import BadContextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.contexts.declare.context import Context


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
