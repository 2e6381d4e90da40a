"""Every input that the fuzzers were given or found is read as it should be, in every run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from fuzz_targets import LONGEST, TARGETS

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(each for each in CORPUS.glob("*/*") if each.is_file())
TOO_LONG = 20  # seconds that only a broken program reaches


@pytest.fixture
def watched() -> Iterator[None]:
    """Fails a test that does not end: a target must not freeze."""

    def give_up(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise AssertionError(f"it did not end within {TOO_LONG} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(TOO_LONG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("name", TARGETS)
def test_each_kept_input_does_no_harm(name: str) -> None:
    # Those of other targets, too: what breaks one reader may break another.
    for file in FILES:
        try:
            TARGETS[name](file.read_bytes())
        except BaseException as error:
            error.add_note(f"input: {file.relative_to(CORPUS)}")
            raise


def test_every_target_has_a_corpus_and_every_corpus_a_target() -> None:
    assert {each.parent.name for each in FILES} == set(TARGETS)


def test_kept_inputs_are_as_small_as_those_that_fuzzers_try() -> None:
    assert [each for each in FILES if each.stat().st_size > LONGEST] == []


def test_a_target_that_breaks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> None:
        raise KeyError(data)

    monkeypatch.setitem(TARGETS, "broken", broken)
    with pytest.raises(KeyError):
        test_each_kept_input_does_no_harm("broken")
