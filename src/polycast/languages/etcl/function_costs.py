"""The cost of every function of ETCL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.filters.cost.amounts import Amount, one_of, steps
from polycast.filters.cost.call_costs import FunctionCost, whole
from polycast.filters.cost.method_costs import BYTE
from polycast.filters.cost.value_kinds import ALL, TEXT
from polycast.filters.tree import nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["COSTS"]

PRODUCT = steps(16_384.0)  # bytes: ETCL multiplies no further than that


def _bytes(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    return whole(node, sizes).times(BYTE)


def _lesser(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    del node
    return one_of(*sizes)


def _product(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    return _bytes(node, sizes) + steps(1_000.0)


def _division(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """Long numbers divide digit by digit, unless one of them is a constant."""
    several = whole(node, sizes)
    if any(size.is_constant for size in sizes):
        return several
    return several + several.squared().times(1 / 1024)


def _component(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """Each step of a path looks at one value, or goes along a list of properties."""
    text = node.arguments[1].value if isinstance(node.arguments[1], nodes.Constant) else ""
    many = str(text).count("(")
    return steps(len(str(text)) + 1.0) + sizes[0].times(BYTE * many)


COSTS: Mapping[str, FunctionCost] = {
    "component": FunctionCost(_component, ALL, grows=True),
    **dict.fromkeys(("exists", "default"), FunctionCost(_component)),
    **dict.fromkeys(("character", "label"), FunctionCost(_bytes, TEXT, grows=True)),
    **dict.fromkeys(
        ("equal", "differs", "less", "at_most", "greater", "at_least"), FunctionCost(_lesser)
    ),
    "truth": FunctionCost(_bytes),
    **dict.fromkeys(("within", "contains", "fits"), FunctionCost(whole)),
    **dict.fromkeys(("plus", "minus"), FunctionCost(_bytes, grows=True)),
    "times": FunctionCost(_product, most=PRODUCT),
    **dict.fromkeys(("divided", "remainder"), FunctionCost(_division, grows=True)),
}
