"""The functions of ETCL by their names in a tree, and how an index and generated code use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.errors import FilterError
from polycast.filters.cost.amounts import ALL, TEXT, Amount, one_of, steps
from polycast.filters.cost.operation_costs import BYTE, FunctionCost, whole
from polycast.filters.normal_form.ordered_domains import Domain, Form, Interval, Others, Points
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import Insight
from polycast.filters.tree.operators import MIRRORED, NEGATED
from polycast.filters.tree.untrusted import leads_out
from polycast.languages.etcl import components as paths
from polycast.languages.etcl import values
from polycast.languages.etcl.components import EtclPath, EtclStep, path_of, slot_of_path
from polycast.languages.etcl.structures import AT_EVENT, UNTYPED, fields_of
from polycast.languages.etcl.values import BOOLEANS, CHARACTERS, LABELS, constant_of
from polycast.typesystem.type_expressions import hints_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polycast.config import Clock
    from polycast.filters.backends.python import SourceWriter

COMPARED = {"equal": "==", "differs": "!=", **values.ORDERED}
PATHS, LITERALS = ("component", "exists", "default"), ("character", "label")
COMPUTED = ("plus", "minus", "times", "divided", "remainder")
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(paths, name) for name in PATHS},
    **{
        name: getattr(values, name)
        for name in (*LITERALS, *COMPARED, "truth", "within", "contains", *COMPUTED, "fits")
    },
}
_OPPOSITE = {**NEGATED, "==": "!=", "!=": "=="}
_NUMBERS = values.NUMBERS


def path_in(node: nodes.Applied) -> EtclPath | None:
    """The path that a component follows; None if it is no component."""
    if node.language != "etcl" or node.name not in PATHS:
        return None
    match node.arguments:
        case (_, nodes.Constant(text)) if type(text) is str:
            return path_of(text)
    raise FilterError(f"etcl.{node.name} takes the event and a path")


class EtclInsight(Insight):
    """How an index and generated code use these functions."""

    def asked(self, node: nodes.Applied, *, wanted: bool) -> tuple[nodes.Node, Form] | None:
        """The predicate of a strict comparison with a constant, or of a term that is a boolean."""
        if node.name == "truth":
            return node.arguments[0], Points(BOOLEANS, (wanted,))
        if node.name not in COMPARED:
            return None
        sign, (left, right) = COMPARED[node.name], node.arguments
        known = constant_of(right)
        if known is None:
            sign, left, known = MIRRORED[sign], right, constant_of(left)
        if known is None or constant_of(left) is not None:
            return None
        form = _form(sign if wanted else _OPPOSITE[sign], *known, negated=not wanted)
        return None if form is None else (left, form)

    def written(self, node: nodes.Applied, writer: SourceWriter) -> str | None:
        """Follow a path by a function of its own; compare a plain attribute in place."""
        if node.name == "component":
            path = path_in(node)
            return None if path is None else _reading(node.arguments[0], path, writer)
        if not _is_plain(node):
            return None
        place = _place(node.arguments[0], writer)
        return None if place is None else _in_place(node, place, writer)

    def folded(self, node: nodes.Applied, cls: type) -> nodes.Node:
        """Turn the first step into an attribute if the class has such a field."""
        if node.name != "component" or not isinstance(node.arguments[0], nodes.Event):
            return node
        path = path_in(node)
        if path is None or not path.steps or path.asks_time:
            return node
        kind, name = path.steps[0]
        certain = kind == "member" or (kind == "variable" and name not in UNTYPED)
        if not certain or name not in fields_of(cls):
            return node
        attribute, rest = _attribute(name), EtclPath(path.steps[1:])
        if attribute is None or not rest.steps:
            return attribute or node
        return nodes.Applied("etcl", "component", (attribute, nodes.Constant(rest.text)))

    def slot(self, node: nodes.Applied, cls: type) -> str | tuple[str, ...] | None:
        """Most components are a member, a property or a variable."""
        path = path_in(node) if node.name == "component" else None
        return None if path is None else slot_of_path(path, cls)

    def attributes(self, node: nodes.Applied) -> frozenset[str] | None:
        """The attribute that the first step of a path reads."""
        path = path_in(node)
        if path is None or not path.steps or not isinstance(node.arguments[0], nodes.Event):
            return None
        return _attributes(path, path.steps[0])

    def check(self, node: nodes.Applied) -> None:
        """Raise FilterError if a name leads out of the event, or a literal takes no text."""
        path = path_in(node)
        for name in () if path is None else path.names:
            if leads_out(name):
                raise FilterError(f"{name}: leads out of the event")
        if node.name in LITERALS and constant_of(node) is None:
            raise FilterError(f"etcl.{node.name} takes a text")


def _reading(of: nodes.Node, path: EtclPath, writer: SourceWriter) -> str:
    """Source that reads a component: from its slot if it has one, else by a function."""
    start = writer.write(of)
    found = f"{writer.reference(path.read)}({start})"
    cls = writer.cls if isinstance(of, nodes.Event) else None
    slot = None if cls is None else slot_of_path(path, cls)
    if slot is None:
        return found
    if isinstance(slot, str):
        attribute = _attribute(slot)
        return found if attribute is None else writer.write(attribute)
    key, *dictionaries = slot
    key = writer.reference(key)
    for place in [f"{start}.{dictionary}" for dictionary in reversed(dictionaries)] or [start]:
        name = writer.local() if dictionaries else None
        first = place if name is None else f"({name} := {place})"
        found = f"({name or place}[{key}] if {key} in {first} else {found})"
    return found


def _attribute(name: str) -> nodes.Attribute | None:
    """The attribute of the event, if the name may stand in source."""
    try:
        return nodes.Attribute(nodes.Event(), name)
    except FilterError:
        return None


def _attributes(path: EtclPath, first: EtclStep) -> frozenset[str] | None:
    kind, name = first
    if path.asks_time or kind in ("_type_id", "_repos_id"):
        return frozenset()
    if kind not in ("member", "variable") or name.startswith("__"):
        return None
    found = {name}
    if name in ("header", "fixed_header", "event_type"):
        found.update(AT_EVENT)
    if kind == "variable":
        found.update(("variable_header", "filterable_data"))
    return frozenset(found)


def _form(sign: str, domain: Domain, value: Any, *, negated: bool) -> Form | None:
    if sign == "==":
        return Points(domain, (value,))
    if sign == "!=":
        return Others(domain, (value,))
    if domain in (CHARACTERS, LABELS):
        return None
    unordered = negated and domain.numeric  # `not x < 3` is also true of NaN
    closed = sign.endswith("=")
    if sign[0] == "<":
        return Interval(domain, high=value, high_closed=closed, unordered_too=unordered)
    return Interval(domain, low=value, low_closed=closed, unordered_too=unordered)


class _Place(NamedTuple):
    """A value of an event in generated code, and what is declared to be there."""

    value: str
    declared: Any = None
    read: str = ""  # the same when it is read for the first time, if that is another expression
    guards: tuple[str, ...] = ()  # that all on the way is as declared; else it is not there


def _place(term: nodes.Node, writer: SourceWriter) -> _Place | None:
    """Where generated code finds a term: a field, a field of a field, or a local name."""
    if isinstance(term, nodes.Attribute) and isinstance(term.of, nodes.Event):
        return _Place(writer.write(term), _declared(writer.cls, term.name))
    path = path_in(term) if isinstance(term, nodes.Applied) else None
    if path is None or term.name != "component":  # type: ignore[attr-defined]
        return None
    place = _followed(term.arguments[0], path, writer)  # type: ignore[attr-defined]
    if place is not None or (name := writer.local()) is None:
        return place
    return _Place(name, read=f"{name} := {writer.write(term)}")


def _followed(first: nodes.Node, path: EtclPath, writer: SourceWriter) -> _Place | None:
    """Follow a path through fields of known classes; None if a class is not known."""
    place = _place(first, writer) if isinstance(first, nodes.Attribute) else None
    for kind, name in path.steps:
        owner = None if place is None else place.declared
        if not isinstance(owner, type) or kind != "member" or not _is_field(owner, name):
            return None
        assert place is not None  # else there were no owner
        found = writer.local()
        read = place.value if found is None else f"{found} := {place.value}"
        guard = f"{writer.reference(type)}({read}) is {writer.reference(owner)}"
        value = f"{found or place.value}.{name}"
        place = _Place(value, _declared(owner, name), guards=(*place.guards, guard))
    return place


def _is_field(cls: type, name: str) -> bool:
    """Whether objects of a class have it, by a name that may stand in source."""
    return name in fields_of(cls) and _attribute(name) is not None


def _declared(cls: type | None, name: str) -> Any:
    return None if cls is None else hints_of(cls).get(name)


def _is_plain(node: nodes.Applied) -> bool:
    """Whether it is a truth, or compares with a number or a text."""
    if node.name == "truth":
        return True
    if node.name not in COMPARED or not isinstance(node.arguments[1], nodes.Constant):
        return False
    return type(node.arguments[1].value) in (*_NUMBERS, str)


def _in_place(node: nodes.Applied, place: _Place, writer: SourceWriter) -> str:
    """`event.price` compared at once if all is of the usual classes, else by the function."""
    value, others = place.value, [writer.write(argument) for argument in node.arguments[1:]]
    kind = f"{writer.reference(type)}({place.read or value})"
    guard = " and ".join((*place.guards, f"{kind} {_usual(node, place, writer)}"))
    again = writer.write(node.arguments[0]) if place.guards else value
    slow = f"{writer.reference(FUNCTIONS[node.name])}({', '.join((again, *others))})"
    fast = " ".join((value, *(f"{COMPARED[node.name]} {other}" for other in others)))
    return f"({fast} if {guard} else {slow})"


def _usual(node: nodes.Applied, place: _Place, writer: SourceWriter) -> str:
    """The test of the value's class under which Python compares it as ETCL does."""
    if node.name == "truth":
        return f"is {writer.reference(bool)}"
    [_, constant] = node.arguments
    if isinstance(constant, nodes.Constant) and type(constant.value) is str:
        return f"is {writer.reference(str)}"
    if isinstance(place.declared, type) and place.declared in _NUMBERS:
        return f"is {writer.reference(place.declared)}"
    return f"in {writer.reference(_NUMBERS)}"


