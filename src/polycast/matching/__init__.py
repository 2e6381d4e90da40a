"""Interests and selectors as plain values, and the matcher that finds who wants an event."""

from polycast.matching.interest import (
    Definition,
    Interest,
    definition_of,
    path_of,
    wanted_from_afar,
)
from polycast.matching.matcher import Matcher
from polycast.matching.selectors import (
    Selector,
    Selectors,
    TopicPattern,
    all_of,
    check_topic,
    selector_for,
    structured,
    topic,
)

__all__ = [
    "Definition",
    "Interest",
    "Matcher",
    "Selector",
    "Selectors",
    "TopicPattern",
    "all_of",
    "check_topic",
    "definition_of",
    "path_of",
    "selector_for",
    "structured",
    "topic",
    "wanted_from_afar",
]
