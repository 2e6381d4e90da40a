"""Descriptions of event types, conformance, and classes made from descriptions."""

from polycast.typesystem.class_kinds import is_interface
from polycast.typesystem.conformance import (
    ancestors,
    conforming,
    conforms,
    conforms_exactly,
    described_conforms,
    described_conforms_exactly,
    directly_conforming,
    interface_of,
)
from polycast.typesystem.describe import describe, describe_all
from polycast.typesystem.descriptions import (
    AttributeDescription,
    ConstantDescription,
    Description,
    MemberDescription,
)
from polycast.typesystem.registry import Registry
from polycast.typesystem.type_expressions import TypeExpression
from polycast.typesystem.wire_names import (
    MainClassWarning,
    check_shareable,
    event,
    is_made,
    warn_main,
    wire_name,
    wire_version,
)

__all__ = [
    "AttributeDescription",
    "ConstantDescription",
    "Description",
    "MainClassWarning",
    "MemberDescription",
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
    "directly_conforming",
    "event",
    "interface_of",
    "is_interface",
    "is_made",
    "warn_main",
    "wire_name",
    "wire_version",
]
