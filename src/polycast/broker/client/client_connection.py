"""The connection of a client to a broker: it reconnects by itself, and repeats its requests.

One thread receives. A single request is sent by the thread that makes it; those of several go as
one frame. None blocks on the network: it stays pending until it is answered, over as many
connections as that takes.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from polycast.broker.client.dialer import Address, Dialer, reason_of
from polycast.broker.wire.protocol import (
    OF_OWNER,
    PROTOCOL,
    Answer,
    Done,
    Events,
    Hello,
    Limits,
    Refused,
    Wanted,
    Welcome,
    decode_from_broker,
    encode,
    error_of,
    frames,
)
from polycast.errors import (
    AccessDeniedError,
    BadFrameError,
    BrokerRefusedError,
    BrokerUnreachableError,
    LimitReachedError,
    PolycastError,
    StoreClosedError,
    TokenExposedError,
    WouldDeadlockError,
)
from polycast.plain_text import log_of
from polycast.runtime import SYSTEM, Home, Runtime, check_free, interrupted, is_mine, others_wait

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable

    from polycast.broker.client.client_socket import ClientSocket
    from polycast.broker.wire.protocol import FromBroker, FromClient
    from polycast.config import Clock


class PendingRequests:
    """Encoded requests and the futures of their answers, by number. `lock` guards them."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._last = 0
        self._requests: dict[int, tuple[bytes, Future[Any]]] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._requests)

    def add(self, request: Callable[[int], FromClient], future: Future[Any], limit: int) -> bytes:
        """Add a request; empty if it is too large for a frame. The lock is held."""
        self._last += 1
        data = encode(request(self._last))
        if len(data) + 5 > limit:
            text = (
                f"{len(data)} bytes in one message; the broker takes up to {limit}. Publish less "
                f"at a time, or raise its --frame-limit"
            )
            future.set_exception(LimitReachedError("too-large", text))
            return b""
        self._requests[self._last] = data, future
        return data

    def messages(self) -> list[bytes]:
        """All encoded requests, to send them over another connection. The lock is held."""
        return [self._requests[number][0] for number in sorted(self._requests)]

    def settle(self, number: int, answer: Any) -> None:
        """Resolve a request, or fail it with an error."""
        with self._lock:
            _, future = self._requests.pop(number, (b"", None))
        if future is not None:
            with suppress(InvalidStateError):
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def fail_all(self, error: Callable[[], Exception]) -> None:
        """Fail all requests, each with an error of its own."""
        with self._lock:
            requests, self._requests = self._requests, {}
        for _, future in requests.values():
            with suppress(InvalidStateError):
                future.set_exception(error())

    @property
    def size(self) -> int:
        """Bytes of all requests, sent or not."""
        with self._lock:
            return sum(len(data) for data, _ in self._requests.values())


SOONEST, LATEST = 0.05, 5.0  # seconds between two attempts to connect
STEADY = 1.0  # seconds that a connection has to last, or the next attempt comes later
GOODBYE = 1.0  # seconds for the broker to answer that it is left
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
        for address in addresses:
            if token is not None and not address.is_private and not allow_plain_token:
                raise TokenExposedError(str(address))
        self.addresses, self.token, self.tls, self.program = addresses, token, tls, program
        self.within = within  # seconds to connect, and to be answered


class ConnectionHandlers:
    """What happens when a broker sends something without a request."""

    def resumed(self) -> Iterable[FromClient]:
        """It is connected, for the first time or again; the messages to send first."""
        return ()

    def brought(self, events: Events) -> None:
        """Receive events, or progress without events."""

    def stopped(self, error: Exception) -> None:
        """The connection is lost, for a while or for good."""


