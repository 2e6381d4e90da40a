"""What the tests of matching share: the same claims, of pure Python and of the kernel in C."""

from __future__ import annotations

import pytest

from polycast.matching.native import available


@pytest.fixture(params=["python", "native"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What every matcher of a test matches with."""
    name: str = request.param
    if name == "native" and available() is None:
        pytest.skip("the kernel is not built")
    monkeypatch.setenv("POLYCAST_NATIVE", "off" if name == "python" else "require")
    return name
