"""The words of the commands about brokers: serving, measuring, tokens."""

from __future__ import annotations

from typing import Any

from polycast.broker.wire.messages import Limits
from polycast.cli.arguments import add_place, command, family, seconds, whole
from polycast.cli.benching import bench
from polycast.cli.serving import serve
from polycast.cli.tokens import check_tokens, make_token

__all__ = ["add_broker_commands"]

GRANTS = "A grant is shop.Order, 'shop.*', '/Chat/**', 'shop.Note @ /Chat/**' or '*'."
TOKENS_STATUS = "Exit status: 0 well, 1 errors, 3 warnings only."
LISTEN = "127.0.0.1:7788"
PATIENCE, HANDSHAKE = 30.0, 10.0


def add_broker_commands(commands: Any) -> None:
    """Add them."""
    _add_serve(commands)
    _add_bench(commands)
    _add_tokens(commands)


def _add_serve(commands: Any) -> None:
    what = "serve a store to other processes and hosts until Ctrl-C"
    example = f"serve --store sqlite:///events.db --listen {LISTEN}"
    one = command(commands, "serve", serve, what, example)
    one.add_argument(
        "--store",
        metavar="STORE",
        required=True,
        help="path of the store, sqlite:///path, or memory:; a file that is not there is made",
    )
    one.add_argument("--listen", metavar="HOST:PORT", default=LISTEN, help=f"where ({LISTEN})")
    one.add_argument("--tokens", metavar="FILE", help="who may do what; read again if it changes")
    one.add_argument("--tls-cert", metavar="FILE", help="the certificate, and its authorities")
    one.add_argument("--tls-key", metavar="FILE", help="its key")
    one.add_argument(
        "--tls-client-ca", metavar="FILE", help="let in only who has a certificate of these"
    )
    for name, of in (
        ("host", "another name by which clients reach it, also *.shop.example"),
        ("origin", "web pages that may use it, such as https://desk.shop.example; none else may"),
    ):
        one.add_argument(
            f"--allow-{name}",
            metavar=name.upper(),
            action="append",
            default=[],
            help=f"{of}; may be said again",
        )
    one.add_argument(
        "--insecure",
        action="store_true",
        help="listen to other machines although tokens or TLS are missing",
    )
    limits = Limits()
    for name, default, of in (
        ("--frame-limit", limits.frame, "bytes in one frame"),
        ("--rate-limit", limits.rate, "events a second from one connection, 0 for any number"),
        ("--subscription-limit", limits.subscriptions, "subscriptions of one connection"),
        ("--pending-limit", limits.pending, "questions of one connection without an answer"),
    ):
        one.add_argument(name, metavar="N", type=whole, default=default, help=f"{of} ({default:,})")
    for name, of in (
        ("--connection-limit", "connections in all; 0: as this process may have files open"),
        ("--address-limit", "those of one address; 0: half of all, and 1,000 at most"),
    ):
        one.add_argument(name, metavar="N", type=whole, default=0, help=of)
    for name, value, of in (
        ("--heartbeat", limits.heartbeat, "after which a silent client is asked whether it lives"),
        ("--patience", PATIENCE, "after which a client that takes nothing is cut off"),
        ("--handshake", HANDSHAKE, "until the request of a connection is there, and its `hello`"),
    ):
        one.add_argument(
            name, metavar="SECONDS", type=seconds, default=value, help=f"{of} ({value:g})"
        )


def _add_bench(commands: Any) -> None:
    what = "measure how fast events get to subscribers, with a type and a topic of its own"
    example = "bench polycast://127.0.0.1:7788 --events 10000 --subscribers 4"
    more = "What it publishes stays in the log as long as the rule of retention keeps it."
    one = command(commands, "bench", bench, what, example, more=more)
    add_place(one)
    one.add_argument("--events", metavar="N", type=whole, default=10_000, help="how many (10,000)")
    one.add_argument("--size", metavar="BYTES", type=whole, default=100, help="of each (100)")
    one.add_argument("--subscribers", metavar="K", type=whole, default=1, help="how many (1)")


def _add_tokens(commands: Any) -> None:
    group = family(commands, "token", "make and check tokens of a broker", "token new")
    what = "make a secret, shown this once, and the token of it for a broker's file of tokens"
    example = "token new --name till-7 --publish shop.Order --subscribe '/Chat/**'"
    one = command(group, "new", make_token, what, example, more=GRANTS)
    one.add_argument("--name", metavar="NAME", help="what logs and errors call it")
    for name, may in (
        ("publish", "what it may publish"),
        ("subscribe", "what it may subscribe to"),
        ("describe", "names of types that belong to its owner, such as 'shop.*'"),
    ):
        text = f"{may}; may be said again"
        one.add_argument(f"--{name}", metavar="GRANT", action="append", default=[], help=text)
    one.add_argument("--admin", action="store_true", help="it may do everything, also to others")
    owner = "tokens with the same owner share their publishers and subscriptions; default: its name"
    one.add_argument("--owner", metavar="NAME", help=owner)
    what = "list the tokens of a file, their rights, and what is wrong"
    example = "token check tokens.toml"
    one = command(group, "check", check_tokens, what, example, more=TOKENS_STATUS)
    one.add_argument("file", metavar="FILE", help="the broker's file of tokens")
