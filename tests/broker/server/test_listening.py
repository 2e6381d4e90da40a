"""Where a broker listens, and which files make connections safe."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from polycast.broker.server.network_policy import Listen, addresses_of, check_exposure
from polycast.broker.wire.security import (
    certificate_findings,
    tls_client_context,
    tls_server_context,
)
from polycast.errors import BadCertificateError, BadOptionError, ExposedError


def knows(*addresses: str) -> Callable[[str], tuple[str, ...]]:
    """A resolver for which every name has these addresses."""
    return lambda host: addresses


def knows_nobody(host: str) -> tuple[str, ...]:
    """A resolver without a network."""
    raise OSError("Name or service not known")


# -- where -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:7788", "127.0.0.1", 7788),
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("[::1]:7788", "::1", 7788),
        ("[::]:7788", "::", 7788),
        ("localhost:0", "localhost", 0),
        ("broker-1.shop.example:65535", "broker-1.shop.example", 65535),
    ],
)
def test_a_host_and_a_port_are_understood(text: str, host: str, port: int) -> None:
    listen = Listen.parse(text)
    assert (listen.host, listen.port) == (host, port)
    assert str(listen) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no port"),
        ("7788", "it has no host"),
        (":7788", "127.0.0.1 is for this machine only, 0.0.0.0 for all"),
        ("localhost", "it has no port"),
        ("[::1]", "it has no port"),
        ("::1:7788", "an IPv6 address stands in brackets"),
        ("[localhost]:7788", "is not an IPv6 address"),
        ("[]:7788", "is not an IPv6 address"),
        ("localhost:", "its port is not a whole number"),
        ("localhost:http", "its port is not a whole number"),
        ("localhost:-1", "its port is not a whole number"),
        ("localhost:65536", "a port is a number from 0 to 65535"),
        ("localhost:" + "9" * 5_000, "a port is a number from 0 to 65535"),
        ("localhost:\u0667", "its port is not a whole number"),
        ("wss://localhost:7788", "it is a URL"),
        ("local host:7788", "neither an address nor the name of a host"),
        ("a/b:7788", "neither an address nor the name of a host"),
        ("-a:7788", "neither an address nor the name of a host"),
    ],
)
def test_what_is_no_place_to_listen_at_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(BadOptionError) as caught:
        Listen.parse(text)
    assert said in str(caught.value)
    assert "127.0.0.1:7788" in str(caught.value)


# -- who can connect -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["127.0.0.1:1", "127.255.0.3:1", "[::1]:1", "[::ffff:127.0.0.1]:1"]
)
def test_a_loopback_address_is_for_this_machine(text: str) -> None:
    assert Listen.parse(text).is_loopback(resolve=knows_nobody)


@pytest.mark.parametrize(
    "text", ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1"]
)
def test_another_address_is_not(text: str) -> None:
    assert not Listen.parse(text).is_loopback(resolve=knows_nobody)


@pytest.mark.parametrize(
    ("addresses", "loopback"),
    [
        (("127.0.0.1", "::1"), True),
        (("127.0.0.1", "10.0.0.1"), False),
        (("10.0.0.1",), False),
        (("not an address",), False),
    ],
)
def test_a_name_is_for_this_machine_if_all_its_addresses_are(
    addresses: tuple[str, ...], loopback: bool
) -> None:
    assert Listen.parse("shop:1").is_loopback(resolve=knows(*addresses)) is loopback


@pytest.mark.parametrize("resolve", [knows_nobody, knows()])
def test_a_name_that_nobody_knows_is_refused(resolve: Callable[[str], tuple[str, ...]]) -> None:
    with pytest.raises(BadOptionError, match="the host 'shop'"):
        check_exposure(Listen("shop", 1), tokens=True, tls=True, insecure=True, resolve=resolve)


def test_addresses_in_old_notations_are_resolved_by_the_system() -> None:
    assert Listen.parse("127.1:1").is_loopback()
    assert not Listen.parse("0:1").is_loopback()
    assert addresses_of("127.0.0.1") == ("127.0.0.1",)


ALL = Listen("0.0.0.0", 7788)
TOKENS, TLS = "tokens (--tokens)", "TLS (--tls-cert, --tls-key)"


@pytest.mark.parametrize(
    ("tokens", "tls", "missing"),
    [
        (False, False, (TOKENS, TLS)),
        (True, False, (TLS,)),
        (False, True, (TOKENS,)),
    ],
)
def test_listening_to_other_machines_without_tokens_and_tls_is_refused(
    tokens: bool, tls: bool, missing: tuple[str, ...]
) -> None:
    with pytest.raises(ExposedError) as caught:
        check_exposure(ALL, tokens=tokens, tls=tls, insecure=False)
    assert caught.value.missing == missing
    assert caught.value.addresses == ("0.0.0.0",)
    assert f"without {' and '.join(missing)}. Give both --tokens FILE" in str(caught.value)
    assert "--insecure" in str(caught.value)


@pytest.mark.parametrize(
    ("listen", "tokens", "tls", "insecure"),
    [
        (ALL, True, True, False),
        (ALL, False, False, True),
        (Listen("127.0.0.1", 7788), False, False, False),
    ],
)
def test_what_is_safe_or_said_to_be_is_allowed(
    listen: Listen, tokens: bool, tls: bool, insecure: bool
) -> None:
    found = check_exposure(listen, tokens=tokens, tls=tls, insecure=insecure)
    assert found == (listen.host,)


def test_what_was_judged_is_what_is_bound() -> None:
    found = check_exposure(
        Listen("shop", 1), tokens=False, tls=False, insecure=False, resolve=knows("127.0.0.2")
    )
    assert found == ("127.0.0.2",)


def test_a_name_with_one_address_outside_is_exposed() -> None:
    with pytest.raises(ExposedError, match=r"\(10\.0\.0\.1\)"):
        check_exposure(
            Listen("shop", 1),
            tokens=True,
            tls=False,
            insecure=False,
            resolve=knows("127.0.0.1", "10.0.0.1"),
        )


# -- TLS -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """An authority, and a certificate of it with its key."""

    authority: trustme.CA
    ca: str
    cert: str
    key: str


def files_in(folder: Path, *, expires: datetime | None = None) -> Files:
    """A new authority and a certificate for localhost."""
    folder.mkdir()
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", not_after=expires)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    (folder / "key.pem").chmod(0o600)
    for n, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(str(folder / "cert.pem"), append=n > 0)
    return Files(authority, *(str(folder / f"{name}.pem") for name in ("ca", "cert", "key")))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Files that are as they should be."""
    return files_in(tmp_path_factory.mktemp("tls") / "good")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Files of another authority."""
    return files_in(tmp_path_factory.mktemp("tls") / "other")


def shake_hands(
    server: ssl.SSLContext, client: ssl.SSLContext, *, name: str = "localhost"
) -> ssl.SSLObject:
    """Connect both ends in memory; the client's end, or the error of who refused."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return ends[0]


