"""Objects of every kind of class, as they are kept in memory, over the wire."""

from __future__ import annotations

import dataclasses
import decimal
import functools
from typing import Annotated, Any, Generic, TypeVar

import attrs
import msgspec
import pydantic
import pytest
from wire_trip import CODECS, Keynote, Talk, round_trip

from polycast.events import Codec

T = TypeVar("T")


@CODECS
def test_init_and_post_init_are_not_called_again(codec: Codec) -> None:
    calls = []

    @dataclasses.dataclass(frozen=True)
    class Counted:
        x: int
        y: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            calls.append(self.x)
            object.__setattr__(self, "y", self.x + 1)

    sent = Counted(1)
    assert round_trip(codec, sent) == sent
    assert calls == [1]


@CODECS
def test_a_struct_has_the_fields_of_the_wire_after_its_post_init(codec: Codec) -> None:
    class Growing(msgspec.Struct, frozen=True):
        x: int

        def __post_init__(self) -> None:
            msgspec.structs.force_setattr(self, "x", self.x + 1)

    sent = Growing(1)
    assert sent.x == 2
    assert round_trip(codec, sent) == sent


@CODECS
@pytest.mark.parametrize(
    "options",
    [
        {"rename": "camel"},
        {"tag": True},
        {"array_like": True},
        {"omit_defaults": True},
        {"forbid_unknown_fields": True},
        {"dict": True},
        {"kw_only": True},
        {"frozen": True},
    ],
    ids=str,
)
def test_structs_may_have_any_options(codec: Codec, options: dict[str, Any]) -> None:
    fields: list[Any] = [("one_field", int), ("other_field", str, "x"), ("nothing", int, 0)]
    cls = msgspec.defstruct("Optional", fields, **options)
    sent = cls(one_field=1, other_field="y")
    assert round_trip(codec, sent) == sent


@CODECS
def test_constraints_of_annotations_do_not_stop_an_event_that_breaks_them(codec: Codec) -> None:
    class Strict(msgspec.Struct):
        x: Annotated[int, msgspec.Meta(gt=0)]
        y: int

    assert round_trip(codec, Strict(-1, 2)) == Strict(-1, 2)


@CODECS
def test_attributes_nobody_declared_travel_too(codec: Codec) -> None:
    class Obvent:
        def __init__(self, speaker: str) -> None:
            self._speaker = speaker

    sent = Obvent("me")
    sent.extra = [Talk("x")]  # type: ignore[attr-defined]
    assert vars(round_trip(codec, sent)) == vars(sent)
    talk = Talk("me")
    talk.extra = 1  # type: ignore[attr-defined]
    assert vars(round_trip(codec, talk)) == vars(talk)


@CODECS
def test_a_default_of_the_class_stays_with_the_class(codec: Codec) -> None:
    class Obvent:
        size: int = 3

    assert vars(round_trip(codec, Obvent())) == {}
    assert round_trip(codec, Obvent()).size == 3


@CODECS
def test_slots_travel_also_private_and_unset_ones(codec: Codec) -> None:
    class Narrow:
        __slots__ = ("__secret", "never", "x")

        def __init__(self) -> None:
            self.x = 1
            self.__secret = 2

        def secret(self) -> int:
            return self.__secret

    back = round_trip(codec, Narrow())
    assert (back.x, back.secret(), hasattr(back, "never")) == (1, 2, False)


@CODECS
def test_what_a_cached_property_computed_does_not_travel(codec: Codec) -> None:
    class Costly:
        x: int = 1

        @functools.cached_property
        def price(self) -> int:
            return 5

    sent = Costly()
    assert sent.price == 5
    assert "price" not in vars(round_trip(codec, sent))


@CODECS
def test_attrs_classes_with_slots_and_cached_hashes_come_back(codec: Codec) -> None:
    @attrs.frozen(cache_hash=True)
    class Hashed:
        x: str
        _y: int = 1

    sent = Hashed("a")
    hash(sent)
    back = round_trip(codec, sent)
    assert back == sent
    assert hash(back) == hash(sent)


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int
    y: Any = None
    _secret: int = pydantic.PrivateAttr(default=3)


@CODECS
def test_pydantic_models_keep_what_was_set_extras_and_private_attributes(codec: Codec) -> None:
    sent = Model(x=1, z=Talk("me"))  # type: ignore[call-arg]
    sent._secret = 4
    back = round_trip(codec, sent)
    assert back == sent
    assert back.model_fields_set == {"x", "z"}
    assert back._secret == 4
    assert back.z == Talk("me")


@CODECS
def test_frozen_models_and_parametrised_ones_come_back(codec: Codec) -> None:
    class Box(pydantic.BaseModel, Generic[T], frozen=True):
        content: T

    sent = Box[int](content=1)
    assert round_trip(codec, sent) == sent


@CODECS
def test_generic_classes_forget_only_their_parameters(codec: Codec) -> None:
    @dataclasses.dataclass
    class Box(Generic[T]):
        content: T

    assert round_trip(codec, Box[Talk](Keynote("me"))) == Box(Keynote("me"))


@CODECS
def test_exceptions_keep_their_arguments_and_attributes(codec: Codec) -> None:
    class Failure(Exception):
        pass

    sent = Failure("a", 2)
    sent.code = 3  # type: ignore[attr-defined]
    back = round_trip(codec, sent)
    assert (type(back), back.args, back.code) == (Failure, ("a", 2), 3)
    assert round_trip(codec, ValueError("x")).args == ("x",)


@CODECS
def test_objects_may_be_members_of_sets_and_keys(codec: Codec) -> None:
    @dataclasses.dataclass(frozen=True)
    class Money:
        amount: decimal.Decimal

    five = Money(decimal.Decimal(5))
    assert round_trip(codec, {five}) == {five}
    assert round_trip(codec, {five: 1}) == {five: 1}
