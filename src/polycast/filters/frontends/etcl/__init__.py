"""Filters written in the Extended Trader Constraint Language, and trees written in it again."""

from polycast.filters.frontends.etcl.grammar import by_clock, parse_etcl
from polycast.filters.frontends.etcl.writing import etcl_text

__all__ = ["by_clock", "etcl_text", "parse_etcl"]
