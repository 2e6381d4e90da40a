"""One description from any kind of class, as plain data."""

from __future__ import annotations

import abc
import dataclasses
import datetime
import decimal
import enum
import functools
import gc
import pathlib
import subprocess
import sys
import typing
import uuid
import weakref
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

import attrs
import msgspec
import pydantic
import pydantic.json_schema
import pytest
import typing_extensions

from polycast.typesystem import Description, TypeExpression, describe, describe_all, event

T = TypeVar("T")


@dataclasses.dataclass
class Person:
    name: str


@dataclasses.dataclass
class Student(Person):
    friends: list[Student] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class FromDataclass:
    speaker: str
    stars: int = 3
    tags: list[str] = dataclasses.field(default_factory=list)


@attrs.define
class FromAttrs:
    speaker: str
    stars: int = 3
    tags: list[str] = attrs.field(factory=list)


class FromStruct(msgspec.Struct):
    speaker: str
    stars: int = 3
    tags: list[str] = msgspec.field(default_factory=list)


class FromPydantic(pydantic.BaseModel):
    speaker: str
    stars: int = 3
    tags: list[str] = pydantic.Field(default_factory=list)


class FromClass:
    speaker: str
    stars: int = 3
    tags: list[str]


class FromTuple(NamedTuple):
    speaker: str
    stars: int = 3
    tags: list[str] = []


KINDS = [FromDataclass, FromAttrs, FromStruct, FromPydantic, FromClass, FromTuple]


def written(cls: type) -> dict[str, str]:
    """The attributes of a class, each with its type in words."""
    return {attribute.name: str(attribute.type) for attribute in describe(cls).attributes}


@pytest.mark.parametrize("cls", KINDS)
def test_every_kind_of_class_gives_the_same_attributes(cls: type) -> None:
    assert written(cls) == {"speaker": "str", "stars": "int", "tags": "list[str]"}


@pytest.mark.parametrize("cls", KINDS)
def test_required_attributes_and_plain_defaults_are_told_apart(cls: type) -> None:
    speaker, stars, _ = describe(cls).attributes
    assert (speaker.required, speaker.default) == (True, msgspec.UNSET)
    assert (stars.required, stars.default) == (False, 3)


@pytest.mark.parametrize("cls", KINDS)
def test_fields_are_public_members(cls: type) -> None:
    assert describe(cls).public >= {"speaker", "stars", "tags"}


def test_the_machinery_of_a_library_is_no_member_and_no_supertype() -> None:
    for cls in (FromPydantic, FromStruct, FromAttrs, FromDataclass):
        assert describe(cls).public == {"speaker", "stars", "tags"}
        assert describe(cls).supertypes == ()


@pytest.mark.parametrize("cls", [*KINDS, Student, int, enum.Enum])
def test_a_description_is_data_in_both_codecs(cls: type) -> None:
    found = describe(cls)
    for module in (msgspec.json, msgspec.msgpack):
        assert module.decode(module.encode(found), type=Description) == found


def test_a_default_that_is_no_plain_data_is_not_sent() -> None:
    @dataclasses.dataclass
    class Dated:
        day: datetime.date = datetime.date(2020, 1, 1)
        big: int = 2**80
        words: dict[str, str] = dataclasses.field(default_factory=dict)

    day, big, words = describe(Dated).attributes
    assert (day.required, day.default) == (False, msgspec.UNSET)
    assert (big.required, big.default) == (False, msgspec.UNSET)
    assert words.default == {}


def test_a_default_that_needs_its_object_counts_as_none() -> None:
    @attrs.define
    class Twice:
        x: int
        y: int = attrs.Factory(lambda self: 2 * self.x, takes_self=True)

    assert describe(Twice).attributes[1].required


def test_supertypes_are_in_declared_order() -> None:
    class One: ...

    class Two: ...

    class Both(Two, One, Generic[T]): ...

    assert [name.rpartition(".")[2] for name in describe(Both).supertypes] == ["Two", "One"]


