"""The web application of a broker: the endpoint for buses, health checks and metrics."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from polycast.broker.server.client_session import GONE, ClientSession
from polycast.broker.server.listen_address import is_loopback
from polycast.broker.server.log_rate_limit import server_log
from polycast.broker.server.prometheus import metrics_text
from polycast.broker.server.websocket import CLOSING, WRITE_NOW, pieces_of
from polycast.broker.wire.protocol import PATH
from polycast.errors import AccessDeniedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import HTTPConnection, Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from polycast.broker.server.access import Principal
    from polycast.broker.server.broker import Broker
    from polycast.broker.server.connection_limits import ConnectionLimits
    from polycast.broker.server.origins import HostPolicy

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
