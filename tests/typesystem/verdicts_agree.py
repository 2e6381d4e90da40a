"""Verdicts that must be the same with classes and without, and classes to ask about."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from polycast.typesystem import (
    conforms,
    conforms_exactly,
    describe,
    describe_all,
    described_conforms,
    described_conforms_exactly,
)


class Person: ...


class Student(Person): ...


@dataclasses.dataclass
class Talk:
    speaker: str
    author: Person | None = None

    def title(self, language: str, width: int = 80) -> str:
        return ""


@dataclasses.dataclass
class Keynote(Talk):
    fee: int = 0


class HasSpeaker(Protocol):
    speaker: str


class Titled(Protocol):
    def title(self, language: str) -> str: ...


def lookup_for(*classes: type) -> Any:
    known = {found.name: found for cls in classes for found in describe_all(cls)}
    return known.get


def by_description(cls: type, target: type) -> bool:
    return described_conforms(describe(cls), describe(target), lookup=lookup_for(cls, target))


def both(cls: type, target: type) -> bool:
    """The verdict, which must be the same with classes and without."""
    verdict = conforms(cls, target)
    assert by_description(cls, target) == verdict
    return verdict


def exactly(cls: type, *targets: type) -> bool:
    """The exact verdict, which must be the same with classes and without."""
    verdict = conforms_exactly(cls, *targets)
    described = [describe(target) for target in targets]
    lookup = lookup_for(cls, *targets)
    assert described_conforms_exactly(describe(cls), *described, lookup=lookup) == verdict
    return verdict


def wants(hint: Any) -> Any:
    class Wanted(Protocol): ...

    Wanted.__annotations__ = {"value": hint}
    return Wanted
