"""What is wrong or doubtful in a recipe, and what would mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.contexts.check.assignability import hint_text
from polycast.contexts.check.findings import Finding
from polycast.contexts.compile.object_makers import undeclared
from polycast.contexts.resolve.attribute_shapes import KnownTypes, ValueShape, held_besides
from polycast.contexts.resolve.resolution import PathNode, Resolver, is_subtype
from polycast.typesystem import conforms
from polycast.typesystem.class_kinds import is_interface

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from polycast.contexts.compile.translation_ir import Build
    from polycast.contexts.declare.statements import Direction, Mapping, Rule
    from polycast.contexts.resolve.inheritance import SettledContext


class HiddenTypes:
    """Finds the types that one direction of a context does not reach."""

    def __init__(self, settled: SettledContext, resolver: Resolver, direction: Direction) -> None:
        self._settled, self._resolver, self._direction = settled, resolver, direction
        self._types = settled.types
        self._mappings: dict[type, list[Mapping]] = {}
        self._plain: dict[int, bool] = {}  # by shape, which the types keep

    def mappings_for(self, met: type) -> list[Mapping]:
        """The mappings for a type, the most derived first."""
        mappings = self._mappings.get(met)
        if mappings is None:
            mappings = self._mappings[met] = self._settled.mappings_for(met, self._direction)
        return mappings

    def at(self, node: PathNode, name: str, shape: ValueShape) -> Iterator[tuple[str, str, str]]:
        """The code, a note and the text for what is not applied to an attribute's value."""
        is_plain = self._plain.get(id(shape))
        if is_plain is None:
            is_plain = self._plain[id(shape)] = self._is_plain(shape)
        held_out = None if is_plain else self._hidden(node, name, shape)
        if held_out is None:
            return
        hidden, whole = held_out
        hidden |= self._inside([*hidden, *whole])
        lines = {str(line): None for cls in hidden for line in self._lines_for(node, cls)}
        at, held = f"{node.path}.{name}", hint_text(shape.hint)
        if lines:
            note = f"{' and '.join(lines)} not applied inside {held}"
            text = f"{at} is {held}, which is not looked into: {', '.join(lines)} not applied there"
            yield "not-looked-into", note, text
        elif shape.holds_unknown() or any(map(self._holds_unknown, (*hidden, *whole))):
            floating = [str(rule) for rule in self._resolver.rules if _is_floating(rule)]
            if floating:
                note = f"nobody knows what it holds, and no rule is applied inside {held}"
                text = f"{at} is {held}: if it holds what {floating[0]} is for, that stays as it is"
                yield "unknown-inside", note, text

    def _is_plain(self, shape: ValueShape) -> bool:
        """Whether it has only classes, which hide nothing."""
        inside = (*shape.containers, *shape.places, *shape.parameters)
        if inside or shape.holds_unknown() or shape.opaque or any(map(is_interface, shape.classes)):
            return False
        met = (subtype for cls in shape.classes for subtype in self._types.subtypes(cls))
        return all(held_besides(cls) is None for cls in met)

    def _hidden(
        self, node: PathNode, name: str, shape: ValueShape
    ) -> tuple[dict[type, None], list[type]] | None:
        """The types that are held out of reach, and those that are copied as a whole.

        None if a rule sees all of the value.
        """
        if shape.holds_opaque() and node.child(name, object).winner is not None:
            return None
        if shape.opaque:
            hidden = dict.fromkeys(shape.any_classes())
            whole = [cls for cls in hidden if held_besides(cls) is not None]
        else:
            held = set(shape.all_classes())
            ruled = {cls for cls in held if node.child(name, cls).winner is not None}
            hidden = dict.fromkeys(shape.hidden_classes(but=ruled))
            hidden |= dict.fromkeys(self._in_disguise(held - ruled))
            if not hidden and held and held == ruled:
                return None
            whole = list(self._kept_whole(shape, ruled))
        return hidden | dict.fromkeys(self._in_disguise(hidden)), whole

    def _kept_whole(self, shape: ValueShape, ruled: set[type]) -> Iterator[type]:
        """The types whose objects are copied with everything that they do not declare."""
        generic = {cls for cls, _ in shape.parameters}  # their arguments are hidden already
        for declared in shape.classes:
            for cls in self._types.subtypes(declared):
                if cls not in ruled and cls not in generic and held_besides(cls) is not None:
                    yield cls
        for container in shape.containers:
            yield from self._kept_whole(container.inner, ruled)

    def _inside(self, classes: Iterable[type]) -> dict[type, None]:
        """All types that may be met inside objects of some types."""
        inside: dict[type, None] = {}
        waiting = list(classes)
        for cls in waiting:
            besides = held_besides(cls)
            shapes = [*self._types.shapes(cls).values(), *([] if besides is None else [besides])]
            declared = {held for shape in shapes for held in shape.any_classes()}
            new = {met: None for held in declared for met in self._types.subtypes(held)}
            waiting += [met for met in new if met not in inside]
            inside |= new
        return inside | dict.fromkeys(self._in_disguise(inside))

    def _in_disguise(self, classes: Iterable[type]) -> Iterator[type]:
        """The types that conform to one of the interfaces without naming it as a supertype."""
        for interface in filter(is_interface, list(classes)):
            for cls in self._types.types:
                if not is_subtype(cls, interface) and conforms(cls, interface):
                    yield cls

    def _holds_unknown(self, cls: type) -> bool:
        besides = held_besides(cls)
        if besides is not None and besides.holds_unknown():
            return True
        return any(shape.holds_unknown() for shape in self._types.shapes(cls).values())

    def _lines_for(self, node: PathNode, cls: type) -> Iterator[Rule | Mapping]:
        """The rules and mappings for a type, wherever it is met in an event."""
        head = node.path.types[0]
        for rule in self._resolver.rules:
            named = rule.pattern.last.types if rule.pattern.qualifiers else (rule.pattern.head,)
            fits_event = not rule.pattern.qualifiers or is_subtype(head, rule.pattern.head)
            if _is_floating(rule) and fits_event and any(is_subtype(cls, one) for one in named):
                yield rule
        for mapping in self.mappings_for(cls):
            if mapping.target is not cls:
                yield mapping


