"""A broker in the foreground: what it is made of, what it tells, and how it is ended."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.broker.server.listen_address import Listen
from polycast.broker.server.origins import Admission
from polycast.broker.wire.messages import Limits
from polycast.broker.wire.security import certificate_findings, tls_server_context
from polycast.cli.formatting import count, listed
from polycast.cli.targets import file_of
from polycast.cli.terminal import UsageError
from polycast.errors import NotAvailableError
from polycast.plain_text import PlainFilter
from polycast.stores.urls import path_of

if TYPE_CHECKING:
    import ssl
    from argparse import Namespace
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from polycast.broker.server.access import Tokens
    from polycast.broker.server.run import Serving
    from polycast.cli.terminal import Terminal

__all__ = [
    "Ending",
    "admission_of",
    "check_server",
    "logging_to_stderr",
    "serving_of",
    "tell_ready",
    "tls_of",
    "warn",
]

_LOGGERS = ("polycast", "uvicorn", "asyncio")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def check_server() -> None:
    """Raise an error that names the extra, if the server's libraries are missing."""
    try:
        import polycast.broker.server.run  # noqa: F401 - to know whether its libraries are there
    except ImportError as error:
        raise NotAvailableError(
            "a broker",
            why=f"it needs {error.name or error}",
            instead="pip install 'polycast[server]'",
        ) from error


def serving_of(
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
    url = _url(given.store)
    server_limits = ServerLimits(
        connections=given.connection_limit or ServerLimits().connections,
        per_address=given.address_limit,
        handshake=given.handshake,
    )
    broker = Broker(
        url,
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


def admission_of(given: Namespace, listen: Listen) -> Admission:
    """Who is let in besides: by the name to listen at, and by those that were listed."""
    return Admission(
        hosts=(listen.host, *given.allow_host),
        origins=tuple(given.allow_origin),
        plain_tokens=given.insecure,
    )


def _url(store: str) -> str:
    """A path, the URL of a store, or `memory:`, which lasts as long as the broker."""
    if _is_url(store) and path_of(store) is None:
        return store
    return f"sqlite:///{file_of(store)}"


def _is_url(store: str) -> bool:
    """Whether it is no plain path."""
    return "://" in store or store.startswith(("sqlite:", "memory:"))


def tls_of(given: Namespace) -> Callable[[], ssl.SSLContext] | None:
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


def warn(given: Namespace, tokens: Tokens | None, terminal: Terminal) -> None:
    """Tell what is doubtful about certificates and tokens."""
    now = terminal.clock.time()
    findings: list[object] = []
    if given.tls_cert is not None:
        findings += certificate_findings(given.tls_cert, given.tls_key, now=now)
    if tokens is not None:
        findings += tokens.findings(now=now)
    for finding in findings:
        terminal.note(f"warning: {finding}")


def tell_ready(
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
    if terminal.as_json:
        terminal.line(msgspec.json.encode(data).decode())
    else:
        who = (
            "no tokens: anybody may do everything"
            if tokens is None
            else count(len(tokens), "token")
        )
        at = f" ({listed(addresses)})" if len(addresses) > 1 else ""
        how = "TLS" if tls else "no TLS"
        terminal.line(f"serving {broker.url} at {url}{at}; {who}; {how}. Ctrl-C ends it")
    terminal.flush()


class Ending:
    """Ctrl-C, or the signal that ends a service; a second one does not wait any more."""

    signals = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    def wait(self, seconds: float) -> bool:
        """Whether it was asked for, after so long at most."""
        return self._asked.wait(seconds)

    def __enter__(self) -> Ending:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in self.signals}
        return self

    def _note(self, number: int, frame: object) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


def _rate_of_libraries() -> Callable[[logging.LogRecord], bool]:
    """What strangers have libraries log comes no oftener than what they have us log."""
    from polycast.broker.server.log_rate_limit import LogRateFilter

    rate = LogRateFilter()
    return lambda record: record.name.startswith("polycast") or rate.filter(record)


@contextmanager
def logging_to_stderr() -> Iterator[None]:
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
