"""What is wrong, doubtful or worth knowing in a context, before any event flows (FOS, 5.3)."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from polycast.contexts.check.findings import Finding, Report
from polycast.contexts.compile.builder import Builder
from polycast.contexts.declare.statements import DIRECTIONS, Direction, Rule
from polycast.contexts.resolve.inheritance import SettledContext, are_unrelated, settle
from polycast.contexts.resolve.resolution import ResolvedRule, Resolver, TooManyPaths
from polycast.typesystem.class_kinds import kind_of
from polycast.typesystem.standard_types import is_standard
from polycast.typesystem.type_expressions import unresolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.contexts.declare.context import Context


def check(context: Context) -> Report:
    """Check a context with all that it inherits."""
    settled = settle(context)
    return Report.of(context.name, [*settled.findings, *_ContextCheck(settled, context).run()])


def event_types(settled: SettledContext, direction: Direction) -> Iterator[type]:
    """The known types whose events can come in, or go out, by a mapping."""
    for cls in settled.types.types:
        fits = settled.is_root_type(cls) if direction == "?" else cls in settled.local
        if fits and _is_concrete(cls) and settled.mapping_for(cls, direction) is not None:
            yield cls


def _is_concrete(cls: type) -> bool:
    if is_standard(cls) or inspect.isabstract(cls):
        return False
    return kind_of(cls) not in ("value", "enum", "flag", "protocol")


class _ContextCheck:
    def __init__(self, settled: SettledContext, context: Context) -> None:
        self._settled, self._context = settled, context
        self._resolver = Resolver(settled.rules, settled.types)
        self._won: dict[Direction, dict[Rule, ResolvedRule]] = {"?": {}, "!": {}}
        self._rows: list[ResolvedRule] = []
        self._passed: list[ResolvedRule] = []  # in events that a function translates as a whole
        self._applied: set[Rule] = set()

    def run(self) -> Iterator[Finding]:
        for direction in DIRECTIONS:
            builder = Builder(self._settled, self._resolver, direction)
            for cls in event_types(self._settled, direction):
                yield from self._event(builder, cls, direction)
            yield from builder.findings
            self._applied |= builder.applied | builder.thrown_away
        yield from self._annotations()
        yield from self._wholes()
        yield from self._about_mappings()
        yield from self._about_rules()

    def _event(self, builder: Builder, cls: type, direction: Direction) -> Iterator[Finding]:
        mappings = self._settled.mappings_for(cls, direction)
        if len(mappings) > 1 and are_unrelated(mappings[0].source, mappings[1].source):
            text = (
                f"{cls.__name__} is a {mappings[0].source.__name__} and a "
                f"{mappings[1].source.__name__}, which are both mapped; {mappings[0]} is taken, "
                "because that supertype is declared first"
            )
            yield Finding("unrelated-mappings", text, mappings[0].where)
        try:
            builder.event(cls, mappings[0])
            rows = self._resolver.rows(cls)
        except TooManyPaths as error:
            yield Finding("too-many-paths", f"{cls.__name__}: {error}", mappings[0].where)
            return
        if mappings[0].source in self._settled.wholes:
            self._passed += rows
            return
        self._rows += rows
        for row in rows:
            if not row.shadowed:
                self._won[direction].setdefault(row.rule, row)

    def _annotations(self) -> Iterator[Finding]:
        """Attributes of this context's types whose annotations cannot be resolved."""
        above = {cls for parent in self._context.parents for cls in settle(parent).types.types}
        for cls in self._settled.types.types:
            if cls in above or not self._settled.types.has_attributes(cls):
                continue
            names = self._settled.types.shapes(cls)
            for name, text in unresolved(cls).items():
                if name in names:
                    reason = (
                        f"{cls.__name__}.{name} is annotated {text!r}, which cannot be resolved "
                        f"from {cls.__module__}: it counts as Any, so no rule for a type ever "
                        "wins there, and nothing inside is looked at"
                    )
                    yield Finding("unresolved-annotation", reason, self._context.name)

    def _wholes(self) -> Iterator[Finding]:
        for source, whole in self._settled.wholes.items():
            if not any((source, way) in self._settled.mappings for way in DIRECTIONS):
                text = f"{source.__name__} has no mapping, so its events stay as they are"
                yield Finding("bad-mapping", text, whole.where)

    def _about_mappings(self) -> Iterator[Finding]:
        settled, context = self._settled, self._context
        if context.root is context:
            return
        for cls in context.root.types:
            if settled.mapping_for(cls, "?") is None and cls not in settled.local:
                text = f"there is no mapping for {cls.__name__}: it comes in unchanged"
                yield Finding("no-mapping", text, context.name)
        for cls in settled.types.types:
            stays = cls in settled.local and not settled.is_root_type(cls)
            if stays and settled.mapping_for(cls, "!") is None:
                text = f"there is no mapping for {cls.__name__}: it cannot leave the context"
                yield Finding("cannot-leave", text, context.name)

    def _about_rules(self) -> Iterator[Finding]:
        wins = {row.rule: row for row in (*self._passed, *self._rows) if _is_reached(row)}
        known = {row.rule for row in (*self._passed, *self._rows)}
        for rule in self._settled.rules:
            if rule in wins and rule not in self._applied and not rule.generated:
                yield from self._about_unused(rule, wins[rule])
            if rule not in known:
                text = f"{rule} never wins at any path of any mapping"
                yield Finding("never-wins", text, rule.where)
            if all(rule in self._won[way] for way in DIRECTIONS):
                inner, outer = self._won["?"][rule], self._won["!"][rule]
                text = f"{rule} wins in both directions, at {inner.path} and at {outer.path}"
                yield Finding("both-directions", text, rule.where)
        for row in self._rows:
            if row.shadowed:
                text = (
                    f"{row.pattern!r} wins at {row.path}, but {row.shadowed_by!r} wins further "
                    "out and ends the descent there"
                )
                yield Finding("shadowed", text, row.rule.where)
            if row.reason == "P4":
                text = (
                    f"at {row.path} {row.pattern!r} wins over {row.runner_up!r} only because "
                    "its supertype is declared first"
                )
                yield Finding("declared-order", text, row.rule.where)

    def _about_unused(self, rule: Rule, row: ResolvedRule) -> Iterator[Finding]:
        mapping = next(m for d in DIRECTIONS if (m := self._settled.mapping_for(row.types[0], d)))
        whole = self._settled.wholes.get(mapping.source)
        why = f"{mapping} has no place for it"
        if whole is not None:
            why = f"{whole.function.name} makes the whole {mapping.target.__name__}"
        text = f"{rule} wins at {row.path}, and is never called: {why}"
        yield Finding("unused-result", text, rule.where)


def _is_reached(row: ResolvedRule) -> bool:
    """Whether events may have a path; what is in an abstract type is met in its subtypes."""
    return not row.shadowed and all(map(_is_concrete, row.types[1:-1]))
