"""Federation: contexts, mappings and transformation rules."""

from polycast.contexts.check.findings import Finding, Report
from polycast.contexts.declare.context import Context
from polycast.contexts.declare.rule_functions import identity, impure, unchecked
from polycast.contexts.declare.statements import maps_to, transform_with
from polycast.contexts.declare.units import Unit
from polycast.contexts.resolve.resolution import ResolvedRule
from polycast.contexts.run.federation import Federation
from polycast.contexts.run.member import FederationMember, Statistics

__all__ = [
    "Context",
    "Federation",
    "FederationMember",
    "Finding",
    "Report",
    "ResolvedRule",
    "Statistics",
    "Unit",
    "identity",
    "impure",
    "maps_to",
    "transform_with",
    "unchecked",
]