def with_clock(node: nodes.Node, clock: Clock) -> nodes.Node:
    """Bind a path that begins with `$curtime` to a clock; return any other node as it is."""
    if not isinstance(node, nodes.Applied):
        return node
    path = path_in(node)
    if path is None or not path.asks_time:
        return node
    if node.name == "exists":
        return nodes.Constant(paths.exists(None, path.text))
    if node.name == "default":  # time is no union
        return node
    key = ("etcl", path.text, id(clock))
    return nodes.Opaque(path.by(clock), "it asks a clock of this process", key)


# -- what they cost --------------------------------------------------------------------------------


PRODUCT = steps(16_384.0)  # bytes: ETCL multiplies no further than that


def _bytes(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    return whole(node, sizes).times(BYTE)


def _division(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """Long numbers divide digit by digit, unless one of them is a constant."""
    several = whole(node, sizes)
    if any(size.is_constant for size in sizes):
        return several
    return several + several.squared().times(1 / 1024)


def _component_cost(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """Each step of a path looks at one value, or goes along a list of properties."""
    text = node.arguments[1].value if isinstance(node.arguments[1], nodes.Constant) else ""
    many = str(text).count("(")
    return steps(len(str(text)) + 1.0) + sizes[0].times(BYTE * many)


COSTS: Mapping[str, FunctionCost] = {
    "component": FunctionCost(_component_cost, ALL, grows=True),
    **dict.fromkeys(("exists", "default"), FunctionCost(_component_cost)),
    **dict.fromkeys(("character", "label"), FunctionCost(_bytes, TEXT, grows=True)),
    **dict.fromkeys(COMPARED, FunctionCost(lambda node, sizes: one_of(*sizes))),
    "truth": FunctionCost(_bytes),
    **dict.fromkeys(("within", "contains", "fits"), FunctionCost(whole)),
    **dict.fromkeys(("plus", "minus"), FunctionCost(_bytes, grows=True)),
    "times": FunctionCost(lambda node, sizes: _bytes(node, sizes) + steps(1_000.0), most=PRODUCT),
    **dict.fromkeys(("divided", "remainder"), FunctionCost(_division, grows=True)),
}
