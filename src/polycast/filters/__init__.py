"""Content filters: one tree, written in Python, run as generated code; failures never match."""

from polycast.filters.filter import Filter, lift
from polycast.filters.frontends.etcl import etcl_text
from polycast.filters.frontends.languages import parse_filter
from polycast.filters.frontends.xpath import xpath_text

__all__ = ["Filter", "etcl_text", "lift", "parse_filter", "xpath_text"]
