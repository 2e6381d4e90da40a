"""Descriptions of event types, conformance, and classes made from descriptions."""

from polycast.typesystem.conformance import (
    ancestors,
    described_conforms,
    described_conforms_exactly,
    described_interface,
)
from polycast.typesystem.describing import describe, describe_all
from polycast.typesystem.descriptions import Attribute, Constant, Description, Member
from polycast.typesystem.expressions import TypeExpression
from polycast.typesystem.kinds import is_interface
from polycast.typesystem.naming import (
    MainClassWarning,
    check_shareable,
    event,
    is_made,
    warn_main,
    wire_name,
    wire_version,
)
from polycast.typesystem.population import conforming, directly_conforming
from polycast.typesystem.registry import Registry
from polycast.typesystem.verdicts import conforms, conforms_exactly, interface_of

__all__ = [
    "Attribute",
    "Constant",
    "Description",
    "MainClassWarning",
    "Member",
    "Registry",
    "TypeExpression",
    "ancestors",
    "check_shareable",
    "conforming",
    "conforms",
    "conforms_exactly",
    "describe",
    "describe_all",
    "described_conforms",
    "described_conforms_exactly",
    "described_interface",
    "directly_conforming",
    "event",
    "interface_of",
    "is_interface",
    "is_made",
    "warn_main",
    "wire_name",
    "wire_version",
]
