"""The XML-RPC document of an event, without XML: its nodes are created on demand."""

from __future__ import annotations

from typing import Any

from polycast.formats.xmlrpc.value_forms import (
    SCALARS,
    filterable,
    form_of,
    items_of,
    members_of,
    scalar_text,
)

MOST_STEPS = 500_000  # of one evaluation, whatever the event
MOST_GATHERED = 50_000  # of one look-up; a filter may have hundreds
DEEPEST = 64  # arrays and structs in each other
DOCUMENT, TEXT = "#document", "#text"
CHARACTERS = 64  # of text that cost as much as a step


class TooCostly(Exception):
    """Raised when an evaluation exceeds its budget of steps: the event does not match."""


class StepBudget:
    """The budget of steps of one evaluation."""

    __slots__ = ("left",)

    def __init__(self, left: int = MOST_STEPS) -> None:
        self.left = left

    def spend(self, steps: int) -> None:
        """Take so many steps."""
        self.left -= steps
        if self.left < 0:
            raise TooCostly("the filter takes too many steps for this event")


class VirtualNode:
    """The document, an element or a text; its children are created on demand."""

    __slots__ = (
        "_children",
        "_place",
        "_string",
        "budget",
        "depth",
        "index",
        "name",
        "parent",
        "payload",
    )

    def __init__(
        self, name: str, payload: Any, parent: VirtualNode | None, index: int, budget: StepBudget
    ) -> None:
        self.name, self.payload, self.parent, self.index = name, payload, parent, index
        self.budget = budget
        self.depth: int = 0 if parent is None else parent.depth
        self._children: list[VirtualNode] | None = None
        self._string: str | None = None
        self._place: tuple[int, ...] | None = None if parent is not None else ()

    @property
    def is_element(self) -> bool:
        """Whether it has a name of its own."""
        return self.name is not TEXT and self.name is not DOCUMENT

    def children(self) -> list[VirtualNode]:
        """What is right below, in order."""
        found = self._children
        if found is None:
            parts = self._parts()
            self.budget.spend(len(parts) + 1)
            found = self._children = [
                VirtualNode(name, payload, self, number, self.budget)
                for number, (name, payload) in enumerate(parts)
            ]
            if self.name in ("struct", "array"):
                self._go_deeper(found)
        return found

    def _go_deeper(self, children: list[VirtualNode]) -> None:
        if self.depth >= DEEPEST:
            raise TooCostly(f"the event is more than {DEEPEST} levels deep")
        for child in children:
            child.depth = self.depth + 1

    def _parts(self) -> list[tuple[str, Any]]:
        name, payload = self.name, self.payload
        if name == "struct":
            return [("member", member) for member in members_of(payload).items()]
        if name == "member":
            return [("name", payload[0]), ("value", payload[1])]
        if name in ("value", DOCUMENT):
            return [form_of(payload)]
        if name == "array":
            return [("data", payload)]
        if name == "data":
            return [("value", item) for item in items_of(payload)]
        if name == TEXT:
            return []
        text = self.string()
        return [(TEXT, text)] if text else []

    def string(self) -> str:
        """The string-value: all text in it."""
        if self._string is None:
            if self.name in (TEXT, "name"):
                self._string = str.__str__(self.payload)
            elif self.name in SCALARS:
                self._string = scalar_text(self.payload)
            else:
                self._string = self._gathered()
        self.budget.spend(1 + len(self._string) // CHARACTERS)
        return self._string

    def _gathered(self) -> str:
        found: list[str] = []
        left = [self]
        while left:
            node = left.pop()
            if node.name == "name" or node.name in SCALARS:
                found.append(node.string())
            else:
                left.extend(reversed(node.children()))
        return "".join(found)

    def descendants(self) -> list[VirtualNode]:
        """All that is below, in order."""
        found: list[VirtualNode] = []
        left = self.children()[::-1]
        while left:
            node = left.pop()
            found.append(node)
            left.extend(reversed(node.children()))
        return found

    def place(self) -> tuple[int, ...]:
        """Where it stands in the document: what nodes are sorted by."""
        above: list[VirtualNode] = []
        node = self
        while node._place is None and node.parent is not None:
            above.append(node)
            node = node.parent
        place = node._place or ()
        for node in reversed(above):
            place = node._place = (*place, node.index)
        return place


def document(event: Any, budget: StepBudget) -> VirtualNode:
    """The document of the filterable part of an event."""
    return VirtualNode(DOCUMENT, filterable(event), None, 0, budget)


def string_value(kind: str, plain: Any) -> str:
    """The text in the element of a value, arrays and structs included."""
    if kind in SCALARS:
        return scalar_text(plain)
    return VirtualNode(kind, plain, None, 0, StepBudget(MOST_GATHERED)).string()
