"""What is wrong or doubtful in a recipe, said while it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.contexts.check.findings import Finding
from polycast.contexts.check.hidden_types import HiddenTypes
from polycast.contexts.check.mismatches import alternatives, mended_by, whole_text, why_of
from polycast.contexts.resolve.contents import undeclared

if TYPE_CHECKING:
    from polycast.contexts.check.mismatches import TypeMismatch
    from polycast.contexts.compile.translation_ir import Build
    from polycast.contexts.declare.statements import Direction, Rule
    from polycast.contexts.resolve.attribute_shapes import ValueShape
    from polycast.contexts.resolve.inheritance import SettledContext
    from polycast.contexts.resolve.resolution import PathNode, Resolver


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
