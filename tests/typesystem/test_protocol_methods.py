"""Protocols whose methods are overloaded, asynchronous, static or wrapped."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Protocol, TypeVar, overload

from verdicts_agree import both

from polycast.typesystem import conforms, describe

C = TypeVar("C", covariant=True)


class Finds(Protocol):
    @overload
    def find(self, key: int) -> int: ...
    @overload
    def find(self, key: str, start: int) -> str: ...


def test_who_takes_all_forms_of_an_overloaded_method_conforms() -> None:
    class Any1:
        def find(self, key: Any, start: int = 0) -> Any: ...

    class OneOnly:
        def find(self, key: int) -> int: ...

    class Itself:
        @overload
        def find(self, key: int) -> int: ...
        @overload
        def find(self, key: str, start: int) -> str: ...
        def find(self, key: Any, start: int = 0) -> Any: ...

    assert both(Any1, Finds)
    assert both(Itself, Finds)
    assert not both(OneOnly, Finds)


class Fetches(Protocol):
    async def fetch(self, key: int) -> str: ...


def test_an_asynchronous_method_is_not_a_plain_one() -> None:
    class Waiting:
        async def fetch(self, key: int) -> str: ...  # type: ignore[empty-body]

    class Plain:
        def fetch(self, key: int) -> str: ...  # type: ignore[empty-body]

    class WithoutTypes:
        def fetch(self, key): ...  # type: ignore[no-untyped-def]

    assert both(Waiting, Fetches)
    assert both(WithoutTypes, Fetches)
    assert not both(Plain, Fetches)


class Counts(Protocol):
    def count(self, word: str) -> int: ...


def test_a_method_in_a_cache_has_the_arity_and_type_it_had() -> None:
    class Cached:
        @functools.lru_cache  # noqa: B019 - nobody calls it
        def count(self, word: str) -> int: ...  # type: ignore[empty-body]

    class Other:
        @functools.cache  # noqa: B019
        def count(self, word: str) -> str: ...  # type: ignore[empty-body]

    assert both(Cached, Counts)
    assert not both(Other, Counts)
    (member,) = describe(Cached).members
    assert (member.required, member.accepted, str(member.type)) == (1, 1, "int")


def test_static_and_class_methods_are_called_without_self() -> None:
    class Wanted(Protocol):
        @staticmethod
        def make(width: int) -> int: ...
        @classmethod
        def of(cls, text: str) -> int: ...

    class Alike:
        @staticmethod
        def make(width: int) -> int: ...  # type: ignore[empty-body]
        @classmethod
        def of(cls, text: str) -> int: ...  # type: ignore[empty-body]

    class Longer:
        @staticmethod
        def make(width: int, height: int) -> int: ...  # type: ignore[empty-body]
        @classmethod
        def of(cls, text: str) -> int: ...  # type: ignore[empty-body]

    assert both(Alike, Wanted)
    assert not both(Longer, Wanted)


def test_class_variables_and_parameters_of_a_protocol() -> None:
    class Limited(Protocol):
        limit: ClassVar[int]

    class Source(Protocol[C]):
        def get(self) -> C: ...

    class Ten:
        limit: ClassVar[int] = 10

        def get(self) -> int: ...  # type: ignore[empty-body]

    assert both(Ten, Limited)
    assert both(Ten, Source)
    assert conforms(Ten, Source[int])
    assert not both(int, Limited)
