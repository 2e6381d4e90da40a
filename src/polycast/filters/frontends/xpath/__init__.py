"""Filters written in XPath, as trees, and trees written in XPath."""

from polycast.filters.frontends.xpath.translation import tree_of
from polycast.filters.frontends.xpath.writing import xpath_text

__all__ = ["tree_of", "xpath_text"]
