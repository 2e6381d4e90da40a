"""XPath filters among many: the index looks them up, and says what asking each one would."""

from __future__ import annotations

import datetime
import gc
import weakref
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xpath_grammar import QUICK, events, expressions, level_3, usual

import polycast as pc
from polycast.filters.tree.projection import attributes_read
from polycast.filters.tree.relaxation import is_open, relaxed
from polycast.typesystem import describe
from polycast.typesystem.class_factory import make_class


@dataclass
class News:
    topic: str
    price: float = 0.0
    day: datetime.date = datetime.date(2007, 4, 1)
    author: dict[str, Any] = field(default_factory=dict)
    secret: Annotated[str, pc.Opaque] = "hidden"


def xpath(text: str) -> pc.Filter[Any]:
    return pc.parse_filter(text, "xpath")


CROWD = [
    *(f'/struct/member[name="a"]/value = {number}' for number in range(20)),
    *(f'/struct/member[name="b"]/value > {number}' for number in range(20)),
    *(f'/struct/member[name="topic" and value="t{number}"]' for number in range(20)),
    *(f'not(/struct/member[name="a"]/value < {number})' for number in range(5)),
    *(f'starts-with(/struct/member[name="a"]/value, "{text}")' for text in ("n", "1", "ü")),
]


def matcher_of(texts: list[str]) -> pc.Matcher[int]:
    matcher: pc.Matcher[int] = pc.Matcher()
    for number, text in enumerate(texts):
        matcher.add(number, dict, xpath(text))
    return matcher


@settings(QUICK, max_examples=QUICK.max_examples // 4)
@given(st.lists(usual, max_size=4), st.lists(events | level_3, min_size=1, max_size=5))
def test_the_index_says_what_each_filter_says(texts: list[str], several: list[Any]) -> None:
    texts = CROWD + texts
    matcher = matcher_of(texts)
    wanted = [
        [n for n, text in enumerate(texts) if xpath(text).interpret(item)] for item in several
    ]
    assert [sorted(matcher.match(item)) for item in several] == wanted
    assert [sorted(matched) for matched in matcher.match_batch(several)] == wanted


@QUICK
@given(expressions)
def test_whatever_part_cannot_be_asked_the_rest_lets_as_much_pass(text: str) -> None:
    try:
        where = xpath(text)
    except pc.FilterSyntaxError:
        return
    left = pc.Filter(relaxed(where.tree, lambda node: "holds" not in str(pc.Filter(node))))
    for event in ({}, {"a": "news"}, {"a": 10, "b": {"a": 1}}):
        assert left.matches(event) or not where.matches(event)


@pytest.mark.parametrize(
    "text",
    [
        '/struct/member[name="topic" and value="news"]',
        '/struct/member[name="price"]/value > 10',
        '/struct/member[name="price"]/value/double <= 10',
        '/struct/member[name="author"]/value/struct/member[name="age"]/value/int >= 18',
        'starts-with(/struct/member[name="topic"]/value, "ne")',
        'member[name="topic"]/value="a" or member[name="topic"]/value="b"',
        '/struct/member[name="topic" and (value="a" or value="b")]',
    ],
)
def test_the_usual_shapes_are_looked_up(text: str) -> None:
    assert xpath(text).is_indexed
    assert xpath(text).explain().indexed


def test_a_typed_object_is_seen_as_its_attributes() -> None:
    news = News("news", 12.5, author={"age": 33})
    assert xpath('/struct/member[name="topic" and value="news"]').matches(news)
    assert xpath('/struct/member[name="day"]/value/dateTime.iso8601="2007-04-01"').matches(news)
    assert xpath('//member[name="age"]/value/int > 18').matches(news)


class Loose:
    """An object that has whatever attributes it is given."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)


@QUICK
@given(usual | expressions, events)
def test_an_object_is_judged_as_a_dict_of_its_attributes(text: str, event: dict[str, Any]) -> None:
    try:
        where = xpath(text)
    except pc.FilterSyntaxError:
        return
    assert where.matches(Loose(event)) is where.matches(event)


def test_an_opaque_attribute_is_not_seen() -> None:
    news = News("news")
    assert not xpath('member[name="secret"]').matches(news)
    assert not xpath('//string = "hidden"').matches(news)
    assert "hidden" not in pc.filterable_xml(news)


def test_a_bus_takes_an_xpath_filter() -> None:
    found: list[News] = []
    with pc.Bus() as bus:
        where = xpath('member[name="price"]/value > 10')
        bus.subscribe(News, found.append, where=where, dispatch="inline")
        bus.publish(News("cheap", 1.0))
        bus.publish(News("dear", 100.0))
    assert [news.topic for news in found] == ["dear"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('member[name="topic"]/value="a" and member[name="price"]/value > 1', {"topic", "price"}),
        ('member[name="author"]/value/struct/member[name="age"]', {"author"}),
        ('//member[name="a"]', None),
        ("/struct", None),
        ("true()", set()),
    ],
)
def test_attention_goes_to_the_members_that_are_looked_up(
    text: str, names: set[str] | None
) -> None:
    assert attributes_read(xpath(text).tree) == names


def test_who_has_only_the_description_does_not_see_what_is_opaque() -> None:
    described = msgspec.structs.replace(describe(News), name="elsewhere.News")
    made: Any = make_class(described, ())
    event = made(topic="news", secret="hidden")  # what nobody asks for is not read
    assert xpath('member[name="topic"]/value="news"').matches(event)
    assert not xpath('member[name="price"]').matches(event)
    assert not xpath('member[name="secret"]').matches(event)
    assert xpath("count(/struct/member) = 1").matches(event)


def test_a_filter_has_no_opaque_part_and_no_column() -> None:
    where = xpath('member[name="topic"]/value="news" and //int')
    assert is_open(where.tree)
    with pytest.raises(pc.NoSparkFormError, match="xpath"):
        where.to_spark(News)


def test_a_filter_is_checked_against_its_type_without_complaint() -> None:
    xpath('member[name="topic"]/value="news" and //int').check(News)


def test_a_filter_of_python_has_no_xpath_form() -> None:
    with pytest.raises(pc.FilterError, match=r"event.price > 10` has no XPath form"):
        pc.lift(News, lambda news: news.price > 10).to_xpath()


def test_a_text_with_both_quotes_has_an_xpath_form() -> None:
    where = xpath("""member[name=concat("a'", '"b')]/value = "it's" """)
    assert where.matches({"a'\"b": "it's"})
    assert xpath(where.to_xpath()) == where


def test_filters_of_both_kinds_go_together() -> None:
    both = xpath('member[name="topic"]/value="news"') & pc.lift(News, lambda news: news.price > 10)
    assert both.matches(News("news", 12.0))
    assert not both.matches(News("news", 8.0))


def test_a_class_whose_events_were_asked_may_go() -> None:
    cls = type("Passing", (), {})
    event = cls()
    event.a = 1
    assert xpath('member[name="a"]/value = 1').matches(event)
    gone = weakref.ref(cls)
    del cls, event
    gc.collect()
    assert gone() is None
