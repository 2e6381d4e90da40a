"""What is in effect in a context: its own statements over its parents' (FOS, section 4.2)."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from polycast.contexts.check.assignability import fits, hint_text
from polycast.contexts.check.findings import Finding
from polycast.contexts.declare.patterns import BadPattern, Pattern, parse_pattern
from polycast.contexts.declare.rule_functions import RuleFunction, Unusable, function_of
from polycast.contexts.declare.statements import (
    DISABLED,
    Mapping,
    Rule,
    SourceLocation,
    WholeRule,
    annotated_functions,
    annotated_mappings,
)
from polycast.contexts.declare.units import unit_rules
from polycast.contexts.resolve.attribute_shapes import KnownTypes
from polycast.contexts.resolve.resolution import is_subtype, most_derived

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from polycast.contexts.declare.context import Context
    from polycast.contexts.declare.statements import Direction, RuleLine

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
    every_rule: dict[Pattern, Rule]
    """All rules, those that disable others included."""
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
        """Whether no function in effect is marked as impure."""
        functions = [rule.function for rule in self.rules]
        functions += [whole.function for whole in self.wholes.values()]
        return not any(function is not None and function.is_impure for function in functions)

    def is_root_type(self, cls: type) -> bool:
        """Whether a type is one of the root: the root lists it, or no context does."""
        return cls in self.reference or cls not in self.local

    def mapping_for(self, met: type, direction: Direction) -> Mapping | None:
        """The mapping of a type: its own, or that of the most derived type above it."""
        return next(iter(self.mappings_for(met, direction)), None)

    def mappings_for(self, met: type, direction: Direction) -> list[Mapping]:
        """All mappings of a type and of the types above it, the strongest first."""
        sources = [source for source, way in self.mappings if way == direction]
        return [self.mappings[source, direction] for source in most_derived(met, sources)]


_kept: weakref.WeakKeyDictionary[Context, SettledContext] = weakref.WeakKeyDictionary()


def settle(context: Context) -> SettledContext:
    """Resolve the names of a context and of all above it."""
    settled: dict[Context, SettledContext] = {}
    for ancestor in from_above(context):  # each is settled once, however many children it has
        known = _kept.get(ancestor)
        if known is None:
            known = _settled(ancestor, [settled[parent] for parent in ancestor.parents])
            if all(above.is_frozen for above in ancestor.lineage()):
                _kept[ancestor] = known
        settled[ancestor] = known
    return settled[context]


def forget(context: Context) -> None:
    """Forget a context that may change again, and those below it."""
    for kept in [kept for kept in _kept if context in kept.lineage()]:
        _kept.pop(kept, None)


def from_above(context: Context) -> list[Context]:
    """A context and all above it, parents before their children."""
    ordered: dict[Context, None] = {}
    waiting = [context]
    while waiting:
        missing = [parent for parent in waiting[-1].parents if parent not in ordered]
        if missing:
            waiting.append(missing[0])
        else:
            ordered.setdefault(waiting.pop())
    return list(ordered)


def _settled(context: Context, parents: list[SettledContext]) -> SettledContext:
    lineage, root = context.lineage(), context.root
    mappings = [*annotated_mappings(context), *context.mapping_lines]
    listed = [cls for ancestor in lineage for cls in ancestor.types]
    ends = [end for mapping in mappings for end in mapping.ends]
    inherited = [cls for parent in parents for cls in parent.types.types]
    settled = SettledContext(
        context.name,
        KnownTypes([*listed, *ends, *inherited]),
        frozenset(cls for ancestor in lineage if ancestor is not root for cls in ancestor.types),
        frozenset(root.types),
        {},
        {},
        {},
        any(ancestor.strict for ancestor in lineage),
        list(dict.fromkeys(finding for parent in parents for finding in parent.findings)),
    )
    _Inheritance(context, parents, settled).run(mappings)
    return settled


class _Inheritance:
    """Fills in a settled context: its own statements, its parents' and generated ones."""

    def __init__(
        self, context: Context, parents: list[SettledContext], settled: SettledContext
    ) -> None:
        self._context, self._parents, self._settled = context, parents, settled

    def run(self, mappings: list[Mapping]) -> None:
        settled, parents = self._settled, self._parents
        own_rules = self._rules(self._context.rule_lines)
        own_mappings = self._mappings(mappings)
        own_wholes = self._wholes()
        rules = [parent.every_rule for parent in parents]
        settled.every_rule.update(self._inherited(rules, own_rules, "rules"))
        inherited_mappings = [parent.mappings for parent in parents]
        settled.mappings.update(self._inherited(inherited_mappings, own_mappings, "mappings"))
        wholes = [parent.wholes for parent in parents]
        settled.wholes.update(self._inherited(wholes, own_wholes, "wholes"))
        self._check_disabling(own_rules, self._generate())

    # -- inheriting --------------------------------------------------------------------------------

    def _inherited(
        self, parents: list[dict[Any, Entry]], own: dict[Any, Entry], what: str
    ) -> dict[Any, Entry]:
        """A context's own entries over those of its parents, of whom the first decides."""
        inherited: dict[Any, Entry] = {}
        for entries in parents:
            for key, entry in entries.items():
                known = inherited.setdefault(key, entry)
                is_written = not _is_generated(known) and not _is_generated(entry)
                if known != entry and key not in own and is_written:
                    text = (
                        f"the parents have different {what} for the same: {known} "
                        f"({known.place}) is taken, not {entry} ({entry.place})"
                    )
                    self._report("parents-differ", text, self._context.name)
                if _is_generated(known) and not _is_generated(entry):
                    inherited[key] = entry
        return {**inherited, **own}

    def _check_disabling(self, own: dict[Pattern, Rule], generated: set[Pattern]) -> None:
        for pattern, rule in own.items():
            if rule.function is not None or pattern in generated:
                continue
            if not any(_has_rule(parent, pattern) for parent in self._parents):
                text = f"there is no inherited rule {str(pattern)!r} to disable"
                self._report("nothing-to-disable", text, rule.where)

    def _generate(self) -> set[Pattern]:
        """Add the rules that annotations and units stand for; written rules go before them.

        Those of the parents are replaced, because they depend on the mappings.
        """
        every = self._settled.every_rule
        for pattern in [pattern for pattern, rule in every.items() if rule.generated]:
            del every[pattern]
        annotated = list(self._annotated())
        for rule in annotated:
            every.setdefault(rule.pattern, rule)
        converting = unit_rules(self._settled)  # it asks which rules there are
        for rule in converting:
            every.setdefault(rule.pattern, rule)
        return {rule.pattern for rule in (*annotated, *converting)}

    def _annotated(self) -> Iterator[Rule]:
        place = SourceLocation(self._context.name)
        for cls, given in annotated_functions(self._settled.types.types):
            pattern = Pattern(cls, (), cls.__name__)
            where = f"{place}, @transform_with of {cls.__name__!r}"
            function = self._function(given, where)
            if function is not None and self._takes(function, pattern, where):
                yield Rule(pattern, function, place, generated=True)

    # -- its own statements ------------------------------------------------------------------------

    def _rules(self, lines: Iterable[RuleLine]) -> dict[Pattern, Rule]:
        rules = [rule for line in lines if (rule := self._rule(line)) is not None]
        return self._once(rules, lambda rule: rule.pattern, "rule-twice", "pattern")

    def _mappings(self, mappings: list[Mapping]) -> dict[tuple[type, Direction], Mapping]:
        for mapping in mappings:
            self._check_ends(mapping)
        return self._once(
            mappings, lambda mapping: (mapping.source, mapping.direction), "mapping-twice", "source"
        )

    def _wholes(self) -> dict[type, WholeRule]:
        wholes = []
        for line in self._context.whole_lines:
            where = f"{line.place}, whole {line.source.__name__!r}"
            function = self._function(line.function, where)
            if function is not None:
                wholes.append(WholeRule(line.source, function, line.place))
        return self._once(wholes, lambda whole: whole.source, "rule-twice", "type of whole events")

    def _once(
        self, entries: list[Entry], key: Callable[[Entry], Hashable], code: str, what: str
    ) -> dict[Any, Entry]:
        """The entries by their key; the last one wins, and the others are reported."""
        by_key: dict[Any, Entry] = {}
        for entry in entries:
            before = by_key.pop(key(entry), None)
            if before is not None:
                text = f"the same {what} twice: {entry} is taken, not {before} ({before.place})"
                self._report(code, text, entry.where)
            by_key[key(entry)] = entry
        return by_key

    def _rule(self, line: RuleLine) -> Rule | None:
        where = f"{line.place}, rule {line.pattern!r}"
        try:
            pattern, warnings = parse_pattern(line.pattern, self._settled.types)
        except BadPattern as error:
            self._report(error.code, str(error), where)
            return None
        for warning in warnings:
            self._report(warning.code, warning.text, where)
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
        named = [cls for cls in pattern.last.types if cls is not object]
        wrong = [cls for cls in named if not fits(cls, function.argument)]
        if wrong:
            text = (
                f"{function.name} takes {hint_text(function.argument)}, and at the pattern is "
                f"{' | '.join(cls.__name__ for cls in wrong)}; it would have to take a "
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
        inner, outer = mapping.ends[::-1] if incoming else mapping.ends
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


def _is_generated(entry: Rule | Mapping | WholeRule) -> bool:
    return isinstance(entry, Rule) and entry.generated


def _has_rule(settled: SettledContext, pattern: Pattern) -> bool:
    rule = settled.every_rule.get(pattern)
    return rule is not None and rule.function is not None


def are_unrelated(one: type, other: type) -> bool:
    """Whether neither of two types is above the other."""
    return not is_subtype(one, other) and not is_subtype(other, one)
