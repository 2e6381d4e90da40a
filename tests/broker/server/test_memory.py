"""What an honest publisher in a hurry costs, as the operating system sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess

COUNT, SIZE = 3_000, 100_000
ROOM = 130_000_000  # bytes that either may take more than at the beginning
PUBLISHER = f"""
import asyncio, sys
from dataclasses import dataclass
from pathlib import Path
import polycast as pc

@dataclass
class Large:
    text: str

def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

async def publish_all(bus):
    event = Large("x" * {SIZE})
    await bus.publish_async(event)
    before = most()
    receipts = await asyncio.gather(*(bus.publish_async(event) for _ in range({COUNT})))
    assert len({{each.position for each in receipts}}) == {COUNT}
    print(most() - before)

with pc.Bus(sys.argv[1], publish_timeout=120) as bus:
    asyncio.run(publish_all(bus))
"""


def most_memory(pid: int) -> int:
    """The most that a process has had so far, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_publishing_300_megabytes_at_once_takes_the_broker_a_fraction_of_that(
    tmp_path: Path,
) -> None:
    with BrokerProcess(f"sqlite:///{tmp_path / 'events.db'}") as broker:
        before = most_memory(broker.pid)
        done = subprocess.run(
            [sys.executable, "-c", PUBLISHER, broker.url],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        # Each event is read when it is published, so its publisher has all of them, once.
        assert int(done.stdout) < COUNT * SIZE + ROOM
        assert most_memory(broker.pid) - before < ROOM
