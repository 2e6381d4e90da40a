"""Text from outside, made plain: for a terminal, for a log, in JSON."""

from __future__ import annotations

import io
import json
import logging
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

import polycast as pc
from polycast.plain_text import PlainFilter, log_of, plain, plain_json, plain_lines

CONTROL = {"Cc", "Cs", "Zl", "Zp"}
HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\nFORGED \x9b31m\u202egnp\u2066\x7f\u2028x"
TURNS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HIDES = "\u200b\u2060\ufeff\U000e0041"


def obeyed(text: str) -> list[str]:
    """What a terminal would obey."""
    return [each for each in text if unicodedata.category(each) in CONTROL or each in TURNS + HIDES]


def test_every_character_that_a_terminal_obeys_is_shown() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    assert obeyed(plain(everything)) == []
    assert set(obeyed(plain_lines(everything))) == {"\n", "\t"}


@given(st.text())
def test_what_is_plain_stays_as_it_is(text: str) -> None:
    once = plain(text)
    assert plain(once) == once
    assert once == text or obeyed(text) or not text.isprintable()


def test_words_of_all_languages_stay() -> None:
    for text in ("Zürich", "日本語", "שלום", "नमस्ते", "🙂", "a\xa0b", "C:\\new\\table"):
        assert plain(text) == text


@given(st.text() | st.dictionaries(st.text(), st.text()))
def test_json_says_the_same_and_nothing_is_obeyed(data: object) -> None:
    document = plain_json(json.dumps(data, ensure_ascii=False, indent=1))
    assert set(obeyed(document)) <= {"\n"}
    assert json.loads(document) == data


def logged(name: str, message: str, *args: object, error: BaseException | None = None) -> str:
    """What a handler that knows nothing of us writes."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logger = log_of(name)
    logger.addHandler(handler)
    try:
        logger.error(message, *args, exc_info=error)
    finally:
        logger.removeHandler(handler)
    return written.getvalue()


def test_a_record_is_one_line_whatever_is_in_it() -> None:
    said = logged("polycast.of_a_test", "lost: %s and %r", ValueError(HOSTILE), HOSTILE)
    assert obeyed(said) == ["\n"]
    assert said.startswith("lost: \\x1b]0;owned\\x07")


def test_no_line_of_a_traceback_looks_like_a_record() -> None:
    error = ValueError(HOSTILE)
    error.add_note("x\nFORGED")
    first, *more = logged("polycast.of_a_test", "it failed", error=error).splitlines()
    assert first == "it failed"
    assert more
    assert all(line.startswith("  ") and not obeyed(line) for line in more)


def test_what_cannot_be_put_into_words_does_not_end_who_logs_it() -> None:
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert "RuntimeError while it was put into words" in logged("polycast.of_a_test", "%s", Mute())


def test_a_logger_is_made_plain_once() -> None:
    assert log_of("polycast.of_a_test") is log_of("polycast.of_a_test")
    filters = log_of("polycast.of_a_test").filters
    assert sum(isinstance(each, PlainFilter) for each in filters) == 1


def test_an_error_tells_what_was_given_and_obeys_nothing() -> None:
    error = pc.PolycastError(f"no {HOSTILE}")
    assert set(obeyed(str(error))) == {"\n"}
    assert error.args == (f"no {HOSTILE}",)  # for programs it is as it was


def test_what_a_bus_says_of_itself_obeys_nothing(bus: pc.Bus) -> None:
    def refuse(text: str) -> None:
        raise ValueError(text)

    subscription = bus.subscribe(str, refuse, durable=f"d{HOSTILE}", attempts=1)
    bus.publish(HOSTILE, topic="/t")
    bus.flush()
    for said in (bus.health(), subscription.explain(), subscription.explain(HOSTILE)):
        assert set(obeyed(str(said))) <= {"\n"}
