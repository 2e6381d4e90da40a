"""`polycast context check` and `polycast context show`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHOP = """
from dataclasses import dataclass
import polycast as pc

@dataclass(frozen=True)
class Sale:
    price: float

@dataclass(frozen=True)
class USSale:
    price: float

def to_dollars(euros: float) -> float:
    return euros * 2

root = pc.Context("root", types=[Sale])
us = pc.Context("us", parent=root, types=[USSale])
us.map(Sale, USSale, "?")
us.rule("Sale.price", to_dollars)
broken = us.copy("broken")
broken.rule("Sale.prise", to_dollars)
"""
XML = """
<context>
  <types>USSale</types>
  <mappings><mapping from="Sale" to="USSale" dir="?"/></mappings>
  <rules><rule pattern="Sale.price" function="to_dollars"/></rules>
</context>
"""
NAMED = ["--root", "corner_shop:root", "--modules", "corner_shop"]


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder with a module and a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "corner_shop.py").write_text(SHOP)
    (tmp_path / "us.xml").write_text(XML)
    yield
    sys.modules.pop("corner_shop", None)


SAID = """\
observation: us: there is no mapping for USSale: it cannot leave the context [cannot-leave]
context 'us': 0 errors, 0 warnings, 1 observation
"""


def test_a_context_of_a_module_is_checked(run: Any) -> None:
    ran = run("context", "check", "corner_shop:us")
    assert (ran.status, ran.out, ran.err) == (0, SAID, "")


def test_a_context_of_a_file_is_checked(run: Any) -> None:
    ran = run("context", "check", "us.xml", *NAMED)
    assert (ran.status, ran.out, ran.err) == (0, SAID, "")


def test_a_strict_context_is_said_to_be_so(run: Any) -> None:
    Path("us.xml").write_text(XML.replace("<context>", '<context strict="true">'))
    ran = run("context", "check", "us.xml", *NAMED)
    assert ran.out == SAID.replace("\ncontext 'us'", "\nstrict context 'us'")
    assert '"strict":true' in run("context", "check", "us.xml", *NAMED, "--json").out.replace(
        " ", ""
    )


def test_errors_are_an_exit_status(run: Any) -> None:
    ran = run("context", "check", "corner_shop:broken")
    assert ran.status == 1
    assert ran.out.startswith(
        "error: broken, rule 'Sale.prise': 'prise' is no attribute of Sale and no type; it has "
        "price\n    Sale.prise\n         ^ [unknown-attribute]\n"
    )
    data = run("context", "check", "corner_shop:broken", "--json").data
    assert (data["context"], data["ok"]) == ("broken", False)
    assert data["findings"][0]["severity"] == "error"
    assert data["findings"][0]["code"] == "unknown-attribute"


def test_a_file_that_is_wrong_is_an_error(run: Any) -> None:
    Path("us.xml").write_text("<context>\n<a/><b/></context>")
    ran = run("context", "check", "us.xml", *NAMED)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == (
        "error: the file of a context was 'us.xml' (str); accepted: one without these 2 errors "
        "[bad-context]\n"
        "  us.xml:2: <a> has no place in <context>; <types> or <mappings> or <rules> has "
        "[bad-xml]\n"
        "  us.xml:2: <b> has no place in <context>; <types> or <mappings> or <rules> has "
        "[bad-xml]\n"
    )


def test_files_may_have_files_above_them(run: Any) -> None:
    Path("root.xml").write_text("<context><types>Sale</types></context>")
    Path("child.xml").write_text(
        "<context><rules><rule pattern='Sale.price' function='-'/></rules></context>"
    )
    words = ["child.xml", "--root", "root.xml", "--parent", "us.xml", "--modules", "corner_shop"]
    shown = run("context", "show", *words, "Sale")
    assert shown.status == 0
    assert "price: float            copied" in shown.out


def test_types_are_shown(run: Any) -> None:
    ran = run("context", "show", "corner_shop:us", "Sale", "corner_shop.USSale")
    assert ran.status == 0
    assert ran.out.splitlines()[:3] == [
        "Sale in context 'us'",
        "incoming: Sale => USSale ?  declared in us",
        "└── price: float            Sale.price > to_dollars",
    ]
    data = run("context", "show", "corner_shop:us", "Sale", "--json").data
    assert data["types"][0]["branches"][0]["inside"][0]["kind"] == "rule"
    assert run("context", "show", "corner_shop:broken", "Sale").status == 1


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["check", "shop"], 2, "'shop' is no context: a file that ends in .xml is one, or"),
        (["check", "no_shop:us"], 1, "the module of a context was 'no_shop' (str)"),
        (["check", "corner_shop:Sale"], 1, "'Sale' in corner_shop was the class corner_shop.Sale"),
        (["check", "corner_shop:nothing"], 1, "accepted: broken, root, us"),
        (["check", "none.xml"], 1, "No such file"),
        (["show", "corner_shop:us", "Sail"], 1, "a type of the context; did you mean Sale?"),
        (["check"], 2, "CONTEXT"),
    ],
)
def test_what_is_not_there(run: Any, words: list[str], status: int, said: str) -> None:
    ran = run("context", *words)
    assert (ran.status, ran.out) == (status, "")
    assert said in ran.err


# -- comparing -------------------------------------------------------------------------------------

NEW = """
import polycast as pc
from corner_shop import Sale, USSale, root

def to_dollars(euros: float) -> float:
    return euros * 3

us = pc.Context("us", parent=root, types=[USSale])
us.map(Sale, USSale, "?")
us.rule("Sale.price", to_dollars)
"""
FILLED = """
import polycast as pc
from corner_shop import Sale, us

with pc.Bus("sqlite:///sales.db", context=us) as bus:
    root = bus.within(us.root)
    for price in (0.0, 1.0, 2.5):
        root.publish(Sale(price))
"""
COMPARED = """\
3 events, from context 'us' to 'us': 1 the same, 2 changed, 0 appear, 0 vanish, 0 fail, 0 fail no \
more
  corner_shop.Sale: 2
  corner_shop.Sale at 2 changes: price: 2.0 -> 3.0
"""


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """A store with three sales, and a module that sees them in another way."""
    (tmp_path / "new_shop.py").write_text(NEW)
    subprocess.run([sys.executable, "-c", FILLED], check=True, cwd=tmp_path)
    return tmp_path / "sales.db"


def test_comparing_says_what_would_change(run: Any, sales: Path) -> None:
    ran = run("context", "compare", sales, "corner_shop:us", "new_shop:us", "--samples", 1)
    assert (ran.status, ran.out) == (0, COMPARED)


def test_what_is_in_the_store_is_known_by_its_name(run: Any, sales: Path) -> None:
    found = run("context", "compare", sales, "us", "corner_shop:us", "--json").data
    assert (found["events"], found["same"], found["samples"]) == (3, 3, [])


def test_a_context_that_the_store_does_not_have_is_named(run: Any, sales: Path) -> None:
    ran = run("context", "compare", sales, "fr", "corner_shop:us")
    assert ran.status == 1
    assert "'fr'" in ran.err
    assert "root, us" in ran.err


def test_a_name_that_is_not_in_a_module_is_answered_with_those_that_are(run: Any) -> None:
    ran = run("context", "check", "shop_contexts:ohter")
    assert "other, root, us; did you mean 'other'?" in ran.err
    assert "the module has none" in run("context", "check", "shop_events:us").err
