"""From rules and mappings to recipes: how each attribute of a target comes about."""

from __future__ import annotations

from collections import deque
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from polycast.contexts.check.assignability import (
    class_fits,
    fits,
    hint_text,
    holds,
    keys_fit,
    met_fits,
    shape_fits,
    takes_any,
)
from polycast.contexts.check.findings import Finding
from polycast.contexts.check.hidden_types import HiddenTypes
from polycast.contexts.check.mismatches import (
    TypeMismatch,
    alternatives,
    mended_by,
    whole_text,
    why_of,
)
from polycast.contexts.compile.object_makers import NoMaker, is_closed, is_unchangeable, maker_of
from polycast.contexts.compile.translation_ir import (
    Apply,
    Build,
    Choice,
    Duplicate,
    Each,
    Keep,
    Missing,
    Otherwise,
    Whole,
)
from polycast.contexts.resolve.attribute_shapes import one_of, shape_of
from polycast.contexts.resolve.derivation import is_subtype
from polycast.contexts.run.result_checks import expected
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.standard_types import is_machinery, is_standard

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.contexts.compile.translation_ir import Recipe
    from polycast.contexts.declare.statements import Direction, Mapping, Rule
    from polycast.contexts.resolve.attribute_shapes import Container, ValueShape
    from polycast.contexts.resolve.inheritance import SettledContext
    from polycast.contexts.resolve.resolution import PathNode, Resolver

__all__ = ["Builder"]

T = TypeVar("T")

_ANYTHING = shape_of(Any)
_DEEP = 16  # what is further in is left for later, so that Python's stack need not hold all


