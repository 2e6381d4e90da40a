"""What a filter may ask for that came as text: from a store, a wire, another process.

Nothing in a text is run by reading it, but a filter is run for each event. So it must not reach the
program behind the event, change anything, or make something much bigger than the event.
"""

from __future__ import annotations

from functools import singledispatch

from polycast.errors import FilterError
from polycast.filters import nodes
from polycast.filters.doors import leads_out
from polycast.filters.vocabularies import insight_of

__all__ = ["check_outside"]

MOST_GROWTH = 20  # bits: how much bigger than what the event holds a value may become
MOST_STEPS = 100_000  # of quantifiers over constants
MOST_LOOPS = 3  # quantifiers in each other
SIZED = (str, bytes, tuple, list, set, frozenset)
YES_OR_NO = (nodes.Compare, nodes.Not, nodes.InstanceOf, nodes.Quantified)
CHANGES = frozenset(
    {
        *("add", "append", "appendleft", "clear", "difference_update", "discard", "extend"),
        *(
            "extendleft",
            "insert",
            "intersection_update",
            "move_to_end",
            "pop",
            "popitem",
            "popleft",
        ),
        *("remove", "reverse", "rotate", "send", "setdefault", "sort", "subtract", "throw"),
        *("symmetric_difference_update", "update", "write", "writelines", "truncate"),
    }
)
BUILDS = frozenset(
    {
        *("as_integer_ratio", "center", "expandtabs", "format", "format_map", "join", "ljust"),
        *("rjust", "to_bytes", "translate", "zfill"),
    }
)


def check_outside(tree: nodes.Node) -> None:
    """Raise FilterError if a tree asks for more than a filter from outside may."""
    for node in reversed(list(nodes.walk(tree))):  # what is below first
        _check(node)
    if _loops(tree) > MOST_LOOPS:
        raise FilterError(f"more than {MOST_LOOPS} of `any` and `all` in each other")
    if _steps(tree) > MOST_STEPS:
        raise FilterError(f"`any` and `all` take more than {MOST_STEPS} steps for each event")


@singledispatch
def _check(node: nodes.Node) -> None:
    """Most nodes are harmless by themselves."""


@_check.register
def _(node: nodes.Attribute | nodes.Reach) -> None:
    _check_name(node.name)
    if isinstance(node, nodes.Reach):
        _check_called(node.name)


@_check.register
def _(node: nodes.Call) -> None:
    _check_name(node.method)
    if node.method == "replace" and _shrinks(node):
        return
    _check_called(node.method)


@_check.register
def _(node: nodes.Arithmetic) -> None:
    if node.operator in ("**", "<<"):
        power = node.right.value if isinstance(node.right, nodes.Constant) else None
        if type(power) is not int or not 0 <= power <= MOST_GROWTH:
            raise FilterError(f"{node.operator} takes a number of 0 to {MOST_GROWTH} on its right")
    if node.operator in ("*", "**", "<<") and _growth(node) > MOST_GROWTH:
        raise FilterError(
            f"{node.operator} may make something much bigger than the event: a text times so much; "
            "with a float, as 1e9, it cannot"
        )
    formats = isinstance(node.left, nodes.Constant) and isinstance(node.left.value, str | bytes)
    if node.operator == "%" and formats:
        raise FilterError("% is for numbers")


@_check.register
def _(node: nodes.Applied) -> None:
    insight_of(node).check(node)


def _check_name(name: str) -> None:
    if leads_out(name):
        raise FilterError(f"{name}: leads out of the event")


def _check_called(name: str) -> None:
    if name in CHANGES:
        raise FilterError(f"{name}: may change something")
    if name in BUILDS or name == "replace":
        raise FilterError(f"{name}: may make something much bigger than the event")


def _shrinks(call: nodes.Call) -> bool:
    """Whether what is put in is a constant, no longer than the constant it replaces."""
    values = [each.value for each in call.arguments[:2] if isinstance(each, nodes.Constant)]
    if len(values) < 2 or not all(isinstance(each, str | bytes) for each in values):
        return False
    old, new = values
    return bool(old) and len(new) <= len(old)


def _growth(node: nodes.Node) -> int:
    """How many times bigger than the event's own values its value may be, in bits."""
    if isinstance(node, nodes.Constant):
        return _bits(node.value)
    if isinstance(node, YES_OR_NO):
        return 0
    below = [_growth(child) for child in node.children()]
    most = max(below, default=0)
    if not isinstance(node, nodes.Arithmetic):
        return most
    if node.operator == "*":
        return sum(below)
    if node.operator in ("**", "<<"):
        power: int = node.right.value  # type: ignore[attr-defined]
        left = below[0]
        return left + power if node.operator == "<<" else max(1, left) * power
    return most + 1


def _bits(value: object) -> int:
    """What a factor adds: an int may repeat a text, a float cannot."""
    if isinstance(value, int):
        return value.bit_length()
    return len(value).bit_length() if isinstance(value, str | bytes | list | tuple) else 0


def _steps(node: nodes.Node) -> int:
    """How often the innermost part is asked, as far as constants tell."""
    most = max(map(_steps, node.children()), default=1)
    if not isinstance(node, nodes.Quantified):
        return most
    over = node.over
    values = over.value if isinstance(over, nodes.Constant) else ()
    length = len(over.elements) if isinstance(over, nodes.Display) else 1
    return most * max(length, len(values) if isinstance(values, SIZED) else 1)


def _loops(node: nodes.Node) -> int:
    most = max(map(_loops, node.children()), default=0)
    return most + isinstance(node, nodes.Quantified)
