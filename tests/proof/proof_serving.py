"""A broker in a process of its own: `python proof_serving.py '{"url": ...}'` until SIGTERM."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import threading

import msgspec
from proof_workers import peak_memory

from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.broker.wire.protocol import Limits

__all__ = ["BrokerJob"]


class BrokerJob(msgspec.Struct, frozen=True):
    """What a broker serves, and how much it takes."""

    url: str
    heartbeat: float = 15.0
    patience: float = 30.0
    window: int = 8_000_000
    frame: int = 16_000_000


def main(text: str) -> None:
    """Serve; the port is told when it is open."""
    faulthandler.enable()
    logging.basicConfig(level=logging.WARNING)
    job = msgspec.json.decode(text, type=BrokerJob)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    limits = Limits(frame=job.frame, window=job.window, heartbeat=job.heartbeat)
    with Serving(Broker(job.url, limits=limits, patience=job.patience)) as serving:
        print("ready", peak_memory(), "at", serving.port, flush=True)
        driver = os.getppid()
        while not stopping.wait(1.0) and os.getppid() == driver:
            pass  # nobody would end it if the driver were killed


if __name__ == "__main__":
    main(sys.argv[1])
