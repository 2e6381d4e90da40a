"""Of which classes all attributes are known, and of which they are not."""

from __future__ import annotations

import abc
import collections
import enum
import functools
import gc
import typing
import weakref
from dataclasses import InitVar, dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import attrs
import msgspec
import pydantic
import pydantic.dataclasses
import pytest

from polycast.filters.checking import check, problems
from polycast.filters.checking.classes import Classes
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import parse

T = TypeVar("T")


@dataclass
class Plain:
    stars: int
    LIMIT: ClassVar[int] = 3
    given: InitVar[int] = 0

    @property
    def half(self) -> float:
        return self.stars / 2

    @functools.cached_property
    def twice(self) -> int:
        return self.stars * 2

    def rank(self) -> int:
        return self.stars

    class Inner:
        pass


@dataclass(frozen=True)
class Frozen:
    stars: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "made", self.stars + 1)


@dataclass(frozen=True)
class FrozenInManyWays:
    stars: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "added", self.stars + self.stars)
        object.__setattr__(
            self,
            "spread",
            [name for name in "ab"],  # noqa: C416
        )
        super().__setattr__("parent", {"a": 1})
        setattr(self, "built_in", 1 if self.stars else 2)  # noqa: B010


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    stars: int


@dataclass
class Derived(Plain):
    """A dataclass of a dataclass."""

    more: int = 0

    def __post_init__(self, given: int) -> None:
        self.made, (self.one, [self.two]) = given, (1, [2])

        def inner() -> None:
            self.nested = 3

        inner()


@attrs.define
class Attrs:
    stars: int


@attrs.define(slots=False, frozen=True)
class AttrsFrozen:
    stars: int


@attrs.define(slots=False)
class AttrsOpen:
    stars: int

    def __attrs_post_init__(self) -> None:
        self.made = 1


class Struct(msgspec.Struct):
    stars: int


class StructWithDict(msgspec.Struct, dict=True):
    stars: int

    def __post_init__(self) -> None:
        self.made = 1


class Model(pydantic.BaseModel):
    stars: int
    _made: int = pydantic.PrivateAttr(default=1)

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def half(self) -> float:
        return self.stars / 2

    @pydantic.field_validator("stars")
    @classmethod
    def positive(cls, value: int) -> int:
        return value

    def model_post_init(self, context: Any, /) -> None:
        self._made = 2


@pydantic.dataclasses.dataclass
class ModelDataclass:
    stars: int


class Pair(NamedTuple):
    stars: int
    name: str


class LargerPair(Pair):
    """Has a __dict__, and nothing that fills it."""

    def made(self) -> int:
        return 1


class Slots:
    __slots__ = ("stars",)

    def __init__(self, stars: int) -> None:
        self.stars = stars


class HasStars(Protocol):
    stars: int

    def rank(self) -> int: ...


class Interface(abc.ABC):
    @property
    @abc.abstractmethod
    def stars(self) -> int: ...


class Marker:
    """A plain base that keeps nothing."""


@dataclass
class Marked(Marker, abc.ABC):
    stars: int


@dataclass
class Box(Generic[T]):
    stars: T


@dataclass
class Failure(Exception):
    stars: int


class Planet(enum.Enum):
    EARTH = 1

    def __init__(self, stars: int) -> None:
        self.stars = stars


def traced(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(self: Any, *args: Any) -> Any:
        self.traced = True
        return function(self, *args)

    return wrapper


@dataclass
class Traced:
    stars: int

    @traced
    def touch(self) -> None:
        self.touched = True


KNOWN = [
    Plain,
    Frozen,
    FrozenInManyWays,
    FrozenSlots,
    Derived,
    Attrs,
    AttrsFrozen,
    AttrsOpen,
    Struct,
    StructWithDict,
    Model,
    ModelDataclass,
    Pair,
    LargerPair,
    Slots,
    Marked,
    Box,
    Failure,
    Planet,
    Traced,
]


@pytest.mark.parametrize("cls", KNOWN, ids=lambda cls: cls.__name__)
def test_an_attribute_that_a_known_class_has_is_accepted(cls: type) -> None:
    assert problems(parse("event.stars == 3"), (cls,)) == []


@pytest.mark.parametrize("cls", KNOWN, ids=lambda cls: cls.__name__)
def test_an_attribute_that_a_known_class_cannot_have_is_refused(cls: type) -> None:
    for text in ("event.absent == 3", "event.absent() == 3", "reach(event, 'absent') == 3"):
        [problem] = problems(parse(text), (cls,))
        assert problem.code == "no-attribute"


@pytest.mark.parametrize("cls", [HasStars, Interface], ids=lambda cls: cls.__name__)
def test_an_interface_says_what_its_events_have_at_least(cls: type) -> None:
    assert problems(parse("event.stars == 3"), (cls,)) == []
    assert problems(parse("event.absent == 3"), (cls,)) == []


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (Plain, "LIMIT given half twice rank Inner __class__ __dict__ __doc__ __whatever__"),
        (Derived, "LIMIT half more made one two nested __post_init__"),
        (Frozen, "made"),
        (FrozenInManyWays, "added spread parent built_in"),
        (AttrsOpen, "made"),
        (StructWithDict, "made"),
        (Model, "half _made positive model_dump model_fields_set model_extra copy"),
        (Pair, "name count index _fields _asdict"),
        (LargerPair, "name made _replace"),
        (HasStars, "rank"),
        (Failure, "args with_traceback add_note"),
        (Planet, "name value _value_ EARTH"),
        (Traced, "touched traced touch"),
    ],
)
def test_whatever_may_be_there_is_accepted(cls: type, names: str) -> None:
    for name in names.split():
        assert problems(nodes.Attribute(nodes.Event(), name), (cls,)) == [], name


