"""A store with orders of anything that may be hard."""

from __future__ import annotations

from random import Random

from spark_events import Order, some_order

import polycast as pc


class Orders:
    """Where they are, and what a subscriber gets."""

    def __init__(self, url: str, count: int) -> None:
        self.url = url
        self.events: list[Order] = []
        random = Random(9)
        with pc.Bus(url) as bus:
            bus.publish_many([some_order(random) for _ in range(count)])
            bus.subscribe(Order, self.events.append, since="beginning")
            bus.flush()
