"""Contexts from XML: the paper's form, and everything that is wrong with a file."""

from __future__ import annotations

import importlib
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import logistics
import pytest

import polycast as pc

Write = Callable[[str], Path]
PAPER = """
<context>
  <types>
    logistics.USInvoiceLine
    logistics.USItemSpecification
  </types>
  <mappings>
    <mapping from="logistics.InvoiceLine" to="logistics.USInvoiceLine" dir="?"/>
    <mapping from="USInvoiceLine" to="InvoiceLine" dir="!"/>
  </mappings>
  <rules>
    <!-- a method of the type at the pattern, then names in the modules -->
    <rule pattern="ItemSpecification" function="to_upper"/>
    <rule pattern="InvoiceLine.amountToPay" function="to_dollars"/>
    <rule pattern="USInvoiceLine.spec" function="logistics.to_eu"/>
    <whole type="InvoiceLine" function="signed"/>
  </rules>
</context>
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file that messages call us.xml."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        Path("us.xml").write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return Path("us.xml")

    return write


def load(path: Path, **more: Any) -> pc.Context:
    given: dict[str, Any] = {"parent": logistics.make_root(), "modules": [logistics], **more}
    return pc.Context.load(path, **given)


def test_the_form_of_the_paper_is_a_context(write: Write) -> None:
    us = load(write(PAPER))
    assert us.name == "us"
    assert us.types == (logistics.USInvoiceLine, logistics.USItemSpecification)
    assert us.check().errors == ()
    fed = pc.Federation(us.root)
    fed.add(us)
    line = logistics.InvoiceLine(logistics.ItemSpecification("nut"), logistics.Money(2.0))
    made = fed.translate(line, target=us)
    assert made == logistics.USInvoiceLine(
        logistics.USItemSpecification("NUT"), logistics.Money(4.0)
    )


def test_every_line_knows_where_it_is(write: Write) -> None:
    us = load(write(PAPER))
    assert [str(line.place) for line in us.mapping_lines] == ["us.xml:7", "us.xml:8"]
    assert [str(line.place) for line in us.rule_lines] == ["us.xml:12", "us.xml:13", "us.xml:14"]
    assert [str(line.place) for line in us.whole_lines] == ["us.xml:15"]


@pytest.mark.parametrize(
    ("given", "attribute", "name"),
    [(None, "", "us"), (None, ' name="states"', "states"), ("mine", ' name="states"', "mine")],
)
def test_the_name_is_given_or_in_the_file_or_its_stem(
    write: Write, given: str | None, attribute: str, name: str
) -> None:
    assert load(write(f"<context{attribute}/>"), name=given).name == name


def test_types_may_be_elements_text_or_both(write: Write) -> None:
    us = load(
        write(
            "<context><types>USInvoiceLine <type name='Money'/> <!-- --> ItemSpecification"
            " USInvoiceLine</types></context>"
        )
    )
    names = [cls.__name__ for cls in us.types]
    assert names == ["USInvoiceLine", "Money", "ItemSpecification"]


def test_a_file_without_a_parent_is_a_root(write: Write) -> None:
    root = load(write("<context><types>Money</types></context>"), parent=None)
    assert root.types == (logistics.Money,)
    assert root.root is root


@pytest.mark.parametrize("name", ["identity", "toIdentity", "polycast.identity"])
def test_identity_has_the_names_of_the_paper_and_its_own(write: Write, name: str) -> None:
    us = load(write(f"<context><rules><rule pattern='Money' function='{name}'/></rules></context>"))
    assert us.rule_lines[0].function is pc.rules.identity


def test_a_dash_disables(write: Write) -> None:
    root = logistics.make_root()
    parent = logistics.make_us(root)
    text = "<context><rules><rule pattern='ItemSpecification' function='-'/></rules></context>"
    child = load(write(text), name="child", parent=parent)
    assert [row.pattern for row in child.resolve(logistics.InvoiceLine)] == [
        "InvoiceLine.amountToPay"
    ]


@pytest.mark.parametrize("modules", [["logistics"], [logistics]])
def test_modules_are_modules_or_names(write: Write, modules: list[Any]) -> None:
    assert load(write(PAPER), modules=modules).check().errors == ()


@pytest.mark.parametrize(
    ("function", "found"),
    [
        ("to_plain", logistics.ItemSpecification.to_plain),
        ("ItemSpecification.to_upper", logistics.ItemSpecification.to_upper),
        ("logistics.ItemSpecification.to_upper", logistics.ItemSpecification.to_upper),
        ("to_us", logistics.to_us),
        ("loosely", logistics.loosely),
    ],
)
def test_functions_are_found_in_the_modules(write: Write, function: str, found: Any) -> None:
    rule = f"<rule pattern='ItemSpecification' function='{function}'/>"
    if function == "loosely":
        rule = rule.replace("ItemSpecification", "Money")
    us = load(write(f"<context><rules>{rule}</rules></context>"))
    assert us.rule_lines[0].function is found


def test_errors_of_the_check_have_file_and_line(write: Write) -> None:
    us = load(write(PAPER.replace('dir="?"', 'dir="!"')))
    assert str(us.check().errors[0]) == (
        "us.xml:7, mapping 'InvoiceLine => USInvoiceLine !': '!' maps local to root, but "
        "InvoiceLine is a root type and USInvoiceLine is a local type; did you mean '?'? The "
        "listing in the paper (FOS 4.3) prints '!' for a mapping from the root to a context "
        "[bad-direction]"
    )


# -- what is wrong with a file ---------------------------------------------------------------------


def refused(path: Path, **more: Any) -> list[str]:
    """What is said of a file, without the head of the message."""
    with pytest.raises(pc.BadContextError) as raised:
        load(path, **more)
    head, *lines = str(raised.value).splitlines()
    count = len(raised.value.errors)
    which = "this error" if count == 1 else f"these {count} errors"
    if count == 100:
        which += ", and perhaps more: the rest of the file was not looked at"
    assert head == f"the file of a context was 'us.xml' (str); accepted: one without {which}"
    return [line.removeprefix("  ") for line in lines]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "us.xml:1: this is no well-formed XML: no element found"),
        ("<context>", "us.xml:1: this is no well-formed XML: no element found"),
        ("<context>\n</rules>", "us.xml:2: this is no well-formed XML: mismatched tag"),
        (
            "<types/>",
            "us.xml:1: <types> has no place as the outermost element; <context> has",
        ),
        (
            "<context/>\n<rules/>",
            "us.xml:2: this is no well-formed XML: junk after document element; types, mappings "
            "and rules stand in one <context>",
        ),
        (
            "<context>\n<rool/></context>",
            "us.xml:2: <rool> has no place in <context>; <types> or <mappings> or <rules> has",
        ),
        (
            "<context><rules><type name='x'/></rules></context>",
            "us.xml:1: <type> has no place in <rules>; <rule> or <whole> has",
        ),
        (
            "<context><rules><rule pattern='a' function='-'><b/></rule></rules></context>",
            "us.xml:1: <b> has no place in <rule>; nothing has",
        ),
        (
            "<context colour='red'/>",
            "us.xml:1: <context> has no attribute 'colour'; it has name, strict",
        ),
        (
            "<context><types id='1'/></context>",
            "us.xml:1: <types> has no attribute 'id'; it has none",
        ),
        (
            "<context><mappings>\n<mapping from='a' dir='?'/></mappings></context>",
            "us.xml:2: the attribute 'to' of <mapping> is missing; it has from, to, dir",
        ),
        (
            "<context><rules><rule pattern=' ' function='-'/></rules></context>",
            "us.xml:1: the attribute 'pattern' of <rule> is empty; it has pattern, function",
        ),
        (
            "<context><rules><rule pattern='a' pattern='b' function='-'/></rules></context>",
            "us.xml:1: this is no well-formed XML: duplicate attribute",
        ),
        (
            "<context><rules>Money</rules></context>",
            "us.xml:1: the text 'Money' has no place in <rules>",
        ),
        (
            "<context><mappings><mapping from='a' to='b' dir='in'/></mappings></context>",
            "us.xml:1: the direction of a mapping is '?' (from the root to the context) or '!' "
            "(from the context to the root), not 'in'",
        ),
        ("<context><?php x?></context>", "us.xml:1: <?php?> has no place in a context"),
        (
            "<!DOCTYPE context>\n<context/>",
            "us.xml:1: a document type and entities have no place in a context",
        ),
        (
            "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><context>&x;</context>",
            "us.xml:1: a document type and entities have no place in a context",
        ),
        ("<context>&x;</context>", "us.xml:1: this is no well-formed XML: undefined entity"),
    ],
)
def test_a_file_that_is_wrong_is_refused(write: Write, text: str, said: str) -> None:
    before = set(sys.modules)
    assert refused(write(text), modules=["a_module_that_does_not_exist"]) == [f"{said} [bad-xml]"]
    assert set(sys.modules) == before  # nothing is imported


def test_all_errors_of_a_file_come_at_once(write: Write) -> None:
    text = """
        <context>
          <wrong><deeper/></wrong>
          <rules>
            <rule/>
          </rules>
        </context>
        """
    assert [line.split(": ")[0] for line in refused(write(text))] == [
        *("us.xml:2", "us.xml:4", "us.xml:4")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<a>" * 3_400_000,
        "<context>" + "<rules><rule/>" * 500_000,
        "<context>" * 400_000,
        "<context><rules>" + "<rule/>" * 600_000,
        "<context>" + " " * 10_000_000,
        "<context name='" + "a" * 10_000_000,
        "<!DOCTYPE a [<!ENTITY a 'a'>" + "<!ENTITY b '&a;&a;'>" * 200_000,
    ],
    ids=lambda text: f"{text[:20]} {len(text)}",
)
def test_ten_megabytes_of_anything_are_refused_at_once(write: Write, text: str) -> None:
    path = write(text)
    began = time.perf_counter()
    said = refused(path)
    assert 0 < len(said) <= 100
    assert time.perf_counter() - began < 5


def test_a_billion_laughs_are_not_laughed(write: Write) -> None:
    entities = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))
    text = f"<!DOCTYPE c [<!ENTITY l0 'lol'>{entities}]><context><types>&l9;</types></context>"
    assert refused(write(text)) == [
        "us.xml:1: a document type and entities have no place in a context [bad-xml]"
    ]


def test_other_encodings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "us.xml"
    text = "<?xml version='1.0' encoding='{}'?><context name='é'><types>Money</types></context>"
    for encoding in ("utf-8", "utf-16", "iso-8859-1"):
        path.write_text(text.format(encoding), encoding=encoding)
        assert load(path).name == "é"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "us.xml")


# -- names -----------------------------------------------------------------------------------------


def one_rule(write: Write, function: str, pattern: str = "Money") -> Path:
    return write(
        f"<context><rules>\n<rule pattern='{pattern}' function='{function}'/></rules></context>"
    )


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            "to_pounds",
            "there is no function 'to_pounds' in the modules (logistics); only what "
            "modules=[...] define is looked up",
        ),
        (
            "os.system",
            "there is no function 'os.system' in the modules (logistics); only what modules=[...] "
            "define is looked up",
        ),
        (
            "system",
            "'system' is defined in posix, which is not among the modules (logistics); only what "
            "modules=[...] define is looked up",
        ),
        (
            "logistics.pc.identity",
            "there is no function 'logistics.pc.identity' in the modules (logistics); only what "
            "modules=[...] define is looked up",
        ),
        (
            "dataclass",
            "'dataclass' is defined in dataclasses, which is not among the modules (logistics); "
            "only what modules=[...] define is looked up",
        ),
        (
            "to_dollars.__globals__",
            "'to_dollars.__globals__': names that begin with '__' are not looked up",
        ),
        ("__init__", "'__init__': names that begin with '__' are not looked up"),
        (
            "system(1)",
            "'system(1)' is no dotted name, such as 'shop.us.to_dollars'",
        ),
        (
            "lambda x: x",
            "'lambda x: x' is no dotted name, such as 'shop.us.to_dollars'",
        ),
    ],
)
def test_only_what_the_modules_define_is_looked_up(write: Write, function: str, said: str) -> None:
    said = said.replace("posix", logistics.system.__module__)
    assert refused(one_rule(write, function)) == [f"us.xml:2: {said} [unknown-function]"]


def test_a_module_that_is_not_listed_is_not_imported(write: Write) -> None:
    sys.modules.pop("this", None)
    assert len(refused(one_rule(write, "this.d"))) == 1
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "Pounds",
            "there is no type 'Pounds' in the modules (logistics) or in a context above; only "
            "what modules=[...] define is looked up",
        ),
        ("__class__", "'__class__': names that begin with '__' are not looked up"),
        ("Money;", "'Money;' is no dotted name, such as 'shop.us.to_dollars'"),
    ],
)
def test_a_type_that_is_unknown_is_refused(write: Write, name: str, said: str) -> None:
    text = f"<context>\n<types>\n\n{name}</types></context>"
    assert refused(write(text)) == [f"us.xml:4: {said} [unknown-type]"]


def test_a_name_that_is_two_types_is_refused(write: Write) -> None:
    class Money:
        pass

    Money.__qualname__ = "Money"
    root = pc.Context("root", types=[logistics.InvoiceLine, Money])
    text = "<context><types>Money</types></context>"
    assert refused(write(text), parent=root) == [
        "us.xml:1: 'Money' is two things; say logistics.Money or test_context_xml.Money "
        "[ambiguous-type]"
    ]


def test_a_pattern_that_is_wrong_is_said_where_a_bare_name_needs_it(write: Write) -> None:
    assert refused(one_rule(write, "to_dollars", "Mony")) == [
        "us.xml:2: there is no type 'Mony'; did you mean Money?",
        "  Mony",
        "  ^ [unknown-type]",
    ]


def test_modules_that_cannot_be_imported(write: Write) -> None:
    with pytest.raises(pc.BadContextError) as raised:
        load(write(PAPER), modules=["no_such_module"])
    assert str(raised.value) == (
        "us: modules was 'no_such_module' (str); accepted: modules that can be imported (No module "
        "named 'no_such_module')"
    )


@pytest.mark.parametrize("modules", ["logistics", logistics, [3], 3])
def test_modules_are_a_list(write: Write, modules: Any) -> None:
    with pytest.raises(pc.BadContextError, match="modules, or their names, in a list"):
        load(write(PAPER), modules=modules)


def test_running_contexts_are_left_alone(write: Write) -> None:
    root = logistics.make_root()
    fed = pc.Federation(root)
    fed.add(logistics.make_us(root))
    before = fed.members
    refused(write("<context><a/></context>"), parent=root)
    refused(one_rule(write, "nothing"), parent=root)
    assert fed.members is before


# -- in a zip --------------------------------------------------------------------------------------

ZIPPED = """
import polycast as pc
from importlib.resources import files
from pathlib import Path
from dataclasses import dataclass

