"""The session of one client: its handshake, its messages in turn with others', and its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from polycast.broker.server.flow_control import Backpressure, EventStream, Outbox
from polycast.broker.server.limits import address_group
from polycast.broker.server.ownership import ConnectionUsage
from polycast.broker.server.request_handler import RequestHandler
from polycast.broker.wire.protocol import (
    PROTOCOL,
    FromBroker,
    Hello,
    Welcome,
    decode_message,
    encode,
    messages_in,
    refused,
)
from polycast.errors import BadFrameError, BrokerRefusedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

    import msgspec

    from polycast.broker.server.access import Principal
    from polycast.broker.server.broker import Broker

    Receive = Callable[[], Awaitable[bytes | str | None]]

LAST_WORDS = 1.0  # seconds to send why the session ends
DONE = object()  # a message has been handled


class SessionEnd(Exception):
    """Why the broker has ended a session."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class ClientSession:
    """One connection of a client. In the thread of the event loop."""

    def __init__(
        self,
        broker: Broker,
        send: Callable[[bytes], Awaitable[None]],
        *,
        principal: Principal,
        place: str,
        send_now: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.broker, self.place = broker, place
        self.authorization = broker.authorize(principal)
        self.usage = ConnectionUsage(broker.usage)
        self.client, self.program = "", ""
        self.owner = principal.owner
        self.group = principal.owner if principal.owner is not None else address_group(place)
        self.party: Hashable = principal.owner if principal.owner is not None else self
        self.is_closing = False
        self.outbox = Outbox(self, send, send_now)
        self.events = EventStream(self)
        self.backpressure = Backpressure(self)
        self.requests = RequestHandler(self)
        self._ended: SessionEnd | None = None
        self._reading: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        name = self.authorization.principal.name
        token = "" if name == "anybody" else f", token {name!r}"
        return f"{self.program or 'a client'} at {self.place}{token}"

    async def run(self, receive: Receive) -> SessionEnd | None:
        """Serve the client until one side ends the session; why, if it is this one."""
        writer = asyncio.create_task(self.outbox.send_all())
        self._reading = asyncio.create_task(self._read_all(receive))
        try:
            await self._reading
        except asyncio.CancelledError:
            if self._ended is None:  # the broker stops
                self._reading.cancel()
                raise
        finally:
            self.broker.fanout.leave(self.events)
            self.broker.ring()  # its filters are dropped from the plan little by little
            self.usage.release()
            self.is_closing = True
            self.events.close()
            self.backpressure.close()
            self.outbox.end()
            await asyncio.wait([writer], timeout=LAST_WORDS)
            writer.cancel()
        return self._ended

    def cut_off(self, code: int, why: str) -> None:
        """End the session from this side."""
        if self._ended is None:
            self._ended = SessionEnd(code, why)
            if self._reading is not None:
                self._reading.cancel()

    def evict(self) -> None:
        """End it: too much waits to be sent to all clients, and this one has most of it."""
        self.cut_off(1008, "too much waits to be sent, and most of it to this client")

    # -- receiving ---------------------------------------------------------------------------------

    async def _read_all(self, receive: Receive) -> None:
        try:
            timeout = self.broker.server_limits.handshake
            await self._greet(await asyncio.wait_for(receive(), timeout))
            while (frame := await receive()) is not None:
                await self._handle(messages_in(frame))
        except TimeoutError:
            self.cut_off(1008, "it said nothing")
        except BadFrameError as error:
            self.post(refused(0, error))
            self.cut_off(1002, str(error))
        except BrokerRefusedError as error:
            self.post(refused(0, error))
            self.cut_off(1008, str(error))

    async def _handle(self, messages: Sequence[msgspec.Raw]) -> None:
        now = self.broker.runtime.monotonic
        for message in messages:
            parts, more = self.requests.handle(message), True
            while more:
                await self._take_turn()
                began = now()
                try:
                    more = next(parts, DONE) is not DONE
                finally:
                    self.broker.round_robin.spend(self.party, now() - began)

    async def _take_turn(self) -> None:
        """Wait for its turn, and for room for what it says."""
        while True:
            await self.broker.round_robin.take(self.party)
            self.backpressure.update()  # others may have filled what they share meanwhile
            if self.backpressure.may_read.is_set():
                return
            await self.backpressure.may_read.wait()

    async def _greet(self, frame: bytes | str | None) -> None:
        if frame is None:
            raise BadFrameError("nothing", why="a connection begins with `hello`")
        messages = messages_in(frame)
        hello, rest = (decode_message(messages[0]) if messages else None), messages[1:]
        if not isinstance(hello, Hello):
            raise BadFrameError("the first message", why="it has to be `hello`")
        if hello.protocol != PROTOCOL:
            text = (
                f"this broker speaks version {PROTOCOL} of the protocol, the client version "
                f"{hello.protocol}; install the same version of polycast on both sides"
            )
            raise BrokerRefusedError("protocol", text)
        if not 0 < len(hello.client) <= 64 or len(hello.program) > 200:
            raise BadFrameError("`hello`", why="a name of 1 to 64 characters is accepted")
        self.client, self.program = hello.client, hello.program
        broker, principal = self.broker, self.authorization.principal
        broker.supersede(self)
        self.usage.hold(principal, "connections", 1)
        now = broker.clock.time()
        self.post(
            Welcome(PROTOCOL, broker.name, broker.identity, now, broker.limits, principal.name)
        )
        broker.fanout.join(self.events)
        await self._handle(rest)

    # -- sending -----------------------------------------------------------------------------------

    def post(self, message: FromBroker) -> None:
        """Send a message when those before it are sent."""
        self.outbox.put(encode(message))
        if not self.outbox.has_room():
            self.backpressure.update()

    def some_was_sent(self) -> None:
        """Go on with what waits for room in the outbox."""
        if not self.backpressure.may_read.is_set():
            self.backpressure.update()
        if self.outbox.was_full and self.events.has_room():
            self.outbox.was_full = False
            self.broker.ring()
