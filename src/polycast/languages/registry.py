"""Filters written in the languages of other systems, by the name of the language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.errors import BadOptionError
from polycast.filters.filter import Filter
from polycast.languages.etcl.grammar import by_clock, parse_etcl
from polycast.languages.xpath.tree_translator import tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polycast.config import Clock
    from polycast.filters.tree.nodes import Node

__all__ = ["parse_filter"]

LANGUAGES: Mapping[str, Callable[[str], Node]] = {
    "etcl": parse_etcl,
    "xpath": tree_of,
}


def parse_filter(text: str, language: str, *, clock: Clock | None = None) -> Filter[Any]:
    """The filter that a text means in a language: "etcl" or "xpath".

    Where the text asks for the time, as `$curtime` does, it is that of the clock.
    """
    if not isinstance(text, str):
        raise BadOptionError("text", text, accepted="a string")
    parse = LANGUAGES.get(language) if isinstance(language, str) else None
    if parse is None:
        known = " or ".join(repr(each) for each in sorted(LANGUAGES))
        raise BadOptionError("language", language, accepted=known)
    if clock is not None and not callable(getattr(clock, "time", None)):
        raise BadOptionError("clock", clock, accepted="a pc.Clock, or None for that of the machine")
    tree = parse(text)
    return Filter(tree if clock is None else by_clock(tree, clock))
