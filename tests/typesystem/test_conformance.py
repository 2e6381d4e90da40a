"""Which classes are of which types: nominal, and structural for Protocols."""

from __future__ import annotations

import abc
import collections.abc
import dataclasses
import enum
import gc
import typing
import weakref
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec
import pydantic
import pytest
from verdicts_agree import HasSpeaker, Keynote, Person, Student, Talk, Titled, both, wants

from polycast.typesystem import (
    Description,
    conforming,
    conforms,
    conforms_exactly,
    described_conforms,
    event,
)

T = TypeVar("T")


def test_a_class_conforms_to_itself_and_its_supertypes_and_not_back() -> None:
    assert both(Keynote, Talk)
    assert both(Talk, Talk)
    assert not both(Talk, Keynote)


def test_all_supertypes_count_and_not_only_the_first() -> None:
    class One: ...

    class Two: ...

    class Both(One, Two): ...

    assert both(Both, One)
    assert both(Both, Two)


def test_everything_is_an_object() -> None:
    assert both(Talk, object)
    assert both(int, object)


def test_a_name_that_contains_another_is_another_name() -> None:
    class TalkShow: ...

    assert not both(TalkShow, Talk)


@pytest.mark.parametrize(
    ("cls", "target", "verdict"),
    [
        (bool, int, True),
        (int, float, False),
        (str, str, True),
        (dict, collections.abc.Mapping, True),
        (list, collections.abc.Mapping, False),
    ],
)
def test_built_in_classes_conform_as_issubclass_says(
    cls: type, target: type, verdict: bool
) -> None:
    assert both(cls, target) is verdict


def test_enums_conform_to_what_they_mix_in() -> None:
    class Level(enum.IntEnum):
        LOW = 1

    assert both(Level, int)
    assert both(Level, enum.Enum)
    assert not both(Level, str)


def test_generic_parameters_are_ignored() -> None:
    class Box(Generic[T]):
        content: T

    class IntBox(Box[int]): ...

    assert conforms(IntBox, Box[str])
    assert both(IntBox, Box)


def test_all_models_conform_to_the_root_of_their_library() -> None:
    class Model(pydantic.BaseModel): ...

    class Struct(msgspec.Struct): ...

    assert both(Model, pydantic.BaseModel)
    assert both(Struct, msgspec.Struct)
    assert not both(Struct, pydantic.BaseModel)


@pytest.mark.parametrize("machinery", [abc.ABC, Generic, Protocol])
def test_nothing_is_of_the_type_of_pure_machinery(machinery: Any) -> None:
    class Shape(abc.ABC): ...  # noqa: B024

    assert not both(Shape, machinery)


def test_register_after_a_verdict_is_honoured() -> None:
    class Shape(abc.ABC): ...  # noqa: B024

    class Square: ...

    assert not conforms(Square, Shape)
    Shape.register(Square)
    assert conforms(Square, Shape)
    assert Square in conforming(Shape)


def test_a_class_made_after_a_verdict_works_at_once() -> None:
    assert conforms(Talk, HasSpeaker)
    later = type("Later", (Talk,), {})
    assert conforms(later, Talk)
    assert conforms(later, HasSpeaker)


def test_verdicts_keep_neither_side_alive() -> None:
    cls = type("Short", (), {"__annotations__": {"speaker": str}})
    target = types_protocol()
    assert conforms(cls, target)
    assert conforms_exactly(cls, target)
    conforming(target)
    gone = [weakref.ref(cls), weakref.ref(target)]
    del cls, target
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def types_protocol() -> Any:
    class Speaking(Protocol):
        speaker: str

    return Speaking


def reloaded(**fields: type) -> type:
    return dataclasses.make_dataclass("Talk", fields.items(), namespace={"__module__": "notebook"})


def test_a_reloaded_class_still_conforms_to_its_former_self() -> None:
    old, new = reloaded(x=int), reloaded(x=int)
    assert conforms(new, old)
    assert conforms_exactly(new, old)
    assert conforms(type("Sub", (new,), {}), old)


def test_a_different_class_under_the_same_name_does_not() -> None:
    assert not conforms(reloaded(x=str), reloaded(x=int))


def test_an_alias_stands_for_the_class_that_was_renamed() -> None:
    old = type("Old", (), {"__module__": "com.acme"})
    new = event(name="com.acme.New", aliases=["com.acme.Old"])(type("New", (), {}))
    assert both(new, old)
    assert both(type("Derived", (old,), {}), new)


def test_conformance_ignores_the_version() -> None:
    one = Description("com.acme.Order", version=1)
    two = Description("com.acme.Order", version=2)
    assert described_conforms(one, two, lookup=lambda name: None)


