"""Builds recipes from rules and mappings: how each attribute of a target is produced."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from polycast.contexts.check.assignability import (
    class_fits,
    expected,
    fits,
    hint_text,
    holds,
    keys_fit,
    met_fits,
    shape_fits,
    takes_any,
)
from polycast.contexts.check.recipe_findings import RecipeFindings, TypeMismatch, why_of
from polycast.contexts.compile import translation_ir as ir
from polycast.contexts.compile.object_makers import NoMaker, is_closed, is_unchangeable, maker_of
from polycast.contexts.resolve.attribute_shapes import (
    Container,
    ValueShape,
    extends_container,
    one_of,
    shape_of,
)
from polycast.contexts.resolve.resolution import PathNode, Resolver, leads_past
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.standard_types import is_machinery, is_standard

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.contexts.declare.statements import Direction, Mapping, Rule
    from polycast.contexts.resolve.inheritance import SettledContext

T = TypeVar("T")

_ANYTHING = shape_of(Any)
_DEEP = 16  # objects further in are filled later, so that they do not fill Python's stack


@dataclass(frozen=True)
class _Slot:
    """An attribute of a source, on its way to that of a target."""

    node: PathNode
    attribute: str
    wanted: ValueShape
    """What the target declares, of elements if they are in a container."""
    lenient: bool
    """Whether a value that the target does not accept is missing, or an error."""
    mismatches: list[TypeMismatch] = field(default_factory=list)

    def fitting(self, make: Callable[[], ir.Recipe]) -> ir.Recipe:
        """A recipe; `Missing` if the target does not accept the value, which is noted."""
        try:
            return make()
        except TypeMismatch as mismatch:
            self.mismatches.append(mismatch)
            return ir.Missing()


class Builder:
    """Builds recipes for one direction of a context; problems go to `findings`."""

    def __init__(self, settled: SettledContext, resolver: Resolver, direction: Direction) -> None:
        self._settled, self._resolver, self._direction = settled, resolver, direction
        self._types = settled.types
        self._builds: dict[tuple[PathNode, type], ir.Build] = {}
        self._unfilled: set[ir.Build] = set()
        self._later: deque[tuple[PathNode, ir.Build]] = deque()
        self._result_shapes: dict[int, tuple[Any, ValueShape]] = {}
        self._report = RecipeFindings(settled, resolver, direction)
        self.findings = self._report.findings
        self.applied: set[Rule] = set()
        """The rules that some recipe has."""
        self.thrown_away = self._report.thrown_away
        """The rules whose results no target takes."""

    def event(self, cls: type, mapping: Mapping) -> ir.Recipe:
        """The recipe for events of a class, by a mapping."""
        self._report.where = mapping.where
        return self._all_of(lambda: self._mapped(self._resolver.root(cls), mapping))

    def case(self, choice: ir.Choice, met: type) -> ir.Recipe:
        """The recipe for a value of a class that was not known when a choice was built."""
        try:
            node = choice.node.child(choice.attribute, met)
            return self._all_of(lambda: self._case(node, choice.shape, choice.wanted))
        except TypeMismatch as error:
            path = choice.node.path.to(choice.attribute, met)
            text = f"at {path} met as {met.__name__}: {error}"
            if not choice.lenient:
                self._report.add("bad-result", text)
                return ir.Keep()
            if not any(map(_is_missing, choice.cases.values())):
                self._report.add(self._report.default_code, text)
            return ir.Missing()

    def view(self, choice: ir.Choice, above: type) -> ir.Recipe:
        """The recipe for a value that is taken for one of a supertype of its class."""
        known = choice.cases[above]
        if not isinstance(known, ir.Keep | ir.Duplicate) or not self._types.has_attributes(above):
            return known
        node = choice.node.child(choice.attribute, above)
        try:
            maker_of(above)
        except NoMaker:
            return ir.Duplicate()
        if node.winner is not None:
            return known
        return self._all_of(lambda: self._build(node.first or node, above, None))

    def _all_of(self, make: Callable[[], T]) -> T:
        """The result of `make`, after the builds that it left for later are filled."""
        try:
            result = make()
            while self._later:
                self._fill(*self._later.popleft())
        finally:
            self._later.clear()
            self._unfilled.clear()
        return result

    # -- objects -----------------------------------------------------------------------------------

    def _build(self, node: PathNode, target: type, mapping: Mapping | None) -> ir.Build:
        known = self._builds.get((node, target))
        if known is not None:
            known.recursive = known.recursive or known in self._unfilled
            return known
        build = self._builds[node, target] = ir.Build(node.met, target, mapping=mapping)
        self._unfilled.add(build)
        if len(node.path.attributes) > _DEEP:
            self._later.append((node, build))
        else:
            self._fill(node, build)
        return build

    def _mapped(self, node: PathNode, mapping: Mapping) -> ir.Recipe:
        """The recipe of a mapping: by attribute, unless a function makes the whole target."""
        whole = self._settled.wholes.get(mapping.source)
        if whole is None:
            return self._build(node, mapping.target, mapping)
        function, target, met = whole.function, mapping.target, node.met
        result = met if function.is_identity else function.result
        if not fits(result, target):
            text = f"{function.name} gives {hint_text(result)}, not {target.__name__}"
            self._report.add("bad-result", text)
        if not fits(met, function.argument):
            text = (
                f"{function.name} takes {hint_text(function.argument)}, and is given the event as "
                f"it is, {met.__name__}, to make the whole {target.__name__} of it"
            )
            self._report.add("bad-argument", text)
        checks = expected(function, self._shape_of(target), str(node.path))
        return ir.Whole(mapping, function, _copied(met), checks)

    def _fill(self, node: PathNode, build: ir.Build) -> None:
        try:
            maker = maker_of(build.target)
        except NoMaker as error:
            self._report.add("not-buildable", str(error))
        else:
            for name, wanted in self._types.shapes(build.target).items():
                if name not in maker.own:
                    is_optional = name in maker.optional
                    self._fill_part(node, build, name, wanted, is_optional=is_optional)
            self._report.dropped(node, build)
        self._unfilled.discard(build)

    def _fill_part(
        self, node: PathNode, build: ir.Build, name: str, wanted: ValueShape, *, is_optional: bool
    ) -> None:
        """The recipe for an attribute; a default stands in for what the target does not accept."""
        shape = self._types.shapes(build.source).get(name)
        if shape is None:
            self._report.no_source(node, build, name, is_optional=is_optional)
            return
        self._report.hidden(node, build, name, shape)
        default = declared_defaults(build.target)[name]
        slot = _Slot(node, name, wanted, lenient=default is not None)
        recipe = self._convert(slot, shape)
        if not slot.mismatches:
            build.parts[name] = recipe
            return
        if default is not None and not _is_missing(recipe):
            build.parts[name] = ir.Otherwise(recipe, default)
        build.lost[name] = why_of(slot.mismatches)
        self._report.mismatch(node, build, name, slot.mismatches, is_optional=is_optional)

    # -- values ------------------------------------------------------------------------------------

    def _convert(self, slot: _Slot, shape: ValueShape) -> ir.Recipe:
        """The recipe for what an attribute holds; mismatches go to the slot."""
        node, wanted = slot.node, slot.wanted
        if shape.opaque:  # nothing looks into the value, but a rule may name the attribute
            unknown = node.child(slot.attribute, object)
            if unknown.winner is not None:
                return self._case(unknown, shape, wanted)
            if shape_fits(shape, wanted):
                return ir.Duplicate()
            why = f"{hint_text(shape.hint)} is there, and {hint_text(wanted.hint)} is wanted"
            sees_all = not any(True for _ in shape.all_classes())
            function = (shape.hint, wanted.hint) if sees_all else None
            slot.mismatches.append(TypeMismatch(why, function=function))
            return ir.Missing()
        none = slot.fitting(lambda: _none(slot)) if shape.none else None
        cases = {
            met: slot.fitting(partial(self._case, node.child(slot.attribute, met), shape, wanted))
            for declared in shape.classes
            for met in self._types.subtypes(declared)
        }
        containers = tuple(
            (container.kind, slot.fitting(partial(self._each, slot, container)))
            for container in shape.containers
        )
        containers = self._merged(slot, shape, containers)
        if (
            not containers
            and not isinstance(none, ir.Missing)
            and all(isinstance(recipe, ir.Keep) and is_closed(met) for met, recipe in cases.items())
        ):
            return ir.Keep()
        return ir.Choice(node, slot.attribute, shape, wanted, cases, containers, none, slot.lenient)

    def _each(self, slot: _Slot, container: Container) -> ir.Recipe:
        inside = _wanted_inside(container, slot.wanted)
        if not inside:
            keys = "" if container.keys is None else f" by {hint_text(container.keys.hint)}"
            text = f"{hint_text(slot.wanted.hint)} is wanted, not {container.kind.__name__}{keys}"
            raise TypeMismatch(f"{slot.attribute!r} holds elements, and {text}")
        before = len(self.findings)
        for wanted in inside:
            inner = replace(slot, wanted=wanted, mismatches=[])
            recipe = self._convert(inner, container.inner)
            wrong = [finding for finding in self.findings[before:] if finding.severity == "error"]
            if not (inner.mismatches or wrong) or wanted is inside[-1]:
                break
            del self.findings[before:]
        slot.mismatches.extend(inner.mismatches)
        return ir.Each(container.kind, recipe)

    def _merged(
        self, slot: _Slot, shape: ValueShape, containers: tuple[tuple[type, ir.Recipe], ...]
    ) -> tuple[tuple[type, ir.Recipe], ...]:
        """One recipe for several containers of a kind: only their elements tell them apart."""
        kinds = [kind for kind, _ in containers]
        several = {kind for kind in kinds if kinds.count(kind) > 1}
        if slot.mismatches or not several:
            return containers
        merged: dict[type, ir.Recipe] = {}
        for kind in several:
            takers = [taker for taker in slot.wanted.containers if holds(kind, taker.kind)]
            takes_all = takes_any(kind, slot.wanted)
            wanted = one_of([Any] if takes_all else [taker.inner.hint for taker in takers])
            inner = replace(slot, wanted=wanted, lenient=False)
            merged[kind] = ir.Each(kind, self._convert(inner, shape.all_of(kind)))
        return tuple((kind, merged.get(kind, recipe)) for kind, recipe in containers)

    def _case(self, node: PathNode, held: ValueShape, wanted: ValueShape) -> ir.Recipe:
        """The recipe for a value of the type that is met at a node."""
        if node.winner is not None:
            return self._applied(node, node.winner, held, wanted)
        for mapping in self._report.hidden_types.mappings_for(node.met):
            if class_fits(mapping.target, wanted):
                return self._mapped(node.first or node, mapping)
        if met_fits(node.met, held, wanted):
            return self._same(node)
        raise self._mismatch(node.met, held, wanted)

    def _mismatch(self, met: type, held: ValueShape, wanted: ValueShape) -> TypeMismatch:
        """Why a target does not accept a class, and whether a rule or a mapping could help."""
        is_generic = any(cls is met for cls, _ in held.parameters)
        needs_hint = met is tuple or met in held.literal or is_generic
        there = hint_text(held.hint) if needs_hint else met.__name__
        why = f"{there} is there, and {hint_text(wanted.hint)} is wanted"
        is_class = met in held.literal or not needs_hint  # a rule is for all values of a class
        function = (met if is_class else held.hint, wanted.hint)
        has_attributes = self._types.has_attributes
        may_be_mapped = (
            not is_generic and has_attributes(met) and any(map(has_attributes, wanted.classes))
        )
        return TypeMismatch(why, function=function, may_be_mapped=may_be_mapped)

    def _applied(
        self, node: PathNode, rule: Rule, held: ValueShape, wanted: ValueShape
    ) -> ir.Recipe:
        function = rule.function
        assert function is not None
        result = node.met if function.is_identity else function.result
        is_kept = function.is_identity and (result is tuple or result in held.literal)
        given = held if is_kept else self._shape_of(result)
        if not (met_fits(node.met, given, wanted) if is_kept else shape_fits(given, wanted)):
            text = (
                f"at {node.path} {str(rule.pattern)!r} wins, and {function.name} gives "
                f"{hint_text(result)}; {hint_text(wanted.hint)} is wanted there"
            )
            self._report.add("bad-result", text)
        before = _copied(node.met)
        self.applied.add(rule)
        if function.is_identity:
            return before
        return ir.Apply(rule, before, expected(function, wanted, str(node.path)))

    def _shape_of(self, result: Any) -> ValueShape:
        """The shape of a result; a function that wins at many paths is asked for it at each."""
        known = self._result_shapes.get(id(result))
        if known is None or known[0] is not result:
            known = self._result_shapes[id(result)] = (result, shape_of(result))
        return known[1]

    def _same(self, node: PathNode) -> ir.Recipe:
        """A value that stays of its class: rebuilt if rules may apply in it."""
        if not self._types.has_attributes(node.met) or not self._may_win_inside(node):
            return _copied(node.met)
        if extends_container(node.met):
            return ir.Duplicate()  # its elements are in no attribute
        try:
            maker_of(node.met)
        except NoMaker:
            return ir.Duplicate()  # no object is of an abstract class; subclasses are met as such
        build = self._build(node.first or node, node.met, None)
        if build.recursive or build in self._unfilled:
            return build
        if all(isinstance(part, ir.Keep) for part in build.parts.values()):
            return _copied(node.met)
        return build

    def _may_win_inside(self, node: PathNode) -> bool:
        """Whether any rule or mapping could apply inside, whatever types are met there."""
        rules = self._resolver.rules
        return self._nests or any(leads_past(rule.pattern, node.path) for rule in rules)

    @cached_property
    def _nests(self) -> bool:
        """Whether a mapping could apply inside an object that keeps its class.

        An attribute there must be declared with a type above both ends of the mapping.
        """
        return any(
            not is_standard(above) and not is_machinery(above)
            for mapping in self._settled.mappings.values()
            if mapping.direction == self._direction
            for above in set(mapping.source.__mro__) & set(mapping.target.__mro__)
        )


def _none(slot: _Slot) -> ir.Recipe:
    if not (slot.wanted.none or slot.wanted.unknown):
        wanted = hint_text(slot.wanted.hint)
        raise TypeMismatch(f"{slot.attribute!r} may be None, and {wanted} is wanted")
    return ir.Keep()


def _is_missing(recipe: ir.Recipe | None) -> bool:
    """Whether no value arrives, whatever it is; an empty container does."""
    if isinstance(recipe, ir.Choice):
        return all(map(_is_missing, recipe.recipes()))
    return isinstance(recipe, ir.Missing)


def _wanted_inside(container: Container, wanted: ValueShape) -> list[ValueShape]:
    """The shapes that a target may want of the elements of a container."""
    if takes_any(container.kind, wanted):
        return [_ANYTHING]
    return [
        taker.inner
        for taker in wanted.containers
        if holds(container.kind, taker.kind) and keys_fit(container, taker)
    ]


def _copied(cls: type) -> ir.Recipe:
    return ir.Keep() if is_unchangeable(cls) else ir.Duplicate()
