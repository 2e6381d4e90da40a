"""Where a broker listens, by which names it is known, and which web pages may use it.

A browser sends requests of any page to any address, loopback included, and a page may point its own
name at our address (DNS rebinding). Two headers that a page cannot forge tell: `Origin`, the page
that asks, and `Host`, the name by which it reached us. Programs send no `Origin`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from polycast.errors import BadOptionError, ExposedError
from polycast.errors.root import listed
from polycast.plain_text import plain

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
        return cls(_checked_name(text, match["host"]), port)

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


def _checked_name(text: str, host: str) -> str:
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


_HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::(?P<port>[0-9]{1,5}))?")
_ORIGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<place>[^/?#@\s]+)")
_PORTS = {"http": "80", "https": "443"}
_LOCAL = ("localhost", "127.0.0.1", "::1")
_ACCEPTED_HOST = (
    "a host as clients write it, such as broker.shop.example, *.shop.example or 10.0.0.7"
)
_ACCEPTED_ORIGIN = "a page's scheme, host and port, such as https://desk.shop.example"
_ELSEWHERE = ("cross-site", "same-site")


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """Why a request is refused: 403 for a page, 421 for a name, 400 for a malformed header."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Admission:
    """What else is accepted: names of the broker, web pages, and tokens without TLS."""

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    plain_tokens: bool = False
    """Accept tokens without TLS from other machines: something else protects the network."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", tuple(map(_checked_host, self.hosts)))
        object.__setattr__(self, "origins", tuple(map(_checked_origin, self.origins)))


@dataclass(frozen=True)
class HostPolicy:
    """The names of a broker, and the pages that may use it."""

    hosts: frozenset[str]
    origins: frozenset[str]
    _domains: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(
        cls, bound: Iterable[str], admission: Admission, *, certified: Iterable[str] = ()
    ) -> HostPolicy:
        """The policy of a broker by its addresses and the names in its certificate."""
        bound = tuple(host.lower() for host in bound)
        own = [*_LOCAL, *bound, *map(str.lower, certified), *admission.hosts]
        if not all(host == "localhost" or is_loopback(host) for host in bound):
            own.append(socket.gethostname().lower())
        domains = tuple(host.removeprefix("*") for host in own if host.startswith("*."))
        return cls(frozenset(map(_same, own)), frozenset(admission.origins), domains)

    def refusal(
        self, headers: Sequence[tuple[bytes, bytes]], arrived: str | None
    ) -> RequestRefusal | None:
        """Why a request is refused; None if not. `arrived` is the address that it came to."""
        return self._of_host(_values(headers, b"host"), arrived) or self._of_page(headers)

    def _of_host(self, given: list[str], arrived: str | None) -> RequestRefusal | None:
        if len(given) != 1:
            what = "no Host header" if not given else f"{len(given)} Host headers"
            return RequestRefusal(400, f"the request has {what}; exactly one is accepted")
        host = host_of(given[0])
        if host is not None and (host == arrived or self._is_ours(host)):
            return None
        known = listed(sorted(self.hosts))
        return RequestRefusal(
            421,
            f"this broker does not go by the name {plain(repr(given[0]))}; it is known as {known}. "
            f"Whoever serves it can say `polycast serve --allow-host NAME`",
        )

    def _is_ours(self, host: str) -> bool:
        if host in self.hosts:
            return True
        _, dot, domain = host.partition(".")
        return f"{dot}{domain}" in self._domains

    def _of_page(self, headers: Sequence[tuple[bytes, bytes]]) -> RequestRefusal | None:
        given = _values(headers, b"origin")
        if not given:
            return _of_silent_page(headers)
        origin = origin_of(given[0]) if len(given) == 1 else None
        if origin is not None and origin in self.origins:
            return None
        known = listed(sorted(self.origins)) or "none is"
        return RequestRefusal(
            403,
            f"web pages of {plain(repr(', '.join(given)))} may not use this broker; listed: "
            f"{known}. Whoever serves it can say `polycast serve --allow-origin ORIGIN`",
        )


def host_of(text: str) -> str | None:
    """The normalised host of a `Host` header; None if it is malformed."""
    match = _HOST.fullmatch(text.strip(" \t").lower())
    if match is None:
        return None
    if match["six"] is None:
        return _same(match["name"])
    try:
        return str(ipaddress.IPv6Address(match["six"]))
    except ValueError:
        return None


def origin_of(text: str) -> str | None:
    """A normalised `Origin`; None if it is `null` or malformed."""
    match = _ORIGIN.fullmatch(text.strip(" \t").lower())
    if match is None:
        return None
    scheme = match["scheme"]
    place = _HOST.fullmatch(match["place"])
    host = host_of(match["place"])
    if place is None or host is None:
        return None
    host = f"[{host}]" if ":" in host else host
    port = place["port"] or _PORTS.get(scheme, "")
    return f"{scheme}://{host}:{int(port)}" if port else f"{scheme}://{host}"


def _of_silent_page(headers: Sequence[tuple[bytes, bytes]]) -> RequestRefusal | None:
    """Refuse what a page includes, such as an image: it comes without an `Origin`."""
    sites, modes = _values(headers, b"sec-fetch-site"), _values(headers, b"sec-fetch-mode")
    if not any(site in _ELSEWHERE for site in sites) or modes == ["navigate"]:
        return None
    return RequestRefusal(403, "web pages may not include what this broker says")


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for header, value in headers if header.lower() == name]


def _same(host: str) -> str:
    """A normalised host: a name without its last dot, an address in its shortest form."""
    host = host.lower().removesuffix(".")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _checked_host(given: object) -> str:
    text = given.lower() if isinstance(given, str) else ""
    bare = text.removeprefix("*.")
    in_brackets = f"[{bare}]" if bare.count(":") > 1 and not bare.startswith("[") else bare
    match = _HOST.fullmatch(in_brackets)
    host = None if match is None or match["port"] is not None else host_of(in_brackets)
    if host is None or (bare != text and "." not in host):
        why = "a host is named without scheme, path and port; * stands for one first label"
        raise BadOptionError("allow_host", given, accepted=_ACCEPTED_HOST, why=why)
    return f"*.{host}" if bare != text else host


def _checked_origin(given: object) -> str:
    origin = origin_of(given.removesuffix("/")) if isinstance(given, str) else None
    if origin is None:
        why = "each page's origin is listed by itself; 'null' and '*' would let any page in"
        raise BadOptionError("allow_origin", given, accepted=_ACCEPTED_ORIGIN, why=why)
    return origin
