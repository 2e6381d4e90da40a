"""Federation: contexts, mappings and transformation rules."""

from polycast.contexts.annotations import maps_to, transform_with
from polycast.contexts.context import Context
from polycast.contexts.federation import Federation, Member, Statistics
from polycast.contexts.findings import Finding, Report
from polycast.contexts.functions import identity, impure, unchecked
from polycast.contexts.resolution import Row
from polycast.contexts.units import Unit

__all__ = [
    "Context",
    "Federation",
    "Finding",
    "Member",
    "Report",
    "Row",
    "Statistics",
    "Unit",
    "identity",
    "impure",
    "maps_to",
    "transform_with",
    "unchecked",
]
