"""Where a broker listens, and whether that is safe."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass

from polycast.errors import BadOptionError, ExposedError

Resolve = Callable[[str], tuple[str, ...]]
"""From a host name to its addresses; raises `OSError` for an unknown one."""

_ACCEPTED = "HOST:PORT, such as 127.0.0.1:7788, localhost:7788 or [::1]:7788"
_TEXT = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<host>[^\[\]:]*)):(?P<port>[0-9]+)", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")
_HIGHEST_PORT = 65_535
_TOKENS, _TLS = "tokens (--tokens)", "TLS (--tls-cert, --tls-key)"


def addresses_of(host: str) -> tuple[str, ...]:
    """Resolve a host name."""
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return tuple(dict.fromkeys(str(info[4][0]) for info in infos))


@dataclass(frozen=True, slots=True)
class Listen:
    """A host and a port to listen at; port 0 is any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Listen:
        """Parse `host:port`, where an IPv6 address is in brackets."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise BadOptionError("listen", text, accepted=_ACCEPTED, why=_misunderstood(text))
        port = int(match["port"]) if len(match["port"]) < 10 else _HIGHEST_PORT + 1
        if port > _HIGHEST_PORT:
            why = f"a port is a number from 0 to {_HIGHEST_PORT}"
            raise BadOptionError("listen", text, accepted=_ACCEPTED, why=why)
        if match["six"] is not None:
            return cls(_checked_six(text, match["six"]), port)
        return cls(_checked_host(text, match["host"]), port)

    def addresses(self, *, resolve: Resolve = addresses_of) -> tuple[str, ...]:
        """All addresses of the host."""
        if _is_address(self.host):
            return (self.host,)
        try:
            addresses = resolve(self.host)
        except (OSError, UnicodeError) as error:
            why = f"the host {self.host!r} is not known here ({error})"
            raise BadOptionError("listen", str(self), accepted=_ACCEPTED, why=why) from error
        if not addresses:
            why = f"the host {self.host!r} has no address"
            raise BadOptionError("listen", str(self), accepted=_ACCEPTED, why=why)
        return addresses

    def is_loopback(self, *, resolve: Resolve = addresses_of) -> bool:
        """Whether only this machine can connect: every address is a loopback address."""
        return all(map(is_loopback, self.addresses(resolve=resolve)))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def check_exposure(
    listen: Listen, *, tokens: bool, tls: bool, insecure: bool, resolve: Resolve = addresses_of
) -> tuple[str, ...]:
    """The addresses to bind; raises `ExposedError` if others could connect without protection.

    Bind these addresses, not the host: a name may change a moment later.
    """
    addresses = listen.addresses(resolve=resolve)
    outside = [address for address in addresses if not is_loopback(address)]
    missing = [what for what, given in ((_TOKENS, tokens), (_TLS, tls)) if not given]
    if outside and missing and not insecure:
        raise ExposedError(str(listen), addresses=outside, missing=missing)
    return addresses


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Whether an address is reachable from this machine only."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # an unknown form is not safe
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return bool((mapped or parsed).is_loopback)


def _checked_six(text: str, host: str) -> str:
    try:
        return str(ipaddress.IPv6Address(host))
    except ValueError as error:
        why = f"{host!r} is not an IPv6 address"
        raise BadOptionError("listen", text, accepted=_ACCEPTED, why=why) from error


def _checked_host(text: str, host: str) -> str:
    if not host:
        why = (
            "it does not say where: 127.0.0.1 is for this machine only, 0.0.0.0 for all that can "
            "reach it"
        )
        raise BadOptionError("listen", text, accepted=_ACCEPTED, why=why)
    if not _NAME.fullmatch(host):
        why = f"{host!r} is neither an address nor the name of a host"
        raise BadOptionError("listen", text, accepted=_ACCEPTED, why=why)
    return host


def _misunderstood(text: str) -> str:
    if "://" in text:
        return "it is a URL"
    if text.isdecimal():
        return "it has no host"
    if text.count(":") > 1 and not text.startswith("["):
        return "an IPv6 address stands in brackets"
    if ":" not in text or text.endswith("]"):
        return "it has no port"
    return "its port is not a whole number"
