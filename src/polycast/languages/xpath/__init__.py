"""Filters in XPath 1.0 over the XML-RPC form of an event: text, trees, and what functions do."""

from __future__ import annotations

from polycast.filters.tree.language_registry import FilterLanguage
from polycast.languages.xpath.functions import COSTS, FUNCTIONS, XPathInsight
from polycast.languages.xpath.tree_translator import tree_of
from polycast.languages.xpath.writer import xpath_text

__all__ = ["XPATH"]


XPATH = FilterLanguage(
    "xpath",
    functions=FUNCTIONS,
    costs=COSTS,
    insight=XPathInsight(),
    parse=lambda text, clock: tree_of(text),  # XPath has no time
    write=xpath_text,
)
