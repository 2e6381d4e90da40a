"""Events as an asynchronous iterator."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from polycast.delivery import Callback, Delivery
from polycast.errors import CutOffError

if TYPE_CHECKING:
    from polycast.subscriptions.subscription import Subscription

T_co = TypeVar("T_co", covariant=True)
LOOK = 0.25  # seconds


class Stream(Generic[T_co]):
    """`async for event in bus.stream(T)`: an event is acknowledged when the next is asked for."""

    def __init__(self) -> None:
        self.subscription: Subscription[Any]  # set by the bus, which subscribes `_receive`
        self._arrived: deque[tuple[Any, Delivery]] = deque()
        self._bell = asyncio.Event()
        self._current: Delivery | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # where it is read

    def callback(self) -> Callback:
        """What is subscribed for it; a stream that nobody reads any more ends by itself."""
        mine = weakref.ref(self)

        async def receive(event: Any, delivery: Delivery) -> None:
            stream = mine()
            if stream is None:
                delivery.subscription.cancel()
            else:
                stream._receive(event, delivery)

        return Callback(receive, wants_delivery=True, is_async=True)

    def _receive(self, event: Any, delivery: Delivery) -> None:
        self._arrived.append((event, delivery))
        if self._loop is None:
            self._bell.set()
        else:  # it may be read in another loop than it is called back in
            self._loop.call_soon_threadsafe(self._bell.set)

    def __aiter__(self) -> Stream[T_co]:
        return self

    async def __anext__(self) -> T_co:
        self.subscription.mailbox.services.home.check("reading a stream")
        self._loop = asyncio.get_running_loop()
        self._acknowledge()
        while not self._arrived:
            self._stop_if_ended()
            self._bell.clear()
            with suppress(TimeoutError):  # look now and then whether it has ended
                await asyncio.wait_for(self._bell.wait(), LOOK)
        # Nothing is awaited from here on, so who gives up waiting loses nothing.
        event, self._current = self._arrived.popleft()
        return event  # type: ignore[no-any-return]

    def _acknowledge(self) -> None:
        current, self._current = self._current, None
        if current is not None and self.subscription.ended is None:
            mailbox = self.subscription.mailbox  # the event loop does not wait for the disk
            mailbox.worker.settle("ack()", current.token, None, confirm=False)

    def _stop_if_ended(self) -> None:
        ended = self.subscription.ended
        if isinstance(ended, CutOffError):
            raise ended
        if ended is not None:
            raise StopAsyncIteration

    async def aclose(self) -> None:
        """Acknowledge the last event and end the subscription; a durable one is detached."""
        if self.subscription.state == "forked":
            return
        self._acknowledge()
        if self.subscription.ended is None:
            if self.subscription.durable:
                self.subscription.detach()
            else:
                self.subscription.cancel()

    async def __aenter__(self) -> Stream[T_co]:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
