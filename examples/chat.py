"""A chat for the sleepless: topics, content filters, one-of-n and pull on collections.

Appendix B of "Distributed Asynchronous Collections": Alice talks deep into the night on
/Chat/Insomnia, Tom wants to hear only what Alice says about him, and so on. Each participant
subscribes in another way to the same collections. Run it: python examples/chat.py
"""

from __future__ import annotations

from dataclasses import dataclass

import polycast as pc


@pc.event(name="chat.ChatMsg")
@dataclass(frozen=True)
class ChatMsg:
    """Figure 24: what is exchanged on the topics."""

    sender: str
    text: str


IN_ORDER: pc.SubscribeOptions = {
    "dispatch": "inline"
}  # in the publisher's thread: a story has an order


class Participant:
    """Somebody in the chat; hears what was asked for and nothing else."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard = 0

    def hear(self, message: ChatMsg, delivery: pc.Delivery) -> None:
        self.heard += 1
        where = (delivery.topic or "").removeprefix("/Chat/")
        print(f"      {self.name:<6} hears {message.sender} in {where}: {message.text}")

    def answer(self, message: ChatMsg) -> None:
        self.heard += 1
        print(f"      {self.name:<6} takes the question: {message.text}")


def title(text: str) -> None:
    print(f"\n{text}\n")


def chat_room(name: str, bus: pc.Bus) -> pc.DAStrongSet[ChatMsg]:
    """A room is a topic for messages: exactly once, in any order."""
    return pc.DAStrongSet(pc.topic(f"/Chat/{name}", ChatMsg), bus)


def say(room: pc.DAStrongSet[ChatMsg], sender: str, text: str) -> None:
    print(f"   {sender} says: {text}")
    room.add(ChatMsg(sender, text))


def who_hears_what(bus: pc.Bus) -> None:
    """Figures 25 to 27 and the complete chat code of B.2."""
    insomnia, jazz = chat_room("Insomnia", bus), chat_room("Insomnia/Jazz", bus)
    alice, tom, carol, owl = map(Participant, ("Alice", "Tom", "Carol", "Owl"))

    title("Carol hears all of Insomnia, Tom what Alice says about him, Owl its subtopics, too.")
    insomnia.contains(carol.hear, **IN_ORDER)
    insomnia.contains(tom.hear, lambda m: m.sender == "Alice" and "Tom" in m.text, **IN_ORDER)
    insomnia.contains_all(owl.hear, **IN_ORDER)
    insomnia.contains(alice.hear, lambda m: m.sender != "Alice" and "Alice" in m.text, **IN_ORDER)

    say(insomnia, "Alice", "Hi everyone")
    say(insomnia, "Alice", "Is Tom still awake?")
    say(insomnia, "Carol", "Tom is missing inspiration, Alice")
    say(jazz, "Dave", "Round Midnight, anyone?")

    title("Carol goes to bed.")
    insomnia.clear(carol.hear)
    say(insomnia, "Alice", "Good night, Carol")
    print("   " + ", ".join(f"{p.name} heard {p.heard}" for p in (alice, tom, carol, owl)))


def one_of_them(bus: pc.Bus) -> None:
    """`remove` is one-of-n: each question goes to one of those who answer."""
    title("Questions in /Chat/Help: each is taken by one of two helpers.")
    questions = chat_room("Help", bus)
    helpers = [Participant("Erin"), Participant("Frank")]
    for helper in helpers:
        questions.remove(helper.answer, **IN_ORDER)
    for text in ("How do I sleep?", "Does counting sheep help?", "Which sheep?", "Still awake?"):
        say(questions, "Tom", text)
    print(f"   4 questions, {sum(helper.heard for helper in helpers)} answers")


def later(bus: pc.Bus) -> None:
    """Pull: a buffer fills by itself and is read when it suits."""
    title("Grace reads in the morning what was said while she slept, the newest first.")
    insomnia = chat_room("Insomnia", bus)
    morning = pc.DAStrongSet(
        pc.topic("/Chat/Insomnia", ChatMsg), bus, pull="lifo", where=lambda m: m.sender == "Alice"
    )
    say(insomnia, "Alice", "Three o'clock")
    say(insomnia, "Bob", "Go to sleep")
    say(insomnia, "Alice", "Four o'clock")
    print(f"   {len(morning)} messages are waiting")
    while (message := morning.get()) is not None:
        print(f"      Grace  reads {message.sender}: {message.text}")


def main() -> None:
    with pc.Bus(publisher="chat") as bus:
        who_hears_what(bus)
        one_of_them(bus)
    with pc.Bus(publisher="chat") as bus:
        later(bus)
        title(f"Good night. The bus is {'well' if bus.health().ok else 'not well'}.")


if __name__ == "__main__":
    main()