def _is_floating(rule: Rule) -> bool:
    """Whether a rule is for a type, at whatever attribute."""
    if rule.generated or rule.function is None or rule.function.is_identity:
        return False
    return not rule.pattern.qualifiers or rule.pattern.last.attribute is None


# -- what would mend it ----------------------------------------------------------------------------


class TypeMismatch(Exception):
    """The target does not accept a value."""

    def __init__(
        self, why: str, *, function: tuple[Any, Any] | None = None, may_be_mapped: bool = False
    ) -> None:
        super().__init__(why)
        self.function = function
        """The argument and result of a rule that would help; None if no rule can."""
        self.may_be_mapped = may_be_mapped
        """Whether a mapping for the type of the value would help."""


def why_of(lost: Sequence[TypeMismatch]) -> str:
    """Why a target does not accept the values, each reason once."""
    return "; ".join(dict.fromkeys(map(str, _general(lost))))


def _general(lost: Sequence[TypeMismatch]) -> list[TypeMismatch]:
    """Without those of subtypes, which are mended with their supertype."""
    return [mismatch for mismatch in lost if not any(_covers(other, mismatch) for other in lost)]


def _covers(general: TypeMismatch, special: TypeMismatch) -> bool:
    if general.function is None or special.function is None:
        return False
    (above, wanted), (below, also_wanted) = general.function, special.function
    are_classes = isinstance(above, type) and isinstance(below, type)
    return are_classes and above is not below and above in below.__mro__ and wanted == also_wanted


def alternatives(ways: Sequence[str]) -> str:
    """`a, b, or c`."""
    *others, last = ways
    return f"{', '.join(others)}, or {last}" if others else last


def mended_by(
    node: PathNode, name: str, lost: Sequence[TypeMismatch], types: KnownTypes
) -> list[str]:
    """What would bring everything that an attribute holds to the target."""
    ways = []
    lost = _general(lost)
    functions = [mismatch.function for mismatch in lost]
    if all(functions):
        forms = dict.fromkeys(functions)
        pattern = pattern_text(node, name, types)
        rules = _rules(pattern, forms, types.shapes(node.met)[name])
        ways += [" and ".join(rules)] if rules else []
    if all(mismatch.may_be_mapped for mismatch in lost):
        ways.append("a mapping for what it holds")
    return ways


def _rules(pattern: str, forms: Iterable[tuple[Any, Any] | None], held: ValueShape) -> list[str]:
    """One rule for everything held; if only some of its classes do not fit, one for each."""
    given = [form for form in forms if form is not None]
    classes = set(held.all_classes())
    if classes.issuperset(one for one, _ in given) and len(classes) > 1:
        return [
            f"a rule for {pattern}({one.__name__}) with f(x: {one.__name__}) -> {hint_text(other)}"
            for one, other in given
        ]
    if len(given) > 1:
        return []  # one function would have to convert all of them
    ((one, other),) = given
    return [f"a rule for {pattern} with f(x: {hint_text(one)}) -> {hint_text(other)}"]


def whole_text(mapping: Mapping | None) -> list[str]:
    """The statement of a function for the whole target, if there is a mapping."""
    if mapping is None:
        return []
    source, target = mapping.source.__name__, mapping.target.__name__
    return [f"context.whole({source}, f) with f(x: {source}) -> {target}"]


