"""Wire names, versions, aliases, and which classes may leave the process."""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
import warnings
from typing import Any, Generic, TypeVar

import attrs
import msgspec
import pydantic
import pytest

from polycast.errors import BadOptionError, NotATypeError, NotShareableError
from polycast.typesystem import (
    MainClassWarning,
    check_shareable,
    describe,
    event,
    warn_main,
    wire_name,
    wire_version,
)

T = TypeVar("T")


class Boxed(pydantic.BaseModel, Generic[T]):
    content: T


@dataclasses.dataclass
class Plain:
    x: int


class Outer:
    @dataclasses.dataclass
    class Inner:
        x: int


@event(name="com.acme.Order", version=2, aliases=["com.acme.Bill"])
@dataclasses.dataclass
class Order:
    x: int


made_by_type = type("Unreachable", (), {"__module__": __name__})
named_by_hand = event(name="com.acme.Named")(type("AlsoUnreachable", (), {"__module__": __name__}))


def test_the_wire_name_is_module_and_qualname() -> None:
    assert wire_name(Plain) == f"{__name__}.Plain"
    assert wire_name(Outer.Inner) == f"{__name__}.Outer.Inner"
    assert wire_name(int) == "builtins.int"


def test_event_overrides_name_version_and_aliases() -> None:
    assert (wire_name(Order), wire_version(Order)) == ("com.acme.Order", 2)
    assert describe(Order).aliases == ("com.acme.Bill",)


def test_the_override_is_not_inherited() -> None:
    class Special(Order):
        pass

    assert wire_name(Special).endswith("Special")
    assert wire_version(Special) == 1


def _slotted() -> type:
    @dataclasses.dataclass(slots=True)
    class Slotted:
        x: int

    return Slotted


def _attrs() -> type:
    @attrs.define
    class Defined:
        x: int

    return Defined


class AStruct(msgspec.Struct):
    x: int


class AModel(pydantic.BaseModel):
    x: int


class AnEnum(enum.Enum):
    A = 1


@pytest.mark.parametrize("cls", [_slotted(), _attrs(), AStruct, AModel, AnEnum])
def test_event_takes_every_kind_of_class_and_gives_it_back(cls: type) -> None:
    name = f"com.acme.{cls.__name__}"
    assert event(name=name)(cls) is cls
    assert wire_name(cls) == name


def test_the_override_survives_the_copy_that_slots_need() -> None:
    @dataclasses.dataclass(slots=True)
    @event(name="com.acme.Copied")
    class Copied:
        x: int

    assert wire_name(Copied) == "com.acme.Copied"


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": "  "},
        {"name": 3},
        {"name": "builtins.int"},
        {"version": 0},
        {"version": True},
        {"version": "1"},
        {"aliases": "com.acme.Bill"},
        {"aliases": [""]},
        {"aliases": [1]},
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(BadOptionError) as raised:
        event(**options)
    assert raised.value.option == next(iter(options))


@pytest.mark.parametrize("given", [print, 3, int])
def test_only_a_class_of_ones_own_can_be_named(given: Any) -> None:
    with pytest.raises(NotATypeError):
        event(name="com.acme.X")(given)


@pytest.mark.parametrize("cls", [Plain, Outer.Inner, Order, named_by_hand, int, dict])
def test_a_class_that_others_can_name_is_shareable(cls: type) -> None:
    check_shareable(cls)


def test_a_parametrised_pydantic_model_is_as_shareable_as_its_origin() -> None:
    check_shareable(Boxed[int])


def test_a_local_class_is_not_shareable() -> None:
    class Local:
        pass

    with pytest.raises(NotShareableError, match="local to a function"):
        check_shareable(Local)


def test_a_name_does_not_make_a_local_class_shareable() -> None:
    @event(name="com.acme.Local")
    class Local:
        pass

    with pytest.raises(NotShareableError):
        check_shareable(Local)


def test_a_class_made_in_a_lambda_is_not_shareable() -> None:
    cls = type("Made", (), {"__qualname__": "<lambda>.Made"})
    with pytest.raises(NotShareableError, match="lambda"):
        check_shareable(cls)


def test_a_class_that_its_module_does_not_have_is_not_shareable() -> None:
    with pytest.raises(NotShareableError, match="has no class Unreachable"):
        check_shareable(made_by_type)


def _in_main(name: str) -> type:
    return type(name, (), {"__module__": "__main__", "__qualname__": name})


def test_a_class_of_main_warns_once_and_says_what_to_do() -> None:
    cls = _in_main("Once")
    with pytest.warns(MainClassWarning, match=r"@pc\.event\(name="):
        warn_main(cls)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_main(cls)
    assert issubclass(MainClassWarning, UserWarning)


def test_a_named_class_of_main_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_main(event(name="com.acme.Script")(_in_main("Script")))
        warn_main(Plain)


def test_a_reloaded_module_keeps_its_classes_shareable() -> None:
    module = types.ModuleType("reloaded_for_naming")
    sys.modules[module.__name__] = module
    try:
        old = type("Talk", (), {"__module__": module.__name__})
        module.Talk = type("Talk", (), {"__module__": module.__name__})  # type: ignore[attr-defined]
        check_shareable(old)
    finally:
        del sys.modules[module.__name__]
