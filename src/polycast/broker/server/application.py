"""The web application of a broker: the door for buses, and how it is doing."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from polycast.broker.server.client_session import GONE, Connection
from polycast.broker.server.listen_address import is_loopback
from polycast.broker.server.log_rate_limit import server_log
from polycast.broker.server.prometheus import measured
from polycast.broker.server.websocket import CLOSING, pieces_of
from polycast.broker.wire.messages import PATH
from polycast.errors import AccessDeniedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import HTTPConnection, Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from polycast.broker.server.access import Identified
    from polycast.broker.server.broker import Broker
    from polycast.broker.server.connection_limits import Reception
    from polycast.broker.server.origins import Names, Refusal

__all__ = ["application"]

_log = server_log()
TOLD_IN_THE_OPEN = (
    "a token came without TLS, where others can read it, and is refused: revoke it. Use "
    "polycasts:// and TLS at the broker; `polycast serve --insecure` is for a network that "
    "something else protects\n"
)


def application(
    broker: Broker, names: Names, reception: Reception, *, plain_tokens: bool = False
) -> ASGIApp:
    """The application of one broker, for requests by its names."""
    doors = Doors(broker, plain_tokens=plain_tokens)
    inside = Starlette(
        routes=[
            WebSocketRoute(PATH, doors.bus),
            Route("/livez", doors.livez),
            Route("/readyz", doors.readyz),
            Route("/metrics", doors.metrics),
        ],
        lifespan=doors.lifespan,
    )
    return Gate(inside, names, reception)


class Gate:
    """Looks by which name a request came, and from which page, before anything else does.

    Each connection is for one request, or for one bus.
    """

    def __init__(self, inside: ASGIApp, names: Names, reception: Reception) -> None:
        self._inside, self._names, self._reception = inside, names, reception

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] == "lifespan":
            await self._inside(scope, receive, send)
            return
        ends = scope.get("client"), scope.get("server")
        peer = self._reception.has_asked(ends)
        try:
            await self._pass(scope, receive, _once(send) if scope["type"] == "http" else send)
        finally:
            if peer is not None and scope["type"] == "http":
                self._reception.let_end(ends, peer, CLOSING)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope)
        if refusal is None:
            await self._inside(scope, receive, send)
            return
        _log.info("a request from %s was refused: %s", _place(scope), refusal.text)
        answer = PlainTextResponse(f"{refusal.text}\n", status_code=refusal.status)
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(answer)
        else:
            await answer(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        server = scope.get("server")
        return self._names.refusal(scope["headers"], None if server is None else server[0])


class Doors:
    """What can be opened at a broker."""

    def __init__(self, broker: Broker, *, plain_tokens: bool) -> None:
        self._broker, self._plain_tokens = broker, plain_tokens
        self._failed = broker.failed_logins

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Route while it serves."""
        del app
        running = asyncio.create_task(self._broker.run())
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    def _who(self, asked: HTTPConnection, action: str, what: str) -> Identified | Response:
        """Who has the token that came along, or what to answer if nobody has it."""
        given, place = asked.headers.get("authorization"), _place(asked.scope)
        if given is not None and not (self._plain_tokens or _is_safe(asked)):
            _log.warning("%s sent a token without TLS; it should be revoked", place)
            return PlainTextResponse(TOLD_IN_THE_OPEN, status_code=403)
        scheme, _, secret = (given or "").partition(" ")
        who = self._broker.identify(secret.strip() if scheme.lower() == "bearer" else None)
        return self._refused(action, what, place, given) if who is None else who

    def _refused(self, action: str, what: str, place: str, given: str | None) -> Response:
        """The answer to who has not said who they are; it is never asked for a good token."""
        wait = self._failed.note(place)
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
        """One bus, until it goes."""
        who = self._who(socket, "connect", "to this broker")
        if isinstance(who, Response):
            await socket.send_denial_response(who)
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
                async with asyncio.timeout(broker.patience):  # who takes a little is not cut off
                    await socket.send(piece)

        connection = Connection(broker, send, who=who, place=_place(socket.scope))
        broker.connections.add(connection)
        broker.opened += 1
        try:
            ended = await connection.run(receive)
            if ended is not None and ended.code != GONE:
                broker.cut_off += 1
                _log.warning("%s was cut off: %s", connection, ended)
                with suppress(Exception):  # the other side may have gone, or takes nothing
                    async with asyncio.timeout(CLOSING):
                        await socket.close(ended.code, _reason(ended))
        finally:
            broker.connections.discard(connection)

    async def livez(self, request: Request) -> Response:
        """Whether it runs."""
        del request
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Whether it takes events and gives them out."""
        del request
        why = self._broker.store.failure or self._broker.failure
        if why is None:
            return PlainTextResponse("ready\n")
        return JSONResponse({"ready": False, "why": str(why)}, status_code=503)

    async def metrics(self, request: Request) -> Response:
        """Its figures; for admins, where there are tokens."""
        who = self._who(request, "read", "/metrics")
        if isinstance(who, Response):
            return who
        if not who.rights.admin:
            error = AccessDeniedError("read", "/metrics", token=who.name, needs="admin = true")
            return PlainTextResponse(f"{error}\n", status_code=403)
        found = await run_in_threadpool(measured, self._broker)
        return Response(found, media_type="text/plain; version=0.0.4; charset=utf-8")


def _once(send: Send) -> Send:
    """The same, for a connection that ends with the answer."""

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"connection", b"close")]
            message = {**message, "headers": headers}
        await send(message)

    return answer


def _place(scope: Scope) -> str:
    """The address of who asks."""
    client = scope.get("client")
    return "somewhere" if client is None else str(client[0])


def _is_safe(asked: HTTPConnection) -> bool:
    """Whether nobody else can read what is said."""
    if asked.scope.get("scheme") in ("https", "wss"):
        return True
    return asked.client is not None and is_loopback(asked.client.host)


def _reason(ended: Exception) -> str:
    """Why it ended, in what a WebSocket has room for: 123 bytes."""
    return str(ended).encode()[:120].decode(errors="ignore")
