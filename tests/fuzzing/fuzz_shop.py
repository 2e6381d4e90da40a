"""What the contexts of the fuzzers may name."""

from __future__ import annotations

from dataclasses import dataclass
from os import system  # noqa: F401  (imported, so that a context may try to use it)

import polycast as pc


@dataclass(frozen=True)
class Spec:
    name: str

    def to_local(self) -> LocalSpec:
        return LocalSpec(self.name)


@dataclass(frozen=True)
class Line:
    spec: Spec
    price: float
    note: str = ""


@dataclass(frozen=True)
class LocalSpec:
    label: str


@dataclass(frozen=True)
class LocalLine:
    spec: LocalSpec
    price: float


def to_dollars(price: float) -> float:
    return price * 2


def to_root(spec: LocalSpec) -> Spec:
    return Spec(spec.label)


def signed(line: LocalLine) -> LocalLine:
    return line


def make_root() -> pc.Context:
    return pc.Context("root", types=[Line, Spec])
