"""TLS for clients and brokers, and warnings about certificates and keys."""

from __future__ import annotations

import os
import ssl
import stat
from contextlib import suppress
from datetime import UTC, datetime

from polycast.errors import BadCertificateError, BadOptionError

_CHAIN = "a PEM file with a certificate, and after it those of its authorities"
_KEY = "a PEM file with the private key of the certificate, without a passphrase"
_AUTHORITY = "a PEM file with the certificates of authorities"
_PRIVATE = "PRIVATE KEY-----"
_TRIPS = 5  # round trips of a handshake, more than it takes
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_VERSION = 0xA0  # the tag of a certificate's version, which may be left out
_TIMES = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}  # UTCTime, GeneralizedTime
_SOON = 14 * 86_400.0  # seconds before a certificate expires in which a warning is given


class _Encrypted(Exception):
    """OpenSSL asks for a passphrase."""


def tls_server_context(cert: str, key: str, *, client_ca: str | None = None) -> ssl.SSLContext:
    """TLS for a server; with `client_ca`, clients need a certificate of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    _present(context, cert, key)
    if client_ca is not None:
        _trust(context, client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def tls_client_context(
    ca: str | None, *, cert: str | None = None, key: str | None = None
) -> ssl.SSLContext:
    """TLS for a client; it always verifies the name and the certificate of the broker.

    Without `ca`, the authorities of this system are trusted. `cert` is the client's own, for a
    broker that asks for one; `key` may be in the same file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, ca)
    if cert is not None:
        _present(context, cert, key)
    elif key is not None:
        why = "no certificate was given with it"
        raise BadCertificateError("a key", key, why=why, accepted="a certificate and its key")
    return context


def client_context(tls: object) -> ssl.SSLContext:
    """The context for `tls=` of a bus: a context, a file of authorities, or the system's."""
    if isinstance(tls, ssl.SSLContext):
        return tls
    if tls is None or isinstance(tls, str | os.PathLike):
        return tls_client_context(None if tls is None else os.fspath(tls))
    accepted = "an ssl.SSLContext, or the path of a file with certificates of authorities"
    raise BadOptionError("tls", tls, accepted=accepted)


def certificate_findings(cert: str, key: str | None = None, *, now: float) -> tuple[str, ...]:
    """Warnings: a certificate that is not valid, or expires soon; a key that others can read."""
    text = _text(cert, "a certificate", _CHAIN)
    begins, ends = _validity(cert, text)
    findings = []
    if now < begins:
        findings.append(
            f"{cert} is not valid yet, for {_days(begins - now)}; clients will refuse it"
        )
    if now >= ends:
        findings.append(f"{cert} expired {_days(now - ends)} ago; clients will refuse it")
    elif ends - now < _SOON:
        findings.append(f"{cert} expires in {_days(ends - now)}; renew it")
    private = key or (cert if _PRIVATE in text else None)
    readable = readable_by_others(private) if private else None
    return (*findings, f"{private}: {readable}") if readable else tuple(findings)


def certified_names(server: ssl.SSLContext) -> tuple[str, ...]:
    """The hosts that the certificate of a server is for, as clients see them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate = _handshake(server, context).getpeercert(binary_form=True)
    if certificate is None:
        return ()
    # Python returns the names of trusted certificates only, so this one is trusted to read them.
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=certificate)
        details = _handshake(server, context).getpeercert() or {}
    except ssl.SSLError:  # such as an expired one, which no client accepts either
        return ()
    names: tuple[tuple[str, str], ...] = details.get("subjectAltName", ())  # type: ignore[assignment]
    return tuple(name for kind, name in names if kind in ("DNS", "IP Address"))


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The client's end of a TLS connection within this process."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    client_end = client.wrap_bio(to_client, to_server)
    for _ in range(_TRIPS):
        try:
            client_end.do_handshake()
            break
        except ssl.SSLWantReadError:
            with suppress(ssl.SSLWantReadError):
                server_end.do_handshake()
    return client_end


def readable_by_others(path: str) -> str | None:
    """A warning for a file with secrets that others than its owner can read."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:  # it was removed meanwhile
        return None
    if os.name != "posix" or not mode & 0o077:
        return None
    return f"others than its owner can use it (mode {mode:04o}); chmod 600 keeps it private"


