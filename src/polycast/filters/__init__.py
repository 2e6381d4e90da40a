"""Content filters: predicates on events, whose failures never match."""

from polycast.filters.filter import Filter

__all__ = ["Filter"]
