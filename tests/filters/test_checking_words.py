"""How the mistakes of a filter are told, and where they are pointed at."""

from __future__ import annotations

from typing import Any

import pytest
from test_checking import Keynote, Panel, Talk, codes

import polycast as pc
from polycast.errors import FilterError, FilterMistakeError
from polycast.filters.checking import check, problems
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import parse


def message(where: Any, *types: type, every: bool = False) -> str:
    with pytest.raises(FilterMistakeError) as caught:
        check(pc.lift(where).tree, types or (Talk,), every=every)
    return str(caught.value)


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    assert message(lambda t: t.stars > 3 and t.spaker == "Gosling") == (
        "the filter cannot be right for Talk:\n"
        "  (event.stars > 3) and (event.spaker == 'Gosling')\n"
        "                         ^^^^^^^^^^^^\n"
        "  Talk has no attribute `spaker`; did you mean `speaker`?"
    )


def test_a_subtype_that_has_it_is_suggested() -> None:
    assert message(lambda t: t.sponsor == "x") == (
        "the filter cannot be right for Talk:\n"
        "  event.sponsor == 'x'\n"
        "  ^^^^^^^^^^^^^\n"
        "  Talk has no attribute `sponsor`; a subtype has it: "
        "`isinstance(event, Keynote) and event.sponsor == 'x'`"
    )


def test_what_there_is_is_listed() -> None:
    assert message(lambda t: t.zzz > 3, Panel) == (
        "the filter cannot be right for Panel:\n"
        "  event.zzz > 3\n"
        "  ^^^^^^^^^\n"
        "  Panel has no attribute `zzz`; it has guests, title; if a subtype has it, ask first: "
        "`isinstance(event, Subtype) and event.zzz > 3`"
    )


def test_all_mistakes_are_told_each_with_its_place() -> None:
    assert message(lambda t: 1 < t.stars < "a" or any(v.seats > 3 for v in t.venues)) == (
        "the filter cannot be right for Talk:\n"
        "  (1 < event.stars < 'a') or any(each1.seats > 3 for each1 in event.venues)\n"
        "       ^^^^^^^^^^^^^^^^^\n"
        "  `event.stars` is int and `'a'` is str, which have no order; "
        "int can be compared with int, float, Decimal\n"
        "  (1 < event.stars < 'a') or any(each1.seats > 3 for each1 in event.venues)\n"
        "                                 ^^^^^^^^^^^\n"
        "  `each1` is Venue, which has no attribute `seats`; a subtype has it: "
        "`isinstance(each1, Hall) and each1.seats > 3`"
    )


def test_none_of_a_union_has_it() -> None:
    assert "none of Talk | Panel has an attribute `absent`" in message(
        lambda t: t.absent, Talk, Panel
    )
    assert "for Panel & Talk:" in message(lambda t: t.absent, Panel, Talk, every=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "event.status < 3",
            "`event.status` is Status and `3` is int, which have no order; an enum has no "
            "operators: take its value, `event.status.value`",
        ),
        ("3 in event.title", "str can contain str"),
        ("'a' in event.stars", "`event.stars` is int, which contains nothing; `in` needs a str"),
        ("event.title - 1", "which `-` does not take; `-` takes int with int, float, complex"),
        ("-event.title", "it takes int, float, complex, timedelta, Decimal"),
        ("event.rank()", "Talk.rank() does not take these arguments; it takes 1 to 2"),
        ("event.where(1)", "it takes none"),
        ("event.named()", "a filter gives arguments by position only"),
        ("event.stars()", "`stars` is int, not a method; leave the parentheses away: `.stars`"),
        ("len(event.stars)", "`event.stars` is int, which has no length; `len` takes a str"),
        ("None < None", "only `==`, `!=`, `is` and `is not` are defined between them"),
        ("event.stars[0]", "`event.stars` is int, which has no items; str, bytes, list"),
        ("any(each1 for each1 in event.stars)", "which has no elements; `for ... in` takes a str"),
    ],
)
def test_what_would_be_accepted_is_said(text: str, said: str) -> None:
    [problem] = problems(parse(text), (Talk,))
    assert said in f"{problem.why}; {problem.suggestion}"


def test_the_place_in_a_long_filter_is_shown_with_what_is_around_it() -> None:
    many = " and ".join(f"event.stars != {n}" for n in range(100))
    [problem] = problems(parse(f"{many} and event.absent == 3 and {many}"), (Talk,))
    line, caret, _ = str(problem).splitlines()
    assert len(line) < 200
    assert line[caret.index("^") : caret.rindex("^") + 1] == "event.absent"


def test_the_error_is_a_filter_error_and_carries_its_data() -> None:
    with pytest.raises(FilterError) as caught:
        check(parse("event.absent == 3"), (Talk,))
    assert isinstance(caught.value, FilterMistakeError)
    [problem] = caught.value.problems
    assert (problem.part, problem.code) == ("event.absent", "no-attribute")
    check(parse("event.stars == 3"), (Talk,))


def test_a_mistake_in_a_condition_is_told_once() -> None:
    condition = pc.conditions.Equals("/spaker", "x")
    [problem] = problems(pc.Filter(condition).tree, (Talk,))
    assert problem.part == "reach(event, 'spaker')"


def test_equal_parts_are_told_from_each_other_by_their_place() -> None:
    where = pc.lift(lambda t: max(isinstance(t, Keynote) and t.sponsor, t.sponsor))
    [problem] = problems(where.tree, (Talk,))
    assert problem.start == str(where).rindex("event.sponsor")


def test_a_shared_node_is_pointed_at_where_it_fails() -> None:
    shared = nodes.Attribute(nodes.Event(), "sponsor")
    asked = nodes.And((nodes.InstanceOf(nodes.Event(), (Keynote,)), shared))
    tree = nodes.Function("max", (asked, shared))
    [problem] = problems(tree, (Talk,))
    assert problem.start == problem.filter.rindex("event.sponsor")


def test_a_kind_of_node_that_is_not_known_is_not_checked() -> None:
    class Strict(nodes.Node):
        pass

    assert codes(nodes.And((Strict(), parse("event.absent")))) == []


def test_a_tree_too_deep_is_not_checked() -> None:
    tree: nodes.Node = nodes.Event()
    for _ in range(5000):
        tree = nodes.Attribute(tree, "absent")
    assert codes(tree) == []
