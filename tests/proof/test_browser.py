"""A page of another origin in a real browser: it gets nothing from a broker on loopback.

Needs Chromium and the Python package `playwright`, of `polycast[proof]`; says so where one is
missing. Each run has one of them; `make proof` has all, with POLYCAST_PROOF=1.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from polycast.broker.server.broker import Broker
from polycast.broker.server.network_policy import Admission
from polycast.broker.server.run import Serving
from polycast.broker.wire.protocol import PATH

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AT_LENGTH = pytest.mark.skipif(
    "POLYCAST_PROOF" not in os.environ, reason="a browser takes seconds: make proof runs it"
)

# What a page can try: open a WebSocket, read by HTTP, and have something included.
ATTACK = """
async ([place, path]) => {
  const opened = await new Promise(done => {
    const socket = new WebSocket(`ws://${place}${path}`);
    socket.onopen = () => { socket.close(); done("open"); };
    socket.onerror = () => done("refused");
  });
  const read = async (path) => {
    try { return await (await fetch(`http://${place}${path}`)).text(); }
    catch (error) { return "refused"; }
  };
  return {socket: opened, metrics: await read("/metrics"), livez: await read("/livez")};
}
"""


class Quiet(SimpleHTTPRequestHandler):
    """A web server that says nothing about it."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Not here."""


@pytest.fixture
def attacker(tmp_path: Path) -> Iterator[int]:
    """The port of a web server with a page of its own."""
    (tmp_path / "index.html").write_text("<title>evil</title>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, in which all of evil.example is this machine, as after DNS rebinding."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: .venv/bin/pip install -e '.[proof]'"
    )
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--no-sandbox",
                "--host-resolver-rules=MAP *.example 127.0.0.1",
                # Its own guard for loopback would hide whether ours bites.
                "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
            ],
        )
        with contextlib.closing(found):
            yield found


def attacked(browser: Any, page_at: str, place: str) -> dict[str, str]:
    """What a page gets out of a broker."""
    page = browser.new_page()
    try:
        page.goto(page_at)
        found: dict[str, str] = page.evaluate(ATTACK, [place, PATH])
        return found
    finally:
        page.close()


NOTHING = {"socket": "refused", "metrics": "refused", "livez": "refused"}


@pytest.mark.slow
def test_a_page_of_another_origin_gets_nothing(browser: Any, attacker: int) -> None:
    with Serving(Broker()) as broker:
        place = f"127.0.0.1:{broker.port}"
        for page in (f"http://evil.example:{attacker}/", f"http://localhost:{attacker}/"):
            assert attacked(browser, page, place) == NOTHING
        assert broker.broker.opened == 0


@AT_LENGTH
def test_a_page_whose_name_is_bound_to_this_machine_gets_nothing(browser: Any) -> None:
    with Serving(Broker()) as broker:
        place = f"evil.example:{broker.port}"
        page = browser.new_page()
        answer = page.goto(f"http://{place}/livez")  # it is served from the broker itself
        found = page.evaluate(ATTACK, [place, PATH])
        page.close()
        assert answer.status == 421
        assert found["socket"] == "refused"
        assert "does not go by the name" in found["metrics"]  # same origin: it reads the refusal
        assert broker.broker.opened == 0


@AT_LENGTH
def test_a_page_that_is_listed_opens_its_socket(browser: Any, attacker: int) -> None:
    origin = f"http://desk.example:{attacker}"
    with Serving(Broker(), admission=Admission(origins=(origin,))) as broker:
        found = attacked(browser, f"{origin}/", f"127.0.0.1:{broker.port}")
        assert found["socket"] == "open"
        assert broker.broker.opened == 1
