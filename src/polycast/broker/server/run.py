"""A broker as a web server: its endpoints, and serving them in this thread or in one of its own."""

from __future__ import annotations

import asyncio
import errno
import itertools
import socket
import threading
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from polycast.broker.server.client_session import ClientSession
from polycast.broker.server.flow_control import GONE
from polycast.broker.server.limits import ConnectionLimits, LimitedListener
from polycast.broker.server.log_rate_limit import server_log
from polycast.broker.server.network_policy import Admission, HostPolicy, is_loopback
from polycast.broker.server.prometheus import metrics_text
from polycast.broker.server.websocket import (
    CLOSING,
    WRITE_NOW,
    HttpProtocol,
    WebSocketProtocol,
    pieces_of,
)
from polycast.broker.wire.protocol import PATH
from polycast.broker.wire.security import certified_names
from polycast.errors import AccessDeniedError, BrokerError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence
    from types import TracebackType
    from typing import Self

    from starlette.requests import HTTPConnection, Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from polycast.broker.server.access import Principal
    from polycast.broker.server.broker import Broker


_log = server_log()
WITHOUT_TLS = (
    "a token came without TLS, where others can read it, and is refused: revoke it. Use "
    "polycasts:// and TLS at the broker; `polycast serve --insecure` is for a network that "
    "something else protects\n"
)


def application(broker: Broker, policy: HostPolicy, *, plain_tokens: bool = False) -> ASGIApp:
    """The application of one broker, for requests that its policy accepts."""
    endpoints = Endpoints(broker, plain_tokens=plain_tokens)
    inside = Starlette(
        routes=[
            WebSocketRoute(PATH, endpoints.bus),
            Route("/livez", endpoints.livez),
            Route("/readyz", endpoints.readyz),
            Route("/metrics", endpoints.metrics),
        ],
        lifespan=endpoints.lifespan,
    )
    return Gate(inside, policy, broker.connection_limits)


class Gate:
    """Checks host and origin of a request before anything else.

    Each connection is for one request, or for one bus.
    """

    def __init__(self, inside: ASGIApp, policy: HostPolicy, limits: ConnectionLimits) -> None:
        self._inside, self._policy, self._limits = inside, policy, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._inside(scope, receive, send)
            return
        ends = scope.get("client"), scope.get("server")
        peer = self._limits.request_arrived(ends)
        try:
            await self._pass(scope, receive, _once(send) if scope["type"] == "http" else send)
        finally:
            if peer is not None and scope["type"] == "http":
                self._limits.expect_close(ends, peer, CLOSING)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        server = scope.get("server")
        refusal = self._policy.refusal(scope["headers"], None if server is None else server[0])
        if refusal is None:
            await self._inside(scope, receive, send)
            return
        _log.info("a request from %s was refused: %s", _place(scope), refusal.text)
        answer = PlainTextResponse(f"{refusal.text}\n", status_code=refusal.status)
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(answer)
        else:
            await answer(scope, receive, send)


class Endpoints:
    """The endpoints of a broker."""

    def __init__(self, broker: Broker, *, plain_tokens: bool) -> None:
        self._broker, self._plain_tokens = broker, plain_tokens

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Run the broker while it serves."""
        del app
        running = asyncio.create_task(self._broker.run())
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    def _identify(self, request: HTTPConnection, action: str, what: str) -> Principal | Response:
        """The holder of the request's token, or the response that refuses it."""
        given, place = request.headers.get("authorization"), _place(request.scope)
        if given is not None and not (self._plain_tokens or _is_safe(request)):
            _log.warning("%s sent a token without TLS; it should be revoked", place)
            return PlainTextResponse(WITHOUT_TLS, status_code=403)
        scheme, _, secret = (given or "").partition(" ")
        principal = self._broker.identify(secret.strip() if scheme.lower() == "bearer" else None)
        return self._refuse(action, what, place, given) if principal is None else principal

    def _refuse(self, action: str, what: str, place: str, given: str | None) -> Response:
        """Refuse a failed login; the rate limit never applies to a good token."""
        wait = self._broker.failed_logins.note(place)
        which = "no token" if given is None else "a token that is not known or has expired"
        _log.warning("a login from %s failed: it came with %s", place, which)
        if wait is not None:
            headers = {"Retry-After": str(wait)}
            text = f"too many logins from this address have failed; try again in {wait} s\n"
            return PlainTextResponse(text, status_code=429, headers=headers)
        error = AccessDeniedError(action, what, token=None)
        challenge = {"WWW-Authenticate": "Bearer"}
        return PlainTextResponse(f"{error}\n", status_code=401, headers=challenge)

    async def bus(self, socket: WebSocket) -> None:
        """Serve one bus until it disconnects."""
        principal = self._identify(socket, "connect", "to this broker")
        if isinstance(principal, Response):
            await socket.send_denial_response(principal)
            return
        await socket.accept()

        async def receive() -> bytes | str | None:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return None
            data: bytes | None = message.get("bytes")
            return message.get("text", "") if data is None else data

        broker = self._broker

        async def send(frame: bytes) -> None:
            for piece in pieces_of(frame):
                async with asyncio.timeout(broker.patience):  # a slow client is not cut off
                    await socket.send(piece)

        session = ClientSession(
            broker,
            send,
            principal=principal,
            place=_place(socket.scope),
            send_now=socket.scope["extensions"].get(WRITE_NOW, {}).get("call"),
        )
        broker.sessions.add(session)
        broker.opened += 1
        try:
            ended = await session.run(receive)
            if ended is not None and ended.code != GONE:
                broker.cut_off += 1
                _log.warning("%s was cut off: %s", session, ended)
                with suppress(Exception):  # the client may be gone, or not reading
                    async with asyncio.timeout(CLOSING):
                        await socket.close(ended.code, _reason(ended))
        finally:
            broker.sessions.discard(session)

    async def livez(self, request: Request) -> Response:
        """Whether the process runs."""
        del request
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Whether the broker accepts and sends events."""
        del request
        why = self._broker.store.failure or self._broker.failure
        if why is None:
            return PlainTextResponse("ready\n")
        return JSONResponse({"ready": False, "why": str(why)}, status_code=503)

    async def metrics(self, request: Request) -> Response:
        """Its metrics; where there are tokens, for admins."""
        principal = self._identify(request, "read", "/metrics")
        if isinstance(principal, Response):
            return principal
        if not principal.rights.admin:
            error = AccessDeniedError(
                "read", "/metrics", token=principal.name, needs="admin = true"
            )
            return PlainTextResponse(f"{error}\n", status_code=403)
        text = await run_in_threadpool(metrics_text, self._broker)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _once(send: Send) -> Send:
    """Close the connection after the answer."""

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"connection", b"close")]
            message = {**message, "headers": headers}
        await send(message)

    return answer


def _place(scope: Scope) -> str:
    """The address of the client."""
    client = scope.get("client")
    return "somewhere" if client is None else str(client[0])


def _is_safe(request: HTTPConnection) -> bool:
    """Whether nobody else can read the request."""
    if request.scope.get("scheme") in ("https", "wss"):
        return True
    return request.client is not None and is_loopback(request.client.host)


def _reason(ended: Exception) -> str:
    """Why a session ended, in the 123 bytes that a WebSocket has for it."""
    return str(ended).encode()[:120].decode(errors="ignore")


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