def test_both_ends_connect_with_a_recent_version(files: Files) -> None:
    end = shake_hands(tls_server_context(files.cert, files.key), tls_client_context(files.ca))
    assert end.version() in ("TLSv1.2", "TLSv1.3")


def test_old_versions_are_not_spoken(files: Files) -> None:
    for context in (tls_server_context(files.cert, files.key), tls_client_context(files.ca)):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_client_refuses_a_broker_of_another_authority(files: Files, others: Files) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(tls_server_context(files.cert, files.key), tls_client_context(others.ca))


def test_a_client_refuses_a_broker_of_another_name(files: Files) -> None:
    server, client = tls_server_context(files.cert, files.key), tls_client_context(files.ca)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(server, client, name="elsewhere.example")


def test_a_client_without_an_authority_trusts_what_the_system_trusts(files: Files) -> None:
    client = tls_client_context(None)
    assert client.verify_mode == ssl.CERT_REQUIRED
    assert client.check_hostname
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(tls_server_context(files.cert, files.key), client)


def test_a_broker_can_ask_for_a_certificate_of_the_client(files: Files, others: Files) -> None:
    server = tls_server_context(files.cert, files.key, client_ca=files.ca)
    assert server.verify_mode == ssl.CERT_REQUIRED
    assert shake_hands(server, tls_client_context(files.ca, cert=files.cert, key=files.key))
    for stranger in (
        tls_client_context(files.ca),
        tls_client_context(files.ca, cert=others.cert, key=others.key),
    ):
        with pytest.raises(ssl.SSLError):
            shake_hands(server, stranger)


