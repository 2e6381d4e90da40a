"""`polycast context`: what is wrong with a context, and what it makes of events."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.command_line import Parser, add_command, add_family, whole
from polycast.cli.formatting import Line, count
from polycast.cli.operands import bound_of, find_modules_here, module_names, place_of
from polycast.cli.terminal import Terminal, UsageError
from polycast.contexts import Context, Report
from polycast.contexts.resolve.inheritance import settle
from polycast.errors import BadContextError
from polycast.errors.root import did_you_mean
from polycast.registered_names import RegisteredNames, imported
from polycast.routing.context_view import Comparison, ContextComparison, draft_of
from polycast.stores.log_bounds import end_of, start_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.contexts.resolve.attribute_shapes import KnownTypes


_STEP = 20_000  # positions between two looks at the progress
_CONTEXT = "an .xml file, or MODULE:NAME"


def declare(commands: Any, what: str) -> None:
    """Declare the commands."""
    family = add_family(commands, "context", what, "context check shop.us:us")
    what = "check a context; the exit status is 1 if it has errors"
    example = "context check us.xml --root shop.eu:root --modules shop.us"
    command = add_command(family, "check", run_check, what, example)
    _add_context(command)
    what = "show which rule applies at each path of events, and why"
    command = add_command(family, "show", run_show, what, "context show shop.us:us InvoiceLine")
    _add_context(command)
    command.take("type TYPE", "the name of a type, or its full name", nargs="+")
    what = "show which events of a store two contexts show differently"
    example = "context compare events.db us shop.us:new"
    command = add_command(family, "compare", run_compare, what, example)
    command.take_place()
    context = f"{_CONTEXT}, or the name of a context in the store"
    command.take("old OLD", context)
    command.take("new NEW", context)
    _add_above(command)
    command.take_bounds()
    command.take("--samples N", "show N examples of differences (10)", type=whole, default=10)
    command.take("--spark", "search with Spark, on all cores")


def _add_context(command: Parser) -> None:
    command.take("context CONTEXT", f"{_CONTEXT} of a context in Python")
    _add_above(command)


def _add_above(command: Parser) -> None:
    command.take("--root CONTEXT", "the root context, for contexts in files")
    command.take(
        "--parent CONTEXT",
        "a parent of a context in a file, if that is not the root",
        repeated=True,
    )
    command.take("--modules MODULES", "modules in which files find names, separated by commas")


# -- check and show --------------------------------------------------------------------------------


def run_check(given: Namespace, terminal: Terminal) -> int:
    """Say what is wrong, doubtful or worth knowing; 1 if there are errors."""
    context = given_context(given)
    report, strict = context.check(), settle(context).is_strict
    terminal.show({**_data(report), "strict": strict}, _lines(report, strict=strict))
    return 1 if report.errors else 0


def _data(report: Report) -> dict[str, Any]:
    findings = [{"severity": finding.severity, **asdict(finding)} for finding in report.findings]
    return {"context": report.context, "ok": not report.errors, "findings": findings}


def _lines(report: Report, *, strict: bool) -> Iterator[Line]:
    if report.findings:
        yield from str(report).splitlines()
    words = (
        (report.errors, "error"),
        (report.warnings, "warning"),
        (report.observations, "observation"),
    )
    yield f"{'strict ' * strict}context {report.context!r}: " + ", ".join(
        count(len(findings), word) for findings, word in words
    )


def run_show(given: Namespace, terminal: Terminal) -> int:
    """Show what a context makes of events of some types; 1 if it has errors."""
    context = given_context(given)
    types = settle(context).types
    shown = [context.show(type_in(types, name)) for name in given.type]
    lines = [line for view in shown for line in str(view).splitlines()]
    terminal.show({"types": [view.to_data() for view in shown]}, lines)
    return 1 if context.check().errors else 0


# -- compare ---------------------------------------------------------------------------------------


def run_compare(given: Namespace, terminal: Terminal) -> int:
    """Say which events of history one context shows otherwise than another, and how."""
    sides = tuple(draft_of(_side(given, text)) for text in (given.old, given.new))
    with place_of(given).looking() as store:
        low = start_of(store, bound_of("--since", given.since)) or store.oldest()
        high = end_of(store, bound_of("--until", given.until))
        if given.spark:
            comparison = _with_spark(given, low, high)
        else:
            comparing = ContextComparison(
                store, sides, RegisteredNames(_modules(given)).get, given.samples
            )
            for view in comparing.views:
                view.check(store.newest(), "per_batch")
            comparison = comparing.nothing()
            for at in range(low, high, _STEP):
                comparison.extend(comparing.part(at, min(at + _STEP, high)), given.samples)
                terminal.progress("comparing", at - low, high - low)
    terminal.show(msgspec.to_builtins(comparison), str(comparison).splitlines())
    return 0


def _side(given: Namespace, text: str) -> Context | str | None:
    """A context in a file or a module, or the name of one that the store has."""
    if text.endswith(".xml") or ":" in text:
        given.context = text
        return given_context(given)
    return None if text == "root" else text


def _modules(given: Namespace) -> list[str]:
    """The modules whose functions a context of the store may name."""
    named = [text.partition(":")[0] for text in (given.old, given.new) if ":" in text]
    return list(dict.fromkeys((*named, *module_names(given.modules))))


def _with_spark(given: Namespace, low: int, high: int) -> Comparison:
    from polycast.pipeline import compare
    from polycast.pipeline.history_search import some_session

    modules = _modules(given)
    old, new = (_side(given, text) for text in (given.old, given.new))
    url, samples = f"sqlite:///{place_of(given).file('Spark')}", given.samples
    with some_session() as spark:
        return compare(
            spark, url, old, new, since=low, until=high, imports=modules, samples=samples
        )


def given_context(given: Namespace) -> Context:
    """The context that a command line names."""
    find_modules_here()
    modules = module_names(given.modules)
    root = None if given.root is None else _context_at(given.root, None, modules)
    parents = [_context_at(parent, root, modules) for parent in given.parent]
    return _context_at(given.context, parents or root, modules)


def _context_at(text: str, parent: Context | list[Context] | None, modules: list[str]) -> Context:
    """A context in a file, or one that a module has; the latter knows its parents itself."""
    if text.endswith(".xml"):
        return Context.load(text, parent=parent, modules=modules)
    module, colon, name = text.partition(":")
    if not (colon and module and name):
        raise UsageError(f"{text!r} is no context: a file that ends in .xml is one, or MODULE:NAME")
    try:
        there = vars(imported(module))
    except ImportError as error:
        accepted = f"a module that can be imported ({error})"
        raise BadContextError("the module of a context", module, accepted=accepted) from error
    if name not in there:
        what = f"the name of a context in {module}"
        raise BadContextError(what, name, accepted=_contexts_in(there, name))
    value: object = there[name]
    if not isinstance(value, Context):
        raise BadContextError(f"{name!r} in {module}", value, accepted=_contexts_in(there, name))
    return value


def _contexts_in(there: dict[str, Any], name: str) -> str:
    names = sorted(key for key, value in there.items() if isinstance(value, Context))
    if not names:
        return "the name of a pc.Context; the module has none"
    return ", ".join(names) + did_you_mean(name, names)


def type_in(types: KnownTypes, name: str) -> type:
    """The type of a context that a name means."""
    named = types.named(name)
    if len(named) == 1:
        return named[0]
    near = types.alike(name)
    accepted = f"a type of the context{f'; did you mean {near[0]}?' if near else ''}"
    if named:
        accepted = " or ".join(map(types.full_names, named))
    raise BadContextError("TYPE", name, accepted=accepted)