class BrokerConnection:
    """Sends requests and receives answers and events. `failure` is why it has ended for good."""

    def __init__(
        self,
        options: ConnectionOptions,
        handlers: ConnectionHandlers,
        clock: Clock,
        *,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self._options, self._handlers, self._clock = options, handlers, clock
        self._runtime = runtime
        self._client = runtime.token(16)
        self._lock = runtime.rlock()
        self.pending = PendingRequests(self._lock)
        self._unsent: deque[bytes] = deque()
        self._socket: ClientSocket | None = None  # None while there is no connection
        self._closed = runtime.event()
        self.home = Home("this connection to a broker")
        self.failure: Exception | None = None
        self.trouble: Exception | None = None  # why it was lost, until a broker answers again
        self.limits = Limits()
        self.origin = 0.0  # the broker's time when the monotonic clock here was 0
        self.welcome: Welcome | None = None
        self.times = 0  # how often it has connected
        self._dialer = Dialer(options, dial=runtime.dial)
        self._thread = runtime.thread(self._run, name="polycast-remote")

    def open(self) -> None:
        """Connect; raises `BrokerUnreachableError` if no address can be reached."""
        first: Exception | None = None
        for _ in self._options.addresses:
            try:
                self._connect()
                self._thread.start()
                return
            except (OSError, TimeoutError, BrokerUnreachableError) as error:
                first = first or error
                self._dialer.advance()
        raise self._dialer.unreachable(reason_of(first))

    @property
    def is_up(self) -> bool:
        """Whether it is connected now."""
        return self._socket is not None

    def check_wait(self, operation: str) -> None:
        """Refuse to block a thread on which an answer depends."""
        self.home.check(operation)
        socket, here = self._socket, threading.current_thread()
        if here is self._thread or (socket is not None and socket.needs(here)):
            why = "it is called in the thread that speaks with the broker"
            raise WouldDeadlockError(operation, why=why)
        check_free(operation, self._lock, *(() if socket is None else (socket.writing,)))

    # -- sending -----------------------------------------------------------------------------------

    def ask(self, request: Callable[[int], FromClient]) -> Future[Any]:
        """Send a request; its answer comes however often the connection is lost meanwhile."""
        self.home.check("asking a broker")
        future: Future[Any] = self._runtime.future()
        future.set_running_or_notify_cancel()
        if is_mine(self._lock):
            future.set_exception(interrupted("a question"))
            return future
        with self._lock:
            if self.failure is not None or self._closed.is_set():
                future.set_exception(self._reason())
                return future
            data = self.pending.add(request, future, self.limits.frame)
            if not data:
                return future
            self._unsent.append(data)
            is_alone = len(self.pending) == 1
        socket = self._socket
        if socket is None:
            return future
        if is_alone:  # whoever asks now waits for nobody but the network
            socket.write_now()
        else:  # the writer puts many into one frame
            socket.ring()
        return future

    def answer(self, request: Callable[[int], FromClient], *, within: float | None = None) -> Any:
        """Send a request, and wait for the answer."""
        self.check_wait("a question")
        within = self._options.within if within is None else within
        try:
            return self.ask(request).result(within)
        except TimeoutError:
            raise self.unreachable(within) from None

    def unreachable(self, within: float) -> BrokerUnreachableError:
        """The error that an answer has not come in time."""
        return self._dialer.unreachable(f"it has not answered within {within:g} s")

    def tell(self, message: FromClient) -> None:
        """Send a message that is not repeated over another connection."""
        self.home.check("telling a broker something")
        with self._lock:
            socket = self._socket
            if socket is None:
                return
            self._unsent.append(encode(message))
        socket.ring()

    def _frames_for(self, socket: ClientSocket) -> Iterable[bytes]:
        """Unsent messages as frames for a connection, unless it has been replaced."""
        with self._lock:
            if socket is not self._socket:
                return ()
            unsent = list(self._unsent)
            self._unsent.clear()
        return frames(unsent, min(FRAME, self.limits.frame))

    # -- receiving ---------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = 0.0
        with others_wait():
            while not self._closed.is_set() and self.failure is None:
                began = self._runtime.monotonic()
                try:
                    self._receive()
                except Exception as error:
                    self._lost(error)
                    # Exponential back-off for a broker that accepts connections and drops them.
                    is_soon = self._runtime.monotonic() - began < STEADY
                    pause = min(max(2 * pause, SOONEST), LATEST) if is_soon else 0.0
                    self._rest(LATEST if _is_quota(error) else pause)
                if self._closed.is_set() or self.failure is not None:
                    return
                self._reconnect()

    def _receive(self) -> None:
        socket = self._socket
        if socket is None:
            raise StoreClosedError
        heartbeat = self.limits.heartbeat if self.limits.heartbeat > 0 else None
        heard, is_pinged = socket.heard, False  # whether it was pinged since it was last heard
        while True:
            try:
                frame = socket.recv(heartbeat)
            except TimeoutError:
                is_silent, heard = socket.heard == heard, socket.heard
                if is_silent and is_pinged:
                    why = f"nothing was heard for {2 * self.limits.heartbeat:g} s"
                    raise TimeoutError(why) from None
                if is_silent:
                    socket.ping()
                is_pinged = is_silent
                continue
            heard, is_pinged = socket.heard, False
            for message in decode_from_broker(frame):
                self._handle(message)

    def _handle(self, message: FromBroker) -> None:
        if not isinstance(message, Refused):  # the connection works: later trouble is new
            self.trouble = None
        match message:
            case Events():
                self._handlers.brought(message)
            case Answer():
                self.pending.settle(message.number, message.result)
            case Done() | Wanted():
                self.pending.settle(message.number, message)
            case Refused(number=0):
                raise error_of(message)
            case Refused():
                self.pending.settle(message.number, error_of(message))
            case Welcome():
                raise BadFrameError("`welcome`", why="it was said before")

    def _lost(self, error: Exception) -> None:
        is_final = _is_final(error)
        with self._lock:  # whoever sees that it is not connected is told why
            is_known = str(error) == str(self.trouble)  # logged once, however often it repeats
            if is_final:
                self.failure = error
            elif not self._closed.is_set():
                self.trouble = error
            socket, self._socket = self._socket, None
            self._unsent.clear()
        if socket is not None:
            socket.cut()
            socket.release()
        if is_final:
            self._fail(error)
        elif not self._closed.is_set():
            if not is_known:
                _log.warning("the connection to the broker was lost: %s", reason_of(error))
            self._handlers.stopped(error)

    def _rest(self, seconds: float) -> None:
        """Wait, unless it is closed; with jitter, so that clients do not reconnect together."""
        self._closed.wait(seconds * (0.5 + self._runtime.random()))

    def _fail(self, error: Exception) -> None:
        """End for good."""
        with self._lock:
            self.failure, self.trouble = error, None
        self.pending.fail_all(self._reason)
        self._handlers.stopped(error)

    def _reason(self) -> Exception:
        """Why it has ended, as an error of its own for each request."""
        return StoreClosedError() if self.failure is None else _copy_of(self.failure)

    # -- connecting --------------------------------------------------------------------------------

    def _reconnect(self) -> None:
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
            if self._dialer.advance():
                self._rest(pause)
                pause = min(pause * 2, LATEST)

    def _connect(self) -> None:
        address, socket = self._dialer.address, self._dialer.open()
        try:
            self._shake_hands(socket, address)
        except BaseException as error:
            socket.cut()
            socket.release()
            if isinstance(error, PolycastError | OSError) or not isinstance(error, Exception):
                raise
            raise BrokerUnreachableError(str(address), why=reason_of(error)) from None

    def _shake_hands(self, socket: ClientSocket, address: Address) -> None:
        asked = self._clock.monotonic()
        hello = Hello(PROTOCOL, self._client, self._options.program[:200])
        socket.send(next(frames([encode(hello)], 1)))
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
        socket.take_from(lambda: self._frames_for(socket))
        with self._lock:
            if self._closed.is_set():
                raise StoreClosedError
            resumed = [encode(message) for message in self._handlers.resumed()]
            self._unsent.clear()
            self._unsent.extend(resumed)
            self._unsent.extend(self.pending.messages())
            self._socket = socket
            self.times += 1
        for message in rest:
            self._handle(message)
        socket.ring()

    def close(self) -> None:
        """Close it; requests that are pending fail."""
        if self.home.is_elsewhere():
            return  # closing would end the connection of the parent
        self._closed.set()
        with self._lock:
            socket = self._socket
            self._unsent.clear()
        self.pending.fail_all(StoreClosedError)
        if socket is not None:
            socket.say_goodbye()
        is_elsewhere = threading.current_thread() is not self._thread
        if self._thread.is_alive() and is_elsewhere:
            self._thread.join(GOODBYE)
        if socket is not None:
            socket.cut()
        if self._thread.is_alive() and is_elsewhere:
            self._thread.join(2.0)


def _copy_of(error: Exception) -> Exception:
    """A copy of an error: raising one adds its traceback to it."""
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    return copy


def _is_final(error: Exception) -> bool:
    """Whether the next attempt would fail in the same way."""
    if _is_quota(error):
        return False
    return isinstance(error, BadFrameError | BrokerRefusedError | AccessDeniedError)


def _is_quota(error: Exception) -> bool:
    """Whether other connections have used up the owner's quota; they may go."""
    return isinstance(error, LimitReachedError) and error.code.endswith(OF_OWNER)