class Builder:
    """Makes recipes for one direction of a context; what is wrong goes to `findings`."""

    def __init__(self, settled: SettledContext, resolver: Resolver, direction: Direction) -> None:
        self._settled, self._resolver, self._direction = settled, resolver, direction
        self._types = settled.types
        self._builds: dict[tuple[PathNode, type], Build] = {}
        self._unfilled: set[Build] = set()
        self._later: deque[tuple[PathNode, Build]] = deque()
        self._hiding = HiddenTypes(settled, resolver, direction)
        self._shapes: dict[int, tuple[Any, ValueShape]] = {}
        self._where = ""
        self.findings: list[Finding] = []
        self.applied: set[Rule] = set()
        """The rules that some recipe has."""
        self.thrown_away: set[Rule] = set()
        """Those for an attribute that no target has: there is a finding for each."""

    def event(self, cls: type, mapping: Mapping) -> Recipe:
        """How an event of a class is made what a mapping says."""
        self._where = mapping.where
        return self._all_of(lambda: self._mapped(self._resolver.root(cls), mapping))

    def case(self, choice: Choice, met: type) -> Recipe:
        """What is done with a value of a class that was not known when a choice was made."""
        try:
            node = choice.node.child(choice.attribute, met)
            return self._all_of(lambda: self._case(node, choice.shape, choice.wanted))
        except TypeMismatch as error:
            path = choice.node.path.to(choice.attribute, met)
            if choice.lenient:
                if not any(map(_is_missing, choice.cases.values())):
                    code = "defaulted" if self._settled.is_strict else "does-not-fit"
                    self._error(code, f"at {path} met as {met.__name__}: {error}")
                return Missing()
            self._error("bad-result", f"at {path} met as {met.__name__}: {error}")
            return Keep()

    def view(self, choice: Choice, above: type) -> Recipe:
        """What is done with a value that is taken for one of a supertype of its class."""
        known = choice.cases[above]
        if not isinstance(known, Keep | Duplicate) or not self._types.has_attributes(above):
            return known
        node = choice.node.child(choice.attribute, above)
        try:
            maker_of(above)
        except NoMaker:
            return Duplicate()
        if node.winner is not None:
            return known
        return self._all_of(lambda: self._build(node.first or node, above, None))

    def _all_of(self, make: Callable[[], T]) -> T:
        """What is made, and then what was left for later on the way."""
        try:
            made = make()
            while self._later:
                self._fill(*self._later.popleft())
        finally:
            self._later.clear()
            self._unfilled.clear()
        return made

    # -- objects -----------------------------------------------------------------------------------

    def _build(self, node: PathNode, target: type, mapping: Mapping | None) -> Build:
        known = self._builds.get((node, target))
        if known is not None:
            known.recursive = known.recursive or known in self._unfilled
            return known
        build = self._builds[node, target] = Build(node.met, target, mapping=mapping)
        self._unfilled.add(build)
        if len(node.path.attributes) > _DEEP:
            self._later.append((node, build))
        else:
            self._fill(node, build)
        return build

    def _mapped(self, node: PathNode, mapping: Mapping) -> Recipe:
        """What a mapping makes: attribute by attribute, unless a function makes the whole."""
        whole = self._settled.wholes.get(mapping.source)
        if whole is None:
            return self._build(node, mapping.target, mapping)
        function, target, met = whole.function, mapping.target, node.met
        result = met if function.is_identity else function.result
        if not fits(result, target):
            text = f"{function.name} gives {hint_text(result)}, not {target.__name__}"
            self._error("bad-result", text)
        if not fits(met, function.argument):
            text = (
                f"{function.name} takes {hint_text(function.argument)}, and is given the event as "
                f"it is, {met.__name__}, to make the whole {target.__name__} of it"
            )
            self._error("bad-argument", text)
        where = expected(function, self._shape_of(target), str(node.path))
        return Whole(mapping, function, _copied(met), where)

    def _fill(self, node: PathNode, build: Build) -> None:
        self._fill_parts(node, build)
        self._unfilled.discard(build)

    def _fill_parts(self, node: PathNode, build: Build) -> None:
        try:
            maker = maker_of(build.target)
        except NoMaker as error:
            self._error("not-buildable", str(error))
            return
        for name, wanted in self._types.shapes(build.target).items():
            if name not in maker.own:
                self._fill_part(node, build, name, wanted, is_optional=name in maker.optional)
        self._observe_dropped(node, build, self._types.shapes(build.source))

    def _fill_part(
        self, node: PathNode, build: Build, name: str, wanted: ValueShape, *, is_optional: bool
    ) -> None:
        """What an attribute gets; where there is a default, it stands in for what does not fit."""
        shape = self._types.shapes(build.source).get(name)
        if shape is None:
            self._nothing_there(node, build, name, is_optional=is_optional)
            return
        self._observe_hidden(node, build, name, shape)
        default = declared_defaults(build.target)[name]
        lost: list[TypeMismatch] = []
        found = self._convert(node, name, shape, wanted, lost, lenient=default is not None)
        if not lost:
            build.parts[name] = found
            return
        if default is not None and not _is_missing(found):
            build.parts[name] = Otherwise(found, default)
        build.lost[name] = why_of(lost)
        self._not_all_fits(node, build, name, lost, is_optional=is_optional)

    def _observe_hidden(self, node: PathNode, build: Build, name: str, shape: ValueShape) -> None:
        """Say which rules and mappings do not get to what an attribute holds."""
        for code, note, text in self._hiding.at(node, name, shape):
            build.hidden[name] = note
            self._error(code, text)

    def _nothing_there(self, node: PathNode, build: Build, name: str, *, is_optional: bool) -> None:
        source, target = build.source.__name__, build.target.__name__
        why = f"{source} has no attribute {name!r}"
        if not is_optional:
            mends = f"{alternatives([*whole_text(build.mapping), 'a default'])} would"
            text = f"nothing produces {target}.{name} from {node.path}: {why}; {mends}"
            self._error("nothing-produces", text)
        elif self._settled.is_strict:
            text = f"{target}.{name} takes its default, because {why}"
            self._error("defaulted", text)

    def _not_all_fits(
        self,
        node: PathNode,
        build: Build,
        name: str,
        lost: list[TypeMismatch],
        *,
        is_optional: bool,
    ) -> None:
        ways = mended_by(node, name, lost, self._types) or whole_text(build.mapping)
        ways += [] if is_optional else ["a default"]
        target, why = f"{build.target.__name__}.{name}", why_of(lost)
        mends = f"; {alternatives(ways)} would" if ways else ""
        if not is_optional:
            code, text = "nothing-produces", f"nothing produces {target} from {node.path}: {why}"
        else:
            code = "defaulted" if self._settled.is_strict else "does-not-fit"
            when = "takes" if name not in build.parts else "may take"
            text = f"{target} {when} its default instead of {node.path}.{name}: {why}"
        self._error(code, text + mends)

    def _observe_dropped(self, node: PathNode, build: Build, given: dict[str, ValueShape]) -> None:
        if build.target is build.source:
            return
        dropped = [name for name in given if name not in self._types.shapes(build.target)]
        if dropped:
            text = f"{build.target.__name__} has no {', '.join(dropped)}, so it is dropped"
            text = text if len(dropped) == 1 else text.replace("it is", "they are")
            self._error("dropped", f"at {node.path}: {text}")
        for name in dropped:
            self._observe_unused(node, build, name)

    def _observe_unused(self, node: PathNode, build: Build, name: str) -> None:
        """A rule for an attribute that the target does not have."""
        shape = self._types.shapes(build.source)[name]
        held = {met for each in shape.all_classes() for met in self._types.subtypes(each)}
        nodes = [node.child(name, met) for met in (*held, *([object] if shape.opaque else []))]
        for rule in dict.fromkeys(each.winner for each in nodes):
            if rule is None or rule.generated or not rule.pattern.qualifiers:
                continue  # of a type, at whatever attribute
            if rule.pattern.last.attribute == name:
                text = (
                    f"{rule} wins at {node.path}.{name}, and what it gives is thrown away: "
                    f"{build.target.__name__} has no attribute {name!r}"
                )
                self.findings.append(Finding("unused-result", text, rule.where))
                self.thrown_away.add(rule)

    # -- values ------------------------------------------------------------------------------------

    def _convert(
        self,
        node: PathNode,
        attribute: str,
        shape: ValueShape,
        wanted: ValueShape,
        lost: list[TypeMismatch],
        *,
        lenient: bool,
    ) -> Recipe:
        """What is done with what an attribute holds; what the target does not take is lost."""
        if shape.opaque:  # what it holds is not looked into, but a rule may name the attribute
            unknown = node.child(attribute, object)
            if unknown.winner is not None:
                return self._case(unknown, shape, wanted)
            if shape_fits(shape, wanted):
                return Duplicate()
            why = f"{hint_text(shape.hint)} is there, and {hint_text(wanted.hint)} is wanted"
            sees_all = not any(True for _ in shape.all_classes())
            lost.append(TypeMismatch(why, function=(shape.hint, wanted.hint) if sees_all else None))
            return Missing()

        def fitting(make: Callable[[], Recipe]) -> Recipe:
            try:
                return make()
            except TypeMismatch as misfit:
                lost.append(misfit)
                return Missing()

        none = fitting(lambda: _none(attribute, wanted)) if shape.none else None
        cases = {
            met: fitting(partial(self._case, node.child(attribute, met), shape, wanted))
            for declared in shape.classes
            for met in self._types.subtypes(declared)
        }
        containers = tuple(
            (
                each.kind,
                fitting(partial(self._each, node, attribute, each, wanted, lost, lenient=lenient)),
            )
            for each in shape.containers
        )
        containers = self._merged(node, attribute, shape, wanted, containers, lost)
        if (
            not containers
            and not isinstance(none, Missing)
            and all(isinstance(recipe, Keep) and is_closed(met) for met, recipe in cases.items())
        ):
            return Keep()
        return Choice(node, attribute, shape, wanted, cases, containers, none, lenient)

    def _each(
        self,
        node: PathNode,
        attribute: str,
        container: Container,
        wanted: ValueShape,
        lost: list[TypeMismatch],
        *,
        lenient: bool,
    ) -> Recipe:
        inside = _wanted_inside(container, wanted)
        if not inside:
            keys = "" if container.keys is None else f" by {hint_text(container.keys.hint)}"
            text = f"{hint_text(wanted.hint)} is wanted, not {container.kind.__name__}{keys}"
            raise TypeMismatch(f"{attribute!r} holds elements, and {text}")
        before = len(self.findings)
        for inner in inside:
            new: list[TypeMismatch] = []
            found = self._convert(node, attribute, container.inner, inner, new, lenient=lenient)
            wrong = [each for each in self.findings[before:] if each.severity == "error"]
            if not (new or wrong) or inner is inside[-1]:
                break
            del self.findings[before:]
        lost += new
        return Each(container.kind, found)

    def _merged(
        self,
        node: PathNode,
        attribute: str,
        shape: ValueShape,
        wanted: ValueShape,
        containers: tuple[tuple[type, Recipe], ...],
        lost: list[TypeMismatch],
    ) -> tuple[tuple[type, Recipe], ...]:
        """Of several containers of one kind nobody knows which is met: elements tell."""
        kinds = [kind for kind, _ in containers]
        several = {kind for kind in kinds if kinds.count(kind) > 1}
        if lost or not several:
            return containers
        made: dict[type, Recipe] = {}
        for kind in several:
            places = [each for each in wanted.containers if holds(kind, each.kind)]
            hints = [Any] if takes_any(kind, wanted) else [each.inner.hint for each in places]
            inner = one_of(hints)
            found = self._convert(node, attribute, shape.all_of(kind), inner, lost, lenient=False)
            made[kind] = Each(kind, found)
        return tuple((kind, made.get(kind, recipe)) for kind, recipe in containers)

    def _case(self, node: PathNode, held: ValueShape, wanted: ValueShape) -> Recipe:
        """What is done with a value of the type that is met at a node."""
        if node.winner is not None:
            return self._applied(node, node.winner, held, wanted)
        for mapping in self._hiding.mappings_for(node.met):
            if class_fits(mapping.target, wanted):
                return self._mapped(node.first or node, mapping)
        if met_fits(node.met, held, wanted):
            return self._same(node)
        generic = any(cls is node.met for cls, _ in held.parameters)
        is_told = node.met is tuple or node.met in held.literal or generic
        there = hint_text(held.hint) if is_told else node.met.__name__
        why = f"{there} is there, and {hint_text(wanted.hint)} is wanted"
        is_class = node.met in held.literal or not is_told  # a rule is for all values of a class
        form = (node.met if is_class else held.hint, wanted.hint)
        is_mappable = not generic and self._may_be_mapped(node.met, wanted)
        raise TypeMismatch(why, function=form, may_be_mapped=is_mappable)

    def _may_be_mapped(self, met: type, wanted: ValueShape) -> bool:
        """Whether a mapping could bring a class to what a target wants."""
        return self._types.has_attributes(met) and any(
            map(self._types.has_attributes, wanted.classes)
        )

    def _applied(self, node: PathNode, rule: Rule, held: ValueShape, wanted: ValueShape) -> Recipe:
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
            self._error("bad-result", text)
        before = _copied(node.met)
        self.applied.add(rule)
        if function.is_identity:
            return before
        return Apply(rule, before, expected(function, wanted, str(node.path)))

    def _shape_of(self, result: Any) -> ValueShape:
        """What functions give is asked at every path where they win."""
        known = self._shapes.get(id(result))
        if known is None or known[0] is not result:
            known = self._shapes[id(result)] = (result, shape_of(result))
        return known[1]

    def _same(self, node: PathNode) -> Recipe:
        """A value that stays of its class: rebuilt if rules may apply in it."""
        if not self._types.has_attributes(node.met) or not self._may_win_inside(node):
            return _copied(node.met)
        try:
            maker_of(node.met)
        except NoMaker:
            return Duplicate()  # nothing is of an abstract class; who extends it is met as such
        build = self._build(node.first or node, node.met, None)
        if build.recursive or build in self._unfilled:
            return build
        if all(isinstance(part, Keep) for part in build.parts.values()):
            return _copied(node.met)
        return build

    def _may_win_inside(self, node: PathNode) -> bool:
        """Whether any rule could apply to what is inside, whatever types are met there."""
        if self._nests:
            return True
        return any(_may_reach(rule, node) for rule in self._resolver.rules)

    @cached_property
    def _nests(self) -> bool:
        """Whether a mapping could apply inside what stays of its class.

        There, whatever is declared must be above both ends of it.
        """
        return any(
            not is_standard(above) and not is_machinery(above)
            for mapping in self._settled.mappings.values()
            if mapping.direction == self._direction
            for above in set(mapping.source.__mro__) & set(mapping.target.__mro__)
        )

    def _error(self, code: str, text: str) -> None:
        self.findings.append(Finding(code, text, self._where))


