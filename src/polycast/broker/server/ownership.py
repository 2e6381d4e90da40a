"""Owners of type names: the owners of tokens with a describe grant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from polycast.broker.server.grants import Grant

__all__ = ["Claim", "Owners", "conflicts", "in_common"]

_REMEMBERED = 10_000  # names


@dataclass(frozen=True, slots=True)
class Claim:
    """An owner's grant to describe names."""

    owner: str
    grant: Grant
    token: str  # the name of the token with the grant


@dataclass(frozen=True)
class Owners:
    """Which owner has which names: by grant, never by order of arrival."""

    claims: tuple[Claim, ...] = ()
    _known: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    def owner_of(self, name: str) -> str | None:
        """The owner of a name; None if it has none."""
        if name not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            owners = (claim.owner for claim in self.claims if claim.grant.covers((name,), None))
            self._known[name] = next(owners, None)
        return self._known.get(name)


def conflicts(claims: Iterable[Claim]) -> Iterator[tuple[Claim, Claim, str]]:
    """Pairs of claims of different owners that cover a common name, with such a name."""
    before: list[Claim] = []
    for claim in claims:
        for other in before:
            name = in_common(claim.grant.text, other.grant.text)
            if other.owner != claim.owner and name is not None:
                yield claim, other, name
        before.append(claim)


def in_common(one: str, other: str) -> str | None:
    """A name that two patterns with `*` both cover; None if there is none."""
    seen: set[tuple[int, int]] = set()
    waiting = [(0, 0, "")]
    while waiting:
        here, there, name = waiting.pop()
        if here == len(one) and there == len(other):
            return name
        if (here, there) not in seen:
            seen.add((here, there))
            waiting += _steps(one, other, (here, there, name))
    return None


def _steps(one: str, other: str, at: tuple[int, int, str]) -> Iterator[tuple[int, int, str]]:
    here, there, name = at
    mine, theirs = one[here : here + 1], other[there : there + 1]
    if mine == "*":
        yield here + 1, there, name
        if theirs and theirs != "*":
            yield here, there + 1, name + theirs
    if theirs == "*":
        yield here, there + 1, name
        if mine and mine != "*":
            yield here + 1, there, name + mine
    if mine and mine == theirs != "*":
        yield here + 1, there + 1, name + mine
