"""Mistakes in a filter that are certain before any event: what a class cannot have or do."""

from polycast.filters.checking.mistakes import FilterProblem, check, problems

__all__ = ["FilterProblem", "check", "problems"]
