"""What is in effect in a context: its own lines over those of its parents (FOS, section 4.2)."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from polycast.contexts.check.assignability import fits, hint_text
from polycast.contexts.check.findings import Finding
from polycast.contexts.declare.annotations import annotated_functions, annotated_mappings
from polycast.contexts.declare.local_types import KnownTypes
from polycast.contexts.declare.patterns import BadPattern, Pattern, parse_pattern
from polycast.contexts.declare.rule_functions import Unusable, function_of
from polycast.contexts.declare.statements import DISABLED, Mapping, Rule, SourceLocation, WholeRule
from polycast.contexts.declare.unit_rules import unit_rules
from polycast.contexts.resolve.derivation import is_subtype, most_derived

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from polycast.contexts.declare.context import Context
    from polycast.contexts.declare.rule_functions import RuleFunction
    from polycast.contexts.declare.statements import Direction, MappingLine, RuleLine

__all__ = ["SettledContext", "forget", "from_above", "settle"]

Entry = TypeVar("Entry", Rule, Mapping, WholeRule)


@dataclass(frozen=True)
class SettledContext:
    """A context with all that it inherits, its names resolved."""

    name: str
    types: KnownTypes
    local: frozenset[type]
    """The types of the context itself, and of its parents but the root."""
    reference: frozenset[type]
    """The types that the root lists."""
    own: frozenset[type]
    """The types that the context lists itself."""
    every_rule: dict[Pattern, Rule]
    """Rules and what disables them."""
    mappings: dict[tuple[type, Direction], Mapping]
    wholes: dict[type, WholeRule]
    is_strict: bool
    """Whether each attribute of a target has to come from the source, here or in a parent."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in effect."""
        return tuple(rule for rule in self.every_rule.values() if rule.function is not None)

    @property
    def is_pure(self) -> bool:
        """Whether all functions in effect give the same tomorrow."""
        functions = [rule.function for rule in self.rules]
        functions += [whole.function for whole in self.wholes.values()]
        return not any(each is not None and each.is_impure for each in functions)

    def is_root_type(self, cls: type) -> bool:
        """Whether the root has a type: it lists it, or no context here does."""
        return cls in self.reference or cls not in self.local

    def mapping_for(self, met: type, direction: Direction) -> Mapping | None:
        """The mapping of a type: its own, or that of the most derived type above it."""
        found = self.mappings_for(met, direction)
        return found[0] if found else None

    def mappings_for(self, met: type, direction: Direction) -> list[Mapping]:
        """All mappings that could be a type's, the strongest first."""
        sources = [source for source, way in self.mappings if way == direction]
        return [self.mappings[source, direction] for source in most_derived(met, sources)]


_kept: weakref.WeakKeyDictionary[Context, SettledContext] = weakref.WeakKeyDictionary()


def settle(context: Context) -> SettledContext:
    """Resolve the names of a context and of all above it."""
    found: dict[Context, SettledContext] = {}
    for each in from_above(context):  # each once, however many are its children
        settled = _kept.get(each)
        if settled is None:
            settled = _settled(each, [found[parent] for parent in each.parents])
            if all(one.is_frozen for one in each.lineage()):
                _kept[each] = settled
        found[each] = settled
    return found[context]


def forget(context: Context) -> None:
    """Resolve a context anew, and those below it: it may change."""
    for each in [each for each in _kept if context in each.lineage()]:
        _kept.pop(each, None)


def from_above(context: Context) -> list[Context]:
    """A context and all above it, parents before their children."""
    found: dict[Context, None] = {}
    waiting = [context]
    while waiting:
        missing = [each for each in waiting[-1].parents if each not in found]
        if missing:
            waiting.append(missing[0])
        else:
            found.setdefault(waiting.pop())
    return list(found)


