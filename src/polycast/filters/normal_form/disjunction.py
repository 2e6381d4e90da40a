"""A filter as a disjunction of conjunctions of predicates, at most one of which is true.

Failing is not false: `A or B` is true where A is true, or where A is false without failing and B
is true. So it splits into {A} and {not A, B}, and `not (A and B)` into {not A} and {A, not B}. In
a conjunction a predicate that fails and one that is false are the same: no match; its parts may
be asked in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple, TypeGuard

from polycast.filters.normal_form import ordered_domains
from polycast.filters.normal_form.ordered_domains import Domain, Form, Interval, Points, domain_of
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import insight_of
from polycast.filters.tree.operators import MIRRORED, NEGATED

MOST_CONJUNCTIONS = 16  # beyond, a filter is evaluated as a whole
MOST_LEAVES = 64  # in all of them
LAST_CHARACTER = chr(0x10FFFF)
SPLIT = frozenset({nodes.And, nodes.Or, nodes.Not, nodes.Constant})


class Predicate(NamedTuple):
    """One condition: an expression, and the term and form by which an index looks it up, if any."""

    node: nodes.Node
    term: nodes.Node | None = None
    form: Form | None = None


Conjunction = tuple[Predicate, ...]
Leaf = tuple[nodes.Node, bool]  # an expression, and whether it is to be true or false


def conjunctions(tree: nodes.Node) -> tuple[Conjunction, ...]:
    """The conjunctions of which an event must satisfy one; at most one is true of any event."""
    parts = tree.parts if type(tree) is nodes.And else (tree,)
    if all(map(_is_leaf, parts)):  # so are most filters
        return (_conjunction([(part, True) for part in parts]),)
    try:
        ways = _split(tree, wanted=True)
        if len(ways) > 1 and sum(map(len, ways)) > MOST_LEAVES:
            raise _TooMany
    except _TooMany:
        return ((Predicate(tree),),)
    return tuple(_conjunction(leaves) for leaves in ways if _possible(leaves))


class _TooMany(Exception):
    pass


def _is_leaf(node: nodes.Node) -> bool:
    """Whether there is nothing to split if it is to be true: it stands in one conjunction."""
    kind = type(node)
    if kind is nodes.Compare:
        return 0 < len(node.rest) < 3  # type: ignore[attr-defined]
    return kind not in SPLIT


def _split(node: nodes.Node, *, wanted: bool) -> list[tuple[Leaf, ...]]:
    match node:
        case nodes.Compare(_, (_,)):
            pass
        case nodes.Compare(_, (_, _)) if wanted:
            pass
        case nodes.Or(parts) if _choice(parts) is not None:
            pass
        case nodes.And(parts):
            return _all(parts, wanted) if wanted else _first(parts, wanted)
        case nodes.Or(parts):
            merged = _merged(parts)
            return _first(merged, wanted) if wanted else _all(merged, wanted)
        case nodes.Not(operand):
            return _split(operand, wanted=not wanted)
        case nodes.Compare() if not _repeats_opaque(node):
            links = tuple(_links(node))
            return _all(links, wanted) if wanted else _first(links, wanted)
    return [((node, wanted),)]


def _all(parts: tuple[nodes.Node, ...], wanted: bool) -> list[tuple[Leaf, ...]]:  # noqa: FBT001
    """Every part has the wanted truth."""
    ways = [_split(part, wanted=wanted) for part in parts]
    count = 1
    for way in ways:
        count *= len(way)
        if count > MOST_CONJUNCTIONS:
            raise _TooMany
    return [tuple(leaf for way in chosen for leaf in way) for chosen in product(*ways)]


def _first(parts: tuple[nodes.Node, ...], wanted: bool) -> list[tuple[Leaf, ...]]:  # noqa: FBT001
    """Some part has the wanted truth, and those before it have the opposite without failing."""
    found: list[tuple[Leaf, ...]] = []
    before: list[tuple[Leaf, ...]] = [()]
    for part in parts:
        if len(found) + len(before) > MOST_CONJUNCTIONS:
            raise _TooMany
        found += [(*b, *way) for b in before for way in _split(part, wanted=wanted)]
        before = [(*b, *way) for b in before for way in _split(part, wanted=not wanted)]
    if len(found) > MOST_CONJUNCTIONS:
        raise _TooMany
    return found


def _links(node: nodes.Compare) -> Iterator[nodes.Compare]:
    """`a < b < c` is `a < b and b < c`."""
    left = node.first
    for sign, right in node.rest:
        yield nodes.Compare(left, ((sign, right),))
        left = right


def _repeats_opaque(node: nodes.Compare) -> bool:
    """Whether a part in the middle of a chain, which would be asked twice, may not be."""
    return any(_has_opaque(middle) for _, middle in node.rest[:-1])


def _has_opaque(node: nodes.Node) -> bool:
    while type(node) is nodes.Attribute:  # most terms are nothing else
        node = node.of
    if type(node) is nodes.Event:
        return False
    return any(isinstance(part, nodes.Opaque) for part in nodes.walk(node))


def _merged(parts: tuple[nodes.Node, ...]) -> tuple[nodes.Node, ...]:
    """`a == 1 or a == 2` next to each other stay together: a look-up finds all their values."""
    merged: list[nodes.Node] = []
    for part in parts:
        known = merged[-1] if merged else None
        together = (*known.parts, part) if isinstance(known, nodes.Or) else (known, part)
        if known is not None and _choice(together) is not None:
            merged[-1] = nodes.Or(tuple(other for other in together if other is not None))
        else:
            merged.append(part)
    return tuple(merged)


class _Choice(NamedTuple):
    """A term that equals one of some values; in a strict domain, or as Python compares."""

    term: nodes.Node
    domain: Domain | None
    values: tuple[Any, ...]


def _choice(parts: tuple[nodes.Node | None, ...]) -> _Choice | None:
    """All equalities of one term, together."""
    found = [_equality(part) for part in parts]
    kinds = {(item.term, item.domain) for item in found if item is not None}
    if None in found or len(kinds) != 1:
        return None
    values = tuple(value for item in found if item is not None for value in item.values)
    return _Choice(*kinds.pop(), values)


def _equality(node: nodes.Node | None) -> _Choice | None:
    """The term and the values of `term == 1` or `term in (1, 2)`."""
    if isinstance(node, nodes.Applied):
        term, form = _strictly(node, wanted=True)
        return _Choice(term, form.domain, form.values) if isinstance(form, Points) else None
    if not isinstance(node, nodes.Compare) or len(node.rest) > 1:
        return None
    [(sign, right)] = node.rest
    if not isinstance(right, nodes.Constant) or isinstance(node.first, nodes.Constant):
        return None
    values = right.value
    if sign == "==":
        values = (values,)
    elif sign != "in" or type(values) is not tuple:
        return None
    return _Choice(node.first, None, values) if all(map(_is_scalar, values)) else None


def _strictly(node: nodes.Applied, *, wanted: bool) -> tuple[nodes.Node, Form | None]:
    """The predicate on a term that a function of another language stands for."""
    found = insight_of(node).asked(node, wanted=wanted)
    return (node, None) if found is None else found


def _is_scalar(value: Any) -> bool:
    return domain_of(value) is not None


def _possible(leaves: tuple[Leaf, ...]) -> bool:
    return all(
        bool(node.value) is wanted for node, wanted in leaves if isinstance(node, nodes.Constant)
    )


# -- predicates ------------------------------------------------------------------------------------


def _conjunction(leaves: Iterable[Leaf]) -> Conjunction:
    found: list[Predicate] = []
    for node, wanted in leaves:
        if type(node) is nodes.Constant:
            continue
        predicate = _predicate(node, wanted=wanted)
        if predicate.form is None and _is_chain(node):
            for link in _links(node):  # `1 <= x < "a"` is no interval, but two
                _put(_predicate(link, wanted=wanted), found)
        else:
            _put(predicate, found)
    return tuple(found)


def _is_chain(node: nodes.Node) -> TypeGuard[nodes.Compare]:
    return type(node) is nodes.Compare and len(node.rest) > 1 and not _repeats_opaque(node)


def _put(predicate: Predicate, found: list[Predicate]) -> None:
    """Add a predicate; two bounds of one term become one interval."""
    if type(predicate.form) is Interval:
        for number, known in enumerate(found):
            if (both := _narrowed(known, predicate)) is not None:
                found[number] = both
                return
    found.append(predicate)


def _predicate(node: nodes.Node, *, wanted: bool) -> Predicate:
    asked = _ASKED.get(type(node))
    term, form = (node, None) if asked is None else asked(node, wanted)
    text = node if wanted else nodes.Not(node)
    if form is None or type(term) is nodes.Constant or _has_opaque(term):
        return Predicate(text)
    return Predicate(text, term, form)


# -- a term, and what is asked of its value --------------------------------------------------------

Asked = tuple[nodes.Node, Form | None]


def _by_comparing(node: nodes.Compare, wanted: bool) -> Asked:  # noqa: FBT001
    if len(node.rest) != 1:
        return _by_enclosing(node, wanted)
    [(sign, right)] = node.rest
    if type(right) is nodes.Constant:
        return node.first, _form(sign, right.value, wanted=wanted)
    if type(node.first) is nodes.Constant and sign in MIRRORED:
        return right, _form(MIRRORED[sign], node.first.value, wanted=wanted)
    return node, None


def _by_enclosing(node: nodes.Compare, wanted: bool) -> Asked:  # noqa: FBT001
    """`1 <= x < 3` is an interval."""
    if not wanted or len(node.rest) != 2:
        return node, None
    one, ((sign, term), (other, two)) = node.first, node.rest
    if type(one) is not nodes.Constant or type(two) is not nodes.Constant:
        return node, None
    if sign not in NEGATED or other not in NEGATED or sign[0] != other[0]:
        return node, None
    first, last = domain_of(one.value), domain_of(two.value)
    if first is None or last is None or first[0] is not last[0] or not first[0].ordered:
        return node, None
    if sign[0] == "<":
        return term, Interval(first[0], first[1], last[1], sign == "<=", other == "<=")
    return term, Interval(first[0], last[1], first[1], other == ">=", sign == ">=")


def _by_calling(node: nodes.Call, wanted: bool) -> Asked:  # noqa: FBT001
    asks = wanted and node.method == "startswith"
    return (node.of, _prefix(node.arguments)) if asks else (node, None)


def _by_choosing(node: nodes.Or, wanted: bool) -> Asked:  # noqa: FBT001
    choice = _choice(node.parts)
    return (node, None) if choice is None else (choice.term, _choice_form(choice, wanted=wanted))


_ASKED: dict[type, Callable[[Any, bool], Asked]] = {
    nodes.Compare: _by_comparing,
    nodes.Call: _by_calling,
    nodes.Attribute: lambda node, wanted: (node, ordered_domains.Truth(wanted)),
    nodes.Or: _by_choosing,
    nodes.Applied: lambda node, wanted: _strictly(node, wanted=wanted),
}


def _choice_form(choice: _Choice, *, wanted: bool) -> Form | None:
    if choice.domain is None:
        return _equality_form("in" if wanted else "not in", choice.values)
    if any(map(ordered_domains.has_foreseen_hash, choice.values)):
        return None
    values = tuple(dict.fromkeys(choice.values))
    kind = Points if wanted else ordered_domains.Others
    return kind(choice.domain, values)


_OPPOSITE = {"==": "!=", "!=": "==", "in": "not in", "not in": "in", "is": "is not", "is not": "is"}


def _form(sign: str, constant: Any, *, wanted: bool) -> Form | None:
    if sign in _OPPOSITE:
        return _equality_form(sign if wanted else _OPPOSITE[sign], constant)
    found = domain_of(constant)
    if found is None or not found[0].ordered:
        return None
    domain, value = found
    if wanted:
        return _interval(domain, sign, value)
    if domain.name in ("text", "date"):
        return _interval(domain, NEGATED[sign], value)
    if domain.name in ("number", "big number"):
        return _interval(domain, NEGATED[sign], value, unordered_too=True)
    return None


def _equality_form(sign: str, constant: Any) -> Form | None:
    if sign in ("is", "is not"):
        return ordered_domains.IsNone(sign == "is") if constant is None else None
    if sign in ("in", "not in"):
        return _membership_form(sign, constant)
    found = domain_of(constant)
    if found is None:
        return None
    if sign == "!=":
        return ordered_domains.Differs((found[1],))
    if ordered_domains.has_foreseen_hash(found[1]):  # a sender could choose many of one hash
        return Interval(found[0], found[1], found[1])
    return Points(found[0], (found[1],))


def _membership_form(sign: str, constants: Any) -> Form | None:
    if type(constants) not in (tuple, list, set, frozenset):
        return None
    found = ordered_domains.domain_of_all(constants)
    if found is None:
        return None
    domain, values = found
    if sign == "not in":
        return ordered_domains.Differs(values) if type(constants) not in (set, frozenset) else None
    if domain is None or any(map(ordered_domains.has_foreseen_hash, values)):
        return None
    return Points(domain, tuple(dict.fromkeys(values)))


def _interval(domain: Domain, sign: str, value: Any, *, unordered_too: bool = False) -> Interval:
    if sign[0] == "<":
        return Interval(domain, None, value, True, sign == "<=", unordered_too)
    return Interval(domain, value, None, sign == ">=", True, unordered_too)


def _prefix(arguments: tuple[nodes.Node, ...]) -> Interval | None:
    """Strings with a prefix lie between it and its successor."""
    if len(arguments) != 1 or not isinstance(arguments[0], nodes.Constant):
        return None
    prefix = arguments[0].value
    if type(prefix) is not str or not prefix or prefix[-1] == LAST_CHARACTER:
        return None
    [domain, _] = domain_of(prefix) or (None, None)
    successor = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    return None if domain is None else Interval(domain, prefix, successor, high_closed=False)


def _narrowed(one: Predicate, other: Predicate) -> Predicate | None:
    """Two bounds of one term as one interval."""
    a, b = one.form, other.form
    if type(a) is not Interval or type(b) is not Interval:
        return None
    low, high = (a, b) if b.low is None else (b, a)
    if low.low is None or low.high is not None or high.low is not None or high.high is None:
        return None
    if a.domain is not b.domain or a.unordered_too or b.unordered_too or one.term != other.term:
        return None
    form = Interval(a.domain, low.low, high.high, low.low_closed, high.high_closed)
    return Predicate(nodes.And((one.node, other.node)), one.term, form)
