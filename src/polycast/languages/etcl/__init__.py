"""Filters in the Extended Trader Constraint Language: text, trees, and what its functions do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.filters.tree.language_registry import Component, FilterLanguage
from polycast.languages.etcl.functions import COSTS, FUNCTIONS, EtclInsight
from polycast.languages.etcl.grammar import etcl_text, parse_etcl

if TYPE_CHECKING:
    from polycast.filters.checking.mistakes import Places
    from polycast.filters.tree.nodes import Applied, Node

__all__ = ["ETCL"]


def _component(node: Applied) -> Component | None:
    from polycast.languages.etcl.component_check import component_in  # here: it loads the checker

    return component_in(node)


def _places(tree: Node) -> Places | None:
    from polycast.languages.etcl.component_check import places_in

    return places_in(tree)


ETCL = FilterLanguage(
    "etcl",
    functions=FUNCTIONS,
    costs=COSTS,
    insight=EtclInsight(),
    parse=parse_etcl,
    write=etcl_text,
    component=_component,
    places=_places,
)
