"""What the Spark back end supports, found by compiling an example of each thing.

Which nodes, operators, functions and methods there are, the dispatch tables say; what becomes of an
example, and why, the compiler says. Only the examples are written down here.
"""

from __future__ import annotations

import datetime
import enum
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from polycast.errors import NoSparkFormError
from polycast.filters.backends.spark.columns import compiled
from polycast.filters.backends.spark.methods import METHODS
from polycast.filters.backends.spark.sql import FALSE
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import parse, render
from polycast.filters.tree.operators import ARITHMETIC, BUILTINS, COMPARISONS, SIGNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Support", "support"]


class Colour(enum.Enum):
    """An enum of the examples."""

    RED = 1
    GREEN = 2


@dataclass
class Part:
    """A class of the examples."""

    price: int = 0


@dataclass
class SampleEvent:
    """An event with an attribute of each kind."""

    flag: bool = False
    count: int = 0
    ratio: float = 0.0
    amount: Decimal = Decimal(0)
    text: str = ""
    data: bytes = b""
    day: datetime.date = datetime.date(2000, 1, 1)
    time: datetime.datetime = datetime.datetime(2000, 1, 1)
    key: uuid.UUID = field(default_factory=uuid.uuid4)
    colour: Colour = Colour.RED
    part: Part = field(default_factory=Part)
    items: list[int] = field(default_factory=list)
    bag: set[int] = field(default_factory=set)
    table: dict[str, int] = field(default_factory=dict)
    holes: list[int | None] = field(default_factory=list)

    def method(self) -> int:
        """A method of the class."""
        return self.count


@dataclass(frozen=True, slots=True)
class Support:
    """What the back end does with one thing a filter may contain."""

    group: str  # node, comparison, arithmetic, sign, function or method
    name: str
    accepted: tuple[str, ...]  # examples that have a column
    refused: tuple[tuple[str, str], ...]  # examples that have none, and why

    @property
    def verdict(self) -> str:
        """`always`, `sometimes` or `never`."""
        if not self.refused:
            return "always"
        return "sometimes" if self.accepted else "never"


def support() -> tuple[Support, ...]:
    """Everything that a filter may contain, and whether the back end supports it."""
    found = [_support("node", name, examples) for name, examples in _nodes()]
    for group, names in _OPERATORS.items():
        found += [_support(group, name, _over_attributes(group, name)) for name in names]
    for of, name in METHODS:
        found.append(_support("method", f"{of}.{name}", _parsed(*METHOD_EXAMPLES[of, name])))
    found.append(_support("method", "others", _parsed("event.method()", "event.text.title()")))
    return tuple(found)


def _support(group: str, name: str, examples: Iterable[nodes.Node]) -> Support:
    accepted: list[str] = []
    refused: list[tuple[str, str]] = []
    for tree in examples:
        try:
            term = compiled(tree, SampleEvent)
        except NoSparkFormError as error:
            refused.append((render(tree), error.why))
        else:
            if term is not FALSE or group == "node":  # else Python itself refuses it
                accepted.append(render(tree))
    return Support(group, name, tuple(accepted), tuple(refused))


# -- examples --------------------------------------------------------------------------------------


def _parsed(*texts: str) -> list[nodes.Node]:
    return [parse(text) for text in texts]


_EVENT = nodes.Event()
_ATTRIBUTES = [
    nodes.Attribute(_EVENT, name) for name in SampleEvent.__dataclass_fields__ if name != "holes"
]
_OPERATORS: dict[str, Iterable[str]] = {
    "comparison": COMPARISONS,
    "arithmetic": ARITHMETIC,
    "sign": SIGNS,
    "function": BUILTINS,
}
_FORMS: dict[str, Callable[[str, nodes.Node], nodes.Node]] = {
    "comparison": lambda sign, x: nodes.Compare(x, ((sign, x),)),
    "arithmetic": lambda sign, x: nodes.Arithmetic(sign, x, x),
    "sign": nodes.Sign,
    "function": lambda name, x: nodes.Function(name, (x,) if name in ("len", "abs") else (x, x)),
}
_OTHERS = {
    "==": ["event.colour == 1", "event.text == 'a'"],
    "in": ["event.count in (1, 2)", "event.count in event.items", "'a' in event.text"],
    "not in": ["event.count not in (1, 2)", "'a' not in event.table"],
    "is": ["event.part is None", "event.flag is True"],
    "is not": ["event.part is not None"],
    "/": ["event.count / 2", "len(event.text) / 3"],
    "min": ["min(event.items)", "min(event.table)"],
    "max": ["max(event.items)", "max(event.table)"],
}


