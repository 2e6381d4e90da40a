"""Serving a broker: in this thread until a signal comes, or in a thread of its own."""

from __future__ import annotations

import asyncio
import errno
import itertools
import socket
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import uvicorn

from polycast.broker.server.application import application
from polycast.broker.server.connection_limits import LimitedListener
from polycast.broker.server.origins import Admission, HostPolicy
from polycast.broker.server.websocket import HttpProtocol, WebSocketProtocol
from polycast.broker.wire.security import certified_names
from polycast.errors import BrokerError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from polycast.broker.server.broker import Broker

STARTING = 20.0  # seconds
BEAT = 0.1  # seconds
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class Serving:
    """A broker at an address; in a `with` statement it serves in a thread of its own."""

    def __init__(
        self,
        broker: Broker,
        *,
        host: str | Sequence[str] = "127.0.0.1",
        port: int = 0,
        tls: Callable[[], ssl.SSLContext] | None = None,
        admission: Admission | None = None,
    ) -> None:
        self.broker = broker
        hosts = [host] if isinstance(host, str) else list(host)
        self._sockets = _all_bound(hosts, port)
        for listener in self._sockets:
            listener.connection_limits = broker.connection_limits
        self.port: int = self._sockets[0].getsockname()[1]
        self.host = hosts[0]
        self._is_secure = tls is not None
        admission = admission if admission is not None else Admission()
        certified = () if tls is None else certified_names(tls())
        policy = HostPolicy.of(hosts, admission, certified=certified)
        config = uvicorn.Config(
            application(broker, policy, plain_tokens=admission.plain_tokens),
            loop="asyncio",  # other loops accept connections without the listener
            ws=partial(WebSocketProtocol, incoming_pool=broker.incoming_pool),  # type: ignore[arg-type]
            ws_max_size=broker.limits.frame,
            ws_ping_interval=broker.limits.heartbeat,
            ws_ping_timeout=broker.limits.heartbeat,
            ws_per_message_deflate=False,
            http=HttpProtocol,
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # any client could send them
            timeout_graceful_shutdown=2,
            ssl_context_factory=None if tls is None else (lambda config, default: tls()),
        )
        self._server = _Server(config)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The URL that a bus is opened with."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"polycast{'s' if self._is_secure else ''}://{host}:{self.port}"

    def run(self) -> None:
        """Serve until a signal comes; then close the store."""
        try:
            self._server.run(sockets=list(self._sockets))
        finally:
            for listener in self._sockets:
                listener.close()
            self.broker.close()

    def start(self) -> Self:
        """Start serving in a thread of its own."""
        self._thread = threading.Thread(target=self.run, name="polycast-serve", daemon=True)
        self._thread.start()
        deadline = threading.Event()
        for _ in range(int(STARTING / 0.01)):
            if self._server.started:
                return self
            if not self._thread.is_alive():
                break
            deadline.wait(0.01)
        raise BrokerError(f"the broker at {self.url} did not start; its log says why")

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def peers(self) -> list[socket.socket]:
        """The sockets of open connections."""
        connections = list(self._server.server_state.connections)
        return [connection.transport.get_extra_info("socket") for connection in connections]

    def stop(self) -> None:
        """Stop serving, as a signal would."""
        self._server.stop()
        if self._thread is not None:
            self._thread.join(STARTING)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class _Server(uvicorn.Server):
    """uvicorn's server checks ten times a second whether to stop; this one is woken up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._wake: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    async def main_loop(self) -> None:
        """Tick until it is to stop."""
        self._wake = asyncio.get_running_loop(), asyncio.Event()
        for beat in itertools.count():
            if await self.on_tick(beat % 864_000):
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake[1].wait(), BEAT)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down; at once if no client is connected."""
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        await self.lifespan.shutdown()

    def stop(self) -> None:
        """Stop it; from any thread."""
        self.should_exit = True
        if self._wake is not None:
            loop, event = self._wake
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(event.set)


def _all_bound(hosts: Sequence[str], port: int) -> list[LimitedListener]:
    """Bind the addresses of a host that this machine has, all at the same port."""
    listeners: list[LimitedListener] = []
    for at, host in enumerate(hosts, 1):
        try:
            listeners.append(_bound(host, port if not listeners else listeners[0].getsockname()[1]))
        except OSError as error:
            if error.errno in _NOT_HERE and (listeners or at < len(hosts)):
                continue  # such as ::1 for `localhost` without IPv6
            for listener in listeners:
                listener.close()
            raise BrokerError(
                f"cannot listen at {host}:{port}: {error.strerror}. Name another with --listen, or "
                f"end what listens there"
            ) from None
    return listeners


def _bound(host: str, port: int) -> LimitedListener:
    """Bind a socket whose connections send small answers at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets that declare TCP; without it, an answer beside
    # the events of a subscription waits 40 ms for the acknowledgement of the last one.
    listener = LimitedListener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if family == socket.AF_INET6:  # the same port is bound for IPv4, too
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener
