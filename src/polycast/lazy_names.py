"""How `polycast` gets its names when they are first used: all at once, but for the heavy ones.

So the command line and whoever imports one module do not pay for all. Old names are here, too.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

HEAVY = ("Broker", "Pipeline", "TestBus")

_WITHOUT_ERROR = """
    AccessDenied BadCallback BadCertificate BadCheckpoint BadContext BadFrame BadGrant
    BadOption BadTokens BadTopic BrokerRefused BrokerUnreachable BusClosed ContextFrozen
    ContextRefused CutOff DurableChanged Exposed FilterMistake FilterTooCostly HistoryGone
    LeaseExpired LimitReached MethodNotHere NameClash NoHistory NoRow NoSparkForm
    NoSparkType NotAPullCollection NotAStore NotAType NotAvailable NotDecodable NotRoutable
    NotSerialisable NotSettled NotShareable NotTranslated PipelineFailed PipelineTakenOver
    PublishUnknown QueueFull StoreClosed StoreDamaged StoreFailed SubscriptionEnded
    TakenOver WouldDeadlock
"""
RENAMED = {old: f"{old}Error" for old in _WITHOUT_ERROR.split()}
RENAMED["Cancelled"] = "SubscriptionCancelledError"
"""Former names of errors, and what they are called now. The next release drops them."""


def _heavy_name(name: str) -> object:
    match name:
        case "Broker":
            from polycast.broker import Broker

            return Broker
        case "Pipeline":
            from polycast.pipeline import Pipeline

            return Pipeline
        case _:
            from polycast.testing import TestBus

            return TestBus


def _old_name(name: str) -> tuple[object, str] | None:
    """What an old name stands for, and its new name."""
    import polycast.errors as errors
    from polycast.bus import SubscribeOptions
    from polycast.contexts import identity
    from polycast.languages.etcl.grammar import etcl_text
    from polycast.languages.xpath.writer import xpath_text

    moved: dict[str, tuple[object, str]] = {
        "Options": (SubscribeOptions, "SubscribeOptions"),
        "etcl_text": (etcl_text, "Filter.to_etcl()"),
        "identity": (identity, "rules.identity"),
        "xpath_text": (xpath_text, "Filter.to_xpath()"),
    }
    if name in moved:
        return moved[name]
    new = RENAMED.get(name)
    return None if new is None else (getattr(errors, new), new)


def lazy_name(name: str) -> Any:
    """A name of `polycast` that is not there yet; `AttributeError` if there is none."""
    if name in HEAVY:
        return _heavy_name(name)
    if name == "__all__" or not name.startswith("_"):
        names = _all_names()
        if name in names:
            return names[name]
        if old := _old_name(name):
            value, new = old
            warnings.warn(
                f"polycast.{name} is called polycast.{new} now, and goes with the next release",
                DeprecationWarning,
                stacklevel=2,
            )
            return value
    raise AttributeError(f"module 'polycast' has no attribute {name!r}")


def _all_names() -> dict[str, object]:
    """What `polycast` holds once its public names, and with them its modules, are loaded."""
    import polycast.public_names

    package = vars(sys.modules["polycast"])
    if "__all__" not in package:
        public = vars(polycast.public_names)
        package.update({name: public[name] for name in public["__all__"]})
        package["__all__"] = sorted(public["__all__"])  # last: with it, all are there
    return package
