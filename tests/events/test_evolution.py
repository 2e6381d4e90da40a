"""Events of another version, another name, or a class that is not here."""

from __future__ import annotations

import abc
import dataclasses
import enum
import gc
from typing import Any

import attrs
import msgspec
import pydantic
import pytest
from wire_trip import CODECS

from polycast.errors import MethodNotHereError, NotDecodableError
from polycast.events import JSON, Codec, Encoded
from polycast.typesystem import Registry, conforms, describe, event, wire_name


def sent(codec: Codec, value: Any) -> tuple[Encoded, Registry]:
    """The bytes of an event, and a registry elsewhere that has got the descriptions."""
    here, elsewhere = Registry(), Registry()
    encoded = codec.encode(value, registry=here)
    for description in here.descriptions():
        elsewhere.add(description)
    return encoded, elsewhere


def first() -> Any:
    @dataclasses.dataclass
    class Order:
        item: str
        legacy: int = 1

    return Order


def _dataclass() -> Any:
    @dataclasses.dataclass
    class Order:
        item: str
        count: int = 1
        tags: list[str] = dataclasses.field(default_factory=lambda: ["new"])

    return Order


def _attrs() -> Any:
    @attrs.frozen
    class Order:
        item: str
        count: int = 1
        tags: list[str] = attrs.field(factory=lambda: ["new"])

    return Order


def _struct() -> Any:
    class Order(msgspec.Struct):
        item: str
        count: int = 1
        tags: list[str] = msgspec.field(default_factory=lambda: ["new"])

    return Order


def _pydantic() -> Any:
    class Order(pydantic.BaseModel):
        item: str
        count: int = 1
        tags: list[str] = pydantic.Field(default_factory=lambda: ["new"])

    return Order


@CODECS
@pytest.mark.parametrize("make", [_dataclass, _attrs, _struct, _pydantic])
def test_an_older_event_gets_the_defaults_of_the_newer_class(codec: Codec, make: Any) -> None:
    old = event(name="shop.Order", version=1)(first())
    new = event(name="shop.Order", version=2)(make())
    encoded, elsewhere = sent(codec, old("tea", 7))
    elsewhere.bind(new)
    found = codec.decode(encoded, registry=elsewhere)
    assert found == new(item="tea")
    assert not hasattr(found, "legacy")


@CODECS
def test_a_newer_event_is_read_by_an_older_class(codec: Codec) -> None:
    old = event(name="shop.Order", version=1)(first())
    new = event(name="shop.Order", version=2)(_dataclass())
    encoded, elsewhere = sent(codec, new("tea", 7))
    elsewhere.bind(old)
    assert codec.decode(encoded, registry=elsewhere) == old("tea", 1)


@CODECS
def test_a_missing_field_without_default_is_named(codec: Codec) -> None:
    @event(name="shop.Order", version=2)
    @dataclasses.dataclass
    class Order:
        item: str
        price: int

    encoded, elsewhere = sent(codec, event(name="shop.Order")(first())("tea"))
    elsewhere.bind(Order)
    with pytest.raises(NotDecodableError, match="'price'"):
        codec.decode(encoded, registry=elsewhere)


@CODECS
def test_the_class_of_the_events_own_version_is_preferred(codec: Codec) -> None:
    old = event(name="shop.Order", version=1)(first())
    new = event(name="shop.Order", version=2)(_dataclass())
    encoded, elsewhere = sent(codec, old("tea"))
    elsewhere.bind(old)
    elsewhere.bind(new)
    assert type(codec.decode(encoded, registry=elsewhere)) is old


@CODECS
def test_versions_of_nested_objects_are_told_apart(codec: Codec) -> None:
    old = event(name="shop.Line", version=1)(first())
    new = event(name="shop.Line", version=2)(_dataclass())
    holder = dataclasses.make_dataclass("Bill", [("line", Any), ("same", new)])
    value = holder([old("a"), new("b")], old("c"))
    registry = Registry()
    back = codec.decode(codec.encode(value, registry=registry), registry=registry)
    assert back == value


