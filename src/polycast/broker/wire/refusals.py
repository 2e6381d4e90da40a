"""Errors on the wire: encoded by a broker, and decoded as those that a local store would raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.broker.wire.messages import Refused
from polycast.errors import (
    AccessDeniedError,
    BrokerRefusedError,
    LimitReachedError,
    NotSerialisableError,
    PolycastError,
    StoreFailedError,
    StoreReplacedError,
)
from polycast.errors.root import code_of
from polycast.plain_text import log_of

if TYPE_CHECKING:
    from collections.abc import Callable


BAD_VALUES = (ValueError, OverflowError, RecursionError)  # too large, too deep, contradictory
_log = log_of("polycast.broker")  # whose rate the server limits


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


OF_OWNER = "-of-owner"
"""The suffix of codes of quotas, which all connections of an owner share."""
_LIMITS = frozenset(
    {"answers", "definition", "rate", "subscriptions", "steps", "too-large", "types"}
)


def error_of(refused: Refused) -> Exception:
    """The error in a message."""
    make = _ERRORS.get(refused.code)
    if make is not None:
        return make(refused.text, refused.data)
    is_limit = refused.code in _LIMITS or refused.code.endswith(OF_OWNER)
    kind = LimitReachedError if is_limit else BrokerRefusedError
    return kind(refused.code, refused.text, refused.data)


def _denied(text: str, data: dict[str, Any]) -> Exception:
    token, granted = data.get("token"), data.get("granted")
    return AccessDeniedError(
        str(data.get("action", "do")),
        str(data.get("what", text)),
        token=None if token is None else str(token),
        granted=map(str, granted) if isinstance(granted, list) else (),
        needs=str(data.get("needs", "")),
    )


def _failed(text: str, data: dict[str, Any]) -> Exception:
    path, why = str(data.get("path", "the store")), str(data.get("why", text))
    unknown, was, now = bool(data.get("unknown", True)), data.get("was"), data.get("now")
    if was is not None and now is not None:
        return StoreReplacedError(path, str(was), str(now), unknown=unknown)
    return StoreFailedError(path, why=why, unknown=unknown)


def _not_serialisable(text: str, data: dict[str, Any]) -> Exception:
    why = str(data.get("why", text))
    return NotSerialisableError("an event", path=str(data.get("path", "")), why=why)


_ERRORS: dict[str, Callable[[str, dict[str, Any]], Exception]] = {
    "access-denied": _denied,
    "store-failed": _failed,
    "not-serialisable": _not_serialisable,
    "bad-value": lambda text, data: ValueError(text),
}
