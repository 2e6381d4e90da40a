"""The WebSocket of a client. Hearing never waits for saying, and a ping never waits for data.

That of the library writes to the network while it holds the lock that reading needs, too: while a
broker takes nothing, its answers and its pings would not be heard either. Here one thread writes,
and of large messages a piece at a time.
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

__all__ = ["Socket"]

PIECE = 65_536  # bytes of a message after which pings, and answers to them, have their turn


class Socket(ClientConnection):
    """That of the library, with a thread that writes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._bell: SimpleQueue[None] = SimpleQueue()  # a signal handler may ring it while it rings
        self._own: deque[bytes] = deque()  # frames that are not messages: pings, answers, the end
        self._messages: Callable[[], Iterable[bytes]] = tuple
        self._over = False
        self.heard = 0  # frames, pieces of messages too
        super().__init__(*args, **options)
        self._writer = threading.Thread(target=self._write, name="polycast-send", daemon=True)
        self._writer.start()

    # -- any thread --------------------------------------------------------------------------------

    def take_from(self, messages: Callable[[], Iterable[bytes]]) -> None:
        """Say what this has, each time that the bell is rung."""
        self._messages = messages

    def needs(self, thread: threading.Thread) -> bool:
        """Whether it is one of those that speak and hear, which must not wait for an answer."""
        return thread in (self._writer, self.recv_events_thread)

    def ring(self) -> None:
        """There is something to say."""
        self._bell.put(None)

    def process_event(self, event: Event) -> None:
        """Whatever it is, the broker lives."""
        self.heard += 1
        super().process_event(event)

    def send_data(self) -> None:
        """Leave what the protocol has to say to the writer; who calls this has its lock."""
        self._own.extend(self.protocol.data_to_send())
        self.ring()

    def cut(self) -> None:
        """End it without a word, also for who is just writing."""
        with suppress(OSError):
            self.socket.shutdown(SHUT_RDWR)
        self.close_socket()

    def close_socket(self) -> None:
        """End it; the writer, too."""
        with suppress(OSError):  # who writes would not be woken by closing alone
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
                else:  # the library's sign for the end
                    self.socket.shutdown(SHUT_WR)
        except Exception:  # whoever hears notices, and connects again
            self.cut()

    def _to_write(self) -> Iterator[bytes]:
        pieces: Iterator[bytes] = iter(())
        while True:
            while self._own:
                yield self._own.popleft()
            piece = next(pieces, None)
            if piece is not None:
                yield piece
            elif self._waited():
                pieces = self._pieces()
            else:
                return

    def _waited(self) -> bool:
        """Wait until there is something to say; whether there ever will be."""
        self._bell.get()
        with suppress(Empty):  # what was rung for more than once is there by now, too
            while True:
                self._bell.get_nowait()
        return not self._over

    def _pieces(self) -> Iterator[bytes]:
        """The messages that wait, as frames of at most one piece each."""
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
