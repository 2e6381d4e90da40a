"""Errors as messages to a client."""

from __future__ import annotations

from typing import Any

from polycast.broker.server.log_rate_limit import server_log
from polycast.broker.wire.messages import Refused
from polycast.errors import (
    AccessDeniedError,
    BrokerRefusedError,
    NotSerialisableError,
    PolycastError,
    StoreFailedError,
    StoreReplacedError,
)
from polycast.errors.root import code_of

__all__ = ["BAD_VALUES", "refused"]

BAD_VALUES = (ValueError, OverflowError, RecursionError)  # too large, too deep, contradictory
_log = server_log()


def refused(number: int, error: BaseException) -> Refused:
    """Encode an error as the answer to a request."""
    data: dict[str, Any] = {}
    if isinstance(error, StoreFailedError):
        data = {"path": error.path, "why": error.why, "unknown": error.unknown}
        if isinstance(error, StoreReplacedError):
            data |= {"was": error.was, "now": error.now}
        return Refused(number, "store-failed", str(error), data)
    if isinstance(error, AccessDeniedError):
        data = {"action": error.action, "what": error.what, "token": error.token}
        data |= {"granted": list(error.granted), "needs": error.needs}
    elif isinstance(error, NotSerialisableError):
        data = {"path": error.path, "why": str(error)}
    elif isinstance(error, BAD_VALUES):
        return Refused(number, "bad-value", str(error))
    elif isinstance(error, BrokerRefusedError):
        return Refused(number, error.code, str(error), error.data)
    elif not isinstance(error, PolycastError):
        _log.error("a question could not be answered", exc_info=error)
        return Refused(number, "fault", f"the broker failed: {type(error).__name__}: {error}")
    return Refused(number, code_of(type(error)), str(error), data)
