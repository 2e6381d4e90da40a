"""What a component of ETCL, such as `$.venue.name`, leads to as far as annotations tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from polycast.errors import FilterError
from polycast.events.structured_event import StructuredEvent, TaggedUnion
from polycast.filters.checking.inference import Kind, Kinds, joined, kinds_of
from polycast.filters.checking.places import Places
from polycast.filters.tree import nodes
from polycast.languages.etcl.components import Path
from polycast.languages.etcl.structures import UNTYPED
from polycast.languages.etcl.writer import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.filters.checking.classes import Member
    from polycast.filters.checking.walker import Walker

__all__ = ["needed", "places_in", "visit_component"]

_OPEN = (Mapping, StructuredEvent, TaggedUnion)  # whose members are not their attributes
_LISTS = (list, tuple)  # in which `$name` is looked up as in a list of properties


def visit_component(walker: Walker, node: nodes.Applied, path: Path) -> Kinds:
    """What it may be; a member that no class on the way can have is reported."""
    kinds = walker.visit(node.arguments[0])
    if node.name == "exists":  # who asks knows better
        walker.guarded = True
        return kinds_of(bool)
    for at in range(len(path.steps)):
        kinds = _followed(walker, node, path, at, kinds)
        if kinds is None:
            break
    return kinds if node.name == "component" else kinds_of(bool)


def _followed(walker: Walker, node: nodes.Applied, path: Path, at: int, kinds: Kinds) -> Kinds:
    step, argument = path.steps[at]
    if step == "element":
        lists = all(kind.ref() in _LISTS for kind in kinds or ())
        return joined([kind.values for kind in kinds or ()]) if lists else None
    if step not in ("member", "variable"):
        # `$._type_id == 'Keynote' and ...`
        walker.guarded = walker.guarded or step in ("_type_id", "_repos_id")
        return None
    if step == "variable" and (argument == "curtime" or argument in UNTYPED):
        walker.guarded = True  # `$type_name == 'Keynote' and ...`
        return None
    if kinds is None or any(_is_open(kind, step) for kind in kinds):
        return None
    members = walker.members(kinds, argument)
    if members == [] and id(node) in walker.needed:
        before = Path(path.steps[:at]).text if at else ""
        walker.report_member(node, argument, (node.arguments[0], kinds), before=before)
    return _values(members) if members else None


def _values(members: list[Member]) -> Kinds:
    return joined(each.kinds if each.is_attribute else None for each in members)


def _is_open(kind: Kind, step: str) -> bool:
    others = _LISTS if step == "variable" else ()
    return any(issubclass(cls, (*_OPEN, *others)) for cls in kind.classes())


# -- which of them a match needs -------------------------------------------------------------------


def needed(tree: nodes.Node) -> frozenset[int]:
    """The components without which no event matches; a later part of an `or` may not be asked."""
    return frozenset(map(id, _needed(tree, wanted=True)))


def _needed(node: nodes.Node, *, wanted: bool | None) -> Iterator[nodes.Node]:
    """Those that are asked whenever a part is as wanted, or in any case if it is None."""
    match node:
        case nodes.And(parts) | nodes.Or(parts):
            if wanted is isinstance(node, nodes.And):
                for each in parts:
                    yield from _needed(each, wanted=wanted)
            else:
                yield from _needed(parts[0], wanted=None)
        case nodes.Not(operand):
            yield from _needed(operand, wanted=None if wanted is None else not wanted)
        case nodes.Applied("etcl"):
            yield node
            for each in node.arguments:
                yield from _needed(each, wanted=None)


# -- where they stand ------------------------------------------------------------------------------


def places_in(tree: nodes.Node) -> Places:
    """The places of parts in the text of a filter: in ETCL, if that can say it."""
    try:
        text = written(tree)
    except FilterError:
        return Places(tree)
    name = "here"
    while name in text:
        name += "_"
    event, path = nodes.Event(), nodes.Constant(f"$.{name}")

    def mark(part: nodes.Node) -> nodes.Node:
        value = isinstance(part, nodes.Applied) and part.name == "component"
        return nodes.Applied("etcl", "component" if value else "exists", (event, path))

    return Places(tree, write=written, mark=mark)