def test_a_certificate_and_its_key_may_be_in_one_file(files: Files, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(Path(files.cert).read_text() + Path(files.key).read_text())
    assert tls_client_context(files.ca, cert=str(both))


# -- files that TLS cannot use ---------------------------------------------------------------------


def test_a_key_of_another_certificate_is_refused(files: Files, others: Files) -> None:
    with pytest.raises(BadCertificateError) as caught:
        tls_server_context(files.cert, others.key)
    assert (caught.value.what, caught.value.path) == ("a key", others.key)
    assert f"it is not the key of the certificate in {files.cert}" in str(caught.value)


def test_a_file_that_is_not_there_is_named(files: Files, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.pem")
    for make in (
        lambda: tls_server_context(gone, files.key),
        lambda: tls_server_context(files.cert, gone),
        lambda: tls_server_context(files.cert, files.key, client_ca=gone),
        lambda: tls_client_context(gone),
        lambda: tls_client_context(files.ca, cert=gone, key=files.key),
        lambda: certificate_findings(gone, now=0.0),
    ):
        with pytest.raises(BadCertificateError, match="No such file") as caught:
            make()
        assert caught.value.path == gone


def test_a_file_with_something_else_is_named(files: Files, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(b"hello \xff")
    text = str(other)
    for make, said in (
        (lambda: tls_server_context(text, files.key), "there is no certificate in it"),
        (lambda: tls_server_context(files.cert, text), "there is no private key in it"),
        (lambda: tls_server_context(files.cert, files.cert), "there is no private key in it"),
        (lambda: tls_server_context(files.key, files.key), "there is no certificate in it"),
        (lambda: tls_client_context(text), "there is no certificate in it"),
        (lambda: certificate_findings(text, now=0.0), "there is no certificate in it"),
    ):
        with pytest.raises(BadCertificateError, match=said):
            make()


def test_a_damaged_key_is_named(files: Files, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pem"
    lines = Path(files.key).read_text().splitlines()
    damaged.write_text("\n".join([lines[0], "AAAA", lines[-1], ""]))
    with pytest.raises(BadCertificateError, match="OpenSSL does not take it"):
        tls_server_context(files.cert, str(damaged))


def test_an_encrypted_key_is_refused_and_nobody_is_asked(files: Files, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(Path(files.key).read_bytes(), password=None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(BadCertificateError, match="it is encrypted"):
        tls_server_context(files.cert, str(locked))


def test_a_key_without_a_certificate_is_refused(files: Files) -> None:
    with pytest.raises(BadCertificateError, match="no certificate was given"):
        tls_client_context(files.ca, key=files.key)


# -- doubts ----------------------------------------------------------------------------------------

ENDS = datetime(2030, 6, 1, 12, tzinfo=UTC)
DAY = 86_400.0


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Files with a certificate that ends at a known time."""
    return files_in(tmp_path_factory.mktemp("tls") / "ending", expires=ENDS)


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (-100, None),
        (-13.5, "expires in 13 days"),
        (-0.5, "expires in less than a day"),
        (0, "expired less than a day ago"),
        (1.5, "expired 1 day ago"),
    ],
)
def test_a_certificate_that_ends_is_told_of_but_used(
    ending: Files, days: float, said: str | None
) -> None:
    assert tls_server_context(ending.cert, ending.key)
    found = certificate_findings(ending.cert, ending.key, now=ENDS.timestamp() + days * DAY)
    assert len(found) == (said is not None)
    assert all(said in each for each in found if said)


def test_a_certificate_whose_time_has_passed_can_still_be_loaded(tmp_path: Path) -> None:
    past = datetime(2020, 1, 1, tzinfo=UTC)
    old = files_in(tmp_path / "old", expires=past)
    assert tls_server_context(old.cert, old.key)
    (found,) = certificate_findings(old.cert, old.key, now=past.timestamp() + DAY)
    assert "expired 1 day ago; clients will refuse it" in found


def test_a_certificate_that_has_not_begun_is_told_of(ending: Files) -> None:
    (found,) = certificate_findings(ending.cert, ending.key, now=-1e9)
    assert "is not valid yet" in found


def test_the_times_read_are_those_that_openssl_reads(files: Files, ending: Files) -> None:
    for each in (files, ending):
        client = tls_client_context(each.ca)
        found = client.get_ca_certs()[0]
        begins, ends = (
            ssl.cert_time_to_seconds(str(found[at])) for at in ("notBefore", "notAfter")
        )
        assert any(
            "not valid yet" in text for text in certificate_findings(each.ca, now=begins - 1)
        )
        assert not any("expired" in text for text in certificate_findings(each.ca, now=ends - 1))
        assert any("expired" in text for text in certificate_findings(each.ca, now=ends))


@pytest.mark.skipif(os.name != "posix", reason="files have no modes here")
def test_a_key_that_others_can_read_is_told_of(ending: Files, tmp_path: Path) -> None:
    now = ENDS.timestamp() - 100 * DAY
    both = tmp_path / "both.pem"
    both.write_text(Path(ending.cert).read_text() + Path(ending.key).read_text())
    both.chmod(0o644)
    for found in (
        certificate_findings(ending.cert, str(both), now=now),
        certificate_findings(str(both), now=now),
    ):
        assert len(found) == 1
        assert "(mode 0644)" in found[0]


def test_a_certificate_that_others_can_read_is_as_it_should_be(ending: Files) -> None:
    Path(ending.cert).chmod(0o644)
    assert certificate_findings(ending.cert, now=ENDS.timestamp() - 100 * DAY) == ()
