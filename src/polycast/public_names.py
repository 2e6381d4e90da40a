"""The public names of polycast, each from where it is defined."""

import polycast.errors as errors
import polycast.rules as rules
from polycast.bus import (
    Advertisement,
    Bus,
    Explanation,
    Health,
    PublishOptions,
    Stream,
    SubscribeOptions,
    Subscription,
    SubscriptionHealth,
    Undelivered,
)
from polycast.collections import (
    DAArray,
    DACollection,
    DAList,
    DASortedBag,
    DASortedSet,
    DAStrongBag,
    DAStrongSet,
    DAWeakBag,
    DAWeakSet,
    Supply,
)
from polycast.config import Clock
from polycast.contexts import Context, Federation, Unit, impure, maps_to, transform_with, unchecked
from polycast.delivery import DeadLetter, DeadLetters, Delivery
from polycast.errors import *
from polycast.events import Identity, StructuredEvent, TaggedUnion
from polycast.filters import Filter, conditions, lift, parse_filter
from polycast.formats.xmlrpc import Opaque, filterable_xml, from_xmlrpc, to_xmlrpc
from polycast.matching import Matcher, Selector, all_of, structured, topic
from polycast.stores import Receipt, Retention
from polycast.typesystem import conforming, directly_conforming, event, interface_of

__all__ = [
    "Advertisement",
    "Bus",
    "Clock",
    "Context",
    "DAArray",
    "DACollection",
    "DAList",
    "DASortedBag",
    "DASortedSet",
    "DAStrongBag",
    "DAStrongSet",
    "DAWeakBag",
    "DAWeakSet",
    "DeadLetter",
    "DeadLetters",
    "Delivery",
    "Explanation",
    "Federation",
    "Filter",
    "Health",
    "Identity",
    "Matcher",
    "Opaque",
    "PublishOptions",
    "Receipt",
    "Retention",
    "Selector",
    "Stream",
    "StructuredEvent",
    "SubscribeOptions",
    "Subscription",
    "SubscriptionHealth",
    "Supply",
    "TaggedUnion",
    "Undelivered",
    "Unit",
    "all_of",
    "conditions",
    "conforming",
    "directly_conforming",
    "event",
    "filterable_xml",
    "from_xmlrpc",
    "impure",
    "interface_of",
    "lift",
    "maps_to",
    "parse_filter",
    "rules",
    "structured",
    "to_xmlrpc",
    "topic",
    "transform_with",
    "unchecked",
]
__all__ += errors.__all__
