"""How `polycast` gets its names when they are first used: all at once, but for the heavy ones.

So the command line and whoever imports one module do not pay for all. Old names are here, too.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HEAVY", "RENAMED", "lazy_name"]


def _pipeline() -> object:
    from polycast.pipeline import Pipeline

    return Pipeline


def _broker() -> object:
    from polycast.broker import Broker

    return Broker


def _test_bus() -> object:
    from polycast.testing import TestBus

    return TestBus


HEAVY: dict[str, Callable[[], object]] = {
    "Broker": _broker,
    "Pipeline": _pipeline,
    "TestBus": _test_bus,
}

RENAMED = {
    "AccessDenied": "AccessDeniedError",
    "BadCallback": "BadCallbackError",
    "BadCertificate": "BadCertificateError",
    "BadCheckpoint": "BadCheckpointError",
    "BadContext": "BadContextError",
    "BadFrame": "BadFrameError",
    "BadGrant": "BadGrantError",
    "BadOption": "BadOptionError",
    "BadTokens": "BadTokensError",
    "BadTopic": "BadTopicError",
    "BrokerRefused": "BrokerRefusedError",
    "BrokerUnreachable": "BrokerUnreachableError",
    "BusClosed": "BusClosedError",
    "Cancelled": "SubscriptionCancelledError",
    "ContextFrozen": "ContextFrozenError",
    "ContextRefused": "ContextRefusedError",
    "CutOff": "CutOffError",
    "DurableChanged": "DurableChangedError",
    "Exposed": "ExposedError",
    "FilterMistake": "FilterMistakeError",
    "FilterTooCostly": "FilterTooCostlyError",
    "HistoryGone": "HistoryGoneError",
    "LeaseExpired": "LeaseExpiredError",
    "LimitReached": "LimitReachedError",
    "MethodNotHere": "MethodNotHereError",
    "NameClash": "NameClashError",
    "NoHistory": "NoHistoryError",
    "NoRow": "NoRowError",
    "NoSparkForm": "NoSparkFormError",
    "NoSparkType": "NoSparkTypeError",
    "NotAPullCollection": "NotAPullCollectionError",
    "NotAStore": "NotAStoreError",
    "NotAType": "NotATypeError",
    "NotAvailable": "NotAvailableError",
    "NotDecodable": "NotDecodableError",
    "NotRoutable": "NotRoutableError",
    "NotSerialisable": "NotSerialisableError",
    "NotSettled": "NotSettledError",
    "NotShareable": "NotShareableError",
    "NotTranslated": "NotTranslatedError",
    "PipelineFailed": "PipelineFailedError",
    "PipelineTakenOver": "PipelineTakenOverError",
    "PublishUnknown": "PublishUnknownError",
    "QueueFull": "QueueFullError",
    "StoreClosed": "StoreClosedError",
    "StoreDamaged": "StoreDamagedError",
    "StoreFailed": "StoreFailedError",
    "SubscriptionEnded": "SubscriptionEndedError",
    "TakenOver": "TakenOverError",
    "WouldDeadlock": "WouldDeadlockError",
}
"""Errors of before and what they are called now. The old names go with the next release."""


def _old_name(name: str) -> tuple[object, str] | None:
    """What an old name stands for, and its new name."""
    import polycast.errors as errors
    from polycast.bus import SubscribeOptions
    from polycast.contexts import identity
    from polycast.languages.etcl.writer import etcl_text
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
        return HEAVY[name]()
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
        package["__all__"] = public["__all__"]  # last: with it, all are there
    return package
