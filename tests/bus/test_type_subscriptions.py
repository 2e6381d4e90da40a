"""Subscribing to types: subtypes, unions, conjunctions, protocols, exactly."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Protocol, Union

import attrs
import msgspec
import pydantic
import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus


@dataclass
class Talk:
    speaker: str = "Eugster"


@dataclass
class Lecture(Talk):
    course: str = "PL"


@dataclass
class Song:
    singer: str = "Nina"


@dataclass
class TalkingBlues(Talk, Song):
    pass


@dataclass
class Talking:
    """Not related to Talk but by its name."""

    speaker: str = "nobody"


class HasSpeaker(Protocol):
    speaker: str


class HasSinger(Protocol):
    singer: str


class Recorded(abc.ABC):
    @abc.abstractmethod
    def length(self) -> int: ...


def classes_received(bus: TestBus, what: object, *events: object, **options: object) -> list[str]:
    """The names of the classes whose events reach a subscription."""
    seen: Recorder[object] = Recorder()
    bus.subscribe(what, seen, **options)  # type: ignore[call-overload]
    for event in events:
        bus.publish(event)
    bus.run_until_idle()
    return [type(event).__name__ for event in seen.events]


def test_a_supertype_gets_its_subtypes_and_nothing_else(bus: TestBus) -> None:
    got = classes_received(bus, Talk, Talk(), Lecture(), Song(), TalkingBlues(), Talking())
    assert got == ["Talk", "Lecture", "TalkingBlues"]


def test_a_subtype_does_not_get_its_supertype(bus: TestBus) -> None:
    assert classes_received(bus, Lecture, Talk(), Lecture()) == ["Lecture"]


def test_a_subclass_defined_after_the_subscription_is_received(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    bus.publish(Talk())

    @dataclass
    class Keynote(Talk):
        pass

    bus.publish(Keynote())
    bus.run_until_idle()
    assert type(seen.events[-1]) is Keynote


def test_derived_fields_survive(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    bus.publish(Lecture(course="Types"))
    bus.run_until_idle()
    assert seen.events == [Lecture(course="Types")]


def test_all_bases_of_an_event_count(bus: TestBus) -> None:
    assert classes_received(bus, Song, TalkingBlues()) == ["TalkingBlues"]


def test_object_gets_everything(bus: TestBus) -> None:
    assert classes_received(bus, object, Talk(), 3, "text") == ["Talk", "int", "str"]


def test_builtin_types_follow_their_subclasses(bus: TestBus) -> None:
    assert classes_received(bus, int, 1, True, 1.0) == ["int", "bool"]


# -- exactly ---------------------------------------------------------------------------------------


def test_exact_leaves_subtypes_out(bus: TestBus) -> None:
    assert classes_received(bus, Talk, Talk(), Lecture(), exact=True) == ["Talk"]


def test_exact_on_a_union_is_each_exactly(bus: TestBus) -> None:
    got = classes_received(bus, Talk | Song, Talk(), Song(), Lecture(), TalkingBlues(), exact=True)
    assert got == ["Talk", "Song"]


def test_exact_on_a_conjunction_wants_just_these_supertypes_and_no_member_more(
    bus: TestBus,
) -> None:
    @dataclass
    class MoreBlues(Talk, Song):
        key: str = "E"

    got = classes_received(
        bus, pc.all_of(Talk, Song), TalkingBlues(), MoreBlues(), Talk(), exact=True
    )
    assert got == ["TalkingBlues"]


# -- unions and conjunctions -----------------------------------------------------------------------


def test_a_union_gets_either(bus: TestBus) -> None:
    assert classes_received(bus, Lecture | Song, Lecture(), Song(), Talk()) == ["Lecture", "Song"]


def test_typing_union_is_the_same(bus: TestBus) -> None:
    what = Union[Lecture, Song]  # noqa: UP007
    assert classes_received(bus, what, Lecture(), Song(), Talk()) == ["Lecture", "Song"]


def test_an_event_of_both_types_of_a_union_comes_once(bus: TestBus) -> None:
    assert classes_received(bus, Talk | Song, TalkingBlues()) == ["TalkingBlues"]


def test_a_type_and_its_subtype_in_a_union_deliver_once(bus: TestBus) -> None:
    assert classes_received(bus, Talk | Lecture | object, Lecture()) == ["Lecture"]


def test_a_conjunction_gets_only_what_conforms_to_all(bus: TestBus) -> None:
    got = classes_received(bus, pc.all_of(Talk, Song), Talk(), Song(), TalkingBlues())
    assert got == ["TalkingBlues"]


def test_a_conjunction_of_protocols_is_structural(bus: TestBus) -> None:
    both = pc.all_of(HasSpeaker, HasSinger)
    assert classes_received(bus, both, Talk(), Song(), TalkingBlues()) == ["TalkingBlues"]


# -- interfaces ------------------------------------------------------------------------------------


def test_a_protocol_gets_what_has_its_members(bus: TestBus) -> None:
    assert classes_received(bus, HasSpeaker, Talk(), Song(), Talking()) == ["Talk", "Talking"]


def test_a_class_registered_after_the_verdict_is_received(bus: TestBus) -> None:
    class Tape:
        def length(self) -> int:
            return 1

    seen: Recorder[object] = Recorder()
    bus.subscribe(Recorded, seen)  # type: ignore[type-abstract]
    bus.publish(Tape())
    Recorded.register(Tape)
    after = Tape()
    bus.publish(after)
    bus.run_until_idle()
    assert seen.events == [after]


def test_a_class_registered_after_the_verdict_is_received_on_a_topic_too(bus: TestBus) -> None:
    class Reel:
        def length(self) -> int:
            return 1

    seen: Recorder[object] = Recorder()
    bus.subscribe(Recorded, seen, topic="/tapes")  # type: ignore[type-abstract]
    bus.publish(Reel(), topic="/tapes")
    Recorded.register(Reel)
    after = Reel()
    bus.publish(after, topic="/tapes")
    bus.run_until_idle()
    assert seen.events == [after]


def test_an_abstract_class_gets_its_subclasses(bus: TestBus) -> None:
    class Vinyl(Recorded):
        def length(self) -> int:
            return 40

    assert classes_received(bus, Recorded, Vinyl(), Talk()) == ["Vinyl"]


# -- kinds of classes ------------------------------------------------------------------------------


@attrs.define
class AttrsTalk:
    speaker: str = ""


class StructTalk(msgspec.Struct):
    speaker: str = ""


class ModelTalk(pydantic.BaseModel):
    speaker: str = ""


class PlainTalk:
    def __init__(self) -> None:
        self.speaker = ""


@dataclass(frozen=True)
class FrozenTalk:
    speaker: str = ""


@pytest.mark.parametrize("cls", [AttrsTalk, StructTalk, ModelTalk, PlainTalk, FrozenTalk])
def test_any_ordinary_class_is_an_event_type(bus: TestBus, cls: type) -> None:
    assert classes_received(bus, cls, cls()) == [cls.__name__]


# -- how often -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_one_function_subscribed_twice_gets_two_calls(bus: TestBus, dispatch: str) -> None:
    calls: list[object] = []
    bus.subscribe(Talk, calls.append, dispatch=dispatch)  # type: ignore[arg-type]
    bus.subscribe(Talk, calls.append, dispatch=dispatch)  # type: ignore[arg-type]
    bus.publish(Talk())
    bus.run_until_idle()
    assert len(calls) == 2


def test_cancelling_one_of_two_leaves_the_other(bus: TestBus) -> None:
    calls: list[object] = []
    bus.subscribe(Talk, calls.append)
    bus.subscribe(Talk, calls.append).cancel()
    bus.publish(Talk())
    bus.run_until_idle()
    assert len(calls) == 1


def test_events_before_the_subscription_are_not_delivered(bus: TestBus) -> None:
    bus.publish(Talk("early"))
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen)
    bus.publish(Talk("late"))
    bus.run_until_idle()
    assert [talk.speaker for talk in seen.events] == ["late"]


# -- decorators ------------------------------------------------------------------------------------


def test_on_with_a_type_subscribes_and_gives_the_function_back(bus: TestBus) -> None:
    calls: list[object] = []

    @bus.on(Talk, where=lambda talk: talk.speaker == "Felber")
    def announce(talk: Talk) -> None:
        calls.append(talk)

    bus.publish_many([Talk("Felber"), Talk("Eugster")])
    bus.run_until_idle()
    announce(Talk("direct"))
    assert [talk.speaker for talk in calls] == ["Felber", "direct"]


def test_plain_on_reads_the_type_from_the_annotation(bus: TestBus) -> None:
    calls: list[object] = []

    @bus.on
    def announce(lecture: Lecture) -> None:
        calls.append(type(lecture).__name__)

    bus.publish_many([Talk(), Lecture()])
    bus.run_until_idle()
    assert calls == ["Lecture"]


def test_plain_on_reads_a_union_from_the_annotation(bus: TestBus) -> None:
    calls: list[object] = []

    @bus.on
    def announce(event: Lecture | Song) -> None:
        calls.append(type(event).__name__)

    bus.publish_many([Talk(), Lecture(), Song()])
    bus.run_until_idle()
    assert calls == ["Lecture", "Song"]
