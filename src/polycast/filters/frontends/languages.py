"""Filters written in the languages of other systems, by the name of the language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.errors import BadOption
from polycast.filters.filter import Filter
from polycast.filters.frontends import xpath

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polycast.filters.nodes import Node

__all__ = ["parse_filter"]

LANGUAGES: Mapping[str, Callable[[str], Node]] = {
    "xpath": xpath.tree_of,
}


def parse_filter(text: str, language: str) -> Filter[Any]:
    """The filter that a text means in a language: "etcl" or "xpath"."""
    if not isinstance(text, str):
        raise BadOption("text", text, accepted="a string")
    parse = LANGUAGES.get(language) if isinstance(language, str) else None
    if parse is None:
        known = " or ".join(repr(each) for each in sorted(LANGUAGES))
        raise BadOption("language", language, accepted=known)
    return Filter(parse(text))
