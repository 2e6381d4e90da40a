"""The eight distributed asynchronous collections (DAC figure 19)."""

from polycast.collections.collection import DACollection
from polycast.collections.kinds import (
    DAArray,
    DAList,
    DASortedBag,
    DASortedSet,
    DAStrongBag,
    DAStrongSet,
    DAWeakBag,
    DAWeakSet,
)
from polycast.collections.supply import Supply

__all__ = [
    "DAArray",
    "DACollection",
    "DAList",
    "DASortedBag",
    "DASortedSet",
    "DAStrongBag",
    "DAStrongSet",
    "DAWeakBag",
    "DAWeakSet",
    "Supply",
]
