"""Lists how events of a type come in and go out, path by path: what applies, and why."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from polycast.contexts.check.assignability import hint_text
from polycast.contexts.check.checker import check
from polycast.contexts.check.findings import Finding, Severity
from polycast.contexts.compile import translation_ir as ir
from polycast.contexts.compile.builder import Builder
from polycast.contexts.compile.object_makers import NoMaker, maker_of
from polycast.contexts.declare.statements import DIRECTIONS, Direction, Rule
from polycast.contexts.resolve.inheritance import SettledContext, settle
from polycast.contexts.resolve.resolution import PathNode, Resolver, TooManyPaths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.contexts.declare.context import Context
    from polycast.contexts.resolve.attribute_shapes import ValueShape

Kind = Literal["event", "rule", "mapped", "copied", "default", "dropped", "shadowed", "missing"]
_STYLES: dict[str, str] = {
    "event": "bold",
    "rule": "green",
    "mapped": "cyan",
    "copied": "",
    "default": "blue",
    "dropped": "yellow",
    "shadowed": "dim",
    "missing": "bold red",
    "error": "bold red",
    "warning": "yellow",
    "observation": "dim",
}


@dataclass(frozen=True)
class Branch:
    """A path: what is there, and how it is translated."""

    name: str
    kind: Kind
    what: str
    inside: tuple[Branch, ...] = ()


@dataclass(frozen=True)
class Listing:
    """A type as a context sees it; to be printed, or shown by rich."""

    context: str
    type: str
    branches: tuple[Branch, ...]
    findings: tuple[Finding, ...]
    strict: bool = False

    @property
    def title(self) -> str:
        """Which type, and in which context."""
        return f"{self.type} in context {self.context!r}{', which is strict' * self.strict}"

    def to_data(self) -> dict[str, Any]:
        """The listing as plain data."""
        findings = [{**asdict(finding), "severity": finding.severity} for finding in self.findings]
        return {**asdict(self), "findings": findings}

    def __str__(self) -> str:
        rows = [row for branch in self.branches for row in _rows(branch)]
        width = max((len(left) for left, _ in rows), default=0)
        lines = [self.title]
        lines += [f"{left.ljust(width)}  {branch.what}".rstrip() for left, branch in rows]
        return "\n".join([*lines, *(f"{finding.severity}: {finding}" for finding in self.findings)])

    def __rich__(self) -> Any:
        from rich.text import Text
        from rich.tree import Tree

        top = Tree(Text(self.title, "bold"))
        width = max((len(left) for branch in self.branches for left, _ in _rows(branch)), default=0)
        for branch in self.branches:
            self._hang(top, branch, width)
        for finding in self.findings:
            top.add(Text(f"{finding.severity}: {finding}", _STYLES[finding.severity]))
        return top

    def _hang(self, tree: Any, branch: Branch, width: int) -> None:
        from rich.text import Text

        is_dim = branch.kind in ("shadowed", "dropped")
        text = Text(branch.name.ljust(width), "dim" if is_dim else "")
        text.append(f"  {branch.what}", _STYLES[branch.kind])
        added = tree.add(text)
        for inner in branch.inside:
            self._hang(added, inner, max(width - 4, 0))


def _rows(branch: Branch, before: str = "", lead: str = "") -> Iterator[tuple[str, Branch]]:
    yield f"{before}{branch.name}", branch
    for place, inner in enumerate(branch.inside):
        is_last = place == len(branch.inside) - 1
        mark, further = ("└── ", "    ") if is_last else ("├── ", "│   ")
        yield from _rows(inner, lead + mark, lead + further)


def show(context: Context, cls: type) -> Listing:
    """List how a context translates events of a type."""
    settled = settle(context)
    branches = [
        branch for way in DIRECTIONS if (branch := _direction(settled, cls, way)) is not None
    ]
    if not branches:
        if settled.is_root_type(cls):
            what = "no mapping: it comes in and goes out unchanged"
        else:
            what = "no mapping: it is a type of this context, and cannot leave it"
        branches.append(Branch(cls.__name__, "event", what))
    word = re.compile(rf"\b{re.escape(cls.__name__)}\b")
    findings = [
        finding
        for finding in check(context).findings
        if finding.severity != "observation" or word.search(f"{finding.text} {finding.where}")
    ]
    findings.sort(key=lambda finding: get_args(Severity).index(finding.severity))
    return Listing(context.name, cls.__name__, tuple(branches), tuple(findings), settled.is_strict)


def _direction(settled: SettledContext, cls: type, direction: Direction) -> Branch | None:
    mapping = settled.mapping_for(cls, direction)
    if mapping is None:
        return None
    resolver = Resolver(settled.rules, settled.types)
    try:
        recipe = Builder(settled, resolver, direction).event(cls, mapping)
        lister = _RecipeLister(settled, direction)
        inside = tuple(lister.event(resolver.root(cls), recipe))
    except TooManyPaths as error:
        return Branch(cls.__name__, "missing", str(error))
    way = "incoming" if direction == "?" else "outgoing"
    return Branch(f"{way}: {mapping}", "event", f"declared in {mapping.place}", inside)


class _RecipeLister:
    def __init__(self, settled: SettledContext, direction: Direction) -> None:
        self._settled, self._types, self._direction = settled, settled.types, direction
        self._open: set[int] = set()
        self._shown: set[int] = set()

    def event(self, node: PathNode, recipe: ir.Recipe) -> Iterator[Branch]:
        """The branches of an event."""
        if isinstance(recipe, ir.Whole):
            what = f"{_whole_text(recipe)}: no rule or unit applies"
            yield Branch("(the whole)", "rule", what)
        elif isinstance(recipe, ir.Build):
            yield from self.attributes(node, recipe)

    def attributes(self, node: PathNode, build: ir.Build) -> Iterator[Branch]:
        """The branches of an object's attributes."""
        self._open.add(id(build))
        given, wanted = self._types.shapes(build.source), self._types.shapes(build.target)
        for name in wanted:
            if name in build.parts:
                hidden = build.hidden.get(name)
                for branch in self._attribute(node, name, given[name], build.parts[name]):
                    is_kept = hidden is not None and branch.kind in ("copied", "mapped")
                    yield replace(branch, what=f"{branch.what}; {hidden}") if is_kept else branch
            else:
                yield self._unfilled(build, name)
        for name in given:
            if name not in wanted:
                what = f"dropped: {build.target.__name__} has no such attribute"
                yield Branch(name, "dropped", what)
        self._open.discard(id(build))

    def _unfilled(self, build: ir.Build, name: str) -> Branch:
        target, lost = build.target, build.lost.get(name)
        try:
            maker = maker_of(target)
        except NoMaker as error:
            return Branch(name, "missing", str(error))
        if name in maker.own:
            return Branch(name, "default", f"set by {target.__name__} itself")
        if name in maker.optional:
            why = "" if lost is None else f", because {lost}"
            return Branch(name, "default", f"the default of {target.__name__}{why}")
        return Branch(name, "missing", "nothing produces it")

    def _attribute(
        self, node: PathNode, name: str, shape: ValueShape, recipe: ir.Recipe
    ) -> Iterator[Branch]:
        if shape.opaque:
            label, unknown = f"{name}: {hint_text(shape.hint)}", node.child(name, object)
            rule = unknown.winner
            what = "copied" if rule is None else _rule_text(unknown, rule)
            yield Branch(label, "copied" if rule is None else "rule", what)
            return
        seen: set[tuple[str, type]] = set()
        for label, met, part in self._cases(name, shape, recipe):
            if (label, met) not in seen:
                seen.add((label, met))
                yield self._value(node.child(name, met), f"{label}: {met.__name__}", part)
        if not seen and shape.holds_unknown():
            yield Branch(f"{name}: {hint_text(shape.hint)}", "copied", "copied")

    def _cases(
        self, label: str, shape: ValueShape, recipe: ir.Recipe
    ) -> Iterator[tuple[str, type, ir.Recipe]]:
        """The types that may be met at an attribute, in containers too, with their recipes."""
        match recipe:
            case ir.Otherwise():
                yield from self._cases(label, shape, recipe.inner)
            case ir.Choice():
                for met, part in recipe.cases.items():
                    yield label, met, part
                for container, (_, part) in zip(shape.containers, recipe.containers, strict=True):
                    inner = part.inner if isinstance(part, ir.Each) else part
                    is_merged = sum(other is part for _, other in recipe.containers) > 1
                    held = shape.all_of(container.kind) if is_merged else container.inner
                    yield from self._cases(f"{label}[]", held, inner)
                if isinstance(recipe.none, ir.Missing):
                    yield label, type(None), recipe.none
            case _:
                for declared in shape.classes:
                    for met in self._types.subtypes(declared):
                        yield label, met, recipe
                for container in shape.containers:
                    yield from self._cases(f"{label}[]", container.inner, recipe)

    def _value(self, node: PathNode, label: str, recipe: ir.Recipe) -> Branch:
        if node.winner is not None:
            what = _rule_text(node, node.winner)
            return Branch(label, "rule", what, tuple(_shadowed(node, set())))
        if isinstance(recipe, ir.Whole):
            return Branch(label, "rule", f"as {recipe.mapping}, {_whole_text(recipe)}")
        if isinstance(recipe, ir.Build):
            return self._rebuilt(node, label, recipe)
        if isinstance(recipe, ir.Missing):
            return Branch(label, "default", "the default, because the target does not take it")
        return Branch(label, "copied", "copied")

    def _rebuilt(self, node: PathNode, label: str, build: ir.Build) -> Branch:
        mappings = self._settled.mappings_for(node.met, self._direction)
        fitting = [mapping for mapping in mappings if mapping.target is build.target]
        if fitting:
            what = f"rebuilt by {fitting[0]}"
        else:
            what = f"rebuilt as {build.target.__name__}, because rules may apply in it"
        if id(build) in self._open:
            return Branch(label, "mapped", f"{what}, as further out")
        if node.scope is not None:  # it is met in very many places
            if id(build) in self._shown:
                return Branch(label, "mapped", f"{what}, as above")
            self._shown.add(id(build))
        return Branch(label, "mapped", what, tuple(self.attributes(node.first or node, build)))


def _whole_text(recipe: ir.Whole) -> str:
    return f"made by {recipe.function.name}"


def _rule_text(node: PathNode, rule: Rule) -> str:
    why = "" if node.runner_up is None else f"  ({node.reason} over {node.runner_up.pattern})"
    generated = "  (generated)" if rule.generated else ""
    return f"{rule}{generated}{why}"


def _shadowed(node: PathNode, seen: set[PathNode]) -> Iterator[Branch]:
    """The rules that would win further in, if the descent did not end here."""
    for attribute, child in node.all_children():
        inside: tuple[Branch, ...] = ()
        if child not in seen:
            if child.scope is not None:
                seen.add(child)
            inside = tuple(_shadowed(child, seen))
        if child.winner is not None or inside:
            label = f"{attribute}: {child.met.__name__}"
            what = "" if child.winner is None else f"shadowed: {_rule_text(child, child.winner)}"
            yield Branch(label, "shadowed", what, inside)
