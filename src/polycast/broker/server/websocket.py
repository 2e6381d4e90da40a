"""The WebSockets of a broker: who gets on lives, and who takes nothing any more is let go."""

from __future__ import annotations

import socket
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from polycast.broker.server.connection_limits import group_of
from polycast.broker.server.log_rate_limit import server_log

if TYPE_CHECKING:
    from asyncio import BaseTransport, TimerHandle
    from collections.abc import Iterator

    from websockets.frames import Frame

    from polycast.broker.server.evicting_pool import EvictingPool

__all__ = ["CLOSING", "MORE", "PIECE", "Request", "Socket", "pieces_of"]

CLOSING = 2.0  # seconds for the other side to take the rest
PIECE = 65_536  # bytes of a message after which a ping has its turn
MOMENT = 0.002  # seconds for the frames of one connection, before others have their turn
LEAST, MOST = 1_024, 262_144  # bytes of frames between two looks at the clock
MORE = "polycast.more"  # in what the application sends: whether the message goes on
_FEW, _SMALL = 16, 1_000  # fragments that a message may have, and the bytes of each one more
_MESSAGE = 500  # bytes that a message takes besides its contents
_UNSENT = 131_072  # bytes that the system takes before they can be sent
_log = server_log("polycast.broker.http")


class Request(H11Protocol):
    """That of uvicorn, which lets whoever connects write as much into the log as they like."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = _log


class Socket(WebSocketsSansIOProtocol):
    """That of uvicorn, which lets a ping wait behind megabytes, and then does not wait for it."""

    def __init__(self, *args: Any, incoming: EvictingPool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = self.conn.logger = _log
        self.group = ""  # by whom it is counted
        self._incoming = incoming
        self._queued = self._handed = 0  # bytes of messages that wait, and of the one in hand
        self._goes_on = False  # whether a message is sent, but not to its end
        self._message = bytearray()  # that comes in fragments
        self._fragments = 0  # of it
        self._unheard = bytearray()  # what has come, while others have their turn
        self._bite = LEAST  # bytes that are taken before the clock is looked at
        self._later: TimerHandle | None = None
        self._heard = False  # whether anything came since the latest ping
        self._written = self._taken = 0  # bytes; of them, those taken when it was pinged

    def connection_made(self, transport: BaseTransport) -> None:
        """Have the system take no more than it can send soon: a ping would wait behind it."""
        super().connection_made(transport)
        self.group = group_of(self.client[0]) if self.client else ""
        option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
        if option is not None:
            with suppress(OSError):
                transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, option, _UNSENT)

    # -- what comes --------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Whatever it is, the other side lives."""
        self._heard = True
        self._unheard += data
        if self._later is None:
            self._hear_some()
        else:
            self.transport.pause_reading()

    def _hear_some(self) -> None:
        """Take what has come, for a moment: a few bytes are a frame, and there may be very many."""
        self._later, took, began = None, 0.0, perf_counter()
        while self._unheard and took < MOMENT and not self.transport.is_closing():
            piece = bytes(self._unheard[: self._bite])
            del self._unheard[: self._bite]
            super().data_received(piece)
            before, took = took, perf_counter() - began
            is_slow = took - before > MOMENT / 4
            self._bite = max(LEAST, self._bite // 2) if is_slow else min(MOST, 2 * self._bite)
        self._count()
        if self.transport.is_closing():
            self._unheard.clear()
        elif self._unheard:
            self.transport.pause_reading()
            self._later = self.loop.call_later(took, self._hear_some)  # others have as long
        elif not self.read_paused:
            self.transport.resume_reading()

    def send_receive_event_to_app(self) -> None:
        """A message is complete; it waits until the one before it is done with."""
        self._queued += _MESSAGE + sum(map(len, self.frames))
        super().send_receive_event_to_app()

    async def receive(self) -> Any:
        """The next message; the one before it is done with."""
        self._handed = 0
        self._count()
        message = await super().receive()
        if message["type"] == "websocket.receive":
            self._handed = _MESSAGE + len(message.get("bytes") or message.get("text") or "")
            self._queued = max(0, self._queued - self._handed)
        return message

    def _count(self) -> None:
        """Say what is held of what came, until it is handed on as a whole."""
        if not (self.disconnected or self.transport.is_closing()):
            incomplete = len(self.conn.reader.buffer) + len(self._message) + len(self._unheard)
            self._incoming.has_now(self, incomplete + self._queued + self._handed)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone, and what it had begun to say."""
        if self._later is not None:
            self._later.cancel()
        super().connection_lost(exc)
        self._incoming.has_now(self, 0)

    def let_go(self) -> None:
        """End it at once: too much comes in, and most of it from there."""
        _log.warning("%s was cut off: too much comes in, and most of it from there", self.group)
        self.transport.abort()

    def handle_bytes(self, event: Frame) -> None:
        """The beginning of a message, or all of it."""
        self._message, self._fragments = _begun(event), 1
        super().handle_bytes(event)

    def handle_text(self, event: Frame) -> None:
        """The same."""
        self._message, self._fragments = _begun(event), 1
        super().handle_text(event)

    def handle_cont(self, event: Frame) -> None:
        """More of a message: what has come is one piece of memory, however many have brought it."""
        self._message += event.data
        self._fragments += 1
        if self._fragments > _FEW + len(self._message) // _SMALL:
            self.conn.fail(1008, "a message has too many small fragments")
            self.handle_parser_exception()
        elif event.fin:
            self.frames, self._message = [bytes(self._message)], bytearray()
            self.send_receive_event_to_app()

    # -- what goes ---------------------------------------------------------------------------------

    async def send(self, message: Any) -> None:
        """Send a message, or a piece of one: pings go in between."""
        if MORE not in message:
            await super().send(message)
            if self.close_sent:  # also one that was refused, which uvicorn takes for forgotten
                self.handshake_complete = True
            return
        await self.writable.wait()
        if self.disconnected or self.close_sent:
            raise ClientDisconnected
        send = self.conn.send_continuation if self._goes_on else self.conn.send_binary
        try:
            send(message["bytes"], fin=not message[MORE])
        except InvalidState:
            raise ClientDisconnected from None
        self._goes_on = message[MORE]
        data = b"".join(self.conn.data_to_send())
        self._written += len(data)
        self.transport.write(data)

    # -- whether it lives --------------------------------------------------------------------------

    def send_keepalive_ping(self) -> None:
        """Ask whether it lives."""
        self._heard, self._taken = False, self._taken_by_now()
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        """It does not say so; if nothing else does, it will not take the rest either."""
        if self._heard or self.read_paused or self._taken_by_now() > self._taken:
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self.transport.abort()

    def _taken_by_now(self) -> int:
        return self._written - self.transport.get_write_buffer_size()

    # -- its end -----------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """The broker ends; whoever has said goodbye and is not gone yet is let go."""
        try:
            super().shutdown()
        except InvalidState:
            self.transport.abort()

    async def run_asgi(self) -> None:
        """Serve it; when that is over, it ends within a moment."""
        try:
            await super().run_asgi()
        finally:
            self.loop.call_later(CLOSING, self.transport.abort)


def _begun(event: Frame) -> bytearray:
    """What has come of a message that goes on."""
    return bytearray() if event.fin else bytearray(event.data)


def pieces_of(frame: bytes) -> Iterator[dict[str, Any]]:
    """A message, as what is sent for each piece of it."""
    for at in range(0, len(frame), PIECE):
        piece, more = frame[at : at + PIECE], at + PIECE < len(frame)
        yield {"type": "websocket.send", "bytes": piece, MORE: more}
