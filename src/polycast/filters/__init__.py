"""Content filters: one tree, written in Python, run as generated code; failures never match."""

from polycast.filters.filter import Filter, lift, parse_filter

__all__ = ["Filter", "lift", "parse_filter"]
