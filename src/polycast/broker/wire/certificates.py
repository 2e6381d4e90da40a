"""The validity of a certificate file, for which the standard library has no function."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

__all__ = ["validity_of"]

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_VERSION = 0xA0  # the tag of a certificate's version, which may be left out
_TIMES = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}  # UTCTime, GeneralizedTime


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
