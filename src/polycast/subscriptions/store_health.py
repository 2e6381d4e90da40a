"""How the store of a bus is doing, and the pipeline that routes over it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from polycast.errors import StoreClosedError
from polycast.errors.failures import STORE_FAILURES
from polycast.subscriptions.health import PipelineHealth
from polycast.subscriptions.retention_job import fullness

if TYPE_CHECKING:
    from polycast.config import Clock
    from polycast.log_reader.log_reader import Feed
    from polycast.stores import Store

__all__ = ["pipeline_health", "store_problems"]


def pipeline_health(store: Store, feed: Feed, clock: Clock) -> PipelineHealth | None:
    """How far the pipeline has come, if it routes for anybody here."""
    if not feed.is_routed or not store.is_up:
        return None
    try:
        with store.view() as view:
            routed, newest = view.routed(), view.newest()
    except STORE_FAILURES:
        return None
    since = feed.waits_since
    still = 0.0 if since is None else clock.monotonic() - since
    return PipelineHealth(routed.high, newest + 1 - routed.high, routed.token > 0, still)


def store_problems(store: Store, feed: Feed, pipeline: PipelineHealth | None) -> list[str]:
    """What is wrong with the store, and what its broker does otherwise than usual."""
    if not store.is_up and store.failure is None:
        why = "" if store.trouble is None else f" ({store.trouble})"
        return [f"no broker is connected{why}; that is tried again, and nothing is lost meanwhile"]
    asked = _asked(store) if store.failure is None else []
    trouble = (store.failure, store.trouble, feed.failure)  # an answer ends what was
    found = [*(str(each) for each in trouble if each is not None), *asked]
    if pipeline is not None and pipeline.is_idle:
        found.append(str(pipeline))
    return list(dict.fromkeys(found))


def _asked(store: Store) -> list[str]:
    """What the store itself tells."""
    found: list[str] = []
    with suppress(StoreClosedError):
        try:
            found += [*fullness(store), *store.notices()]
        except STORE_FAILURES as error:
            found.append(str(error))
    return found
