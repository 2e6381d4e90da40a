"""The connection of a client to one of its brokers: it comes back by itself, and asks again.

One thread receives and one sends; what several say at once goes as one frame. Whoever asks does not
wait for the network. A question stays until it is answered, over as many connections as that takes.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from polycast.broker.client.remote_errors import OF_OWNER, error_of
from polycast.broker.wire.frames import decode_from_broker, encode, frames
from polycast.broker.wire.messages import (
    PATH,
    PROTOCOL,
    Answer,
    Done,
    Events,
    Hello,
    Limits,
    Refused,
    Wanted,
    Welcome,
)
from polycast.errors import (
    AccessDeniedError,
    BadFrameError,
    BrokerRefusedError,
    BrokerUnreachableError,
    LimitReachedError,
    NotAvailableError,
    PolycastError,
    StoreClosedError,
    TokenExposedError,
    WouldDeadlockError,
)
from polycast.forks import Home
from polycast.locks import InterruptibleFuture, check_free, interrupted, is_mine, others_wait
from polycast.plain_text import log_of, plain

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable

    from polycast.broker.client.address import Address
    from polycast.broker.client.client_socket import Socket
    from polycast.broker.wire.messages import FromBroker, FromClient
    from polycast.config import Clock

__all__ = ["Connection", "ConnectionOptions", "Handlers"]

SOONEST, LATEST = 0.05, 5.0  # seconds between two attempts to connect
STEADY = 1.0  # seconds that a connection has to last, or the next one comes later
FRAME = 250_000  # bytes that are sent as one frame, unless one message is larger
_log = log_of("polycast")


class ConnectionOptions:
    """How brokers are reached."""

    def __init__(
        self,
        addresses: list[Address],
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        program: str = "",
        within: float = 10.0,
        allow_plain_token: bool = False,
    ) -> None:
        for each in addresses:
            if token is not None and not each.is_private and not allow_plain_token:
                raise TokenExposedError(str(each))
        self.addresses, self.token, self.tls, self.program = addresses, token, tls, program
        self.within = within  # seconds to connect, and to be answered


class Handlers:
    """What happens to what a broker says by itself."""

    def resumed(self) -> Iterable[FromClient]:
        """It is connected, again or for the first time; what is to be said before all else."""
        return ()

    def brought(self, events: Events) -> None:
        """There are events, or there is progress."""

    def stopped(self, error: Exception) -> None:
        """Nothing more comes, for a while or for good."""


class Connection:
    """Asks, tells and hears. `failure` says why it never will again."""

    def __init__(self, options: ConnectionOptions, handlers: Handlers, clock: Clock) -> None:
        self._options, self._handlers, self._clock = options, handlers, clock
        self._client = uuid.uuid4().hex
        self._lock = threading.RLock()
        self._numbers = 0
        self._pending: dict[int, tuple[bytes, Future[Any]]] = {}
        self._waiting: deque[bytes] = deque()
        self._socket: Socket | None = None  # None while there is no connection
        self._closed = threading.Event()
        self.home = Home("this connection to a broker")
        self.failure: Exception | None = None
        self.trouble: Exception | None = None  # why it was lost, until a broker has answered again
        self.limits = Limits()
        self.origin = 0.0  # what the clock of the broker is ahead of the monotonic one here
        self.welcome: Welcome | None = None
        self.times = 0  # how often it has connected
        self._turn = 0  # whose turn it is of the addresses
        self._thread = threading.Thread(target=self._run, name="polycast-remote", daemon=True)

    def open(self) -> None:
        """Connect, or say why that cannot be."""
        error: Exception | None = None
        for _ in self._options.addresses:
            try:
                self._connect()
                self._thread.start()
                return
            except (OSError, TimeoutError, BrokerUnreachableError) as found:
                error = error or found
                self._turn += 1
        places = ", ".join(map(str, self._options.addresses))
        raise BrokerUnreachableError(places, why=_why(error))

    @property
    def is_up(self) -> bool:
        """Whether it is connected now."""
        return self._socket is not None

    def check_wait(self, operation: str) -> None:
        """Refuse a thread that has to go on before an answer can come."""
        self.home.check(operation)
        socket, here = self._socket, threading.current_thread()
        if here is self._thread or (socket is not None and socket.needs(here)):
            why = "it is called in the thread that speaks with the broker"
            raise WouldDeadlockError(operation, why=why)
        check_free(operation, self._lock)

    # -- asking ------------------------------------------------------------------------------------

    def ask(self, question: Callable[[int], FromClient]) -> Future[Any]:
        """Ask; the answer comes, however often the connection is lost meanwhile."""
        self.home.check("asking a broker")
        future: Future[Any] = InterruptibleFuture()
        future.set_running_or_notify_cancel()
        if is_mine(self._lock):
            future.set_exception(interrupted("a question"))
            return future
        with self._lock:
            if self.failure is not None or self._closed.is_set():
                future.set_exception(self._reason())
                return future
            self._numbers += 1
            number = self._numbers
            data = encode(question(number))
            if len(data) + 5 > self.limits.frame:
                text = (
                    f"{len(data)} bytes in one message; the broker takes up to "
                    f"{self.limits.frame}. Publish less at a time, or raise its --frame-limit"
                )
                future.set_exception(LimitReachedError("too-large", text))
                return future
            self._pending[number] = data, future
            self._waiting.append(data)
        self._flush()
        return future

    def answer(self, question: Callable[[int], FromClient], *, within: float | None = None) -> Any:
        """Ask, and wait for the answer."""
        self.check_wait("a question")
        within = self._options.within if within is None else within
        try:
            return self.ask(question).result(within)
        except TimeoutError:
            raise self.unreachable(within) from None

    def unreachable(self, within: float) -> BrokerUnreachableError:
        """What is told of an answer that does not come."""
        places = ", ".join(map(str, self._options.addresses))
        return BrokerUnreachableError(places, why=f"it has not answered within {within:g} s")

    def tell(self, message: FromClient) -> None:
        """Say something that need not be said again on another connection."""
        self.home.check("telling a broker something")
        with self._lock:
            if self._socket is None:
                return
            self._waiting.append(encode(message))
        self._flush()

    def _flush(self) -> None:
        """Have what waits sent; nobody waits for that."""
        socket = self._socket
        if socket is not None:
            socket.ring()

    def _said_at(self, socket: Socket) -> Iterable[bytes]:
        """What waits, as frames for a connection; what it cannot send the next one does."""
        with self._lock:
            if socket is not self._socket:
                return ()
            waiting = list(self._waiting)
            self._waiting.clear()
        return frames(waiting, min(FRAME, self.limits.frame))

    @property
    def unanswered(self) -> int:
        """Bytes of the questions that are not answered yet, sent or not."""
        with self._lock:
            return sum(len(data) for data, _ in self._pending.values())

    # -- hearing -----------------------------------------------------------------------------------

    def _run(self) -> None:
        with others_wait():
            self._hear_all()

    def _hear_all(self) -> None:
        pause = 0.0
        while not self._closed.is_set() and self.failure is None:
            began = time.monotonic()
            try:
                self._hear()
            except Exception as error:
                self._lost(error)
                # A broker that only lets go is asked ever more seldom.
                pause = min(max(2 * pause, SOONEST), LATEST) if _is_soon(began) else 0.0
                self._rest(LATEST if _is_for_room(error) else pause)
            if self._closed.is_set() or self.failure is not None:
                return
            self._connect_again()

    def _hear(self) -> None:
        socket = self._socket
        if socket is None:
            raise StoreClosedError
        heartbeat = self.limits.heartbeat if self.limits.heartbeat > 0 else None
        heard, is_asked = socket.heard, False  # whether it was pinged since it was last heard
        while True:
            try:
                frame = socket.recv(heartbeat)
            except TimeoutError:
                is_silent, heard = socket.heard == heard, socket.heard
                if is_silent and is_asked:
                    why = f"nothing was heard for {2 * self.limits.heartbeat:g} s"
                    raise TimeoutError(why) from None
                if is_silent:
                    socket.ping()
                is_asked = is_silent
                continue
            heard, is_asked = socket.heard, False
            for message in decode_from_broker(frame):
                self._heard(message)

    def _heard(self, message: FromBroker) -> None:
        if not isinstance(message, Refused):  # it is well: what is lost from now on is new
            self.trouble = None
        match message:
            case Events():
                self._handlers.brought(message)
            case Answer():
                self._settle(message.number, message.result)
            case Done() | Wanted():
                self._settle(message.number, message)
            case Refused(number=0):
                raise error_of(message)
            case Refused():
                with self._lock:
                    _, future = self._pending.pop(message.number, (b"", None))
                if future is not None:
                    with suppress(InvalidStateError):
                        future.set_exception(error_of(message))
            case Welcome():
                raise BadFrameError("`welcome`", why="it was said before")

    def _settle(self, number: int, result: Any) -> None:
        with self._lock:
            _, future = self._pending.pop(number, (b"", None))
        if future is not None:
            with suppress(InvalidStateError):
                future.set_result(result)

    def _lost(self, error: Exception) -> None:
        with self._lock:
            socket, self._socket = self._socket, None
            self._waiting.clear()
        if socket is not None:
            socket.cut()
        if _is_final(error):
            self._fail(error)
        elif not self._closed.is_set():
            if str(error) != str(self.trouble):  # once, however often it comes to the same end
                _log.warning("the connection to the broker was lost: %s", _why(error))
            self.trouble = error
            self._handlers.stopped(error)

    def _rest(self, seconds: float) -> None:
        """Wait, unless it is closed; with jitter, so that not all come back together."""
        self._closed.wait(seconds * (0.5 + random.random()))  # noqa: S311  (no secret)

    def _fail(self, error: Exception) -> None:
        """Never again."""
        with self._lock:
            self.failure, self.trouble = error, None
            pending, self._pending = self._pending, {}
        for _, future in pending.values():
            with suppress(InvalidStateError):
                future.set_exception(self._reason())
        self._handlers.stopped(error)

    def _reason(self) -> Exception:
        """An error of its own for each who asks."""
        return StoreClosedError() if self.failure is None else _another(self.failure)

    # -- connecting --------------------------------------------------------------------------------

    def _connect_again(self) -> None:
        pause = SOONEST
        while not self._closed.is_set():
            try:
                self._connect()
                return
            except Exception as error:
                if _is_final(error):
                    self._fail(error)
                    return
                self.trouble = error
                self._handlers.stopped(error)
            self._turn += 1
            if self._turn % len(self._options.addresses) == 0:
                self._rest(pause)
                pause = min(pause * 2, LATEST)

    def _connect(self) -> None:
        address = self._options.addresses[self._turn % len(self._options.addresses)]
        connect, kind = _library()
        headers = {}
        if self._options.token is not None:
            headers["Authorization"] = f"Bearer {self._options.token}"
        try:
            opening = connect(
                address.uri(PATH),
                ssl=self._options.tls if address.is_secure else None,
                additional_headers=headers,
                compression=None,
                proxy=None,
                open_timeout=self._options.within,
                close_timeout=1.0,
                ping_interval=None,  # the broker says how often, and who hears does it
                max_size=None,
                max_queue=64,
                user_agent_header=None,
                create_connection=kind,
            )
            socket: Socket = opening.__enter__()  # it lasts longer than any block
        except OSError:
            raise
        except Exception as error:
            raise _refusal(address, error) from None
        try:
            self._shake_hands(socket, address)
        except BaseException as error:
            socket.cut()
            if isinstance(error, PolycastError | OSError) or not isinstance(error, Exception):
                raise
            raise BrokerUnreachableError(str(address), why=_why(error)) from None

    def _shake_hands(self, socket: Socket, address: Address) -> None:
        asked = self._clock.monotonic()
        socket.send(
            next(frames([encode(Hello(PROTOCOL, self._client, self._options.program[:200]))], 1))
        )
        messages = decode_from_broker(socket.recv(self._options.within))
        first, rest = (messages[0] if messages else None), messages[1:]
        if isinstance(first, Refused):
            raise error_of(first)
        if not isinstance(first, Welcome):
            raise BadFrameError("the first message of the broker", why="it is not `welcome`")
        if self.welcome is not None and first.store != self.welcome.store:
            text = (
                f"the broker at {address} has another store than the one this bus was opened with; "
                f"open a new bus"
            )
            raise BrokerRefusedError("another-store", text)
        heard = self._clock.monotonic()
        self.origin = first.time - (asked + heard) / 2
        self.welcome, self.limits = first, first.limits
        socket.take_from(lambda: self._said_at(socket))
        with self._lock:
            if self._closed.is_set():
                raise StoreClosedError
            said = [encode(message) for message in self._handlers.resumed()]
            self._waiting.clear()
            self._waiting.extend(said)
            self._waiting.extend(self._pending[number][0] for number in sorted(self._pending))
            self._socket = socket
            self.times += 1
        for message in rest:
            self._heard(message)
        self._flush()

    def close(self) -> None:
        """Say no more; what was not answered never will be."""
        if self.home.is_elsewhere():
            return  # closing would end the connection of the parent
        self._closed.set()
        with self._lock:
            socket = self._socket
            self._waiting.clear()
            pending, self._pending = self._pending, {}
        for _, future in pending.values():
            with suppress(InvalidStateError):
                future.set_exception(StoreClosedError())
        if socket is not None:
            with suppress(Exception):
                socket.close()
            socket.cut()
            socket.join(2.0)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(2.0)


def _another(error: Exception) -> Exception:
    """An error that says the same: who raises it adds to it where it was raised."""
    found = type(error).__new__(type(error), *error.args)
    found.__dict__.update(error.__dict__)
    return found


def _is_soon(began: float) -> bool:
    """Whether a connection was lost before it was of use."""
    return time.monotonic() - began < STEADY


def _is_final(error: Exception) -> bool:
    """Whether it would be the same on the next attempt."""
    if _is_for_room(error):
        return False
    return isinstance(error, BadFrameError | BrokerRefusedError | AccessDeniedError)


def _is_for_room(error: Exception) -> bool:
    """Whether others of the same owner have all that it may have; they may go."""
    return isinstance(error, LimitReachedError) and error.code.endswith(OF_OWNER)


def _library() -> tuple[Any, type[Socket]]:
    try:
        from websockets.sync.client import connect

        from polycast.broker.client.client_socket import Socket
    except ImportError:
        raise NotAvailableError(
            "a remote bus", why="it needs websockets", instead="pip install 'polycast[client]'"
        ) from None
    return connect, Socket


def _refusal(address: Address, error: Exception) -> Exception:
    """Why a WebSocket could not be opened."""
    response = getattr(error, "response", None)
    if response is None:
        return BrokerUnreachableError(str(address), why=_why(error))
    text = plain(bytes(response.body or b"").decode(errors="replace").strip()[:1_000])
    if response.status_code == HTTPStatus.MISDIRECTED_REQUEST:
        return BrokerRefusedError("other-host", f"{address}: {text}")
    if response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS):
        return AccessDeniedError("connect", f"to {address}", token=None)  # a good one is let in
    if response.status_code == HTTPStatus.FORBIDDEN:
        return BrokerRefusedError("forbidden", f"{address}: {text}")
    return BrokerUnreachableError(
        str(address), why=f"it answers {response.status_code} {text}".strip()
    )


def _why(error: Exception | None) -> str:
    if isinstance(error, BrokerUnreachableError):  # as it says of one address what is told of all
        return error.why
    return "nobody answers" if error is None else str(error) or type(error).__name__
