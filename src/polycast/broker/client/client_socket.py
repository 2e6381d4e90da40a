"""The WebSocket of a client: receiving never waits for sending, nor a ping for data.

The library writes to the network while it holds the lock that reading needs, too: while a broker
takes nothing, its answers and pings would not be received either. Here a thread of its own writes,
large messages a piece at a time.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from socket import SHUT_RDWR, SHUT_WR
from typing import TYPE_CHECKING, Any

from websockets.protocol import State
from websockets.sync.client import ClientConnection

from polycast.locks import others_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from websockets.protocol import Event

__all__ = ["ClientSocket"]

PIECE = 65_536  # bytes of a message after which pings and pongs may be sent


class ClientSocket(ClientConnection):
    """The library's connection, with a writer thread."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._bell: SimpleQueue[None] = SimpleQueue()  # a signal handler may put while put runs
        self._own: deque[bytes] = deque()  # frames without messages: pings, pongs, close
        self._messages: Callable[[], Iterable[bytes]] = tuple
        self._over = False
        self.heard = 0  # received frames, fragments too
        super().__init__(*args, **options)
        self._writer = threading.Thread(target=self._write, name="polycast-send", daemon=True)
        self._writer.start()

    # -- any thread --------------------------------------------------------------------------------

    def take_from(self, messages: Callable[[], Iterable[bytes]]) -> None:
        """Set the source of messages; the writer asks it each time that it is woken."""
        self._messages = messages

    def needs(self, thread: threading.Thread) -> bool:
        """Whether a thread sends or receives, and so must not wait for an answer."""
        return thread in (self._writer, self.recv_events_thread)

    def ring(self) -> None:
        """Wake the writer."""
        self._bell.put(None)

    def process_event(self, event: Event) -> None:
        """Count a received frame: the broker lives."""
        self.heard += 1
        super().process_event(event)

    def send_data(self) -> None:
        """Leave frames of the protocol to the writer; the caller holds its lock."""
        self._own.extend(self.protocol.data_to_send())
        self.ring()

    def cut(self) -> None:
        """Close it at once, even while the writer writes."""
        with suppress(OSError):
            self.socket.shutdown(SHUT_RDWR)
        self.close_socket()

    def close_socket(self) -> None:
        """Close it, and end the writer."""
        with suppress(OSError):  # closing alone would not wake a blocked writer
            self.socket.shutdown(SHUT_RDWR)
        super().close_socket()
        self._over = True
        self.ring()

    def join(self, timeout: float) -> None:
        """Wait for the writer to end."""
        if threading.current_thread() is not self._writer:
            self._writer.join(timeout)

    # -- the writer --------------------------------------------------------------------------------

    def _write(self) -> None:
        with others_wait():
            self._write_all()

    def _write_all(self) -> None:
        try:
            for data in self._to_write():
                if data:
                    self.socket.sendall(data)
                else:  # empty data means the end
                    self.socket.shutdown(SHUT_WR)
        except Exception:  # the receiver notices, and reconnects
            self.cut()

    def _to_write(self) -> Iterator[bytes]:
        pieces: Iterator[bytes] = iter(())
        while True:
            while self._own:
                yield self._own.popleft()
            piece = next(pieces, None)
            if piece is not None:
                yield piece
            elif self._wait():
                pieces = self._pieces()
            else:
                return

    def _wait(self) -> bool:
        """Wait until woken; False when it is closed."""
        self._bell.get()
        with suppress(Empty):  # one pass serves all wake-ups so far
            while True:
                self._bell.get_nowait()
        return not self._over

    def _pieces(self) -> Iterator[bytes]:
        """Waiting messages, as frames of at most one piece each."""
        for message in self._messages():
            for at in range(0, len(message), PIECE):
                with self.protocol_mutex:
                    if self.protocol.state is not State.OPEN:
                        return
                    is_last = at + PIECE >= len(message)
                    send = self.protocol.send_continuation if at else self.protocol.send_binary
                    send(message[at : at + PIECE], fin=is_last)
                    data = self.protocol.data_to_send()
                yield b"".join(data)
