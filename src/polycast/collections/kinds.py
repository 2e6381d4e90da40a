"""One class for each promise; they differ in nothing else."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypeVar

from polycast.collections.collection import DACollection
from polycast.config import LEVELS

E = TypeVar("E", default=Any)  # any value may be on a topic


class DAWeakBag(DACollection[E]):
    """Best effort: events may be lost or come twice, in any order."""

    level = LEVELS["weak_bag"]


class DAWeakSet(DACollection[E]):
    """At most once: events may be lost, none comes twice."""

    level = LEVELS["weak_set"]


class DAStrongBag(DACollection[E]):
    """At least once: nothing is lost, an event may come twice."""

    level = LEVELS["strong_bag"]


class DAStrongSet(DACollection[E]):
    """Exactly once, in any order."""

    level = LEVELS["strong_set"]


class DAArray(DACollection[E]):
    """At least once, in the order of each publisher."""

    level = LEVELS["array"]


class DAList(DACollection[E]):
    """Exactly once, in the order of each publisher."""

    level = LEVELS["list"]


class DASortedBag(DACollection[E]):
    """At least once, in one order that is the same for all."""

    level = LEVELS["sorted_bag"]


class DASortedSet(DACollection[E]):
    """Exactly once, in one order that is the same for all."""

    level = LEVELS["sorted_set"]
