"""Classes made at run time from descriptions, for who lacks the real ones."""

from __future__ import annotations

import abc
import copy
import dataclasses
import enum
from typing import Any, NamedTuple, Protocol

import attrs
import msgspec
import pydantic
import pytest

from polycast.errors import MethodNotHereError, NotDecodableError
from polycast.typesystem import (
    AttributeDescription,
    ConstantDescription,
    Description,
    MemberDescription,
    Registry,
    TypeExpression,
    conforms,
    describe,
    describe_all,
    wire_name,
    wire_version,
)

ANY = TypeExpression("any")


@dataclasses.dataclass(frozen=True)
class DataTalk:
    speaker: str


@attrs.frozen
class AttrsTalk:
    speaker: str


class StructTalk(msgspec.Struct, frozen=True):
    speaker: str


class ModelTalk(pydantic.BaseModel):
    speaker: str


class PlainTalk:
    speaker: str

    def shout(self) -> str:
        return self.speaker.upper()


class Titled(abc.ABC):
    @abc.abstractmethod
    def title(self) -> str: ...


class HasSpeaker(Protocol):
    speaker: str


def unknown(*supertypes: type, **changes: Any) -> Description:
    """A class this process does not have, derived from some it has."""
    fields = {
        "name": "far.away.Keynote",
        "version": 3,
        "supertypes": tuple(wire_name(cls) for cls in supertypes),
        "attributes": (AttributeDescription("speaker", ANY), AttributeDescription("fee", ANY)),
        "members": (
            MemberDescription("fee", "field"),
            MemberDescription("speaker", "field"),
            MemberDescription("pay", "method"),
            MemberDescription("tax", "property"),
        ),
    }
    return Description(**(fields | changes))


def made_from(description: Description, *known: type) -> Any:
    registry = Registry()
    for cls in known:
        registry.bind(cls)
    return registry.made(description)


BASES = [DataTalk, AttrsTalk, StructTalk, ModelTalk, PlainTalk, Titled, HasSpeaker]


@pytest.mark.parametrize("base", BASES)
def test_a_made_class_derives_from_the_supertype_that_is_known(base: type) -> None:
    made = made_from(unknown(base), base)
    assert base in made.__mro__
    assert conforms(made, base)


@pytest.mark.parametrize("base", BASES)
def test_a_made_class_is_what_its_description_says(base: type) -> None:
    description = unknown(base)
    made = made_from(description, base)
    assert describe(made) is description
    assert (wire_name(made), wire_version(made)) == ("far.away.Keynote", 3)
    assert conforms(made, HasSpeaker)


@pytest.mark.parametrize("base", BASES)
def test_methods_that_are_not_here_say_so(base: type) -> None:
    made = made_from(unknown(base), base)
    with pytest.raises(MethodNotHereError, match=r"Keynote\.pay\(\)"):
        made.pay(None, 1, x=2)


@pytest.mark.parametrize("base", [DataTalk, AttrsTalk, StructTalk, ModelTalk])
def test_objects_of_a_made_class_compare_by_all_fields(base: type) -> None:
    made = made_from(unknown(base), base)
    one, same, other = (made(speaker="a", fee=fee) for fee in (1, 1, 2))
    assert one == same
    assert one != other
    assert "fee=1" in repr(one)
    with pytest.raises(MethodNotHereError):
        one.tax


def test_fields_are_seen_in_the_way_of_the_base() -> None:
    made = made_from(unknown(DataTalk), DataTalk)
    assert dataclasses.asdict(made(speaker="a", fee=1)) == {"speaker": "a", "fee": 1}
    made = made_from(unknown(ModelTalk), ModelTalk)
    assert made(speaker="a", fee=1).model_dump() == {"speaker": "a", "fee": 1}
    made = made_from(unknown(AttrsTalk), AttrsTalk)
    assert attrs.asdict(made(speaker="a", fee=1)) == {"speaker": "a", "fee": 1}


def test_a_class_without_known_supertypes_is_a_frozen_struct() -> None:
    made = made_from(unknown())
    assert isinstance(made, type(msgspec.Struct))
    assert {made(speaker="a", fee=1), made(speaker="a", fee=1)} == {made(speaker="a", fee=1)}
    assert copy.copy(made(speaker="a", fee=1)).fee == 1


def test_methods_of_a_known_supertype_are_kept() -> None:
    description = unknown(PlainTalk, members=(MemberDescription("shout", "method"),))
    made = made_from(description, PlainTalk)
    value = made.__new__(made)
    value.speaker = "quiet"
    assert value.shout() == "QUIET"
    assert repr(value) == "Keynote(speaker='quiet')"


def test_abstract_methods_do_not_stop_a_made_class() -> None:
    value = object.__new__(made_from(unknown(Titled), Titled))
    with pytest.raises(MethodNotHereError):
        value.title()