def _over_attributes(group: str, name: str) -> list[nodes.Node]:
    """An operator on attributes of each kind."""
    return [
        *(_FORMS[group](name, attribute) for attribute in _ATTRIBUTES),
        *_parsed(*_OTHERS.get(name, ())),
    ]


METHOD_EXAMPLES: dict[tuple[str, str], tuple[str, ...]] = {
    **{
        ("str", name): (f"event.text.{name}('a')", f"event.text.{name}('a', 1)")
        for name in ("startswith", "endswith", "find")
    },
    **{("str", name): (f"event.text.{name}()",) for name in ("lower", "upper", "casefold")},
    ("str", "strip"): (
        "event.text.strip()",
        "event.text.strip('a')",
        "event.text.strip(event.text)",
    ),
    ("dict", "get"): ("event.table.get('a')", "event.table.get('a', 0)"),
}


def _opaque() -> nodes.Node:
    return nodes.Opaque(bool, "an example")


NODE_EXAMPLES: dict[str, list[nodes.Node]] = {
    "And": _parsed("event.flag and event.count"),
    "Applied": [nodes.Applied("etcl", "less", (_EVENT, nodes.Constant(1)))],
    "Arithmetic": _parsed("event.count + 1", "event.count ** 2"),
    "Attribute": _parsed("event.count", "event.part.price", "event.missing", "event.day.year"),
    "Call": _parsed("event.text.find('a')", "event.method()"),
    "Compare": _parsed("0 < event.count < 9", "event.part == event.part"),
    "Constant": [
        *_parsed("True", "event.count < 10 ** 3", "event.count in (1, 'a', None)"),
        nodes.Constant(Decimal("1e-30")),
        nodes.Constant("\ud800"),
    ],
    "Display": _parsed("event.count in (event.ratio, 1)", "len((event.count, 1))"),
    "Event": _parsed("event.flag", "event is None", "event == event"),
    "Function": _parsed("len(event.text)", "max(event.count, 1)", "max(event.count, 0.5)"),
    "InstanceOf": [
        nodes.InstanceOf(_EVENT, (SampleEvent,)),
        nodes.InstanceOf(nodes.Attribute(_EVENT, "text"), (str,)),
        nodes.InstanceOf(nodes.Attribute(_EVENT, "count"), (bool,)),
        nodes.InstanceOf(_EVENT, (Part,)),
    ],
    "Item": _parsed("event.items[-1]", "event.table['a']", "event.text[0]", "event.data[0]"),
    "Not": _parsed("not event.count"),
    "Opaque": [_opaque()],
    "Or": _parsed("event.flag or event.count"),
    "Quantified": _parsed(
        "any(x > 3 for x in event.items)",
        "all(x > 3 for x in event.holes if x is not None)",
        "any(x > 3 for x in event.bag)",
        "any(5 / x > 3 for x in event.bag)",
        "any(x for x in event.table)",
    ),
    "Reach": [nodes.Reach(_EVENT, "count"), nodes.Reach(_EVENT, "method")],
    "Sign": _parsed("-event.count", "-event.amount"),
    "Variable": _parsed("any(x for x in event.items)"),
}


def _nodes() -> list[tuple[str, list[nodes.Node]]]:
    """Each class of nodes with its examples; one without is an error here."""
    defined = (cls for _, cls in sorted(vars(nodes).items()) if isinstance(cls, type))
    found = [cls for cls in defined if issubclass(cls, nodes.Node)]
    return [(cls.__name__, NODE_EXAMPLES[cls.__name__]) for cls in found if cls is not nodes.Node]