def test_a_protocol_asks_for_members_by_name() -> None:
    assert both(Talk, HasSpeaker)
    assert both(Keynote, HasSpeaker)
    assert not both(Person, HasSpeaker)


def test_runtime_checkable_makes_no_difference() -> None:
    @runtime_checkable
    class Speaking(Protocol):
        speaker: str

    assert both(Talk, Speaking)


def test_types_are_compared_where_both_sides_have_them() -> None:
    class NumberSpeaker(Protocol):
        speaker: int

    class Untyped:
        speaker = "me"

    assert not both(Talk, NumberSpeaker)
    assert both(Untyped, NumberSpeaker)


def has(hint: Any) -> type:
    return dataclasses.make_dataclass("Holder", [("value", hint)])


@pytest.mark.parametrize(
    ("held", "wanted", "verdict"),
    [
        (int, int, True),
        (int, float, True),
        (float, int, False),
        (bool, int, True),
        (int, int | None, True),
        (int | None, int, False),
        (int | str, int | str | None, True),
        (Any, int, True),
        (int, Any, True),
        (int, object, True),
        (Student, Person, True),
        (Person, Student, False),
        (Student | None, Person | None, True),
        (list[int], list[int], True),
        (list[int], list[str], False),
        (list[int], list, True),
        (list[int], collections.abc.Sequence[int], True),
        (dict[str, int], collections.abc.Mapping[str, int], True),
        (typing.Literal["a"], str, True),
        (typing.Literal["a"], typing.Literal["a", "b"], True),
        (typing.Literal["c"], typing.Literal["a", "b"], False),
        (str, typing.Literal["a"], False),
        (None, int, False),
        (Talk, HasSpeaker, True),
        (Person, HasSpeaker, False),
    ],
)
def test_assignability_is_reasonable(held: Any, wanted: Any, verdict: bool) -> None:
    assert both(has(held), wants(wanted)) is verdict


def test_types_that_mention_themselves_are_compared_to_an_end() -> None:
    assert both(Chain, Chained)


@dataclasses.dataclass
class Chain:
    next: Chain


class Chained(Protocol):
    next: Chained


def with_method(**methods: Any) -> type:
    return type("Methodical", (), methods)


@pytest.mark.parametrize(
    ("method", "verdict"),
    [
        (lambda self, language: "", True),
        (lambda self, language, width=80: "", True),
        (lambda self, *arguments: "", True),
        (lambda self, language, width: "", False),
        (lambda self: "", False),
        (lambda self, language, *, strict: "", False),
        (lambda self, language, *, strict=True: "", True),
        (staticmethod(lambda language: ""), True),
        (classmethod(lambda cls, language: ""), True),
        (property(lambda self: ""), True),
        (3, True),
    ],
)
def test_methods_are_compared_by_arity(method: Any, verdict: bool) -> None:
    assert both(with_method(title=method), Titled) is verdict


def test_a_field_of_data_is_no_method() -> None:
    assert not both(has_field("title", str), Titled)


def has_field(name: str, hint: Any) -> type:
    return dataclasses.make_dataclass("Holder", [(name, hint)])


def test_what_a_method_returns_is_compared() -> None:
    class Wrong:
        def title(self, language: str) -> int: ...

    assert not both(Wrong, Titled)


def test_a_property_may_stand_for_a_data_member_but_a_method_may_not() -> None:
    class Computed:
        @property
        def speaker(self) -> str: ...

    class Called:
        def speaker(self) -> str: ...

    assert both(Computed, HasSpeaker)
    assert not both(Called, HasSpeaker)


def test_special_methods_count_in_a_protocol() -> None:
    class Long(Protocol):
        def __len__(self) -> int: ...

    class Tape:
        def __len__(self) -> int:
            return 0

    assert both(Tape, Long)
    assert both(str, Long)
    assert both(type("Text", (str,), {}), Long)
    assert not both(Person, Long)


def test_members_of_a_built_in_supertype_count() -> None:
    class Upper(Protocol):
        def upper(self) -> str: ...

    assert both(str, Upper)
    assert both(type("Text", (str,), {}), Upper)
    assert not both(int, Upper)


def test_a_protocol_that_extends_another_wants_the_members_of_both() -> None:
    class Both(HasSpeaker, Titled, Protocol): ...

    class OnlySpeaker:
        speaker: str

    assert both(Talk, Both)
    assert both(Both, HasSpeaker)
    assert not both(OnlySpeaker, Both)


def test_an_explicit_implementer_conforms_whatever_it_lacks() -> None:
    class Declared(Titled):
        def title(self, language: str, width: int) -> str: ...  # type: ignore[override]

    assert both(Declared, Titled)


def test_a_generic_protocol_is_compared_without_its_parameters() -> None:
    class Holder(Protocol[T]):
        value: T

    assert conforms(has(int), Holder[str])
    assert both(has(int), Holder)
