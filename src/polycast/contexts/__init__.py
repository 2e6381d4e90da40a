"""Federation: contexts, mappings and transformation rules."""

from polycast.contexts.context import Context
from polycast.contexts.federation import Federation, Statistics
from polycast.contexts.findings import Finding, Report
from polycast.contexts.functions import identity, impure, unchecked
from polycast.contexts.resolution import Row

__all__ = [
    "Context",
    "Federation",
    "Finding",
    "Report",
    "Row",
    "Statistics",
    "identity",
    "impure",
    "unchecked",
]