@dataclass(frozen=True)
class Sale:
    price: float

@dataclass(frozen=True)
class LocalSale:
    price: float

def double(price: float) -> float:
    return price * 2

root = pc.Context("root", types=[Sale])
BESIDE = Path(__file__).with_name("us.xml")
PLACES = {
    "a path": BESIDE,
    "text": str(BESIDE),
    "a resource": files(__package__) / "us.xml",
}
contexts = {
    name: pc.Context.load(place, parent=root, modules=[__name__])
    for name, place in PLACES.items()
}
"""
RULES = """
<context>
  <types>LocalSale</types>
  <mappings><mapping from="Sale" to="LocalSale" dir="?"/></mappings>
  <rules><rule pattern="Sale.price" function="double"/></rules>
</context>
"""


def test_a_context_is_read_beside_a_module_that_comes_from_a_zip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "rules.zip", "w") as packed:
        packed.writestr("zipped_rules/__init__.py", "")
        packed.writestr("zipped_rules/us.xml", RULES)
        packed.writestr("zipped_rules/rules.py", ZIPPED)
    monkeypatch.syspath_prepend(str(tmp_path / "rules.zip"))
    module = importlib.import_module("zipped_rules.rules")
    for context in module.contexts.values():
        federation = pc.Federation(module.root)
        federation.add(context)
        seen = federation.translate(module.Sale(1.5), target=context)
        assert (context.name, seen) == ("us", module.LocalSale(3.0))


def test_a_file_that_is_not_in_a_zip_is_not_there(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "rules.zip", "w") as packed:
        packed.writestr("a.xml", RULES)
    for path in (tmp_path / "rules.zip" / "b.xml", tmp_path / "b.xml"):
        with pytest.raises(FileNotFoundError):
            pc.Context.load(path)
