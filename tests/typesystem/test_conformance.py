"""Which classes are of which types: nominal, structural, exact; by classes and by descriptions."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from polycast.typesystem import (
    Description,
    conforming,
    conforms,
    conforms_exactly,
    describe,
    describe_all,
    described_conforms,
    described_conforms_exactly,
    described_interface,
    directly_conforming,
    event,
    interface_of,
    is_interface,
    wire_name,
)

T = TypeVar("T")


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


# -- nominal -------------------------------------------------------------------------------------


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


# -- structural ----------------------------------------------------------------------------------


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


def wants(hint: Any) -> Any:
    class Wanted(Protocol): ...

    Wanted.__annotations__ = {"value": hint}
    return Wanted


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


# -- exact, pure, interface_of -------------------------------------------------------------------


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> float: ...


class Square(Shape):
    def area(self) -> float:
        return 1.0


class Circle(Shape):
    radius: float

    def area(self) -> float:
        return 1.0


class Colored(abc.ABC):
    @abc.abstractmethod
    def color(self) -> str: ...


class Tile(Shape, Colored):
    def area(self) -> float:
        return 1.0

    def color(self) -> str:
        return "red"


def exactly(cls: type, *targets: type) -> bool:
    """The exact verdict, which must be the same with classes and without."""
    verdict = conforms_exactly(cls, *targets)
    described = [describe(target) for target in targets]
    lookup = lookup_for(cls, *targets)
    assert described_conforms_exactly(describe(cls), *described, lookup=lookup) == verdict
    return verdict


def test_exactly_a_class_is_that_class_alone() -> None:
    assert exactly(Talk, Talk)
    assert not exactly(Keynote, Talk)


def test_exactly_an_interface_is_its_pure_classes() -> None:
    assert exactly(Square, Shape)
    assert not exactly(Circle, Shape)
    assert not exactly(Tile, Shape)


def test_a_subclass_of_a_pure_class_is_a_type_of_its_own() -> None:
    class Tiny(Square): ...

    assert not exactly(Tiny, Shape)


def test_private_members_keep_a_class_pure() -> None:
    class Secret(Shape):
        _side: float

        def area(self) -> float:
            return self._half()

        def _half(self) -> float:
            return 0.5

    assert exactly(Secret, Shape)


def test_exactly_a_protocol_nobody_declared_is_who_has_its_members_and_no_more() -> None:
    class Only:
        speaker: str

    assert exactly(Only, HasSpeaker)
    assert not exactly(Talk, HasSpeaker)


def test_exactly_a_declared_protocol_is_its_pure_classes() -> None:
    class Declared(HasSpeaker): ...

    class More(HasSpeaker):
        room: str

    assert exactly(Declared, HasSpeaker)
    assert not exactly(More, HasSpeaker)
    assert not exactly(type("Deeper", (Declared,), {}), HasSpeaker)


def test_exactly_several_types_wants_just_these_supertypes_in_any_order() -> None:
    assert exactly(Tile, Shape, Colored)
    assert exactly(Tile, Colored, Shape)
    assert not exactly(Square, Shape, Colored)
    assert not exactly(type("Third", (Shape, Colored, Person), {}), Shape, Colored)


def test_exactly_several_types_allows_no_member_beyond_theirs() -> None:
    class Heavy(Shape, Colored):
        weight: int

    assert not exactly(Heavy, Shape, Colored)


def test_interfaces_are_recognised() -> None:
    assert [is_interface(cls) for cls in (Shape, HasSpeaker, Square, Talk, int)] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("cls", "interface"),
    [(Square, Shape), (Shape, Shape), (Circle, Circle), (Tile, Tile), (Talk, Talk), (int, int)],
)
def test_the_interface_of_a_pure_class_is_what_it_implements(cls: type, interface: type) -> None:
    assert interface_of(cls) is interface
    assert described_interface(describe(cls), lookup=lookup_for(cls)) == wire_name(interface)


# -- the classes of this process -----------------------------------------------------------------


def test_conforming_lists_all_classes_and_no_interface() -> None:
    class Rounded(Shape): ...

    found = conforming(Shape)
    assert {Square, Circle, Tile} <= found
    assert not {Shape, Rounded} & found


def test_conforming_to_a_protocol_finds_classes_nobody_described() -> None:
    class Unheard:
        speaker: str

    found = conforming(HasSpeaker)
    assert {Unheard, Talk, Keynote} <= found
    assert Person not in found


def test_conforming_to_a_class_includes_it() -> None:
    assert conforming(Talk) >= {Talk, Keynote}


def test_directly_conforming_is_what_exact_means() -> None:
    assert Square in directly_conforming(Shape)
    assert not {Circle, Tile} & directly_conforming(Shape)
    assert directly_conforming(Talk) == {Talk}


def test_looking_for_classes_keeps_none_alive() -> None:
    cls = type("Short", (Shape,), {})
    assert cls not in directly_conforming(Talk)
    assert conforming(Shape)
    gone = weakref.ref(cls)
    del cls
    gc.collect()
    assert gone() is None


# -- classes and descriptions agree --------------------------------------------------------------


@st.composite
def hierarchies(draw: st.DrawFn) -> list[type]:
    """Classes and ABCs, each derived from any earlier ones that go together."""
    classes: list[type] = []
    for number in range(draw(st.integers(2, 7))):
        bases = draw(st.lists(st.sampled_from(classes), max_size=3, unique=True)) if classes else []
        members = draw(st.sets(st.sampled_from(["a", "b", "c"]), max_size=2))
        space: dict[str, Any] = {name: lambda self: None for name in members}
        space["__annotations__"] = {"x": int} if draw(st.booleans()) else {}
        meta = draw(st.sampled_from([type, abc.ABCMeta]))
        if any(isinstance(base, abc.ABCMeta) for base in bases):
            meta = abc.ABCMeta
        try:
            classes.append(meta(f"C{number}", tuple(bases), space))
        except TypeError:  # no order of these bases
            continue
    return classes


@given(hierarchies())
@settings(max_examples=60, deadline=None)
def test_descriptions_decide_as_classes_do(classes: list[type]) -> None:
    for cls in classes:
        for target in classes:
            assert both(cls, target) == issubclass(cls, target)
            exactly(cls, target)
    for one in classes[:3]:
        for other in classes[:3]:
            if one is not other:
                exactly(classes[-1], one, other)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_descriptions_decide_as_classes_do_on_structure(data: st.DataObject) -> None:
    names = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([int, str, float]), max_size=3)
    held, wanted = data.draw(names), data.draw(names)
    cls = dataclasses.make_dataclass("Held", held.items())
    target = wants(int)
    target.__annotations__ = wanted
    fits = all(
        name in held and (held[name] is kind or (held[name], kind) == (int, float))
        for name, kind in wanted.items()
    )
    assert both(cls, target) == fits
    assert exactly(cls, target) == (fits and set(held) <= set(wanted))
