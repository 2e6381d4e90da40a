"""The bus's own event loop, for async callbacks that were subscribed outside of any loop."""

from __future__ import annotations

import asyncio
import threading

from polycast.runtime import SYSTEM, Runtime


class LoopThread:
    """An event loop in a thread, started when first needed."""

    def __init__(self, *, runtime: Runtime = SYSTEM) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """The loop, running."""
        with self._lock:
            if self._loop is None:
                loop = self._runtime.event_loop()
                thread = self._runtime.thread(self._run, args=(loop,), name="polycast-loop")
                try:
                    thread.start()
                except RuntimeError:  # there can be no more, or the program ends
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def close(self, timeout: float) -> None:
        """End the loop and its thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
        if loop is None or thread is None or loop.is_closed():
            return
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(timeout)
