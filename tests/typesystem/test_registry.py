"""Names bound per bus: clashes, takeovers, aliases, descriptions from elsewhere."""

from __future__ import annotations

import dataclasses
import gc
import subprocess
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from polycast.errors import NameClashError, NotDecodableError
from polycast.typesystem import (
    Description,
    Registry,
    describe,
    describe_all,
    event,
    wire_name,
)


@dataclasses.dataclass
class Line:
    text: str


@dataclasses.dataclass
class Bill:
    lines: list[Line]


def make(name: str, *, bases: tuple[type, ...] = (), version: int = 1, **fields: Any) -> type:
    """A dataclass of the module `notebook`, as if its cell ran once more."""
    cls = dataclasses.make_dataclass(name, fields.items(), bases=bases)
    cls.__module__ = "notebook"
    return event(version=version)(cls)


def test_the_first_use_binds_a_name() -> None:
    registry = Registry()
    assert registry.bind(Bill) is describe(Bill)
    assert registry.resolve(wire_name(Bill)) is Bill
    assert registry.describe(wire_name(Bill), version=1) == describe(Bill)


def test_what_a_class_mentions_is_bound_with_it() -> None:
    registry = Registry()
    registry.bind(Bill)
    assert registry.described(describe(Line).hash) == describe(Line)
    assert set(registry.descriptions()) == set(describe_all(Bill))


def test_the_same_class_again_is_no_clash() -> None:
    registry = Registry()
    assert registry.bind(Bill) == registry.bind(Bill)


def test_a_newer_class_with_the_same_description_takes_over() -> None:
    registry, old, new = Registry(), make("Talk", x=int), make("Talk", x=int)
    registry.bind(old)
    registry.bind(new)
    registry.bind(old)
    assert registry.resolve("notebook.Talk") is new


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"x": str}, "attribute 'x' was int, is str"),
        ({"x": int, "y": int}, "attribute 'y' is new"),
        ({}, "attribute 'x' is missing now"),
        ({"x": int, "bases": (Line,)}, "supertypes none before, "),
    ],
)
def test_a_different_class_under_the_same_name_is_a_clash(other: dict[str, Any], said: str) -> None:
    registry = Registry()
    registry.bind(make("Talk", x=int))
    with pytest.raises(NameClashError) as raised:
        registry.bind(make("Talk", **other))
    assert said in raised.value.difference


def test_other_differences_are_named_too() -> None:
    def method(self: Any, a: int) -> int: ...

    registry = Registry()
    registry.bind(type("Talk", (), {"__module__": "notebook", "go": lambda self: 1}))
    with pytest.raises(NameClashError, match="member 'go' was a method"):
        registry.bind(type("Talk", (), {"__module__": "notebook", "go": method}))


def test_a_clash_binds_nothing() -> None:
    registry = Registry()
    registry.bind(make("Line", x=int))
    holder = make("Holder", line=make("Line", x=str))
    with pytest.raises(NameClashError):
        registry.bind(holder)
    assert registry.resolve("notebook.Holder") is None


def test_the_description_stays_when_the_class_is_gone() -> None:
    registry, cls = Registry(), make("Talk", x=int)
    registry.bind(cls)
    gone = weakref.ref(cls)
    del cls
    gc.collect()
    assert gone() is None
    assert registry.resolve("notebook.Talk") is None
    with pytest.raises(NameClashError):
        registry.bind(make("Talk", x=str))


def test_two_registries_know_nothing_of_each_other() -> None:
    Registry().bind(make("Talk", x=int))
    Registry().bind(make("Talk", x=str))


def test_nothing_but_binding_raises_a_clash() -> None:
    registry = Registry()
    registry.bind(make("Talk", x=int))
    other = make("Talk", x=str)
    event(name="notebook.Talk")(other)
    registry.add(describe(other))
    assert registry.describe("notebook.Talk", version=1) != describe(other)
    assert registry.described(describe(other).hash) == describe(other)


def test_a_description_from_elsewhere_binds_the_name_too() -> None:
    registry = Registry()
    registry.add(describe(make("Talk", x=int)))
    with pytest.raises(NameClashError):
        registry.bind(make("Talk", x=str))


def test_versions_live_side_by_side() -> None:
    registry, one, two = Registry(), make("Talk", x=int), make("Talk", version=2, x=str)
    registry.bind(one)
    registry.bind(two)
    assert registry.resolve("notebook.Talk", version=1) is one
    assert registry.resolve("notebook.Talk", version=2) is two
    assert registry.resolve("notebook.Talk") is two
    assert registry.resolve("notebook.Talk", version=7) is two
    assert registry.describe("notebook.Talk") == describe(two)


