"""`polycast serve`: a broker over a store, until somebody ends it."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from polycast.broker.server.garbage_collection import RareCollections
from polycast.broker.server.network_policy import Admission, Listen, check_exposure
from polycast.broker.server.tokenfile import Tokens, load_tokens
from polycast.broker.wire.protocol import Limits
from polycast.broker.wire.security import certificate_findings, tls_server_context
from polycast.cli.command_line import Parser, add_command, seconds, whole
from polycast.cli.formatting import count, listed
from polycast.cli.operands import file_of, is_url
from polycast.cli.terminal import StopRequest, UsageError
from polycast.errors import BrokerError, NotAvailableError
from polycast.plain_text import PlainFilter
from polycast.stores import path_of

if TYPE_CHECKING:
    import ssl
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from polycast.broker.server.run import Serving
from polycast.cli.terminal import Terminal

LISTEN = "127.0.0.1:7788"
PATIENCE, HANDSHAKE = 30.0, 10.0
_LOOK = 0.5  # seconds between two looks at whether it still serves


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    example = f"serve --store sqlite:///events.db --listen {LISTEN}"
    command = add_command(commands, "serve", run, what, example)
    command.take(
        "--store STORE",
        "a path, sqlite:///path, or memory:; a missing file is created",
        required=True,
    )
    command.take("--listen HOST:PORT", f"the address to listen at ({LISTEN})", default=LISTEN)
    _add_access(command)
    _add_limits(command)


def _add_access(command: Parser) -> None:
    command.take("--tokens FILE", "the token file; read again when it changes")
    command.take("--tls-cert FILE", "the certificate chain")
    command.take("--tls-key FILE", "the key of the certificate")
    what = "admit only clients with a certificate of these authorities"
    command.take("--tls-client-ca FILE", what)
    for name, of in (
        ("host", "another host name of the broker; *.shop.example works too"),
        ("origin", "an origin of web pages to admit, such as https://desk.shop.example"),
    ):
        command.take(f"--allow-{name} {name.upper()}", f"{of}", repeated=True)
    command.take("--insecure", "listen to other machines without tokens or TLS")


def _add_limits(command: Parser) -> None:
    usual = Limits()
    for name, default, of in (
        ("--frame-limit", usual.frame, "bytes in one frame"),
        ("--rate-limit", usual.rate, "events a second from one connection; 0: unlimited"),
        ("--subscription-limit", usual.subscriptions, "subscriptions of one connection"),
        ("--pending-limit", usual.pending, "unanswered requests of one connection"),
    ):
        command.take(f"{name} N", f"{of} ({default:,})", type=whole, default=default)
    for name, of in (
        ("--connection-limit", "connections in all; 0: the limit of open files, at most 10,000"),
        ("--address-limit", "connections of one address; 0: half of all, at most 1,000"),
    ):
        command.take(f"{name} N", of, type=whole, default=0)
    for name, value, of in (
        ("--heartbeat", usual.heartbeat, "silence after which the broker pings a client"),
        ("--patience", PATIENCE, "time after which a client that reads nothing is cut off"),
        (
            "--handshake",
            HANDSHAKE,
            "time limit for the request of a connection, and for its `hello`",
        ),
    ):
        command.take(f"{name} SECONDS", f"{of} ({value:g})", type=seconds, default=value)


def run(given: Namespace, terminal: Terminal) -> int:
    """Serve a store to other hosts until Ctrl-C or SIGTERM; then let go of it."""
    _check_server()
    tls = _tls_of(given)
    tokens = None if given.tokens is None else load_tokens(given.tokens)
    listen = Listen.parse(given.listen)
    admission = Admission(  # besides the name to listen at, who was listed
        hosts=(listen.host, *given.allow_host),
        origins=tuple(given.allow_origin),
        plain_tokens=given.insecure,
    )
    addresses = check_exposure(
        listen, tokens=tokens is not None, tls=tls is not None, insecure=given.insecure
    )
    _warn(given, tokens, terminal)
    with _logging_to_stderr(), StopRequest() as stop:
        stop.listen()
        serving = _serving_of(given, addresses, listen.port, tls, tokens, admission)
        with RareCollections(), serving:
            _tell_ready(given, serving, addresses, terminal)
            while not stop.wait(_LOOK):
                if not serving.is_alive:
                    raise BrokerError(f"the broker at {serving.url} has ended; its log says why")
    return 0


_LOGGERS = ("polycast", "uvicorn", "asyncio")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def _check_server() -> None:
    """Raise an error that names the extra, if the server's libraries are missing."""
    try:
        import polycast.broker.server.run  # noqa: F401 - to know whether its libraries are there
    except ImportError as error:
        raise NotAvailableError(
            "a broker",
            why=f"it needs {error.name or error}",
            instead="pip install 'polycast[server]'",
        ) from error


