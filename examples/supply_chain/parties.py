"""The four parties: headquarters with the reference types, and three that see all in their way.

A program of one party imports the module of that party, and those of no others.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import polycast as pc
from supply_chain import events
from supply_chain.events import Event, root

PARTIES = {
    "hq": "headquarters",
    "eu": "the EU",
    "us": "the US",
    "uk": "the UK",
}
"""The first has the reference types themselves: it lives in the root."""

MODULES = ["supply_chain.events", "supply_chain.eu", "supply_chain.us", "supply_chain.uk"]


def module_of(party: str) -> Any:
    return events if party == "hq" else import_module(f"supply_chain.{party}")


def context_of(party: str) -> pc.Context:
    if party == "hq":
        return root
    # The file is read here, and not by the module: workers of Spark import that from an archive.
    return _uk() if party == "uk" else module_of(party).context


@cache
def _uk() -> pc.Context:
    path = Path(__file__).with_name("uk.xml")
    return pc.Context.load(path, parent=root, modules=["supply_chain.uk"])


def type_of(party: str, name: str) -> type[Event]:
    """What a party calls a reference type: its own, or that one if it has none."""
    there: type[Event] = getattr(events, name)
    return getattr(module_of(party), f"{party.upper()}{name}", there)
