"""A command does the same to a file and through a broker."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from shop_events import url

from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.broker.server.tokenfile import load_tokens, new_token

SAME = [
    ["tail", "PLACE", "--since", "beginning"],
    ["tail", "PLACE", "--type", "Sale", "--topic", "/shop/**", "-n", "3"],
    ["subs", "PLACE"],
    ["dlq", "list", "PLACE", "--payload"],
    ["dlq", "show", "PLACE", "2"],
    ["types", "PLACE", "--count"],
    ["types", "PLACE", "Sale"],
    ["explain", "PLACE", "billing", "--position", "8"],
    ["replay", "PLACE", "Sale", "--where", "event.number > 3"],
    ["replay", "PLACE", "--to", "billing", "--dry-run"],
    ["pipeline", "status", "PLACE"],
    ["context", "compare", "PLACE", "root", "root"],
]


@pytest.mark.parametrize("words", SAME, ids=lambda words: " ".join(words))
def test_what_is_told_through_a_broker_is_what_is_in_the_file(
    run: Any, store: Path, broker: str, words: list[str]
) -> None:
    there = [word.replace("PLACE", str(store)) for word in words]
    afar = [word.replace("PLACE", broker) for word in words]
    file, remote = run(*there, "--json"), run(*afar, "--json")
    assert file.status == 0, file.out
    assert (remote.status, remote.out) == (file.status, file.out)


@pytest.mark.parametrize("words", SAME, ids=lambda words: " ".join(words))
def test_every_command_has_words_for_people_through_a_broker(
    run: Any, broker: str, words: list[str]
) -> None:
    ran = run(*(word.replace("PLACE", broker) for word in words))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out


def test_dead_letters_are_replayed_and_purged_anywhere(run: Any, place: str) -> None:
    assert run("dlq", "replay", place, 2, "--yes", "--json").data["replayed"] == [2]
    assert run("dlq", "purge", place, "--all", "--yes", "--json").data["purged"] == [3]
    assert run("dlq", "list", place, "--json").data["total"] == 0


def test_subscriptions_are_cancelled_anywhere(run: Any, place: str) -> None:
    assert run("subs", "cancel", place, "billing", "--yes").status == 0
    names = [each["name"] for each in run("subs", place, "--json").data["subscriptions"]]
    assert names == ["refunds"]


def test_events_are_replayed_anywhere(run: Any, place: str) -> None:
    ran = run("replay", place, "--to", "billing", "--yes", "--json")
    assert ran.data["count"] == 4


@pytest.mark.parametrize(
    "words",
    [
        ["backup", "PLACE", "copy.db"],
        ["restore", "copy.db", "PLACE"],
        ["pipeline", "run", "PLACE"],
        ["replay", "PLACE", "--dry-run", "--spark"],
    ],
    ids=lambda words: words[0],
)
def test_what_needs_the_file_says_so(run: Any, words: list[str], broker: str) -> None:
    ran = run(*(word.replace("PLACE", broker) for word in words), "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "not-available")
    assert "the file of the store itself" in ran.data["error"]["message"]


def test_a_broker_that_is_not_there_is_an_error_with_its_address(run: Any) -> None:
    ran = run("tail", "polycast://127.0.0.1:9", "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "broker-unreachable")
    assert "polycast://127.0.0.1:9" in ran.data["error"]["message"]


def test_a_port_where_nobody_listens_is_told_once(run: Any) -> None:
    with socket.socket() as taken:  # bound, so nobody else has it, and deaf
        taken.bind(("127.0.0.1", 0))
        ran = run("tail", f"polycast://127.0.0.1:{taken.getsockname()[1]}")
    assert ran.status == 1
    assert ran.err.count("no broker answers at") == ran.err.count("Start one with") == 1


def test_an_error_in_words_begins_with_error_and_has_its_code(run: Any, tmp_path: Path) -> None:
    ran = run("tail", tmp_path / "none.db")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert ran.err.endswith(" [not-a-store]\n")


def test_a_token_is_given_by_an_option_or_the_environment(
    run: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, digest = new_token()
    file = tmp_path / "tokens.toml"
    file.touch(mode=0o600)
    file.write_text(f'[[token]]\nname = "clerk"\nsha256 = "{digest}"\nsubscribe = ["*"]\n')
    monkeypatch.delenv("POLYCAST_TOKEN", raising=False)
    with Serving(Broker(url(store), tokens=load_tokens(file))) as serving:
        refused = run("tail", serving.url, "--json")
        assert (refused.status, refused.data["error"]["code"]) == (1, "access-denied")
        assert len(run("tail", serving.url, "--json", "--token", secret).rows) == 10
        monkeypatch.setenv("POLYCAST_TOKEN", secret)
        assert len(run("tail", serving.url, "--json").rows) == 10
        denied = run("pub", serving.url, "Sale", '{"number": 1}', "--json")
        assert (denied.status, denied.data["error"]["code"]) == (1, "access-denied")


def test_tail_shows_all_that_a_token_may_see_however_far_apart(
    run: Any, store: Path, tmp_path: Path
) -> None:
    import shop_events

    import polycast as pc

    with pc.Bus(url(store)) as bus:
        bus.publish_many([shop_events.Sale(n) for n in range(4_500)])
        bus.publish(shop_events.Refund(9))
    secret, digest = new_token()
    file = tmp_path / "tokens.toml"
    file.touch(mode=0o600)
    grant = "shop_events.Refund"
    file.write_text(f'[[token]]\nname = "clerk"\nsha256 = "{digest}"\nsubscribe = ["{grant}"]\n')
    with Serving(Broker(url(store), tokens=load_tokens(file))) as serving:
        words = (serving.url, "--json", "--token", secret)
        rows = run("tail", *words, "--since", "beginning").rows
        assert [row["position"] for row in rows] == [5, 6, 4_511]
        rows = run("replay", *words).rows
        assert [row["position"] for row in rows] == [5, 6, 4_511]


def test_it_follows_what_a_broker_is_given(run: Any, broker: str) -> None:
    words = [sys.executable, "-m", "polycast", "tail", broker, "-n", "1", "--follow", "--json"]
    with subprocess.Popen([*words, "--limit", "3"], stdout=subprocess.PIPE, text=True) as shown:
        assert shown.stdout is not None
        assert json.loads(shown.stdout.readline())["position"] == 10
        for number in (11, 12):
            assert run("pub", broker, "Sale", '{"number": 1}').status == 0
            assert json.loads(shown.stdout.readline())["position"] == number
        assert shown.wait(60) == 0


class _NoBroker(http.server.BaseHTTPRequestHandler):
    """Something else that listens at the port."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.close_connection = True
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


def test_who_is_no_broker_is_told_once(run: Any) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), _NoBroker) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            ran = run("tail", f"polycast://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join(10)
    assert ran.status == 1
    assert ran.err.count("no broker answers at") == ran.err.count("Start one with") == 1
    assert "it answers 404" in ran.err


def test_a_place_that_is_none_is_told_before_spark_is_asked_for(tmp_path: Path) -> None:
    words = ["pipeline", "run", str(tmp_path / "none.db"), "--json"]
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        f"from polycast.cli import main; sys.exit(main({words!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "not-a-store"
