"""`polycast serve`: a broker over a store, until somebody ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import add_command, seconds, whole

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace

    from polycast.cli.terminal import Terminal

__all__ = ["HEARTBEAT", "LIMITS", "declare"]

LISTEN = "127.0.0.1:7788"
PATIENCE, HANDSHAKE = 30.0, 10.0
# As `Limits` of the wire has them, which takes long to load.
HEARTBEAT = 15.0
LIMITS = (
    ("--frame-limit", 16_000_000, "bytes in one frame"),
    ("--rate-limit", 0, "events a second from one connection, 0 for any number"),
    ("--subscription-limit", 20_000, "subscriptions of one connection"),
    ("--pending-limit", 10_000, "questions of one connection without an answer"),
)
_LOOK = 0.5  # seconds between two looks at whether it still serves


def declare(commands: Any) -> None:
    """Declare the command."""
    what = "serve a store to other processes and hosts until Ctrl-C"
    example = f"serve --store sqlite:///events.db --listen {LISTEN}"
    command = add_command(commands, "serve", run, what, example)
    command.add_argument(
        "--store",
        metavar="STORE",
        required=True,
        help="path of the store, sqlite:///path, or memory:; a file that is not there is made",
    )
    command.add_argument("--listen", metavar="HOST:PORT", default=LISTEN, help=f"where ({LISTEN})")
    _add_access(command)
    _add_limits(command)


def _add_access(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--tokens", metavar="FILE", help="who may do what; read again if it changes"
    )
    command.add_argument("--tls-cert", metavar="FILE", help="the certificate, and its authorities")
    command.add_argument("--tls-key", metavar="FILE", help="its key")
    command.add_argument(
        "--tls-client-ca", metavar="FILE", help="let in only who has a certificate of these"
    )
    for name, of in (
        ("host", "another name by which clients reach it, also *.shop.example"),
        ("origin", "web pages that may use it, such as https://desk.shop.example; none else may"),
    ):
        command.add_argument(
            f"--allow-{name}",
            metavar=name.upper(),
            action="append",
            default=[],
            help=f"{of}; may be said again",
        )
    command.add_argument(
        "--insecure",
        action="store_true",
        help="listen to other machines although tokens or TLS are missing",
    )


def _add_limits(command: argparse.ArgumentParser) -> None:
    for name, default, of in LIMITS:
        command.add_argument(
            name, metavar="N", type=whole, default=default, help=f"{of} ({default:,})"
        )
    for name, of in (
        ("--connection-limit", "connections in all; 0: as this process may have files open"),
        ("--address-limit", "those of one address; 0: half of all, and 1,000 at most"),
    ):
        command.add_argument(name, metavar="N", type=whole, default=0, help=of)
    for name, value, of in (
        ("--heartbeat", HEARTBEAT, "after which a silent client is asked whether it lives"),
        ("--patience", PATIENCE, "after which a client that takes nothing is cut off"),
        ("--handshake", HANDSHAKE, "until the request of a connection is there, and its `hello`"),
    ):
        command.add_argument(
            name, metavar="SECONDS", type=seconds, default=value, help=f"{of} ({value:g})"
        )


def run(given: Namespace, terminal: Terminal) -> int:
    """Serve a store to other hosts until Ctrl-C or SIGTERM; then let go of it."""
    from polycast.broker.server.access import load_tokens
    from polycast.broker.server.listen_address import Listen, check_exposure
    from polycast.cli import service
    from polycast.errors import BrokerError

    service.check_server()
    tls = service.tls_of(given)
    tokens = None if given.tokens is None else load_tokens(given.tokens)
    listen = Listen.parse(given.listen)
    admission = service.admission_of(given, listen)
    addresses = check_exposure(
        listen, tokens=tokens is not None, tls=tls is not None, insecure=given.insecure
    )
    service.warn(given, tokens, terminal)
    with service.logging_to_stderr(), service.Ending() as ending:
        serving = service.serving_of(given, addresses, listen.port, tls, tokens, admission)
        with serving:
            service.tell_ready(given, serving, addresses, terminal)
            while not ending.wait(_LOOK):
                if not serving.is_alive:
                    raise BrokerError(f"the broker at {serving.url} has ended; its log says why")
    return 0
