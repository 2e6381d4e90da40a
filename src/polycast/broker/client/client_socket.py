"""The WebSocket of a client: reading never waits for writing, nor a ping for data.

The thread that asks for messages reads them from the network itself. A frame is written by the
thread that has something to send, as far as the network takes it at once; for the rest there is a
thread of its own, which writes large messages a piece at a time.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import struct
import threading
import time
from collections import deque
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from socket import SHUT_RDWR, SHUT_WR, SO_RCVTIMEO, SOL_SOCKET
from typing import TYPE_CHECKING

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from polycast.runtime import is_mine, others_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from websockets.uri import WebSocketURI

PIECE = 65_536  # bytes of a message after which pings and pongs may be sent
CLOSING = 1.0  # seconds for the other side to end a connection that is being closed
_DONT_WAIT: int | None = getattr(socket, "MSG_DONTWAIT", None)  # not on Windows
_DATA = (Opcode.BINARY, Opcode.CONT)
_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Network:
    """A socket: reading waits for data, writing for nothing."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        # OpenSSL must not be called in two threads at once, so there neither call may block.
        self._is_tls = isinstance(connection, ssl.SSLSocket)
        self._calling = threading.Lock() if self._is_tls else nullcontext()
        self._timeout: float | None = None
        self._readable: selectors.BaseSelector | None = None
        if self._is_tls or _DONT_WAIT is None:
            connection.setblocking(False)
            self._readable = selectors.DefaultSelector()
            self._readable.register(connection, selectors.EVENT_READ)
        else:  # one call waits and reads
            connection.setblocking(True)

    def recv(self, timeout: float | None) -> bytes | None:
        """What has come, empty at the end; None if nothing comes in time."""
        if self._readable is None:
            return self._recv_within(timeout)
        while self._readable.select(timeout):
            try:
                with self._calling:
                    return self._socket.recv(PIECE)
            except _LATER:
                continue
            except OSError:
                return b""
        return None

    def _recv_within(self, timeout: float | None) -> bytes | None:
        try:
            if timeout != self._timeout:
                self._timeout = timeout
                seconds = 0.0 if timeout is None else max(timeout, 1e-3)  # 0 waits for ever
                parts = int(seconds), int(seconds % 1 * 1e6)
                self._socket.setsockopt(SOL_SOCKET, SO_RCVTIMEO, struct.pack("ll", *parts))
            return self._socket.recv(PIECE)
        except _LATER:
            return None
        except OSError:
            return b""

    def send(self, data: memoryview) -> int | None:
        """Send what the network takes now; how many bytes, or None if it takes nothing."""
        try:
            if self._readable is None:
                return self._socket.send(data, _DONT_WAIT or 0)
            with self._calling:
                return self._socket.send(data)
        except _LATER:
            return None

    def await_room(self) -> None:
        """Wait until the network takes more."""
        with selectors.DefaultSelector() as writable:
            writable.register(self._socket, selectors.EVENT_WRITE)
            writable.select()

    def shut(self, how: int) -> None:
        """End one direction, or both: whoever reads or waits for room is woken."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """Free it; nobody reads or writes any more."""
        if self._readable is not None:
            self._readable.close()
        self._socket.close()


class ClientSocket:
    """One connection. `recv` is called in one thread, everything else in any."""

    def __init__(self, connection: socket.socket, uri: WebSocketURI) -> None:
        self._network = _Network(connection)
        self._protocol = ClientProtocol(uri, extensions=None, max_size=None)
        self._framing = threading.RLock()  # the protocol, and `_own`
        self.writing = threading.RLock()  # what is written next
        self._parts: list[bytes] = []  # fragments of a message that goes on
        self._messages: deque[bytes | str] = deque()  # received, and not asked for yet
        self._own: deque[bytes] = deque()  # frames without messages: pings, pongs, close
        self._rest = memoryview(b"")  # of what is being written
        self._pieces: Iterator[bytes] = iter(())
        self._source: Callable[[], Iterable[bytes]] = tuple
        self._bell: SimpleQueue[None] = SimpleQueue()  # a signal handler may put while put runs
        self._over = False
        self.heard = 0  # how often anything was received
        self._writer = threading.Thread(target=self._write, name="polycast-send", daemon=True)

    def shake_hands(self, headers: Mapping[str, str], timeout: float) -> None:
        """Open the WebSocket, in the thread that reads; raises what `websockets` does."""
        protocol, deadline = self._protocol, time.monotonic() + timeout
        request = protocol.connect()
        request.headers.update(headers)
        protocol.send_request(request)
        self._take_own()
        self._writer.start()
        self.ring()
        while protocol.state is State.CONNECTING and protocol.handshake_exc is None:
            left = deadline - time.monotonic()
            if left <= 0 or not self._receive(left):
                raise TimeoutError("timed out while waiting for handshake response")
        if protocol.handshake_exc is not None:
            raise protocol.handshake_exc

    # -- any thread --------------------------------------------------------------------------------

    def take_from(self, messages: Callable[[], Iterable[bytes]]) -> None:
        """Set the source of messages; it is asked each time that there is something to send."""
        self._source = messages

    def needs(self, thread: threading.Thread) -> bool:
        """Whether a thread sends, and so must not wait for an answer."""
        return thread is self._writer

    def ring(self) -> None:
        """Wake the writer."""
        self._bell.put(None)

    def write_now(self) -> None:
        """Write in this thread what the network takes at once, and leave the rest to the writer."""
        # A finaliser may have interrupted this very thread anywhere: then the writer does it.
        is_inside = is_mine(self._framing) or is_mine(self.writing)
        if is_inside or not self.writing.acquire(blocking=False):
            self.ring()
            return
        try:
            is_all = self._write_some()
        except OSError:  # the reader notices, and reconnects
            self.cut()
            return
        except BaseException:  # an interrupt: nobody knows what was written
            self.cut()
            raise
        finally:
            self.writing.release()
        if not is_all:
            self.ring()

    def send(self, message: bytes) -> None:
        """Send one message, before there is a source of messages."""
        self._frame(lambda: self._protocol.send_binary(message))
        self.ring()

    def ping(self) -> None:
        """Send a ping."""
        self._frame(lambda: self._protocol.send_ping(b""))
        self.ring()

    def say_goodbye(self) -> None:
        """Send that the connection ends; the reader then receives its end."""
        with suppress(Exception):  # it has ended
            self._frame(self._protocol.send_close)
        self.ring()

    def cut(self) -> None:
        """End it at once, even while the writer writes."""
        self._over = True
        with suppress(OSError):
            self._network.shut(SHUT_RDWR)
        self.ring()

    def release(self) -> None:
        """Free it after `cut`, in the thread that reads."""
        if self._writer.ident is not None:
            self._writer.join(2.0)
        with self.writing:
            self._network.close()

    # -- reading -----------------------------------------------------------------------------------

    def recv(self, timeout: float | None) -> bytes | str:
        """The next message; `TimeoutError` if nothing is received meanwhile."""
        closes_at: float | None = None
        while not self._messages:
            if self._protocol.state is State.OPEN:
                if not self._receive(timeout):
                    raise TimeoutError
                continue
            now = time.monotonic()
            closes_at = now + CLOSING if closes_at is None else closes_at
            is_over = self._protocol.state is State.CLOSED or now >= closes_at
            if is_over or not self._receive(closes_at - now):
                with self._framing:
                    self._protocol.receive_eof()
                    raise self._protocol.close_exc
        return self._messages.popleft()

    def _receive(self, timeout: float | None) -> bool:
        """Receive once, and handle it; whether anything came in time."""
        data = self._network.recv(timeout)
        if data is None:
            return False
        self.heard += 1
        with self._framing:
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            events = self._protocol.events_received()
            has_own = self._take_own()
        if has_own:
            self.ring()
        for event in events:
            if isinstance(event, Frame):
                self._take(event)
        return True

    def _take(self, frame: Frame) -> None:
        if frame.opcode is Opcode.TEXT:
            self._messages.append("a text")  # which no broker sends
        elif frame.opcode in _DATA:
            self._parts.append(bytes(frame.data))
            if frame.fin:
                self._messages.append(b"".join(self._parts))
                self._parts.clear()

    # -- writing -----------------------------------------------------------------------------------

    def _frame(self, send: Callable[[], None]) -> None:
        with self._framing:
            send()
            self._take_own()

    def _take_own(self) -> bool:
        """Queue what the protocol has to send; the lock is held. Whether there is anything."""
        data = self._protocol.data_to_send()
        self._own.extend(data)
        return bool(data)

    def _write(self) -> None:
        with others_wait():
            try:
                while True:
                    self._bell.get()
                    with suppress(Empty):  # one pass serves all wake-ups so far
                        while True:
                            self._bell.get_nowait()
                    if self._over:
                        return
                    with self.writing:
                        while not self._write_some():
                            self._network.await_room()
            except Exception:  # the reader notices, and reconnects
                self.cut()

    def _write_some(self) -> bool:
        """Write until the network takes no more; whether that was all. `writing` is held."""
        while True:
            if not self._rest:
                data = self._next()
                if data is None:
                    return True
                if not data:  # the end of what is sent
                    self._network.shut(SHUT_WR)
                    continue
                self._rest = memoryview(data)
            sent = self._network.send(self._rest)
            if sent is None:
                return False
            self._rest = self._rest[sent:]

    def _next(self) -> bytes | None:
        """What is written next: frames without messages first; None if there is nothing."""
        if self._own:
            return self._own.popleft()
        piece = next(self._pieces, None)
        if piece is None:
            self._pieces = self._framed()
            piece = next(self._pieces, None)
        return piece

    def _framed(self) -> Iterator[bytes]:
        """Waiting messages, as frames of at most one piece each."""
        for message in self._source():
            for at in range(0, len(message), PIECE):
                with self._framing:
                    if self._protocol.state is not State.OPEN:
                        return
                    is_last = at + PIECE >= len(message)
                    continues = at > 0
                    send = (
                        self._protocol.send_continuation
                        if continues
                        else self._protocol.send_binary
                    )
                    send(message[at : at + PIECE], fin=is_last)
                    *own, data = self._protocol.data_to_send()
                    self._own.extend(own)
                yield data