# -- not known -------------------------------------------------------------------------------------


class SetsFreely:
    def __init__(self, **values: int) -> None:
        for name, value in values.items():
            setattr(self, name, value)


class SetsOne:
    def __init__(self) -> None:
        self.stars = 1


class Bare:
    stars: int


@dataclass
class Dynamic:
    stars: int

    def __getattr__(self, name: str) -> int:
        return 1


@dataclass
class Intercepted:
    stars: int

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


@dataclass
class SetsAnything:
    stars: int

    def fill(self, name: str) -> None:
        setattr(self, name, 1)


@dataclass(frozen=True)
class SetsMadeUpNames:
    stars: int

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            object.__setattr__(self, "is_" + name, True)


@dataclass(frozen=True)
class SetsFormattedNames:
    stars: int

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            object.__setattr__(self, f"is_{name}", True)


@dataclass
class UsesDict:
    stars: int

    def fill(self, values: Any) -> None:
        self.__dict__.update(values)


@dataclass
class UsesVars:
    stars: int

    def fill(self, values: Any) -> None:
        for name in values:
            vars(self)[name] = 1


@dataclass
class KeepsTheSetter:
    stars: int

    def fill(self, values: Any) -> None:
        setter = object.__setattr__
        setter(self, values, 1)


@dataclass
class OwnSetter:
    stars: int

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__("_" + name, value)


@dataclass
class OverFree(SetsFreely):
    stars: int = 0


@dataclass
class OverC(collections.deque):  # type: ignore[type-arg]
    """Its base is written in C, and no class that polycast knows."""

    stars: int = 0


class Meta(type):
    pass


@dataclass
class OfMeta(metaclass=Meta):
    stars: int


class Descriptor:
    def __get__(self, instance: Any, owner: Any) -> int:
        instance.hidden = 1
        return 1


@dataclass
class WithDescriptor:
    stars: int
    other = Descriptor()


class Extra(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    stars: int


class Mapping(dict[str, int]):
    pass


class OwnList(collections.UserList[int]):
    pass


@pytest.mark.parametrize(
    "cls",
    [
        object,
        SetsFreely,
        SetsOne,
        Bare,
        Dynamic,
        Intercepted,
        SetsAnything,
        SetsMadeUpNames,
        SetsFormattedNames,
        UsesDict,
        UsesVars,
        KeepsTheSetter,
        OwnSetter,
        OverFree,
        OverC,
        OfMeta,
        WithDescriptor,
        Extra,
        Mapping,
        OwnList,
        Exception,
        typing.Sized,
    ],
    ids=lambda cls: cls.__name__,
)
def test_where_attributes_are_not_fully_known_nothing_is_refused(cls: type) -> None:
    assert problems(parse("event.absent == 3 and event.other() == 3"), (cls,)) == []


def test_a_class_that_raises_at_every_touch_is_not_known() -> None:
    class RaisingMeta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError(name)

        def __hash__(cls) -> int:
            raise RuntimeError("hash")

    Raising = RaisingMeta("Raising", (), {})
    assert problems(parse("event.absent == 3"), (Raising,)) == []
    check(parse("event.absent == 3"), (Raising, Plain), every=True)


def test_an_attribute_given_to_a_class_later_is_accepted() -> None:
    @dataclass
    class Late:
        stars: int

    tree = parse("event.late == 3")
    assert problems(tree, (Late,)) != []
    Late.late = 3  # type: ignore[attr-defined]
    assert problems(tree, (Late,)) == []


def test_a_class_that_was_looked_at_can_go() -> None:
    def looked_at() -> weakref.ref[type]:
        @dataclass
        class Node:
            stars: int
            following: Node | None = None

            def next(self) -> Node:
                return self

        problems(parse("event.following.next().absent"), (Node,))
        problems(parse("event.next().following.stars == 3"), (Node,))
        problems(parse("isinstance(event, kind('builtins.int')) and event.next().stars"), (Node,))
        return weakref.ref(Node)

    gone = looked_at()
    gc.collect()
    assert gone() is None


def test_what_is_known_of_a_class_is_looked_up_once() -> None:
    classes = Classes()
    assert classes.known(Plain) is classes.known(Plain)
