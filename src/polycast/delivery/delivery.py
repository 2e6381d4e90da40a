"""A callback: how it is called, what it may know about the event, and how it answers."""

from __future__ import annotations

import functools
import inspect
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from polycast.config import seconds
from polycast.errors import BadCallbackError, BadOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polycast.delivery.consumer import Consumer
    from polycast.delivery.queue import Attempt
    from polycast.events import Identity


TABLE = "polycast_handled"
COLUMNS = ("subscription", "publisher", "epoch", "sequence")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Callback:
    """A callable with what was found out about it."""

    function: Callable[..., Any]
    wants_delivery: bool
    is_async: bool


def callback_for(function: object) -> Callback:
    """Look at a callable once: only a second parameter without default gets the delivery."""
    if not callable(function):
        raise BadCallbackError(function, why=f"a {type(function).__name__} cannot be called")
    called = _called(function)
    if any(map(inspect.isgeneratorfunction, called)):
        raise BadCallbackError(
            function, why="it is a generator function, which runs only if iterated"
        )
    if any(map(inspect.isasyncgenfunction, called)):
        why = "it is an async generator function, which runs only if iterated"
        raise BadCallbackError(function, why=why)
    is_async = any(map(inspect.iscoroutinefunction, called))
    return Callback(function, _wants_delivery(function), is_async)


def _called(function: object) -> tuple[object, object]:
    """The function that runs in the end: within partials, or the `__call__` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    return function, None if isinstance(function, type) else getattr(function, "__call__", None)  # noqa: B004


def _wants_delivery(function: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):  # some built-ins tell nothing about themselves
        return False
    for parameter in parameters:
        if (
            parameter.kind is inspect.Parameter.KEYWORD_ONLY
            and parameter.default is parameter.empty
        ):
            raise BadCallbackError(
                function, why=f"it needs the keyword argument {parameter.name!r}"
            )
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    needed = [parameter for parameter in positional if parameter.default is parameter.empty]
    if not positional and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise BadCallbackError(function, why="it takes no argument")
    if len(needed) > 2:
        names = ", ".join(parameter.name for parameter in needed)
        raise BadCallbackError(function, why=f"it needs {len(needed)} arguments ({names})")
    return len(needed) == 2


class EffectTransaction:
    """`with delivery.transaction(conn) as fresh`: commits on success, rolls back on failure."""

    def __init__(self, connection: Any, subscription: str, identity: Identity) -> None:
        for method in ("cursor", "commit", "rollback"):
            if not callable(getattr(connection, method, None)):
                accepted = f"a DB-API connection; this one has no {method}()"
                raise BadOptionError("connection", connection, accepted=accepted)
        self._connection = connection
        self._row = (subscription, identity.publisher, identity.epoch, identity.sequence)

    def __enter__(self) -> bool:
        cursor = self._connection.cursor()
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (subscription VARCHAR(255) NOT NULL, publisher "
            f"VARCHAR(255) NOT NULL, epoch BIGINT NOT NULL, sequence BIGINT NOT NULL, "
            f"PRIMARY KEY (subscription, publisher, epoch, sequence))"
        )
        self._connection.commit()
        marks = _marks(self._connection)
        wanted = " AND ".join(f"{c} = {m}" for c, m in zip(COLUMNS, marks, strict=True))
        cursor.execute(f"SELECT 1 FROM {TABLE} WHERE {wanted}", _row(self._row, marks))
        if cursor.fetchone() is not None:
            return False
        # The primary key decides between two that ask at once: the second insert fails.
        cursor.execute(
            f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({', '.join(marks)})",
            _row(self._row, marks),
        )
        return True

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self._connection.commit()
        else:
            self._connection.rollback()


def _marks(connection: Any) -> tuple[str, ...]:
    module = sys.modules.get(type(connection).__module__.partition(".")[0])
    style = getattr(module, "paramstyle", "qmark")
    return {
        "qmark": ("?",) * 4,
        "format": ("%s",) * 4,
        "numeric": (":1", ":2", ":3", ":4"),
        "named": tuple(f":{name}" for name in COLUMNS),
        "pyformat": tuple(f"%({name})s" for name in COLUMNS),
    }[style]


def _row(row: tuple[object, ...], marks: tuple[str, ...]) -> object:
    by_name = COLUMNS[0] in marks[0]
    return dict(zip(COLUMNS, row, strict=True)) if by_name else row


class Nack(Exception):
    """The callback asks for the event once more."""

    def __init__(self, delay: float | None) -> None:
        self.delay = delay
        super().__init__("not acknowledged by its callback")


class Reject(Exception):
    """The callback does not want to see the event again."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Delivery:
    """One attempt to deliver one event to one subscription."""

    __slots__ = ("_consumer", "_entry", "count", "token")

    def __init__(self, consumer: Consumer, attempt: Attempt) -> None:
        self._consumer, self._entry = consumer, attempt.entry
        doubted = attempt.entry.position < consumer.mailbox.cursor.doubt
        self.count: int = attempt.count + doubted  # one more, if somebody may have begun it
        self.token: int = attempt.token

    @property
    def subscription(self) -> Any:
        """The subscription, as subscribe() returned it."""
        return self._consumer.subscription()

    @property
    def topic(self) -> str | None:
        """The topic it was published to."""
        return self._entry.topic

    @property
    def position(self) -> int:
        """Its place in the total order."""
        return self._entry.position

    @property
    def identity(self) -> Identity:
        """Who published it, in which epoch, as which event."""
        return self._entry.identity

    @property
    def publisher(self) -> str:
        """The name of the bus that published it."""
        return self.identity.publisher

    @property
    def time(self) -> datetime:
        """When it was appended to the log."""
        return datetime.fromtimestamp(self._entry.time, UTC)

    @property
    def headers(self) -> Mapping[str, str]:
        """What its publisher added to it: one for all who get it, so nobody can change it."""
        return MappingProxyType(self._entry.headers or {})

    def ack(self) -> None:
        """It is handled; on a durable bus this returns when that is on disk."""
        self._consumer.mailbox.worker.settle("ack()", self.token, None)

    def nack(self, delay: float | timedelta | None = None) -> None:
        """It is not handled: try again, after a delay if one is given."""
        wait = 0.0 if delay in (0, timedelta(0)) else None
        if delay is not None and wait is None:
            wait = seconds("delay", delay)
        self._consumer.mailbox.worker.settle("nack()", self.token, Nack(wait))

    def reject(self, reason: str = "rejected by its callback") -> None:
        """It can not be handled: to the dead letters with it."""
        self._consumer.mailbox.worker.settle("reject()", self.token, Reject(reason))

    def transaction(self, connection: Any) -> EffectTransaction:
        """Handle it at most once: its identity is kept in the same transaction as the effect."""
        return EffectTransaction(connection, self._consumer.mailbox.name, self.identity)

    def __repr__(self) -> str:
        return f"<Delivery of position {self.position}, attempt {self.count}>"
