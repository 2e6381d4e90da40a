"""What an untrusted filter may do: one that came as text from a store, a wire, another process.

Nothing in a text is run by reading it, but a filter is run for each event. So it must not reach the
program behind the event, change anything, make something much bigger than the event, or take more
than a bounded number of steps for each byte of it (polycast.filters.cost).
"""

from __future__ import annotations

from polycast.errors import FilterError, FilterTooCostlyError
from polycast.filters.cost import cost_of, is_plain
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import insight_of

MOST_STEPS = 1_000_000  # for each event, however small
MOST_GROWTH = 20  # bits: how much bigger than what the event holds a value may become
YES_OR_NO = (nodes.Compare, nodes.Not, nodes.InstanceOf, nodes.Quantified)


def check_untrusted(tree: nodes.Node) -> None:
    """Raise FilterError if a tree does more than an untrusted filter may."""
    for node in reversed(list(nodes.walk(tree))):  # what is below first
        _check(node)
    if not is_plain(tree) and cost_of(tree).constant > MOST_STEPS:
        raise FilterTooCostlyError(
            "the filter", f"it takes more than {MOST_STEPS} steps for each event", accepted="less"
        )


def _check(node: nodes.Node) -> None:
    """Most nodes are harmless by themselves."""
    match node:
        case nodes.Attribute(_, name) | nodes.Reach(_, name) | nodes.Call(_, name):
            if leads_out(name):
                raise FilterError(f"{name}: leads out of the event")
        case nodes.Arithmetic():
            _check_arithmetic(node)
        case nodes.Applied():
            insight_of(node).check(node)


def _check_arithmetic(node: nodes.Arithmetic) -> None:
    if node.operator in ("**", "<<"):
        power = node.right.value if isinstance(node.right, nodes.Constant) else None
        if type(power) is not int or not 0 <= power <= MOST_GROWTH:
            raise FilterError(f"{node.operator} takes a number of 0 to {MOST_GROWTH} on its right")
    if node.operator in ("*", "**", "<<") and _growth(node) > MOST_GROWTH:
        raise FilterError(
            f"{node.operator} may make something much bigger than the event: a text times so much; "
            "with a float, as 1e9, it cannot"
        )


def _growth(node: nodes.Node) -> int:
    """The factor, in bits, by which its value may be bigger than the values of the event."""
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
    """The bits that a factor adds: an int may repeat a text, a float cannot."""
    if isinstance(value, int):
        return value.bit_length()
    return len(value).bit_length() if isinstance(value, str | bytes | list | tuple) else 0


# From an object to the frame it runs in, and to all that is known there.
FORBIDDEN_NAMES = frozenset(
    {
        *("gi_frame", "gi_code", "gi_yieldfrom", "cr_frame", "cr_code", "cr_await", "cr_origin"),
        *("ag_frame", "ag_code", "ag_await", "tb_frame", "tb_next", "f_back", "f_builtins"),
        *("f_code", "f_globals", "f_locals", "f_generator", "func_globals", "func_code"),
    }
)


def leads_out(name: str) -> bool:
    """Whether an untrusted filter may not name it."""
    return name.startswith("__") or name in FORBIDDEN_NAMES