def _present(context: ssl.SSLContext, cert: str, key: str | None) -> None:
    """Load a certificate and its key; OpenSSL does not say which file is wrong."""
    _text(cert, "a certificate", _CHAIN)
    if key is not None:
        _text(key, "a key", _KEY)
    try:
        context.load_cert_chain(cert, key, password=_refuse)
    except _Encrypted:
        why = "it is encrypted, and nobody can be asked for the passphrase"
        raise BadCertificateError("a key", key or cert, why=why, accepted=_KEY) from None
    except ssl.SSLError as error:
        raise _explained(error, cert, key) from error


def _explained(error: ssl.SSLError, cert: str, key: str | None) -> BadCertificateError:
    if error.reason == "KEY_VALUES_MISMATCH":
        why = f"it is not the key of the certificate in {cert}"
        return BadCertificateError("a key", key or cert, why=why, accepted=_KEY)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cert)
    except ssl.SSLError:
        why = "there is no certificate in it that can be read"
        return BadCertificateError("a certificate", cert, why=why, accepted=_CHAIN)
    if _PRIVATE in _text(key or cert, "a key", _KEY):
        why = f"OpenSSL does not take it ({error.reason or error})"
    else:
        why = "there is no private key in it"
    return BadCertificateError("a key", key or cert, why=why, accepted=_KEY)


def _validity(cert: str, text: str) -> tuple[float, float]:
    try:
        return validity_of(text)
    except (LookupError, ValueError) as error:
        why = "there is no certificate in it that can be read"
        raise BadCertificateError("a certificate", cert, why=why, accepted=_CHAIN) from error


def _trust(context: ssl.SSLContext, ca: str) -> None:
    _text(ca, "an authority", _AUTHORITY)
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        why = "there is no certificate in it that can be read"
        raise BadCertificateError("an authority", ca, why=why, accepted=_AUTHORITY) from error


def _text(path: str, what: str, accepted: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError as error:
        why = f"it cannot be read: {error.strerror or error}"
        raise BadCertificateError(what, path, why=why, accepted=accepted) from error


def _refuse() -> str:
    raise _Encrypted


def _days(seconds: float) -> str:
    days = int(seconds // 86_400)
    return "less than a day" if not days else f"{days} day{'s' if days > 1 else ''}"


def validity_of(pem: str) -> tuple[float, float]:
    """The first and last second of the first certificate in a PEM text.

    RFC 5280, section 4.1: Certificate ::= SEQUENCE { tbsCertificate SEQUENCE { version,
    serialNumber, signature, issuer, validity SEQUENCE { notBefore, notAfter }, ... } ... }.
    """
    start = pem.index(_BEGIN)
    first = pem[start : pem.index(_END, start) + len(_END)]
    certificate = _inside(ssl.PEM_cert_to_DER_cert(first))[0]
    fields = _inside(_inside(certificate[1])[0][1])
    validity = fields[4 if fields[0][0] == _VERSION else 3]
    begins, ends = (_time(tag, body) for tag, body in _inside(validity[1]))
    return begins, ends


def _inside(data: bytes) -> list[tuple[int, bytes]]:
    """Tag and body of each element in a sequence of DER."""
    elements, at = [], 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:  # the length takes several bytes
            many = length & 0x7F
            length, at = int.from_bytes(data[at : at + many], "big"), at + many
        elements.append((tag, data[at : at + length]))
        at += length
    return elements


def _time(tag: int, body: bytes) -> float:
    return datetime.strptime(body.decode("ascii"), _TIMES[tag]).replace(tzinfo=UTC).timestamp()
