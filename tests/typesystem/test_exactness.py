"""Exact conformance, pure classes, and the classes of this process."""

from __future__ import annotations

import abc
import dataclasses
import gc
import warnings
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verdicts_agree import (
    HasSpeaker,
    Keynote,
    Person,
    Talk,
    both,
    exactly,
    wants,
)

from polycast.typesystem import (
    conforming,
    directly_conforming,
    interface_of,
    is_interface,
)


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


def test_a_class_whose_module_is_no_name_disturbs_nobody() -> None:
    meta = type("Meta", (type,), {"__module__": property(lambda cls: 3)})
    odd = meta("Odd", (), {})
    assert odd.__module__ == 3

    class Shape(abc.ABC): ...  # noqa: B024

    class Square(Shape): ...

    assert conforming(Shape) == {Square}


def test_a_class_that_answers_equality_with_a_warning_disturbs_nobody() -> None:
    # As `typing.Union` and its deprecated alias do in Python 3.14: equal hashes, and a warning.
    class Meta(type):
        def __hash__(cls) -> int:
            return hash(object)

        def __eq__(cls, other: object) -> bool:
            warnings.warn("an alias of another time", DeprecationWarning, stacklevel=2)
            return False

    class Odd(metaclass=Meta): ...

    assert Talk in conforming(HasSpeaker)
    assert Odd.__module__ == __name__  # it was there all the time
    del Odd
    gc.collect()
