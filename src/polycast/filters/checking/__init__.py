"""Mistakes in a filter that are certain before any event: what a class cannot have or do."""

from polycast.filters.checking.mistakes import Problem, check, problems

__all__ = ["Problem", "check", "problems"]
