"""Publishing with options: topics, priorities, expiry, headers, and retries by identity."""

from __future__ import annotations

import asyncio
import copy
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from polycast.delivery.consumer import callbacks_under_way
from polycast.errors import QueueFullError, StoreFailedError
from polycast.matching import check_topic
from polycast.subscriptions.options import label_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Self

    from polycast.config import Clock
    from polycast.routing import Dispatcher, MemoryPublisher, StorePublisher, Submission
    from polycast.routing.store_publisher import QueuedSubmission
    from polycast.stores import Receipt


class Publishing:
    """The side entrance of publish, for events that come with options."""

    def __init__(
        self, publisher: MemoryPublisher | StorePublisher, dispatcher: Dispatcher, clock: Clock
    ) -> None:
        self.publisher, self._clock = publisher, clock
        self._routes = dispatcher.routes
        self.context: str | None = None  # the publisher's
        # Those who wait for room without blocking their event loop stand in one line.
        self._line: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._counting = threading.Lock()

    def publish(
        self,
        event: Any,
        topic: object,
        priority: object,
        expires: object,
        headers: object,
        identity: object,
    ) -> Receipt:
        """Publish one event with options; a topic alone has a generated route of its own."""
        if (
            type(priority) is int
            and priority == 0
            and topic is not None
            and expires is headers is identity is self.context is None
        ):
            return self._on_topic(event, topic)
        options = {
            "topic": topic,
            "priority": priority,
            "expires": expires,
            "headers": headers,
            "identity": identity,
        }
        return self.publisher.post(event, label_of(options, self._clock, self.context))

    def publish_many(self, events: list[Any], options: Mapping[str, Any]) -> list[Receipt]:
        """Publish several events, all or none."""
        return self.publisher.post_many(events, label_of(options, self._clock, self.context))

    def within(self, context: str | None) -> Self:
        """The same for events of a context."""
        view = copy.copy(self)
        view.context = context
        return view

    def routes(self) -> dict[type, Callable[[Any], Receipt]]:
        """What publishes events that come without options."""
        if self.context is None:
            return self._routes.plain
        return self._routes.in_context.setdefault(self.context, {})

    def publish_async(
        self, publish: Callable[[], Receipt], event: Any, options: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Receipt]:
        """Publish now, or wait for room in a thread; who comes later gets a later place."""
        del event, options
        if self._waiting == 0:
            mark = callbacks_under_way.set(
                (*callbacks_under_way.get(), None)
            )  # where nothing may wait for room
            try:
                return _settled(publish())
            except QueueFullError:
                pass
            finally:
                callbacks_under_way.reset(mark)
        return self._stand_in_line(publish)

    def _stand_in_line(self, publish: Callable[[], Receipt]) -> Coroutine[Any, Any, Receipt]:
        if self._line is None:
            self._line = ThreadPoolExecutor(1, thread_name_prefix="polycast-waiting")
        with self._counting:
            self._waiting += 1
        place = self._line.submit(publish)
        place.add_done_callback(self._one_less)
        return _arrived(place)

    def _one_less(self, place: Future[Any]) -> None:
        del place
        with self._counting:
            self._waiting -= 1

    def drain(self, timeout: float) -> None:
        """Wait until the store has been given all that was published."""

    def close(self) -> None:
        """Let nobody stand in line any more."""
        if self._line is not None:
            self._line.shutdown(wait=False, cancel_futures=True)

    def _on_topic(self, event: Any, topic: Any) -> Receipt:
        try:
            route = self._routes.on_topic[type(event), topic]
        except (KeyError, TypeError):
            route = self.publisher.route(type(event), check_topic(topic), self.context)
        return route(event)


class StoredPublishing(Publishing):
    """The same over a store, which answers when it has synced."""

    publisher: StorePublisher

    def publish_async(
        self, publish: Callable[[], Receipt], event: Any, options: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Receipt]:
        """Take the place now, and wait for the disk without blocking the event loop."""
        if any(self.publisher.blocking([event], options.get("topic"), self.context)):
            return self._stand_in_line(publish)  # it may have to wait for room
        label = label_of(options, self._clock, self.context)
        return self._synced(self.publisher.submit([event], label, waits=False))

    async def _synced(self, submission: Submission) -> Receipt:
        if submission.waiting is not None:
            await self._turn_of(submission.waiting)
        positions = asyncio.shield(asyncio.wrap_future(submission.positions))
        within = self.publisher.within
        try:
            return submission.receipts(await asyncio.wait_for(positions, within))[0]
        except (TimeoutError, StoreFailedError) as error:
            raise submission.error_for(error, within) from None

    async def _turn_of(self, waiting: QueuedSubmission) -> None:
        """Wait until the store has been given it, as long as it gets on with what it has."""
        queue = self.publisher.queue
        while not waiting.handed_over.done():
            left = queue.patience(waiting)
            if left <= 0:
                queue.withdraw(waiting)
            turn = asyncio.shield(asyncio.wrap_future(waiting.handed_over))
            with suppress(TimeoutError):
                await asyncio.wait_for(turn, max(left, 0.0))

    def drain(self, timeout: float) -> None:
        """Wait until the store has been given all that was published."""
        self.publisher.queue.drain(timeout)

    def close(self) -> None:
        """Let nobody wait any more."""
        self.publisher.queue.close()
        super().close()


async def _settled(receipt: Receipt) -> Receipt:
    return receipt


async def _arrived(place: Future[Receipt]) -> Receipt:
    return await asyncio.wrap_future(place)
