"""The benchmark of the filter languages measures ways that say the same."""

from __future__ import annotations

from typing import Any

import pytest
from languages_figures import tables
from languages_setting import FORMS, TESTS, TYPED
from measure import Effort

import languages

BRIEF = Effort(rounds=1, slice=0.0001, longest=0.01)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("form", FORMS)
def test_all_languages_and_ways_agree(form: str, test: str) -> None:
    pytest.importorskip("lxml")
    assert len(languages.contenders(form, test)) == {"structured event": 6}.get(form, 11)


def test_a_way_that_differs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(languages.LAMBDAS[TYPED], TESTS[0], lambda event: event.cause == "disk")
    with pytest.raises(AssertionError, match="differs from the lambda"):
        languages.contenders(TYPED, TESTS[0])


@pytest.mark.parametrize("form", FORMS)
def test_each_event_matches_one_filter_among_many(form: str) -> None:
    assert languages.many(form, 500, BRIEF)  # it raises if one matches another number of filters


def test_ready10_says_the_same_in_all_languages() -> None:
    assert len(languages.crowd(200, BRIEF)) == 4  # it raises if one finds others


def test_without_lxml_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        del name

    monkeypatch.setattr(languages, "find_spec", nothing)
    one = {(TYPED, test): languages.one(TYPED, test, BRIEF) for test in TESTS}
    reading = {test: languages.parsing(test, BRIEF) for test in TESTS}
    many = {(TYPED, 500): languages.many(TYPED, 500, BRIEF)}
    shown = tables(one, reading, many, {200: languages.crowd(200, BRIEF)})
    assert not any("lxml" in column for table in shown for column in table.columns)