def test_supertypes_behind_machinery_are_seen() -> None:
    class Level(enum.IntEnum):
        LOW = 1

    assert describe(Level).supertypes == ("enum.IntEnum",)
    assert describe(bool).supertypes == ("builtins.int",)


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "int"),
        (None, "None"),
        (Any, "Any"),
        (object, "Any"),
        (int | None, "int | None"),
        (typing.Optional[str], "str | None"),  # noqa: UP045
        (int | Any, "Any"),
        (list, "list"),
        (typing.List[int], "list[int]"),  # noqa: UP006
        (dict[str, list[int]], "dict[str, list[int]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Literal[b"a"], "bytes"),
        (Annotated[float, "m/s"], "float"),
        (typing.Final[int], "int"),
        (typing.NewType("Id", int), "int"),
        (typing_extensions.TypeAliasType("Ids", list[int]), "list[int]"),
        (T, "Any"),
        (list[T], "list[Any]"),
        (typing.Callable[[int], str], "collections.abc.Callable"),
        (datetime.datetime, "datetime.datetime"),
        (decimal.Decimal, "decimal.Decimal"),
        (uuid.UUID, "uuid.UUID"),
    ],
)
def test_an_annotation_becomes_data(hint: Any, text: str) -> None:
    cls = dataclasses.make_dataclass("Holder", [("value", hint)])
    assert written(cls) == {"value": text}


def test_an_alias_made_of_itself_is_any() -> None:
    json = typing_extensions.TypeAliasType("Json", "dict[str, Json]")  # type: ignore[misc]  # noqa: F821
    cls = dataclasses.make_dataclass("Holder", [("value", dict[str, json])])  # type: ignore[valid-type]
    assert written(cls)["value"].startswith("dict[str, ")


def test_notes_of_an_annotation_are_kept() -> None:
    cls = dataclasses.make_dataclass("Fast", [("speed", Annotated[float, "m/s", 3])])
    assert describe(cls).attributes[0].type.notes == ("m/s",)


def test_a_typed_dict_is_a_dict() -> None:
    class Movie(typing.TypedDict):
        title: str

    cls = dataclasses.make_dataclass("Holder", [("value", Movie)])
    assert written(cls) == {"value": "dict"}


def test_a_forward_reference_to_nowhere_is_any_and_hides_no_other() -> None:
    @dataclasses.dataclass
    class Hopeful:
        lost: NoSuchClass  # type: ignore[name-defined]  # noqa: F821
        found: int

    assert written(Hopeful) == {"lost": "Any", "found": "int"}


def test_a_local_class_may_mention_itself() -> None:
    @dataclasses.dataclass
    class Node:
        next: Node | None

    assert written(Node)["next"].endswith("Node | None")


class Dated:
    date: datetime.date
    time: datetime.time | None = None


def test_a_field_may_be_called_like_a_type() -> None:
    @dataclasses.dataclass
    class Entry:
        int: int = 0
        float: float | None = None

    assert written(Entry) == {"int": "int", "float": "float | None"}


def test_class_variables_and_init_variables_are_no_attributes() -> None:
    @dataclasses.dataclass
    class Counted:
        total: ClassVar[int] = 0
        seed: dataclasses.InitVar[int]
        x: int = 0

    assert written(Counted) == {"x": "int"}
    assert describe(Counted).public == {"total", "x"}


def test_members_have_a_kind_an_arity_and_what_they_return() -> None:
    class Machine:
        size: int

        def run(self, speed: int, gear: int = 1, *, fast: bool) -> str: ...
        def rest(self, *args: int): ...
        @staticmethod
        def build(plan: str) -> Machine: ...
        @classmethod
        def copy(cls) -> Machine: ...
        @property
        def weight(self) -> float: ...
        @functools.cached_property
        def price(self) -> int: ...
        def __len__(self) -> int: ...
        def _hidden(self) -> None: ...

    found = {member.name: member for member in describe(Machine).members}
    assert sorted(found) == ["__len__", "build", "copy", "price", "rest", "run", "size", "weight"]
    run = found["run"]
    assert (run.kind, run.required, run.accepted, run.keywords) == ("method", 1, 2, ("fast",))
    assert str(run.type) == "str"
    assert (found["rest"].accepted, found["rest"].type) == (-1, None)
    assert (found["build"].required, found["copy"].required) == (1, 0)
    assert [found[name].kind for name in ("weight", "price", "size")] == [
        "property",
        "property",
        "field",
    ]


