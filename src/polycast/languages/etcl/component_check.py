"""What a component of ETCL, such as `$.venue.name`, leads to as far as annotations tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from polycast.errors import FilterError
from polycast.events.structured_event import StructuredEvent, TaggedUnion
from polycast.filters.checking.inference import Kind, Kinds, joined, kinds_of
from polycast.filters.checking.mistakes import Places
from polycast.filters.checking.visits import members_named
from polycast.filters.tree import nodes
from polycast.languages.etcl.components import EtclPath
from polycast.languages.etcl.functions import path_in
from polycast.languages.etcl.grammar import written
from polycast.languages.etcl.structures import SCALARS, UNTYPED

if TYPE_CHECKING:
    from polycast.filters.checking.walker import Walker

_OPEN = (Mapping, StructuredEvent, TaggedUnion)  # whose members are not their attributes
_LISTS = (list, tuple)  # in which `$name` is looked up as in a list of properties


class EtclComponent:
    """A component that a function of ETCL takes from the event."""

    language = "ETCL"

    def __init__(self, node: nodes.Applied, path: EtclPath) -> None:
        self._node, self._path = node, path

    def kinds(self, walker: Walker) -> Kinds:
        """What it may be; report a member that no class on the way can have."""
        kinds = walker.visit(self._node.arguments[0])
        if self._node.name == "exists":  # the filter asks whether it is there
            walker.guarded = True
            return kinds_of(bool)
        for at in range(len(self._path.steps)):
            kinds = self._followed(walker, at, kinds)
            if kinds is None:
                break
        return kinds if self._node.name == "component" else kinds_of(bool)

    def guarded(self, condition: str) -> str:
        """The text of a condition that is asked only of events that have the component."""
        return f"exist {self._path.text} and {condition}"

    def has_members(self, cls: type) -> bool:
        """Whether objects of a class have members; simple values have none."""
        return not issubclass(cls, SCALARS) or hasattr(cls, "_fields")

    def _followed(self, walker: Walker, at: int, kinds: Kinds) -> Kinds:
        step, argument = self._path.steps[at]
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
        members = members_named(walker, kinds, argument)
        if members == [] and id(self._node) in walker.needed:
            before = EtclPath(self._path.steps[:at]).text if at else ""
            operand = (self._node.arguments[0], kinds)
            walker.report("no-attribute", self._node, argument, operand, before=before)
        if not members:
            return None
        return joined(member.kinds if member.is_attribute else None for member in members)


def component_in(node: nodes.Applied) -> EtclComponent | None:
    """The component that a function takes from the event; None if it does something else."""
    path = path_in(node)
    return None if path is None else EtclComponent(node, path)


def _is_open(kind: Kind, step: str) -> bool:
    others = _LISTS if step == "variable" else ()
    return any(issubclass(cls, (*_OPEN, *others)) for cls in kind.classes())


# -- where they stand ------------------------------------------------------------------------------


def places_in(tree: nodes.Node) -> Places | None:
    """The places of parts in the text of a filter in ETCL; None if ETCL cannot say it."""
    try:
        text = written(tree)
    except FilterError:
        return None
    name = "here"
    while name in text:
        name += "_"
    event, path = nodes.Event(), nodes.Constant(f"$.{name}")

    def mark(part: nodes.Node) -> nodes.Node:
        value = isinstance(part, nodes.Applied) and part.name == "component"
        return nodes.Applied("etcl", "component" if value else "exists", (event, path))

    return Places(tree, write=written, mark=mark)
