"""Every way by which a name comes in: what leads out of the table comes to nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from xml.sax.saxutils import quoteattr

import hostile_lists
import hostile_shop
import msgspec
import pytest
from hostile_names import HOSTILE, MODULE, nothing_happens, shell
from hostile_package import rules
from hostile_shop import LocalSale

import polycast as pc
from polycast.contexts.declare.context_state import state_of
from polycast.events import Identity
from polycast.matching import Definition
from polycast.matching.interest import SelectedType
from polycast.pipeline.code_distribution import CodeBundle
from polycast.pipeline.route_stream import RouteRange, reports_of
from polycast.registered_names import BUILT_IN, RegisteredNames
from polycast.routing import decode_recipients
from polycast.routing.context_versions import ContextHistory
from polycast.routing.recipients import Recipients
from polycast.routing.search import History, Search
from polycast.stores import ContextVersion, Run, Transaction, open_store
from polycast.stores.sqlite.readonly_store import open_readonly
from polycast.typesystem import (
    AttributeDescription,
    Description,
    MemberDescription,
    Registry,
    TypeExpression,
    describe,
)

TEXT = SelectedType("builtins.str", 1, describe(str).hash)
SHELL = "hostile_package.tools.Shell"
RULES = rules.__name__


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events.db")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace"


# -- the table -------------------------------------------------------------------------------------


def registered(*modules: ModuleType) -> set[str]:
    """What names mean something, but for those of Python itself."""
    return RegisteredNames(modules)._known.keys() - BUILT_IN.keys()


def test_a_module_registers_what_it_defines() -> None:
    assert registered(rules) == {
        f"{RULES}:{each}" for each in ("Order", "Order.is_large", "LocalOrder", "double")
    }


def test_what_a_module_lists_it_has_to_define() -> None:
    home = hostile_lists.__name__
    assert registered(hostile_lists) == {
        f"{home}:{each}" for each in ("_kept", "Kept", "Kept.is_kept", "Runner")
    }


def test_a_package_may_list_what_its_own_modules_define(monkeypatch: pytest.MonkeyPatch) -> None:
    package = sys.modules["hostile_package"]
    monkeypatch.setattr(package, "double", rules.double, raising=False)
    monkeypatch.setattr(package, "quit", sys.exit, raising=False)
    assert registered(package) == set()
    monkeypatch.setattr(package, "__all__", ["double", "quit"], raising=False)
    assert registered(package) == {"hostile_package:double", f"{RULES}:double"}


@pytest.mark.parametrize("modules", [(), (hostile_shop,), (hostile_shop, hostile_lists)])
def test_no_hostile_name_is_in_the_table(modules: tuple[ModuleType, ...]) -> None:
    names = RegisteredNames(modules)
    with nothing_happens():
        for name in HOSTILE:
            assert names.get(name) is None
            assert names.spelled(name) == []
            assert "not registered" in names.why_not(name)


# -- the pipeline ----------------------------------------------------------------------------------


def subscribed(path: str, functions: Iterable[str]) -> None:
    """Definitions with functions, as they may have come over the wire."""
    store = open_store(path)

    def write(tx: Transaction) -> None:
        for number, function in enumerate(functions):
            wanted = Definition(
                "str", "strong_set", (TEXT,), where="?", function=function, partial=True
            )
            tx.begin_route(f"evil-{number}", wanted.encoded())

    store.write(write).result()
    store.close()


def routed(path: str, event: object, *, imports: tuple[str, ...] = (MODULE,)) -> Recipients:
    """Who takes an event, by what a worker of the pipeline says, and of whom it is not sure."""
    with pc.Bus(f"sqlite:///{path}") as bus:
        position = bus.publish(event).position
    assert position is not None
    return worked(path, position, imports)


def worked(path: str, position: int, imports: tuple[str, ...]) -> Recipients:
    with open_readonly(path) as store, store.view() as view:
        identity, effect = view.identity(), view.in_effect(position)
    piece = RouteRange(position, position + 1, *effect)
    (row,) = reports_of(path, identity, CodeBundle(imports), [piece])
    assert (row.error, row.failures) == (None, b"")
    return decode_recipients(position, row.recipients)


@pytest.mark.parametrize("name", [f"{MODULE}:os.system", f"{MODULE}:system", "builtins:exec"])
def test_a_definition_runs_no_program_in_the_pipeline(path: str, trace: Path, name: str) -> None:
    subscribed(path, [name])
    event = shell(trace) if "system" in name else f"open({str(trace)!r}, 'w').close()"
    routed(path, event)
    assert not trace.exists()


def test_no_hostile_name_is_asked_by_the_pipeline(path: str) -> None:
    routed(path, "what is made once is made")
    names = [each for each in HOSTILE if "\x00" not in each]
    subscribed(path, [*names, f"{MODULE}:is_urgent"])
    with pc.Bus(f"sqlite:///{path}") as bus:
        position = bus.publish("true").position
    assert position is not None
    with nothing_happens():
        takers = worked(path, position, (MODULE,))
    # Whose function is not registered is sent all, to ask it; who is not urgent is not.
    assert len(takers.by_route()) == len(names)


def test_a_registered_function_is_asked_by_the_pipeline(path: str) -> None:
    subscribed(path, [f"{MODULE}:is_urgent"])
    assert list(routed(path, "urgent").by_route()) == [1]
    assert list(routed(path, "calm").by_route()) == []


# -- classes ---------------------------------------------------------------------------------------


def sent(path: str, filtering: str, trace: Path) -> tuple[int, Definition]:
    """An event that says that it holds an object of a class, and a subscription with a filter."""
    held = TypeExpression("class", SHELL)
    described = Description(
        "evil.Event",
        attributes=(AttributeDescription("x", held),),
        members=(MemberDescription("x", "field", held),),
    )
    wanted = Definition(
        "evil.Event",
        "strong_set",
        (SelectedType("evil.Event", 1, described.hash),),
        where=filtering,
        filter={"format": 1, "filter": filtering},
    )
    store = open_store(path)
    store.describe([described]).result()
    store.write(lambda tx: tx.begin_route("evil", wanted.encoded())).result()
    body = msgspec.json.encode({"x": {"$": SHELL, "command": shell(trace)}})
    run = Run("evil.Event", 1, described.hash, Identity("evil", 1, 1), "json", [body])
    (position,) = store.submit([run]).result()
    store.close()
    assert position is not None
    return position, wanted


FILTERS = ["event.x.run()", "event.x.has_run", "not event.x.run()"]


@pytest.mark.parametrize("filtering", FILTERS)
@pytest.mark.parametrize("imports", [(), (RULES,), (MODULE,)])
def test_the_pipeline_has_no_objects_of_a_class_that_is_not_registered(
    path: str, trace: Path, imports: tuple[str, ...], filtering: str
) -> None:
    """Whatever the modules of `imports=` import themselves, also from their own package."""
    position, _ = sent(path, filtering, trace)
    worked(path, position, imports)
    assert not trace.exists()


@pytest.mark.parametrize("filtering", FILTERS)
@pytest.mark.parametrize("modules", [(), (rules,)])
def test_a_replay_has_none_either(
    path: str, trace: Path, modules: tuple[ModuleType, ...], filtering: str
) -> None:
    position, wanted = sent(path, filtering, trace)
    with open_readonly(path) as store:
        History(Search((wanted,)), store, RegisteredNames(modules)).findings(position, position + 1)
    assert not trace.exists()


def test_the_methods_of_a_registered_class_are_asked(path: str) -> None:
    heavy = pc.lift(hostile_shop.Spec, lambda spec: spec.to_us().weight > 5)
    spec = describe(hostile_shop.Spec)
    wanted = Definition(
        "Spec",
        "strong_set",
        (SelectedType(spec.name, spec.version, spec.hash),),
        where=str(heavy),
        filter=heavy.to_json(),
    )
    store = open_store(path)
    store.describe([spec]).result()
    store.write(lambda tx: tx.begin_route("heavy", wanted.encoded())).result()
    store.close()
    assert list(routed(path, hostile_shop.Spec(3.0)).by_route()) == [1]
    assert list(routed(path, hostile_shop.Spec(1.0)).by_route()) == []


# -- replays ---------------------------------------------------------------------------------------


def test_no_hostile_name_is_asked_by_a_replay(path: str) -> None:
    with pc.Bus(f"sqlite:///{path}") as bus:
        bus.publish("true")
    names = RegisteredNames([hostile_shop])
    with open_readonly(path) as store:
        for name in ["", *HOSTILE]:  # once, so that what is made once is made
            wanted = Definition("str", "strong_set", (TEXT,), where="?", function=name)
            with nothing_happens() if name else pytest.MonkeyPatch.context():
                found = History(Search((wanted,), asked=False), store, names).findings(1, 2)
            assert found.events == 1  # it is not known whether it is wanted


# -- contexts --------------------------------------------------------------------------------------


def is_whole(function: str, names: RegisteredNames) -> bool:
    """Whether a context with one rule, as a store may have it, is all there for who has names."""
    root = pc.Context("root", types=[hostile_shop.Sale])
    us = pc.Context("us", parent=root, types=[LocalSale])
    us.map(hostile_shop.Sale, LocalSale, "?")
    us.rule("Sale.price", hostile_shop.double)
    named = msgspec.json.encode(function)
    body = state_of(us).replace(f'"{MODULE}:double"'.encode(), named)
    assert named in body
    contexts = ContextHistory(Registry(classes=names.classes), names.get)
    versions = [ContextVersion(1, "root", state_of(root), 1), ContextVersion(2, "us", body, 1)]
    contexts.learn(versions)
    kept = contexts.kept("us", 1)
    return kept is not None and kept.is_whole


def test_no_hostile_name_is_a_function_of_a_context_in_a_store() -> None:
    names = RegisteredNames([hostile_shop])
    assert is_whole(f"{MODULE}:double", names)
    with nothing_happens():
        assert [each for each in HOSTILE if is_whole(each, names)] == []


# -- files -----------------------------------------------------------------------------------------

ROOT = pc.Context("root", types=[rules.Order])


def loaded(folder: Path, pattern: str, function: str, *modules: str) -> pc.Context:
    file = folder / "us.xml"
    file.write_text(
        f"""<context><types>LocalOrder</types>
        <mappings><mapping from="Order" to="LocalOrder" dir="?"/></mappings>
        <rules><rule pattern={quoteattr(pattern)} function={quoteattr(function)}/></rules>
        </context>""",
        encoding="utf-8",
    )
    return pc.Context.load(file, parent=ROOT, modules=modules or [RULES])


def test_a_file_names_what_is_registered(tmp_path: Path) -> None:
    assert loaded(tmp_path, "Order.amount", "double").name == "us"
    assert loaded(tmp_path, "Order.amount", f"{RULES}.double").name == "us"


@pytest.mark.parametrize("pattern", ["Order.amount", "Order.shell", "Order.file", "Order"])
def test_no_hostile_name_is_a_function_of_a_file(tmp_path: Path, pattern: str) -> None:
    ours = {"is_urgent", f"{MODULE}.is_urgent"}
    spelt = {each.replace(":", ".").strip() for each in HOSTILE if each.isprintable()}
    spelt |= {each.rpartition(".")[2] for each in spelt} | {*filter(str.isprintable, HOSTILE)}
    with pytest.raises(pc.BadContextError):
        loaded(tmp_path, pattern, "system", RULES, MODULE)
    with nothing_happens():
        for name in sorted(spelt - ours):
            with pytest.raises(pc.BadContextError):
                loaded(tmp_path, pattern, name, RULES, MODULE)


@pytest.mark.parametrize(
    ("pattern", "function"),
    [
        ("Order.shell", "run"),
        ("Order.shell", "Shell.run"),
        ("Order.shell", "tidy"),
        ("Order.file", "unlink"),
        ("Order.file", "rmdir"),
        ("Order.file", "Path.unlink"),
        ("Order.file", "pathlib.Path.unlink"),
        ("Order.amount", "bit_length"),
    ],
)
def test_a_file_names_no_method_of_what_an_attribute_holds(
    tmp_path: Path, pattern: str, function: str
) -> None:
    """Only of a class that the modules or the contexts above define themselves."""
    with pytest.raises(pc.BadContextError, match="unknown-function"):
        loaded(tmp_path, pattern, function)
