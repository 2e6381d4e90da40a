"""Running a broker: in this thread until it is told to stop, or in one of its own."""

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
from polycast.broker.server.connection_limits import Listener
from polycast.broker.server.origins import Admission, Names
from polycast.broker.server.websocket import Request, Socket
from polycast.broker.wire.security import certified_names
from polycast.errors import BrokerError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from polycast.broker.server.broker import Broker

__all__ = ["Serving"]

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
        for each in self._sockets:
            each.reception = broker.reception
        self.port: int = self._sockets[0].getsockname()[1]
        self.host = hosts[0]
        self._is_secure = tls is not None
        admission = admission if admission is not None else Admission()
        certified = () if tls is None else certified_names(tls())
        names = Names.of(hosts, admission, certified=certified)
        config = uvicorn.Config(
            application(broker, names, broker.reception, plain_tokens=admission.plain_tokens),
            loop="asyncio",  # others take connections past the listener
            ws=partial(Socket, incoming=broker.incoming),  # type: ignore[arg-type]
            ws_max_size=broker.limits.frame,
            ws_ping_interval=broker.limits.heartbeat,
            ws_ping_timeout=broker.limits.heartbeat,
            ws_per_message_deflate=False,
            http=Request,
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # who connects could write them
            timeout_graceful_shutdown=2,
            ssl_context_factory=None if tls is None else (lambda config, default: tls()),
        )
        self._server = _Server(config)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """What a bus is opened with."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"polycast{'s' if self._is_secure else ''}://{host}:{self.port}"

    def run(self) -> None:
        """Serve until a signal comes; then let go of the store."""
        try:
            self._server.run(sockets=list(self._sockets))
        finally:
            for each in self._sockets:
                each.close()
            self.broker.close()

    def start(self) -> Self:
        """Serve in a thread of its own."""
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
        """Whether it still serves in its thread."""
        return self._thread is not None and self._thread.is_alive()

    def peers(self) -> list[socket.socket]:
        """The sockets of who is connected now."""
        there = list(self._server.server_state.connections)
        return [each.transport.get_extra_info("socket") for each in there]

    def stop(self) -> None:
        """End it, as a signal would."""
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
    """That of uvicorn looks ten times a second whether it is to stop; this one can be told."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    async def main_loop(self) -> None:
        """Look after what it serves, until it is to stop."""
        self._told = asyncio.get_running_loop(), asyncio.Event()
        for beat in itertools.count():
            if await self.on_tick(beat % 864_000):
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told[1].wait(), BEAT)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let go of all; where nobody is connected, at once."""
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for each in (*self.servers, *(sockets or ())):
            each.close()
        await self.lifespan.shutdown()

    def stop(self) -> None:
        """End it; from any thread."""
        self.should_exit = True
        if self._told is not None:
            loop, told = self._told
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(told.set)


def _all_bound(hosts: Sequence[str], port: int) -> list[Listener]:
    """Sockets at all addresses of a host that this machine has, at the same port."""
    found: list[Listener] = []
    for at, host in enumerate(hosts, 1):
        try:
            found.append(_bound(host, port if not found else found[0].getsockname()[1]))
        except OSError as error:
            if error.errno in _NOT_HERE and (found or at < len(hosts)):
                continue  # such as ::1 of `localhost`, where there is no IPv6
            for each in found:
                each.close()
            raise BrokerError(
                f"cannot listen at {host}:{port}: {error.strerror}. Name another with --listen, or "
                f"end what listens there"
            ) from None
    return found


def _bound(host: str, port: int) -> Listener:
    """A socket at an address; what it accepts sends small answers at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once only on sockets that say they are TCP; else, beside the
    # parcels of a subscription, each answer waits 40 ms for an acknowledgement of the last.
    found = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if family == socket.AF_INET6:  # the same port may be taken at an address of IPv4, too
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found.bind((host, port))
    except OSError:
        found.close()
        raise
    return found