def test_unknown_supertypes_are_made_too_and_lead_to_the_known_one() -> None:
    class Middle(DataTalk): ...

    class Last(Middle): ...

    registry = Registry()
    for description in describe_all(Last):
        if description.name != wire_name(DataTalk):
            registry.add(description)
    made = registry.made(describe(Last))
    assert issubclass(made, DataTalk)
    assert not issubclass(made, Middle)
    assert describe(made.__mro__[1]) == describe(Middle)


def test_several_known_supertypes_are_all_kept() -> None:
    made = made_from(unknown(DataTalk, Titled), DataTalk, Titled)
    assert issubclass(made, DataTalk)
    assert issubclass(made, Titled)


def test_layouts_that_do_not_go_together_are_dealt_with() -> None:
    made = made_from(unknown(StructTalk, DataTalk, Titled), StructTalk, DataTalk, Titled)
    assert issubclass(made, StructTalk)
    assert issubclass(made, Titled)
    assert made(speaker="a", fee=1).fee == 1


def test_a_supertype_nobody_knows_is_left_out() -> None:
    assert made_from(unknown(supertypes=("far.away.Nobody",))).__name__ == "Keynote"


def test_a_description_that_names_itself_as_supertype_is_survived() -> None:
    description = Description("far.Loop", supertypes=("far.Loop",))
    registry = Registry()
    registry.add(description)
    assert registry.made(description).__name__ == "Loop"


def test_one_class_is_made_per_description() -> None:
    registry, description = Registry(), unknown()
    assert registry.made(description) is registry.made(unknown())
    assert registry.made(description) is not registry.made(unknown(version=4))


def test_an_enum_is_made_with_its_members() -> None:
    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 2

    made = Registry().made(describe(Level))
    assert [(member.name, member.value) for member in made] == [("LOW", 1), ("HIGH", 2)]
    assert issubclass(made, enum.IntEnum)


def test_an_enum_whose_values_are_no_data_has_its_names() -> None:
    description = Description(
        "far.Odd",
        kind="enum",
        supertypes=("far.Mixin",),
        constants=(ConstantDescription("A"), ConstantDescription("B")),
    )
    made: Any = Registry().made(description)
    assert list(made.__members__) == ["A", "B"]


def test_a_flag_is_made_with_its_bits() -> None:
    class Right(enum.Flag):
        READ = 1
        WRITE = 2

    made: Any = Registry().made(describe(Right))
    assert (made.READ | made.WRITE).value == 3


def test_a_made_flag_keeps_bits_that_it_has_no_name_for() -> None:
    class Right(enum.Flag):
        READ = 1
        FAR = 2**70

    made: Any = Registry().made(describe(Right))
    assert made(1) is made.READ
    assert made(2**70 + 1).value == 2**70 + 1


def test_a_stand_in_for_an_unknown_value_is_no_alias() -> None:
    class Odd(enum.Enum):
        A = (1, 2)
        B = "A"

    made: Any = Registry().made(describe(Odd))
    assert (made.A.name, made.B.name) == ("A", "B")


def test_a_named_tuple_is_made_as_a_tuple() -> None:
    class Point(NamedTuple):
        x: int
        y: int

    made: Any = Registry().made(describe(Point))
    point = tuple.__new__(made, (1, 2))
    assert point == (1, 2)
    assert (point.x, point.y, repr(point)) == (1, 2, "Point(x=1, y=2)")


def test_a_class_that_extends_a_built_in_one_still_does() -> None:
    class Text(str):
        __slots__ = ()

    made: Any = Registry().made(describe(Text))
    assert issubclass(made, str)
    assert made("a") == "a"


@pytest.mark.parametrize("kind", ["class", "dataclass", "namedtuple", "enum", "flag"])
def test_a_class_cannot_have_a_null_character_in_its_name(kind: str) -> None:
    with pytest.raises(NotDecodableError, match="null character"):
        Registry().made(Description(name="far.Aw\0ay", kind=kind))


@pytest.mark.parametrize("kind", ["enum", "flag"])
@pytest.mark.parametrize("names", [("RED", "RED"), ("mro",), ("_missing_",)])
def test_an_enum_that_python_does_not_allow_is_refused(kind: str, names: tuple[str, ...]) -> None:
    constants = tuple(ConstantDescription(name, at) for at, name in enumerate(names, 1))
    with pytest.raises(NotDecodableError, match=r"no class can be made of it|name of a member"):
        Registry().made(Description(name="far.Away", kind=kind, constants=constants))


@pytest.mark.parametrize("name", ["", "a b", "class", "x=1): pass #", "__class__", "__del__"])
def test_a_name_that_is_no_attribute_is_refused(name: str) -> None:
    with pytest.raises(NotDecodableError):
        made_from(unknown(attributes=(AttributeDescription(name, ANY),)))