def _serving_of(
    given: Namespace,
    addresses: tuple[str, ...],
    port: int,
    tls: Callable[[], ssl.SSLContext] | None,
    tokens: Tokens | None,
    admission: Admission,
) -> Serving:
    """A broker that listens."""
    from polycast.broker.server.broker import Broker
    from polycast.broker.server.limits import ServerLimits
    from polycast.broker.server.run import Serving

    limits = Limits(
        frame=given.frame_limit,
        subscriptions=given.subscription_limit,
        pending=given.pending_limit,
        rate=given.rate_limit,
        heartbeat=given.heartbeat,
    )
    server_limits = ServerLimits(
        connections=given.connection_limit or ServerLimits().connections,
        per_address=given.address_limit,
        handshake=given.handshake,
    )
    broker = Broker(
        _url(given.store),
        limits=limits,
        patience=given.patience,
        tokens=tokens,
        server_limits=server_limits,
    )
    try:
        return Serving(broker, host=addresses, port=port, tls=tls, admission=admission)
    except BaseException:
        broker.close()
        raise


def _url(store: str) -> str:
    """A path, the URL of a store, or `memory:`, which lasts as long as the broker."""
    return store if is_url(store) and path_of(store) is None else f"sqlite:///{file_of(store)}"


def _tls_of(given: Namespace) -> Callable[[], ssl.SSLContext] | None:
    """How a context for TLS is made, again when the files change; None without TLS."""
    cert, key, authority = given.tls_cert, given.tls_key, given.tls_client_ca
    if cert is None and key is None and authority is None:
        return None
    if cert is None or key is None:
        raise UsageError("TLS needs both --tls-cert FILE and --tls-key FILE")

    def context() -> ssl.SSLContext:
        return tls_server_context(cert, key, client_ca=authority)

    context()  # what is wrong with the files is said before anything listens
    return context


def _warn(given: Namespace, tokens: Tokens | None, terminal: Terminal) -> None:
    """Tell what is doubtful about certificates and tokens."""
    now = terminal.clock.time()
    findings: list[object] = []
    if given.tls_cert is not None:
        findings += certificate_findings(given.tls_cert, given.tls_key, now=now)
    if tokens is not None:
        findings += tokens.findings(now=now)
    for finding in findings:
        terminal.note(f"warning: {finding}")


def _tell_ready(
    given: Namespace, serving: Serving, addresses: tuple[str, ...], terminal: Terminal
) -> None:
    """The one line that says that it is ready."""
    broker = serving.broker
    # By the name that was given, which is what a certificate is for.
    listen = Listen(Listen.parse(given.listen).host, serving.port)
    url = f"{serving.url.partition('://')[0]}://{listen}"
    tokens, tls = broker.tokens, given.tls_cert is not None
    data: dict[str, Any] = {
        "ready": True,
        "url": url,
        "addresses": list(addresses),
        "port": serving.port,
        "store": broker.url,
        "tokens": None if tokens is None else len(tokens),
        "tls": tls,
        "client_certificates": given.tls_client_ca is not None,
    }
    who = "no tokens: anybody may do everything" if tokens is None else count(len(tokens), "token")
    at = f" ({listed(addresses)})" if len(addresses) > 1 else ""
    how = "TLS" if tls else "no TLS"
    terminal.report(data, f"serving {broker.url} at {url}{at}; {who}; {how}. Ctrl-C ends it")
    terminal.flush()


def _rate_of_libraries() -> Callable[[logging.LogRecord], bool]:
    """What strangers have libraries log comes no oftener than what they have us log."""
    from polycast.broker.server.log_rate_limit import LogRateFilter

    rate = LogRateFilter()
    return lambda record: record.name.startswith("polycast") or rate.filter(record)


@contextmanager
def _logging_to_stderr() -> Iterator[None]:
    """What the broker has to say goes to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    handler.setLevel(logging.WARNING)
    handler.addFilter(_rate_of_libraries())
    handler.addFilter(PlainFilter())  # libraries log, too
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
