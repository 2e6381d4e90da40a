"""The garbage collector looks at what tests leave, and not at all that was there before.

Fifteen thousand tests, and what they import, are millions of objects. Looking through them takes a
second, again and again: whenever a test collects, and now and then by itself. So they are frozen as
soon as they are known to be alive; at the end they are looked at once more, with all that is left.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

__all__ = ["Heap"]


class Heap:
    """Freezes what is alive before the first test, and whenever a file of tests is through."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        """Tests are found: hardly anything of that is garbage."""
        gc.disable()
        try:
            return (yield)
        finally:
            gc.enable()
            _freeze()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """What the tests of a file have left has a cycle of its own or stays."""
        yield
        if nextitem is not None and nextitem.path != item.path:
            _freeze()

    def pytest_sessionfinish(self) -> None:
        """What was frozen may be garbage by now, with something to say when it goes."""
        gc.unfreeze()


def _freeze() -> None:
    gc.collect()
    gc.freeze()
