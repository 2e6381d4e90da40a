"""Who may do what at a broker, and over which connections."""

from __future__ import annotations

from collections.abc import Iterable

from polycast.errors.root import PolycastError, listed

__all__ = [
    "AccessDeniedError",
    "AccessError",
    "BadCertificateError",
    "BadGrantError",
    "BadTokensError",
    "ExposedError",
    "TokenExposedError",
]


class AccessError(PolycastError):
    """Something about rights or safe connections that is not as it must be."""


class AccessDeniedError(AccessError):
    """A token has no right to what was asked, or there is no such token."""

    def __init__(
        self,
        action: str,
        what: str,
        *,
        token: str | None,
        granted: Iterable[str] = (),
        needs: str = "",
    ) -> None:
        self.action, self.what, self.token, self.granted = action, what, token, tuple(granted)
        self.needs = needs
        if token is None:
            why = (
                "no token was given, or one that the broker does not know or that has expired. "
                "Give the secret of a token that is in the broker's file of tokens"
            )
        else:
            rights = f"is granted {listed(map(repr, self.granted)) or 'nothing'} for this"
            has = f"has no {needs}" if needs else rights
            why = (
                f"the token {token!r} {has}. Whoever keeps the broker's file of tokens can "
                f"grant more"
            )
        super().__init__(f"{action} {what} was refused: {why}")


class BadTokensError(AccessError, ValueError):
    """A file of tokens that cannot be used."""

    def __init__(self, path: str, problems: Iterable[object]) -> None:
        self.path, self.problems = path, tuple(problems)
        count = len(self.problems)
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(
            f"{path} cannot be used as a file of tokens: {count} "
            f"problem{'s' if count != 1 else ''}{lines}"
        )


class BadGrantError(AccessError, ValueError):
    """A text that is no grant."""

    def __init__(self, grant: str, *, at: int, why: str) -> None:
        self.grant, self.at, self.why = grant, at, why
        super().__init__(
            f"{grant!r} is not a grant: {why} (at character {at + 1}). A grant is a type such as "
            f"'shop.Order' or 'shop.events.*', a topic such as '/Chat/**', both as in "
            f"'shop.Note @ /Chat/**', or '*' for everything"
        )


class ExposedError(AccessError):
    """Listening where other machines can connect, without what keeps strangers out."""

    def __init__(self, listen: str, *, addresses: Iterable[str], missing: Iterable[str]) -> None:
        self.listen, self.addresses = listen, tuple(addresses)
        self.missing = tuple(missing)
        super().__init__(
            f"listening at {listen} lets other machines in ({listed(self.addresses)}), without "
            f"{' and '.join(self.missing)}. Give both --tokens FILE and --tls-cert FILE with "
            f"--tls-key FILE, listen at 127.0.0.1 only, or say --insecure if something else "
            f"protects this network"
        )


class BadCertificateError(AccessError, ValueError):
    """A certificate, key or authority that TLS cannot use."""

    def __init__(self, what: str, path: str, *, why: str, accepted: str) -> None:
        self.what, self.path, self.why = what, path, why
        super().__init__(f"{path} cannot be used as {what}: {why}. Accepted: {accepted}")


class TokenExposedError(AccessError):
    """A token would go to another machine without TLS, where others can read it."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"the token was not sent to {address}: without TLS, others can read it on the way. Use "
            f"polycasts:// and TLS at the broker, or say allow_plain_token=True "
            f"if something else protects this network"
        )
