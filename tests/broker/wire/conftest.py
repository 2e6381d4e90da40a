"""A broker over a store of each kind, to talk with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from wire_talks import Talks


@pytest.fixture(params=["memory:", "sqlite"])
def talks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Talks]:
    """A broker over a store of each kind."""
    path = "memory:" if request.param == "memory:" else f"sqlite:///{tmp_path / 'bus.db'}"
    found = Talks(path)
    yield found
    found.close()