def test_an_enum_has_its_members_as_constants() -> None:
    class Color(enum.Enum):
        RED = 1
        MIXED = (1, 2)

    red, mixed = describe(Color).constants
    assert (red.name, red.value) == ("RED", 1)
    assert (mixed.name, mixed.value) == ("MIXED", msgspec.UNSET)


def test_interfaces_are_protocols_and_abcs_without_state() -> None:
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self) -> float: ...

    class Square(Shape):
        def area(self) -> float:
            return 1.0

    class Sized(Protocol):
        size: int

    class Stateful(abc.ABC):
        def __init__(self) -> None:
            self.side = 1

        @abc.abstractmethod
        def area(self) -> float: ...

    class Fielded(abc.ABC):
        size: int

    class Slotted(abc.ABC):  # noqa: B024
        __slots__ = ("size",)

    class Model(pydantic.BaseModel): ...

    class Marker(metaclass=abc.ABCMeta): ...  # noqa: B024

    flags = {cls.__name__: describe(cls).interface for cls in (Shape, Sized, Marker)}
    assert flags == {"Shape": True, "Sized": True, "Marker": True}
    others = (Square, Stateful, Fielded, Slotted, Model, Person)
    assert not any(describe(cls).interface for cls in others)


def test_the_description_is_made_once() -> None:
    assert describe(Person) is describe(Person)


def test_a_description_does_not_keep_its_class() -> None:
    cls = dataclasses.make_dataclass("Short", [("x", int)])
    kept, gone = describe(cls), weakref.ref(cls)
    del cls
    gc.collect()
    assert gone() is None
    assert kept.attributes[0].name == "x"


def test_everything_needed_elsewhere_is_described_together() -> None:
    class Course:
        teacher: Person | None
        students: dict[str, list[Student]]
        room: int

    names = [found.name.rpartition(".")[2] for found in describe_all(Course)]
    assert names == ["Course", "Person", "Student"]


def test_what_methods_return_is_described_too() -> None:
    class Library:
        def best(self) -> Student: ...

    names = {found.name.rpartition(".")[2] for found in describe_all(Library)}
    assert names == {"Library", "Person", "Student"}


def test_what_methods_return_from_other_packages_is_left_where_it_is() -> None:
    class Report:
        def model(self) -> pydantic.BaseModel: ...
        def path(self) -> pathlib.Path: ...
        def config(self) -> pydantic.json_schema.GenerateJsonSchema: ...

    assert [found.name.rpartition(".")[2] for found in describe_all(Report)] == ["Report"]


def test_equal_classes_have_equal_hashes_and_others_do_not() -> None:
    def make(kind: type) -> type:
        return dataclasses.make_dataclass("Same", [("x", kind)], namespace={"__module__": "m"})

    assert describe(make(int)).hash == describe(make(int)).hash
    assert describe(make(int)).hash != describe(make(str)).hash


def test_private_methods_do_not_change_the_description() -> None:
    one = type("Same", (), {"__module__": "m"})
    other = type("Same", (), {"__module__": "m", "_secret": lambda self: 1})
    assert describe(one).hash == describe(other).hash


PROBE = """
import dataclasses
from polycast.typesystem import describe
@dataclasses.dataclass
class Talk:
    speaker: str
    tags: set[int] | None = None
    def title(self, x): ...
print(describe(Talk).hash)
"""


def test_the_hash_is_the_same_in_every_process() -> None:
    hashes = {
        subprocess.run(
            [sys.executable, "-c", PROBE],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1


def test_built_in_classes_have_the_same_description_in_every_python() -> None:
    assert describe(str) == Description("builtins.str", kind="value")


def test_versions_are_part_of_what_an_annotation_says() -> None:
    @event(name="com.acme.Line", version=3)
    class Line: ...

    cls = dataclasses.make_dataclass("Bill", [("line", Line)])
    assert describe(cls).attributes[0].type == TypeExpression("class", "com.acme.Line", 3)