@CODECS
def test_an_event_under_an_old_name_becomes_the_class_that_was_renamed(codec: Codec) -> None:
    old = event(name="shop.Bill")(first())
    new = event(name="shop.Invoice", aliases=["shop.Bill"])(_dataclass())
    encoded, elsewhere = sent(codec, old("tea"))
    elsewhere.bind(new)
    assert codec.decode(encoded, registry=elsewhere) == new("tea")


@CODECS
def test_a_nested_object_under_an_old_name_too(codec: Codec) -> None:
    old = event(name="shop.Bill")(first())
    new = event(name="shop.Invoice", aliases=["shop.Bill"])(_dataclass())
    encoded, elsewhere = sent(codec, [old("tea")])
    elsewhere.bind(new)
    assert codec.decode(encoded, registry=elsewhere) == [new("tea")]


@CODECS
def test_a_member_that_the_enum_here_lacks_is_named_with_those_it_has(codec: Codec) -> None:
    old = event(name="shop.Color", version=2)(enum.Enum("Color", {"RED": 1, "PINK": 2}))
    new = event(name="shop.Color", version=3)(enum.Enum("Color", {"RED": 1, "BLUE": 2}))
    encoded, elsewhere = sent(codec, [old["PINK"]])
    elsewhere.bind(new)
    with pytest.raises(NotDecodableError, match=r"'PINK'.*RED, BLUE"):
        codec.decode(encoded, registry=elsewhere)
    encoded, elsewhere = sent(codec, old["RED"])
    elsewhere.bind(new)
    assert codec.decode(encoded, registry=elsewhere) is new["RED"]


@CODECS
def test_bits_that_the_flag_here_lacks_are_not_decodable(codec: Codec) -> None:
    old = event(name="shop.Right", version=1)(enum.Flag("Right", {"READ": 1, "WRITE": 2}))
    new = event(name="shop.Right", version=2)(enum.Flag("Right", {"READ": 1}))
    encoded, elsewhere = sent(codec, old["WRITE"])
    elsewhere.bind(new)
    with pytest.raises(NotDecodableError, match="READ"):
        codec.decode(encoded, registry=elsewhere)


class Described(abc.ABC):
    @abc.abstractmethod
    def describe(self) -> str: ...


@dataclasses.dataclass
class Talk:
    speaker: str


@CODECS
def test_an_unknown_class_arrives_with_all_fields_as_its_known_supertype(codec: Codec) -> None:
    @dataclasses.dataclass
    class Fee:
        amount: int

    @dataclasses.dataclass
    class Keynote(Talk, Described):
        fee: Fee

        def describe(self) -> str:
            return "long"

    encoded, elsewhere = sent(codec, Keynote("me", Fee(5)))
    elsewhere.bind(Talk)
    found = codec.decode(encoded, registry=elsewhere)
    assert isinstance(found, Talk)
    assert isinstance(found, Described)
    assert conforms(type(found), Talk)
    assert (found.speaker, found.fee.amount) == ("me", 5)
    with pytest.raises(MethodNotHereError):
        found.describe()


@CODECS
def test_republishing_an_unknown_class_loses_nothing(codec: Codec) -> None:
    class Obvent:
        def __init__(self) -> None:
            self._speaker, self.extra = "me", Talk("x")

    home = Registry()
    encoded = codec.encode(Obvent(), registry=home)
    elsewhere = Registry()
    for description in home.descriptions():
        elsewhere.add(description)
    made = codec.decode(encoded, registry=elsewhere)
    assert made._speaker == "me"
    again = codec.encode(made, registry=elsewhere)
    assert (again.name, again.version, again.hash) == (encoded.name, encoded.version, encoded.hash)
    back = codec.decode(again, registry=home)
    assert (type(back), back._speaker, back.extra) == (Obvent, "me", Talk("x"))