def _settled(context: Context, parents: list[SettledContext]) -> SettledContext:
    listed = [cls for each in context.lineage() for cls in each.types]
    mappings = [*annotated_mappings(context), *context.mapping_lines]
    ends = [end for line in mappings for end in (line.source, line.target)]
    inherited = [cls for parent in parents for cls in parent.types.types]
    types = KnownTypes([*listed, *ends, *inherited])
    root = context.root
    settled = SettledContext(
        context.name,
        types,
        frozenset(cls for each in context.lineage() if each is not root for cls in each.types),
        frozenset(root.types),
        frozenset(context.types),
        {},
        {},
        {},
        any(each.strict for each in context.lineage()),
        list(dict.fromkeys(each for parent in parents for each in parent.findings)),
    )
    _Settling(context, parents, settled).run(mappings)
    return settled


class _Settling:
    def __init__(
        self, context: Context, parents: list[SettledContext], settled: SettledContext
    ) -> None:
        self._context, self._parents, self._settled = context, parents, settled

    def run(self, mappings: list[MappingLine]) -> None:
        settled = self._settled
        own_rules = self._rules(self._context.rule_lines)
        own_mappings = self._mappings(mappings)
        own_wholes = self._wholes()
        settled.every_rule.update(
            self._inherited([each.every_rule for each in self._parents], own_rules, "rules")
        )
        settled.mappings.update(
            self._inherited([each.mappings for each in self._parents], own_mappings, "mappings")
        )
        settled.wholes.update(
            self._inherited([each.wholes for each in self._parents], own_wholes, "wholes")
        )
        self._check_disabling(own_rules, self._generate())

    # -- inheriting --------------------------------------------------------------------------------

    def _inherited(
        self, parents: list[dict[Any, Entry]], own: dict[Any, Entry], what: str
    ) -> dict[Any, Entry]:
        """One's own lines over the parents', of whom the first decides."""
        found: dict[Any, Entry] = {}
        for entries in parents:
            for key, entry in entries.items():
                known = found.setdefault(key, entry)
                if known != entry and key not in own and not _is_generated(known, entry):
                    text = (
                        f"the parents have different {what} for the same: {known} "
                        f"({known.place}) is taken, not {entry} ({entry.place})"
                    )
                    self._report("parents-differ", text, f"{self._context.name}")
                if _generated(known) and not _generated(entry):
                    found[key] = entry
        return {**found, **own}

    def _check_disabling(self, own: dict[Pattern, Rule], generated: set[Pattern]) -> None:
        for pattern, rule in own.items():
            if rule.function is None and pattern not in generated:
                above = [each.every_rule.get(pattern) for each in self._parents]
                if not any(each is not None and each.function is not None for each in above):
                    text = f"there is no inherited rule {str(pattern)!r} to disable"
                    self._report("nothing-to-disable", text, rule.where)

    def _generate(self) -> set[Pattern]:
        """Rules that annotations stand for: they give way to any that is written.

        Those of the parents are made anew, because they depend on the mappings.
        """
        every = self._settled.every_rule
        for pattern in [pattern for pattern, rule in every.items() if rule.generated]:
            del every[pattern]
        found = list(self._annotated())
        for rule in found:
            every.setdefault(rule.pattern, rule)
        converting = unit_rules(self._settled)  # it asks which rules there are
        for rule in converting:
            every.setdefault(rule.pattern, rule)
        return {rule.pattern for rule in (*found, *converting)}

    def _annotated(self) -> Iterator[Rule]:
        place = SourceLocation(self._context.name)
        for cls, given in annotated_functions(self._settled.types.types):
            pattern = Pattern(cls, (), cls.__name__)
            where = f"{place}, @transform_with of {cls.__name__!r}"
            function = self._function(given, where)
            if function is not None and self._takes(function, pattern, where):
                yield Rule(pattern, function, place, generated=True)

    # -- one's own lines ---------------------------------------------------------------------------

    def _rules(self, lines: Iterable[RuleLine]) -> dict[Pattern, Rule]:
        rules = [rule for line in lines if (rule := self._rule(line)) is not None]
        return self._once(rules, lambda rule: rule.pattern, "rule-twice", "pattern")

    def _mappings(self, lines: Iterable[MappingLine]) -> dict[tuple[type, Direction], Mapping]:
        found = [Mapping(each.source, each.target, each.direction, each.place) for each in lines]
        for each in found:
            self._check_ends(each)
        return self._once(
            found, lambda each: (each.source, each.direction), "mapping-twice", "source"
        )

    def _wholes(self) -> dict[type, WholeRule]:
        found = []
        for line in self._context.whole_lines:
            where = f"{line.place}, whole {line.source.__name__!r}"
            function = self._function(line.function, where)
            if function is not None:
                found.append(WholeRule(line.source, function, line.place))
        return self._once(found, lambda each: each.source, "rule-twice", "type of whole events")

    def _once(
        self, entries: list[Entry], key: Callable[[Entry], Hashable], code: str, what: str
    ) -> dict[Any, Entry]:
        found: dict[Any, Entry] = {}
        for each in entries:
            before = found.pop(key(each), None)
            if before is not None:
                text = f"the same {what} twice: {each} is taken, not {before} ({before.place})"
                self._report(code, text, each.where)
            found[key(each)] = each
        return found

    def _rule(self, line: RuleLine) -> Rule | None:
        where = f"{line.place}, rule {line.pattern!r}"
        try:
            pattern, warnings = parse_pattern(line.pattern, self._settled.types)
        except BadPattern as error:
            self._report(error.code, error.told(), where)
            return None
        for each in warnings:
            self._report(each.code, each.text, where)
        if line.function == DISABLED:
            return Rule(pattern, None, line.place)
        function = self._function(line.function, where)
        if function is None or not self._takes(function, pattern, where):
            return None
        return Rule(pattern, function, line.place)

    def _function(self, given: object, where: str) -> RuleFunction | None:
        try:
            return function_of(given, self._settled.types.types)
        except Unusable as error:
            self._report("bad-function", str(error), where)
            return None

    def _takes(self, function: RuleFunction, pattern: Pattern, where: str) -> bool:
        """Whether the argument is a supertype of the type at the pattern."""
        named = [each for each in pattern.last.types if each is not object]
        wrong = [each for each in named if not fits(each, function.argument)]
        if wrong:
            text = (
                f"{function.name} takes {hint_text(function.argument)}, and at the pattern is "
                f"{' | '.join(each.__name__ for each in wrong)}; it would have to take a "
                f"supertype of that"
            )
            self._report("bad-argument", text, where)
        return not wrong

    def _check_ends(self, mapping: Mapping) -> None:
        """`?` goes from the root to the context, `!` from the context to the root."""
        settled, context = self._settled, self._context
        if context.root is context:
            text = "the root has no mappings: its types are what others map to and from"
            self._report("bad-direction", text, mapping.where)
            return
        incoming = mapping.direction == "?"
        inner, outer = (
            (mapping.target, mapping.source) if incoming else (mapping.source, mapping.target)
        )
        if inner in settled.local and settled.is_root_type(outer):
            return
        text = (
            f"'{mapping.direction}' maps {'root to local' if incoming else 'local to root'}, but "
            f"{self._side(mapping.source)} and {self._side(mapping.target)}"
        )
        if outer in settled.local and settled.is_root_type(inner):
            other = "?" if mapping.direction == "!" else "!"
            text += (
                f"; did you mean {other!r}? The listing in the paper (FOS 4.3) prints '!' for a "
                "mapping from the root to a context"
            )
        else:
            text += f"; the types of a context are those of types=[...], listed in {context.name!r}"
        self._report("bad-direction", text, mapping.where)

    def _side(self, cls: type) -> str:
        local = cls in self._settled.local
        return f"{cls.__name__} is {'a local' if local else 'a root'} type"

    def _report(self, code: str, text: str, where: str) -> None:
        self._settled.findings.append(Finding(code, text, where))


def _generated(entry: Rule | Mapping | WholeRule) -> bool:
    return isinstance(entry, Rule) and entry.generated


def _is_generated(*entries: Rule | Mapping | WholeRule) -> bool:
    return any(map(_generated, entries))


def are_unrelated(one: type, other: type) -> bool:
    """Whether neither of two types is above the other."""
    return not is_subtype(one, other) and not is_subtype(other, one)


def place_of(context: Context) -> SourceLocation:
    """Where lines are that a program declares."""
    return SourceLocation(context.name)
