"""What is accepted can be asked and written again; what would be too much is refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xpath_grammar import QUICK, events, usual

import polycast as pc
from polycast.filters.tree import nodes
from polycast.languages.xpath.parser import LONGEST

NINES = "9" * 400


def xpath(text: str) -> pc.Filter[Any]:
    return pc.parse_filter(text, "xpath")


@pytest.mark.parametrize("sign", ["|", " or ", "=", "+", "/", "//"])
@pytest.mark.parametrize("count", [1, 30, 1_000, 1_700, 3_000, 4_900])
def test_a_filter_that_is_accepted_can_be_asked(sign: str, count: int) -> None:
    try:
        where = xpath(sign.join(["a"] * count))
    except pc.FilterSyntaxError as error:
        assert "at most" in error.accepted  # noqa: PT017
        return
    assert where.matches({"a": 1}) is where.interpret({"a": 1})


def test_what_grows_beyond_the_limit_when_written_is_refused_at_once() -> None:
    text = "|".join(["a"] * 3_000)
    assert len(text) < LONGEST
    with pytest.raises(pc.FilterSyntaxError, match="with its spaces it has 11997 characters"):
        xpath(text)


@pytest.mark.parametrize(
    "path", ["member[name='a']/value/array/data/value", "//value", "(//value)"]
)
def test_a_place_of_very_many_digits_is_a_place(path: str) -> None:
    where = xpath(f"{path}[{NINES}]")
    assert not where.matches({"a": [1, 2]})
    assert xpath(where.to_xpath()) == where


@pytest.mark.parametrize("text", [f"//int < {NINES}", f"member[name='a']/value > -{NINES}"])
def test_a_number_of_very_many_digits_is_infinite(text: str) -> None:
    where = xpath(text)
    assert where.matches({"a": 5})
    assert xpath(where.to_xpath()) == where


@QUICK
@given(usual | st.sampled_from(["true()", "0", "'a' = 'b'"]), st.integers(1, 3), events)
def test_what_is_negated_is_written_and_read_again(text: str, times: int, event: Any) -> None:
    where = xpath(text)
    for _ in range(times):
        where = ~where
    assert xpath(where.to_xpath()) == where
    assert where.matches(event) is (xpath(text).matches(event) is (times % 2 == 0))


def test_what_would_be_beyond_the_limits_has_no_text() -> None:
    deep = wide = xpath("member[name='a']/value = 1")
    for _ in range(40):
        deep = ~deep
    with pytest.raises(pc.FilterError, match=r"no XPath form: .*nested too deeply"):
        deep.to_xpath()
    for _ in range(400):
        wide &= xpath("member[name='a']/value = 1")
    with pytest.raises(pc.FilterError, match=r"no XPath form: .*characters"):
        wide.to_xpath()
    assert deep.matches({"a": 1})
    assert wide.matches({"a": 1})


def test_the_text_of_an_array_that_a_look_up_compares_has_a_limit() -> None:
    where = xpath("member[name='a']/value != 'x'")
    assert where.matches({"a": list(range(1_000))})
    assert not where.matches({"a": list(range(50_000))})


@pytest.mark.parametrize("name", ["e\u0301", "a\u00b7", "日本", "_a", "a-b.c", "\U0001d518"])
def test_names_are_those_of_xml(name: str) -> None:
    assert not xpath(f"//{name}").matches({name: 1})
    assert xpath(f"not(//{name}) and //name = '{name}'").matches({name: 1})


@pytest.mark.parametrize("text", ["\ufeff1", "\u00b7a", "²", "\u0301e", "a\u00d7b"])
def test_what_begins_no_name_is_a_mistake(text: str) -> None:
    with pytest.raises(pc.FilterSyntaxError, match="begins nothing"):
        xpath(text)


WITHOUT_FORM = [
    nodes.Event(),
    nodes.Variable(0),
    nodes.Constant("text"),
    nodes.Attribute(nodes.Event(), "a"),
    nodes.Item(nodes.Event(), nodes.Constant("a")),
    nodes.Reach(nodes.Event(), "a"),
    nodes.Call(nodes.Event(), "startswith", (nodes.Constant("a"),)),
    nodes.Function("len", (nodes.Event(),)),
    nodes.Compare(nodes.Attribute(nodes.Event(), "a"), (("==", nodes.Constant(1)),)),
    nodes.Arithmetic("+", nodes.Constant(1), nodes.Constant(1)),
    nodes.Sign("-", nodes.Constant(1)),
    nodes.Display(list, (nodes.Event(),)),
    nodes.InstanceOf(nodes.Event(), (dict,)),
    nodes.Quantified("any", nodes.Event(), (), nodes.Constant(True)),
    nodes.Opaque(bool, "it is opaque"),
    pc.parse_filter("$.a == 1", "etcl").tree,
]


@pytest.mark.parametrize("tree", WITHOUT_FORM, ids=lambda tree: type(tree).__name__)
def test_a_node_of_another_language_has_no_xpath_form(tree: nodes.Node) -> None:
    for where in (pc.Filter(tree), ~pc.Filter(tree), xpath("//a") & pc.Filter(tree)):
        with pytest.raises(pc.FilterError, match="has no XPath form"):
            where.to_xpath()


def test_the_page_says_of_each_node_whether_it_has_an_xpath_form() -> None:
    page = (Path(__file__).parents[3] / "docs/xpath.md").read_text()
    table = page[page.index("| node | XPath form |") :]
    of_ours = [cls for cls in nodes.Node.__subclasses__() if cls.__module__ == nodes.__name__]
    assert of_ours
    for kind in of_ours:
        assert f"`{kind.__name__}`" in table