def test_an_alias_resolves_to_the_class_that_declares_it() -> None:
    registry = Registry()
    cls = event(name="shop.Order", aliases=["shop.Bill"])(make("Order", x=int))
    registry.bind(cls)
    assert registry.resolve("shop.Bill") is cls
    assert registry.resolve("shop.Order") is cls


def test_built_in_classes_are_always_known() -> None:
    registry = Registry()
    registry.bind(int)
    assert registry.resolve("builtins.int") is int
    assert registry.describe("builtins.dict") == describe(dict)


def test_a_class_nobody_bound_is_found_if_this_process_has_it() -> None:
    assert Registry().resolve(wire_name(Line)) is Line
    assert Registry().resolve(f"{__name__}.NoSuchClass") is None
    assert Registry().resolve("no.such.module.Talk") is None


def test_a_named_class_nobody_bound_is_found_by_name_and_alias() -> None:
    cls = event(name="shop.Found", aliases=["shop.Lost"])(make("Found", x=int))
    assert Registry().resolve("shop.Found") is cls
    assert Registry().resolve("shop.Lost") is cls


@pytest.mark.parametrize("name", ["subprocess.Popen", "threading.Thread", "os.PathLike"])
def test_a_name_from_the_wire_finds_no_class_that_was_never_meant_as_an_event(name: str) -> None:
    assert Registry().resolve(name) is None


def test_a_name_from_the_wire_imports_nothing() -> None:
    code = "import sys; from polycast.typesystem import Registry\n"
    code += "Registry().resolve('wave.Error'); print('wave' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    found = types.ModuleType("lively_for_registry")
    sys.modules[found.__name__] = found
    yield found
    del sys.modules[found.__name__]


def test_a_class_that_cleans_up_after_itself_is_not_brought_to_life(
    module: types.ModuleType,
) -> None:
    space = {"__module__": module.__name__, "__annotations__": {"x": int}}
    module.Fine = type("Fine", (), space)  # type: ignore[attr-defined]
    module.Grim = type("Grim", (), {**space, "__del__": print})  # type: ignore[attr-defined]
    assert Registry().resolve("lively_for_registry.Fine") is not None
    assert Registry().resolve("lively_for_registry.Grim") is None


def test_class_for_prefers_the_real_class_over_a_made_one() -> None:
    registry, description = Registry(), describe(make("Talk", x=int))
    gc.collect()  # a class that is alive would be found by its name
    registry.add(description)
    made = registry.class_for("notebook.Talk", 1, description.hash)
    assert made is registry.made(description)
    real = make("Talk", x=int)
    registry.bind(real)
    assert registry.class_for("notebook.Talk", 1, description.hash) is real


def test_a_made_class_never_takes_over() -> None:
    registry, real = Registry(), make("Talk", x=int)
    registry.bind(real)
    registry.bind(registry.made(describe(real)))
    assert registry.resolve("notebook.Talk") is real


def test_class_for_names_what_it_does_not_know() -> None:
    with pytest.raises(NotDecodableError, match=r"'far\.Away' version 2"):
        Registry().class_for("far.Away", 2, "0" * 32)


def test_what_was_derived_is_forgotten_when_a_name_comes_to_mean_more() -> None:
    registry, described = Registry(), describe(make("Talk", x=int))
    registry.add(described)
    for learn in (
        lambda: registry.bind(make("Talk", x=int)),
        lambda: registry.bind(event(name="shop.Talk", aliases=["notebook.Talk"])(make("New"))),
        lambda: registry.add(Description("notebook.Talk", version=2)),
    ):
        registry.derived["test"] = 1
        learn()
        assert registry.derived == {}


def test_what_was_derived_stays_when_a_new_name_is_learnt() -> None:
    registry = Registry()
    registry.derived["test"] = registry.attached["test"] = 1
    registry.bind(Line)
    registry.bind(Line)
    registry.add(describe(Line))
    registry.add(Description("far.Away"))
    assert registry.derived == {"test": 1}
    registry.add(Description("far.Away", version=2))
    assert (registry.derived, registry.attached) == ({}, {"test": 1})


def test_threads_that_bind_at_once_agree() -> None:
    registry, classes = Registry(), [make("Talk", x=int) for _ in range(8)]
    barrier, found = threading.Barrier(8, timeout=10), []

    def bind(cls: type) -> None:
        barrier.wait()
        found.append(registry.bind(cls))
        found.append(registry.bind(Bill))

    threads = [threading.Thread(target=bind, args=(cls,)) for cls in classes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert len(found) == 16
    assert len({description.hash for description in found}) == 2
    assert registry.resolve("notebook.Talk") in classes