def pattern_text(node: PathNode, name: str, types: KnownTypes) -> str:
    """The pattern for an attribute, narrowed where only a subtype has the next one."""
    path = node.path
    text, owner = path.types[0].__name__, path.types[0]
    for attribute, met in zip(path.attributes, path.types[1:], strict=True):
        declared = set(types.shapes(owner)[attribute].all_classes())
        text += f".{attribute}" if met in declared else f".{attribute}({met.__name__})"
        owner = met
    return f"{text}.{name}"


class RecipeFindings:
    """The findings about the recipes of one direction of a context."""

    def __init__(self, settled: SettledContext, resolver: Resolver, direction: Direction) -> None:
        self._types = settled.types
        self.hidden_types = HiddenTypes(settled, resolver, direction)
        self.default_code = "defaulted" if settled.is_strict else "does-not-fit"
        """The code for an attribute that takes its default although the source has a value."""
        self._is_strict = settled.is_strict
        self.where = ""
        """The mapping whose recipe is being built."""
        self.findings: list[Finding] = []
        self.thrown_away: set[Rule] = set()
        """The rules for an attribute that no target has: there is a finding for each."""

    def add(self, code: str, text: str) -> None:
        """Add a finding about the mapping whose recipe is being built."""
        self.findings.append(Finding(code, text, self.where))

    def hidden(self, node: PathNode, build: Build, name: str, shape: ValueShape) -> None:
        """Report the rules and mappings that do not reach what an attribute holds."""
        for code, note, text in self.hidden_types.at(node, name, shape):
            build.hidden[name] = note
            self.add(code, text)

    def no_source(self, node: PathNode, build: Build, name: str, *, is_optional: bool) -> None:
        """Report an attribute of the target that the source does not have."""
        source, target = build.source.__name__, build.target.__name__
        why = f"{source} has no attribute {name!r}"
        is_there = name in undeclared(build.source)
        if is_there:
            why = f"{source} declares no attribute {name!r}, though its constructor takes it"
        if not is_optional:
            mends = f"{alternatives([*whole_text(build.mapping), 'a default'])} would"
            text = f"nothing produces {target}.{name} from {node.path}: {why}; {mends}"
            self.add("nothing-produces", text)
        elif self._is_strict or is_there:
            self.add(self.default_code, f"{target}.{name} takes its default, because {why}")

    def mismatch(
        self,
        node: PathNode,
        build: Build,
        name: str,
        mismatches: list[TypeMismatch],
        *,
        is_optional: bool,
    ) -> None:
        """Report an attribute of which the target does not accept all that the source holds."""
        ways = mended_by(node, name, mismatches, self._types) or whole_text(build.mapping)
        ways += [] if is_optional else ["a default"]
        target, why = f"{build.target.__name__}.{name}", why_of(mismatches)
        mends = f"; {alternatives(ways)} would" if ways else ""
        if not is_optional:
            code, text = "nothing-produces", f"nothing produces {target} from {node.path}: {why}"
        else:
            code = self.default_code
            when = "takes" if name not in build.parts else "may take"
            text = f"{target} {when} its default instead of {node.path}.{name}: {why}"
        self.add(code, text + mends)

    def dropped(self, node: PathNode, build: Build) -> None:
        """Report the attributes of the source that the target does not have."""
        if build.target is build.source:
            return
        kept = self._types.shapes(build.target)
        dropped = [name for name in self._types.shapes(build.source) if name not in kept]
        names = [*dropped, *sorted(undeclared(build.source) - kept.keys())]
        if names:
            pronoun = "it is" if len(names) == 1 else "they are"
            text = f"{build.target.__name__} has no {', '.join(names)}, so {pronoun} dropped"
            self.add("dropped", f"at {node.path}: {text}")
        for name in dropped:
            self._unused_result(node, build, name)

    def _unused_result(self, node: PathNode, build: Build, name: str) -> None:
        """Report a rule for an attribute that the target does not have."""
        shape = self._types.shapes(build.source)[name]
        held = {met for cls in shape.all_classes() for met in self._types.subtypes(cls)}
        nodes = [node.child(name, met) for met in (*held, *([object] if shape.opaque else []))]
        for rule in dict.fromkeys(child.winner for child in nodes):
            if rule is None or rule.generated or not rule.pattern.qualifiers:
                continue  # a rule for a type applies at other attributes, too
            if rule.pattern.last.attribute == name:
                text = (
                    f"{rule} wins at {node.path}.{name}, and what it gives is thrown away: "
                    f"{build.target.__name__} has no attribute {name!r}"
                )
                self.findings.append(Finding("unused-result", text, rule.where))
                self.thrown_away.add(rule)
