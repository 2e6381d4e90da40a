"""The options of publish and subscribe, checked and made whole."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from polycast.config import (
    LARGEST,
    UNICODE,
    Isolation,
    Settings,
    check_name,
    is_unicode,
    level_named,
    level_of,
    seconds,
)
from polycast.errors import BadOptionError
from polycast.events import Identity
from polycast.matching import Interest, check_topic
from polycast.routing.publish_codegen import PublishMetadata

if TYPE_CHECKING:
    from polycast.config import Clock, DeliveryName, Dispatch, Level, LevelName, OrderName, Overflow
    from polycast.delivery import Callback

EngineName = Literal["direct", "spark"]
RENAMED = {"ack_within": "ack_timeout"}
ENGINES: tuple[EngineName, ...] = ("direct", "spark")


class SubscribeOptions(TypedDict, total=False):
    """How to subscribe."""

    exact: bool
    topic: str
    group: str
    durable: str
    replace: bool
    since: Literal["beginning"] | int | datetime
    lease: float | timedelta
    level: LevelName
    delivery: DeliveryName
    order: OrderName
    dispatch: Dispatch
    queue: int
    overflow: Overflow
    block_for: float | timedelta
    ack: Literal["auto", "manual"]
    ack_timeout: float | timedelta
    ack_within: float | timedelta  # what ack_timeout was called; it goes with the next release
    attempts: int
    backoff: float | timedelta
    engine: EngineName
    pinned: bool
    copy: bool


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """What is to be subscribed to, how, and with which callback; all options are checked."""

    interest: Interest
    settings: Settings
    callback: Callback | None
    since: object
    lease: float | None
    replace: bool
    pinned: bool
    engine: EngineName


class PublishOptions(TypedDict, total=False):
    """What to publish an event with."""

    topic: str | None
    priority: int
    expires: float | timedelta | datetime | None
    headers: Mapping[str, str] | None
    identity: Identity | None


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse what nobody knows and what is not there yet."""
    for name, value in options.items():
        if name not in SubscribeOptions.__annotations__:
            known = [*(set(SubscribeOptions.__annotations__) - RENAMED.keys()), "where"]
            raise BadOptionError.unknown(name, value, sorted(known))
        if name in RENAMED:
            warnings.warn(
                f"{name}= is called {RENAMED[name]}= now, and goes with the next release",
                DeprecationWarning,
                stacklevel=4,
            )
    for name in ("group", "durable"):
        if options.get(name) is not None:
            check_name(name, options[name])
    for name in ("exact", "replace", "pinned", "copy"):
        if not isinstance(options.get(name, False), bool):
            raise BadOptionError(name, options[name], accepted="True or False")
    if options.get("replace") and options.get("durable") is None:
        raise BadOptionError("replace", True, accepted="it goes with durable='name'")
    engine = options.get("engine", "direct")
    if engine not in ENGINES:
        raise BadOptionError.choice("engine", engine, ENGINES)
    if engine == "spark" and options.get("durable") is None:
        why = "the pipeline routes for names that are kept in the store"
        raise BadOptionError("engine", "spark", accepted="it goes with durable='name'", why=why)
    if options.get("ack", "auto") not in ("auto", "manual"):
        raise BadOptionError.choice("ack", options["ack"], ["auto", "manual"])


def check_isolation(given: object) -> bool:
    """Whether all subscribers of a bus in memory have copies."""
    if given not in get_args(Isolation):
        raise BadOptionError.choice("isolation", given, get_args(Isolation))
    return given == "copy"


def settings_for(
    options: Mapping[str, Any], *, pull: Literal["fifo", "lifo"] | None, copy: bool = False
) -> Settings:
    """The settings of a subscription, with the defaults of its level."""
    level = _level(options)
    overflow: Overflow = "cut_off" if level.reliable else "drop_oldest"
    if options.get("durable") is not None:
        overflow = "spill"
    within = options.get("ack_timeout", options.get("ack_within"))
    return Settings(
        level=level,
        dispatch=options.get("dispatch", "pool"),
        queue=options.get("queue", 10_000),
        overflow=options.get("overflow", overflow),
        block_for=seconds("block_for", options.get("block_for", 5.0)),
        manual_ack=options.get("ack", "auto") == "manual",
        ack_timeout=None if within is None else seconds("ack_timeout", within),
        attempts=options.get("attempts", 5),
        backoff=seconds("backoff", options.get("backoff", 0.1)),
        pull=pull,
        copy=copy,
    )


def _level(options: Mapping[str, Any]) -> Level:
    """The level, by the paper's name or by what is promised."""
    delivery, order = options.get("delivery"), options.get("order")
    if (name := options.get("level")) is not None:
        if delivery is not None or order is not None:
            why = "a level says both"
            accepted = "level=, or delivery= and order="
            raise BadOptionError("level", name, accepted=accepted, why=why)
        return level_named(name)
    grouped = options.get("group") is not None
    return level_of(delivery, order, default="strong_set" if grouped else "sorted_set")


def check_dispatch(settings: Settings, callback: Callback) -> None:
    """A coroutine function cannot run in the publisher's thread."""
    if callback.is_async and settings.dispatch == "inline":
        accepted = "'pool' for an async callback, which runs in an event loop in any case"
        raise BadOptionError("dispatch", "inline", accepted=accepted)


def label_of(options: Mapping[str, Any], clock: Clock, context: str | None) -> PublishMetadata:
    """The checked options of one publish, as the dispatcher takes them."""
    if not options:
        return PublishMetadata(context=context)
    for name, value in options.items():
        if name not in PublishOptions.__annotations__:
            raise BadOptionError.unknown(name, value, PublishOptions.__annotations__)
    topic, headers = options.get("topic"), options.get("headers")
    return PublishMetadata(
        None if topic is None else check_topic(topic),
        _priority(options.get("priority", 0)),
        _expiry(options.get("expires"), clock),
        None if headers is None else _headers(headers),
        _identity(options.get("identity")),
        context,
    )


def _priority(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise BadOptionError(
            "priority", given, accepted="a whole number; 0 is ordinary, more is sooner"
        )
    if not -LARGEST <= given <= LARGEST:
        raise BadOptionError("priority", given, accepted=f"at most {LARGEST}, or as much below 0")
    return given


def _expiry(given: object, clock: Clock) -> float | None:
    """When it expires, by the wall clock."""
    if given is None:
        return None
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise BadOptionError("expires", given, accepted="a datetime with a time zone")
        return given.timestamp()
    if isinstance(given, int | float | timedelta):
        return clock.time() + seconds("expires", given)
    accepted = "seconds from now, a timedelta, or a datetime with a time zone"
    raise BadOptionError("expires", given, accepted=accepted)


def _headers(given: object) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) for pair in given.items() for text in pair
    ):
        raise BadOptionError("headers", given, accepted="a mapping from strings to strings")
    if not all(is_unicode(text) for pair in given.items() for text in pair):
        raise BadOptionError("headers", given, accepted=f"strings {UNICODE}")
    return dict(given)


def _identity(given: object) -> Identity | None:
    if given is not None and not isinstance(given, Identity):
        accepted = "the identity of a receipt, or of PublishUnknownError"
        raise BadOptionError("identity", given, accepted=accepted)
    return given