def home_again(codec: Codec, value: Any) -> Any:
    """The value after it went to who lacks its class, was published there and came back."""
    home = Registry()
    encoded, elsewhere = codec.encode(value, registry=home), Registry()
    for description in home.descriptions():
        elsewhere.add(description)
    for _ in range(3):
        made = codec.decode(encoded, registry=elsewhere)
        assert type(made) is not type(value)
        encoded = codec.encode(made, registry=elsewhere)
    return codec.decode(encoded, registry=home)


@CODECS
def test_what_a_model_keeps_besides_its_fields_comes_home(codec: Codec) -> None:
    class Model(pydantic.BaseModel):
        x: int
        y: int = 2
        _secret: int = pydantic.PrivateAttr(default=3)

    value = Model(x=1)
    value._secret = 4
    back = home_again(codec, value)
    assert back == value
    assert (back.model_fields_set, back._secret) == ({"x"}, 4)


@CODECS
def test_an_attribute_that_was_never_set_is_not_set_at_home_either(codec: Codec) -> None:
    class Narrow:
        __slots__ = ("x", "y")
        x: int
        y: int

    value = Narrow()
    value.x = 1
    back = home_again(codec, value)
    assert (back.x, hasattr(back, "y")) == (1, False)


@CODECS
def test_a_default_of_the_class_is_still_the_classs_own_at_home(codec: Codec) -> None:
    class Obvent:
        size: int = 3
        name: str

    value = Obvent()
    value.name = "a"
    assert vars(home_again(codec, value)) == {"name": "a"}


@CODECS
def test_flags_of_more_than_64_bits_travel(codec: Codec) -> None:
    class Right(enum.Flag):
        READ = 1
        FAR = 2**70

    holder = dataclasses.make_dataclass("Held", [("right", Right), ("other", int)])
    value = holder(Right.FAR | Right.READ, 1)
    assert home_again(codec, value) == value
    registry = Registry()
    for sent in (Right.FAR, value, [Right.FAR]):
        encoded = codec.encode(sent, registry=registry)
        assert codec.decode(encoded, registry=registry) == sent


class PlainTalk:
    speaker: str = "nobody"


@CODECS
def test_a_default_of_an_unknown_class_is_not_lost_with_the_class(codec: Codec) -> None:
    class Keynote(PlainTalk):
        fee: int = 5

    encoded, elsewhere = sent(codec, Keynote())
    found = codec.decode(encoded, registry=elsewhere)
    assert isinstance(found, PlainTalk)
    assert (found.speaker, found.fee) == ("nobody", 5)


@CODECS
def test_the_real_class_is_used_as_soon_as_it_is_bound(codec: Codec) -> None:
    cls = dataclasses.make_dataclass("Late", [("x", int), ("y", int)])
    cls.__module__ = "m"
    encoded, elsewhere = sent(codec, cls(1, 2))
    assert type(codec.decode(encoded, registry=elsewhere)) is not cls
    elsewhere.bind(cls)
    assert codec.decode(encoded, registry=elsewhere) == cls(1, 2)


@CODECS
def test_a_class_of_this_process_is_used_though_nobody_bound_it(codec: Codec) -> None:
    encoded = codec.encode(Talk("me"), registry=Registry())
    assert codec.decode(encoded, registry=Registry()) == Talk("me")


@CODECS
def test_a_class_that_is_gone_is_replaced_by_a_made_one(codec: Codec) -> None:
    registry = Registry()
    cls = dataclasses.make_dataclass(
        "Gone", [("x", int), ("y", int)], namespace={"__module__": "m"}
    )
    encoded = codec.encode(cls(1, 2), registry=registry)
    assert codec.decode(encoded, registry=registry) == cls(1, 2)
    del cls
    gc.collect()
    assert codec.decode(encoded, registry=registry).y == 2


def test_the_same_version_with_other_fields_is_read_by_name() -> None:
    theirs = event(name="shop.Order")(first())
    encoded, _ = sent(JSON, theirs("tea"))
    clean = Registry()
    mine = event(name="shop.Order")(_dataclass())
    clean.bind(mine)
    clean.add(describe(theirs))
    assert JSON.decode(encoded, registry=clean) == mine("tea")
    assert wire_name(mine) == encoded.name
