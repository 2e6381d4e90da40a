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

from polycast.errors import AccessDenied
from polycast.server.connection import GONE, Connection
from polycast.server.measures import measured
from polycast.server.sockets import CLOSING, pieces_of
from polycast.text import log_of
from polycast.wire.messages import PATH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from polycast.server.access import Identified
    from polycast.server.broker import Broker
    from polycast.server.origins import Names, Refusal

__all__ = ["application"]

_log = log_of("polycast.server")


def application(broker: Broker, names: Names) -> ASGIApp:
    """The application of one broker, for requests by its names."""
    doors = Doors(broker)
    inside = Starlette(
        routes=[
            WebSocketRoute(PATH, doors.bus),
            Route("/livez", doors.livez),
            Route("/readyz", doors.readyz),
            Route("/metrics", doors.metrics),
        ],
        lifespan=doors.lifespan,
    )
    return Gate(inside, names)


class Gate:
    """Looks by which name a request came, and from which page, before anything else does."""

    def __init__(self, inside: ASGIApp, names: Names) -> None:
        self._inside, self._names = inside, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        refusal = None if scope["type"] == "lifespan" else self._refusal(scope)
        if refusal is None:
            await self._inside(scope, receive, send)
            return
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

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

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

    def _who(self, headers: Mapping[str, str]) -> Identified | None:
        """Who has the token that came along; None if nobody has it."""
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        return self._broker.identify(secret.strip() if scheme.lower() == "bearer" else None)

    async def bus(self, socket: WebSocket) -> None:
        """One bus, until it goes."""
        who = self._who(socket.headers)
        if who is None:
            error = AccessDenied("connect", "to this broker", token=None)
            await socket.send_denial_response(PlainTextResponse(str(error), status_code=401))
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

        place = "somewhere" if socket.client is None else socket.client.host
        connection = Connection(broker, send, who=who, place=place)
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
        who = self._who(request.headers)
        if who is None or not who.rights.admin:
            name = None if who is None else who.name
            error = AccessDenied("read", "/metrics", token=name, needs="admin = true")
            return PlainTextResponse(f"{error}\n", status_code=401 if who is None else 403)
        found = await run_in_threadpool(measured, self._broker)
        return Response(found, media_type="text/plain; version=0.0.4; charset=utf-8")


def _reason(ended: Exception) -> str:
    """Why it ended, in what a WebSocket has room for: 123 bytes."""
    return str(ended).encode()[:120].decode(errors="ignore")