def _none(attribute: str, wanted: ValueShape) -> Recipe:
    if not (wanted.none or wanted.unknown):
        raise TypeMismatch(f"{attribute!r} may be None, and {hint_text(wanted.hint)} is wanted")
    return Keep()


def _is_missing(recipe: Recipe | None) -> bool:
    """Whether no value gets anywhere, whatever it is; an empty container does."""
    if isinstance(recipe, Choice):
        return all(map(_is_missing, _ways(recipe)))
    return isinstance(recipe, Missing)


def _ways(choice: Choice) -> list[Recipe]:
    containers = [recipe for _, recipe in choice.containers]
    return [*choice.cases.values(), *containers, *([] if choice.none is None else [choice.none])]


def _may_reach(rule: Rule, node: PathNode) -> bool:
    pattern, path = rule.pattern, node.path
    if not pattern.qualifiers:
        return True
    if not is_subtype(path.types[0], pattern.head):
        return False
    steps = zip(pattern.qualifiers[:-1], path.attributes, path.types[1:], strict=False)
    return all(
        (each.attribute is None or each.attribute == attribute)
        and any(is_subtype(met, named) for named in each.types)
        for each, attribute, met in steps
    )


def _wanted_inside(container: Container, wanted: ValueShape) -> list[ValueShape]:
    """What a target may want of the elements of a container."""
    if takes_any(container.kind, wanted):
        return [_ANYTHING]
    return [
        each.inner
        for each in wanted.containers
        if holds(container.kind, each.kind) and keys_fit(container, each)
    ]


def _copied(cls: type) -> Recipe:
    return Keep() if is_unchangeable(cls) else Duplicate()
