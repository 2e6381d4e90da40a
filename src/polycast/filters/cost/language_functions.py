"""What the functions of ETCL and XPath cost: every one of them has its line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import FilterTooCostlyError
from polycast.filters.cost.amounts import Amount, one_of, steps
from polycast.filters.cost.value_kinds import ALL, INT, TEXT, Kind
from polycast.filters.tree import nodes
from polycast.languages.xpath.costs import grows
from polycast.languages.xpath.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Work = Callable[[nodes.Applied, Sequence[Amount]], Amount]

__all__ = ["FUNCTIONS", "applied"]

BYTE = 0.25
DOCUMENT, LETTER = 1_000.0, 2.0  # an event is made into a document, and that into a text
TRUTH = steps(32.0)
PRODUCT = steps(16_384.0)  # bytes: ETCL multiplies no further than that
SCALAR = frozenset(
    {"string", "int", "double", "boolean", "base64", "dateTime.iso8601", "nil", "i4", "i8"}
)


def _whole(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """All of what it is given, once."""
    del node
    return sum(sizes, Amount())


def _bytes(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    return _whole(node, sizes).times(BYTE)


def _lesser(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    del node
    return one_of(*sizes)


def _product(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    return _bytes(node, sizes) + steps(1_000.0)


def _division(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """Long numbers divide digit by digit, unless one of them is a constant."""
    several = _whole(node, sizes)
    if any(each.is_constant for each in sizes):
        return several
    return several + several.squared().times(1 / 1024)


def _component(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """Each step of a path looks at one value, or goes along a list of properties."""
    text = node.arguments[1].value if isinstance(node.arguments[1], nodes.Constant) else ""
    many = str(text).count("(")
    return steps(len(str(text)) + 1.0) + sizes[0].times(BYTE * many)


def _located(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """A value is had at once; a whole array or struct is gone through as one text."""
    kind = node.arguments[2].value if isinstance(node.arguments[2], nodes.Constant) else ""
    plain = node.name != "includes_at" and kind in SCALAR
    return steps(8.0) + sizes[0].times(BYTE if plain or node.name == "kind_at" else 4.0)


def _holds(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """Every node of the document a number of times; while it runs, its steps are counted."""
    text = node.arguments[1].value if isinstance(node.arguments[1], nodes.Constant) else ""
    times = grows(parse(str(text)))
    if times is None:
        why = "it goes over the document again for each of its nodes"
        accepted = (
            "paths whose predicates look at what is right below: "
            '/struct/member[name="topic" and value="news"], //string[. = "news"]'
        )
        raise FilterTooCostlyError(f"the XPath {text!r:.80}", why, accepted=accepted)
    return steps(times + DOCUMENT) + sizes[0].times(times + LETTER)


FUNCTIONS: dict[tuple[str, str], tuple[Work, float, Kind]] = {
    # what it takes, how large it is beside what it is given (0: a truth), and what it may be
    **{("etcl", name): (_component, 1.0, ALL) for name in ("component",)},
    **{("etcl", name): (_component, 0.0, INT) for name in ("exists", "default")},
    **{("etcl", name): (_bytes, 1.0, TEXT) for name in ("character", "label")},
    **{
        ("etcl", name): (_lesser, 0.0, INT)
        for name in ("equal", "differs", "less", "at_most", "greater", "at_least")
    },
    ("etcl", "truth"): (_bytes, 0.0, INT),
    **{("etcl", name): (_whole, 0.0, INT) for name in ("within", "contains", "fits")},
    **{("etcl", name): (_bytes, 1.0, INT) for name in ("plus", "minus")},
    ("etcl", "times"): (_product, -1.0, INT),
    **{("etcl", name): (_division, 1.0, INT) for name in ("divided", "remainder")},
    **{("xpath", name): (_located, 1.0, TEXT) for name in ("string_at", "text_at")},
    **{
        ("xpath", name): (_located, 0.0, INT)
        for name in ("differs_at", "includes_at", "number_at", "kind_at")
    },
    ("xpath", "holds"): (_holds, 0.0, INT),
}


def applied(node: nodes.Applied, sizes: Sequence[Amount]) -> tuple[Amount, Amount, Kind]:
    """What calling a function takes, how large its value is, and what that may be."""
    work, growth, kind = FUNCTIONS[node.language, node.name]
    given = sum(sizes, TRUTH) if growth else TRUTH
    size = PRODUCT if growth < 0 else given
    return work(node, sizes), size, kind
