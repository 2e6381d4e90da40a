"""Addresses of brokers: the URL of a remote bus."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from polycast.errors import BadOptionError

PORT = 7788
_SCHEMES = {"polycast": "ws", "polycasts": "wss"}
ACCEPTED = (
    "'polycast://host:7788', or 'polycasts://' with TLS; several brokers of one store with commas, "
    "'polycast://one:7788,other:7788'"
)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of one broker."""

    scheme: str
    host: str
    port: int

    @property
    def is_secure(self) -> bool:
        """Whether it uses TLS."""
        return self.scheme == "polycasts"

    def uri(self, path: str) -> str:
        """The URI of a WebSocket."""
        return f"{_SCHEMES[self.scheme]}://{self._place}{path}"

    @property
    def is_private(self) -> bool:
        """Whether nobody else can read the traffic: it uses TLS, or stays on this machine.

        Of names, only `localhost` counts: others may resolve differently later.
        """
        if self.is_secure or self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def _place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self._place}"


def is_remote(url: object) -> bool:
    """Whether a URL names a broker."""
    return isinstance(url, str) and url.partition(":")[0] in _SCHEMES


def addresses_of(url: str) -> list[Address]:
    """The brokers in a URL, in the order in which they are tried."""
    scheme, _, rest = url.partition("://")
    addresses = []
    for place in rest.rstrip("/").split(","):
        host, port = _split(place.strip())
        if scheme not in _SCHEMES or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise BadOptionError("url", url, accepted=ACCEPTED)
        addresses.append(Address(scheme, host, int(port)))
    return addresses


def _split(place: str) -> tuple[str, str]:
    """Split into host and port."""
    if "@" in place or "/" in place:
        return "", ""  # tokens are options, so that they do not get into logs
    if place.startswith("["):
        host, _, rest = place[1:].partition("]")
        return host, rest.removeprefix(":") or str(PORT)
    host, _, port = place.partition(":")
    return host, port or str(PORT)
