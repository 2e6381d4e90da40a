"""Talks of two departments: subscribe to a type and get all that conforms to it.

The running example of "Type-Based Publish/Subscribe" (figures 15, 16, 19 and 22): interfaces for
the departments, a class that implements both, and subscriptions by class, by interface, by
Protocol, by content and by several types at once. Run it: python examples/talks.py
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import polycast as pc

# -- figure 15: the departments are interfaces, a talk may be of interest for several --------------


class DSC(ABC):
    """Of interest for the department of communication systems."""

    @abstractmethod
    def get_speaker(self) -> str: ...


class DI(ABC):
    """Of interest for the department of computer science."""

    @abstractmethod
    def get_descr(self) -> str: ...


class DE(ABC):
    """Of interest for the department of electricity."""

    @abstractmethod
    def get_volts(self) -> int: ...


@pc.event(name="talks.Talk")
@dataclass(frozen=True)
class Talk(DSC, DI):
    speaker: str
    descr: str

    def get_speaker(self) -> str:
        return self.speaker

    def get_descr(self) -> str:
        return self.descr


@pc.event(name="talks.LabTour")
@dataclass(frozen=True)
class LabTour(Talk, DE):
    volts: int

    def get_volts(self) -> int:
        return self.volts


@pc.event(name="talks.Defence")
@dataclass(frozen=True)
class Defence(DI):
    speaker: str
    thesis: str

    def get_descr(self) -> str:
        return f"PhD defence: {self.thesis}"


class HasSpeaker(Protocol):
    """Whatever has a speaker, be it a talk or not; nobody has to declare it."""

    @property
    def speaker(self) -> str: ...


PROGRAMME: list[Talk | Defence] = [
    Talk("Patrick Eugster", "Type-based pub/sub"),
    LabTour("Joe Sventek", "Events in the lab", volts=12),
    Defence("Rachid Guerraoui", "Objects and transactions"),
]

IN_ORDER: pc.SubscribeOptions = {
    "dispatch": "inline"
}  # in the publisher's thread: a story has an order


def say(who: str, what: str) -> None:
    print(f"   {who:<24} {what}")


def main() -> None:
    print("Figure 16: a collection of talks. Adding publishes, asking subscribes.")
    with pc.Bus() as bus:
        talks = pc.DAStrongSet(Talk, bus)
        talks.contains(lambda talk: say("a subscriber hears", f"{talk.speaker}: {talk.descr}"))
        # A type checker would not let us add anything but a Talk.
        receipt = talks.add(Talk("Patrick Eugster", "Type-based pub/sub"))
        bus.flush()  # callbacks run in threads; wait for them
        say("the publisher has", f"a receipt for position {receipt.position}")

    print("\nThe same on the bus: a class, its interfaces, a Protocol, exactly one class.")
    with pc.Bus() as bus:
        bus.subscribe(Talk, lambda talk: say("Talk", talk.descr), **IN_ORDER)
        bus.subscribe(
            Talk, lambda talk: say("Talk, exact", talk.descr), exact=True, dispatch="inline"
        )
        bus.subscribe(DI, lambda event: say("DI", event.get_descr()), **IN_ORDER)
        bus.subscribe(HasSpeaker, lambda event: say("HasSpeaker", event.speaker), **IN_ORDER)
        bus.publish_many(PROGRAMME)

    print("\nFigure 19: only the talks of one speaker. The filter is a Python expression.")
    with pc.Bus() as bus:
        chosen = bus.subscribe(
            Talk,
            lambda talk: say("chosen", talk.descr),
            where=lambda talk: talk.get_speaker() == "Patrick Eugster",
            **IN_ORDER,
        )
        bus.publish_many(PROGRAMME)
        for event in PROGRAMME:
            print(f"   Why {'' if chosen.explain(event).delivered else 'not '}{event.speaker}?")
            print("     - " + "\n     - ".join(chosen.explain(event).reasons))

    print("\nFigure 22: what is of interest for both DI and DSC, for others as well or not.")
    with pc.Bus() as bus:
        both = pc.DAStrongSet(pc.all_of(DSC, DI), bus, pull="fifo")
        bus.publish_many(PROGRAMME)
        while (found := both.get()) is not None:
            say("pulled", f"{type(found).__name__} of {found.get_speaker()}")


if __name__ == "__main__":
    main()
