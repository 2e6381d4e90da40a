"""`polycast serve`: a broker over a store, until somebody ends it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from shop_events import Sale, url

import polycast as pc
from polycast.broker.server.tokenfile import new_token

POLYCAST = [sys.executable, "-W", "error", "-m", "polycast"]
Serve = Callable[..., tuple[subprocess.Popen[str], str]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a broker in a process of its own; what it says when it is ready."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: object) -> tuple[subprocess.Popen[str], str]:
        listen = [] if "--listen" in words else ["--listen", "127.0.0.1:0"]
        process = subprocess.Popen(
            [*POLYCAST, "serve", *map(str, words), *listen],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline()

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=60)


def ended(process: subprocess.Popen[str], by: signal.Signals) -> tuple[int, str]:
    """The exit status and what it had to say."""
    process.send_signal(by)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal_and_lets_go_of_the_store(
    serve: Serve, run: Any, store: Path, by: signal.Signals
) -> None:
    process, line = serve("--store", url(store), "--json")
    ready = json.loads(line)
    assert ready["ready"]
    assert (ready["store"], ready["tokens"], ready["tls"]) == (url(store), None, False)
    with pc.Bus(ready["url"]) as bus:
        assert bus.publish(Sale(8)).position == 11
    assert ended(process, by) == (0, "")
    assert not Path(f"{store}-wal").exists()
    report = run("doctor", store, "--json", "--no-sync-test").data
    assert (report["log"]["events"], report["buses"]) == (11, [])


def test_the_line_for_people_has_address_store_tokens_and_tls(serve: Serve, store: Path) -> None:
    _, line = serve("--store", store)
    assert line.startswith(f"serving {url(store)} at polycast://127.0.0.1:")
    assert line.endswith("; no tokens: anybody may do everything; no TLS. Ctrl-C ends it\n")


def test_a_store_that_is_not_there_is_made(serve: Serve, run: Any, tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    process, line = serve("--store", path, "--json")
    assert run("types", json.loads(line)["url"]).out == "no types are described\n"
    assert ended(process, signal.SIGINT)[0] == 0
    assert path.exists()


def test_a_store_in_memory_lasts_as_long_as_the_broker(serve: Serve, run: Any) -> None:
    _, line = serve("--store", "memory:", "--json")
    with pc.Bus(json.loads(line)["url"]) as bus:
        bus.publish(Sale(1))
    assert len(run("tail", json.loads(line)["url"], "--json").rows) == 1


def test_a_host_name_is_served_at_all_its_addresses(serve: Serve, run: Any, store: Path) -> None:
    _, line = serve("--store", store, "--json", "--listen", "localhost:0")
    ready = json.loads(line)
    assert ready["url"] == f"polycast://localhost:{ready['port']}"
    assert run("subs", ready["url"]).status == 0
    assert run("subs", f"polycast://127.0.0.1:{ready['port']}").status == 0


def test_tokens_and_tls_are_said_and_wanted(
    serve: Serve, run: Any, store: Path, tmp_path: Path
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    own = authority.issue_cert("localhost", "127.0.0.1")
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "broker.pem"))
    (tmp_path / "broker.key").touch(mode=0o644)
    own.private_key_pem.write_to_path(str(tmp_path / "broker.key"))
    secret, digest = new_token()
    tokens = tmp_path / "tokens.toml"
    tokens.touch(mode=0o644)
    tokens.write_text(f'[[token]]\nname = "clerk"\nsha256 = "{digest}"\nsubscribe = ["*"]\n')
    words = ["--tls-cert", tmp_path / "broker.pem", "--tls-key", tmp_path / "broker.key"]
    process, line = serve("--store", store, "--json", "--tokens", tokens, *words)
    ready = json.loads(line)
    assert (ready["tokens"], ready["tls"]) == (1, True)
    assert ready["url"].startswith("polycasts://")
    trust = ["--tls-ca", tmp_path / "authority.pem"]
    assert len(run("tail", ready["url"], "--json", *trust, "--token", secret).rows) == 10
    assert run("tail", ready["url"], *trust).status == 1
    assert run("tail", ready["url"], "--token", secret).status == 1
    report = run("doctor", ready["url"], "--json", *trust, "--token", secret).data
    assert "broker" in report, report
    assert report["broker"]["token"] == "clerk"
    status, err = ended(process, signal.SIGTERM)
    assert status == 0
    assert f"warning: {tmp_path / 'broker.key'}: others than its owner can use it" in err
    assert f"warning: {tokens}" in err


def test_limits_are_those_that_were_asked_for(serve: Serve, run: Any, store: Path) -> None:
    words = ["--frame-limit", 50_000, "--rate-limit", 7, "--subscription-limit", 5]
    more = ["--pending-limit", 9, "--heartbeat", 3, "--patience", 4]
    _, line = serve("--store", store, "--json", *words, *more)
    place = json.loads(line)["url"]
    limits = run("doctor", place, "--json").data["broker"]["limits"]
    assert (limits["frame"], limits["rate"], limits["subscriptions"]) == (50_000, 7, 5)
    assert (limits["pending"], limits["heartbeat"]) == (9, 3.0)
    refused = run("pub", place, "Sale", *['{"number": 1}'] * 9, "--json")
    assert (refused.status, refused.data["error"]["code"]) == (1, "rate")


# -- what is refused -------------------------------------------------------------------------------


def test_it_does_not_listen_to_other_machines_without_tokens_and_tls(run: Any, store: Path) -> None:
    ran = run("serve", "--store", store, "--listen", "0.0.0.0:0", "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "exposed")
    assert "--insecure" in ran.data["error"]["message"]


def test_it_does_so_if_that_is_said(serve: Serve, store: Path) -> None:
    _, line = serve("--store", store, "--listen", "0.0.0.0:0", "--insecure", "--json")
    assert json.loads(line)["addresses"] == ["0.0.0.0"]


def test_a_port_that_is_taken_is_an_error(run: Any, store: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        ran = run("serve", "--store", store, "--listen", place, "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "broker-error")
    assert f"cannot listen at {place}" in ran.data["error"]["message"]
    assert not Path(f"{store}-wal").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--store", "BAD"], "not-a-store"),
        (["--store", "kafka://host"], "not-available"),
        (["--store", "STORE", "--listen", "7788"], "bad-option"),
        (["--store", "STORE", "--tokens", "BAD"], "bad-tokens"),
        (["--store", "STORE", "--tls-cert", "BAD", "--tls-key", "BAD"], "bad-certificate"),
    ],
)
def test_what_cannot_be_served_is_an_error_with_a_code(
    run: Any, store: Path, tmp_path: Path, words: list[str], code: str
) -> None:
    bad = tmp_path / "bad"
    bad.write_text("not what it should be " * 100)
    given = [word.replace("STORE", str(store)).replace("BAD", str(bad)) for word in words]
    ran = run("serve", *given, "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, code)


@pytest.mark.parametrize(
    "words", [[], ["--store", "STORE", "--tls-cert", "a"], ["--store", "STORE", "--patience", "0"]]
)
def test_what_is_not_whole_is_a_usage_error(run: Any, store: Path, words: list[str]) -> None:
    ran = run("serve", *(word.replace("STORE", str(store)) for word in words), "--json")
    assert (ran.status, ran.data["error"]["code"]) == (2, "usage")


@pytest.mark.parametrize("missing", ["uvicorn", "starlette"])
def test_without_the_extra_the_error_names_it(store: Path, missing: str) -> None:
    script = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from polycast.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "serve", "--store", str(store)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "pip install 'polycast[server]'" in done.stderr
    assert done.stderr.endswith("[not-available]\n")
