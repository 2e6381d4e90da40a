"""Filters in XPath 1.0 over the XML-RPC form of an event: text, trees, and what functions do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.filters.tree.language_registry import FilterLanguage
from polycast.languages.xpath.functions import COSTS, FUNCTIONS, XPathInsight
from polycast.languages.xpath.tree_translator import tree_of
from polycast.languages.xpath.writer import xpath_text

if TYPE_CHECKING:
    from polycast.config import Clock
    from polycast.filters.tree.nodes import Node

__all__ = ["XPATH"]


def _parsed(text: str, clock: Clock | None) -> Node:
    del clock  # XPath has no time
    return tree_of(text)


XPATH = FilterLanguage(
    "xpath",
    functions=FUNCTIONS,
    costs=COSTS,
    insight=XPathInsight(),
    parse=_parsed,
    write=xpath_text,
    component=lambda node: None,
    places=lambda tree: None,
)
