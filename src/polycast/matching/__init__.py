"""What a subscriber wants: types, topics and a filter, as plain values."""

from polycast.matching.interest import Interest
from polycast.matching.selectors import Selector, all_of, selector_for, topic
from polycast.matching.topics import TopicPattern, check_topic

__all__ = [
    "Interest",
    "Selector",
    "TopicPattern",
    "all_of",
    "check_topic",
    "selector_for",
    "topic",
]
