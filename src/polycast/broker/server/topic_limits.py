"""How long topics and topic patterns from clients may be."""

from __future__ import annotations

from polycast.errors import LimitReachedError
from polycast.matching import TopicPattern, check_topic

__all__ = ["LEVELS", "LONGEST", "check_topic_text"]

LONGEST, LEVELS = 2_000, 100
"""Characters and levels: every event is compared with every pattern, level by level."""


def check_topic_text(topic: str | None, *, is_pattern: bool) -> None:
    """Refuse a malformed topic, or one too long to compare with many patterns."""
    if topic is None:
        return
    if len(topic) > LONGEST or topic.count("/") > LEVELS:
        text = (
            f"a topic of {len(topic):,} characters and {topic.count('/'):,} levels; up to "
            f"{LONGEST:,} and {LEVELS} are accepted"
        )
        raise LimitReachedError("topic", text, {"limit": LEVELS})
    if is_pattern:
        TopicPattern(topic)
    else:
        check_topic(topic)
