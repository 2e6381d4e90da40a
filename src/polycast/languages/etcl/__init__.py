"""Filters in the Extended Trader Constraint Language: text, trees, and what its functions do."""

from polycast.filters.tree.language_registry import FilterLanguage
from polycast.languages.etcl.component_check import component_in, places_in
from polycast.languages.etcl.function_costs import COSTS
from polycast.languages.etcl.functions import FUNCTIONS, EtclInsight
from polycast.languages.etcl.grammar import parse_etcl
from polycast.languages.etcl.writer import etcl_text

__all__ = ["ETCL"]

ETCL = FilterLanguage(
    "etcl",
    functions=FUNCTIONS,
    costs=COSTS,
    insight=EtclInsight(),
    parse=parse_etcl,
    write=etcl_text,
    component=component_in,
    places=places_in,
)
