"""`polycast context`: what is wrong with a context, and what it makes of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import add_bounds, add_command, add_family, add_place, whole

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.cli.formatting import Line
    from polycast.cli.terminal import Terminal
    from polycast.contexts import Context, Report
    from polycast.routing.context_view import Comparison

__all__ = ["declare"]

_STEP = 20_000  # positions between two looks at the progress
_CONTEXT = "a file that ends in .xml, or MODULE:NAME"


def declare(commands: Any) -> None:
    """Declare the commands."""
    what = "check a context, or show what it makes of events"
    family = add_family(commands, "context", what, "context check shop.us:us")
    what = "check a context; exit status 1 if it has errors"
    example = "context check us.xml --root shop.eu:root --modules shop.us"
    command = add_command(family, "check", run_check, what, example)
    _add_context(command)
    what = "show which rule applies at each path of events, and why"
    command = add_command(family, "show", run_show, what, "context show shop.us:us InvoiceLine")
    _add_context(command)
    command.add_argument("type", metavar="TYPE", nargs="+", help="by its name, or its full name")
    what = "say which events of a store a context would show otherwise, before it is used"
    example = "context compare events.db us shop.us:new"
    command = add_command(family, "compare", run_compare, what, example)
    add_place(command)
    context = f"{_CONTEXT}, or the name of one that the store has"
    command.add_argument("old", metavar="OLD", help=context)
    command.add_argument("new", metavar="NEW", help=context)
    _add_above(command)
    add_bounds(command)
    command.add_argument("--samples", metavar="N", type=whole, default=10, help="10 by default")
    command.add_argument("--spark", action="store_true", help="look with Spark, on all cores")


def _add_context(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "context", metavar="CONTEXT", help=f"{_CONTEXT} of one that Python declares"
    )
    _add_above(command)


def _add_above(command: argparse.ArgumentParser) -> None:
    command.add_argument("--root", metavar="CONTEXT", help="the root of what is in files")
    command.add_argument(
        "--parent",
        metavar="CONTEXT",
        action="append",
        default=[],
        help="a parent of the one in a file, if that is not the root; may be said again",
    )
    command.add_argument(
        "--modules", metavar="MODULES", help="where files find names, separated by commas"
    )


# -- check and show --------------------------------------------------------------------------------


def run_check(given: Namespace, terminal: Terminal) -> int:
    """Say what is wrong, doubtful or worth knowing; 1 if there are errors."""
    from polycast.cli.context_reference import given_context
    from polycast.contexts.resolve.inheritance import settle

    context = given_context(given)
    report, strict = context.check(), settle(context).is_strict
    terminal.show({**_data(report), "strict": strict}, _lines(report, strict=strict))
    return 1 if report.errors else 0


def _data(report: Report) -> dict[str, Any]:
    from dataclasses import asdict

    findings = [{"severity": finding.severity, **asdict(finding)} for finding in report.findings]
    return {"context": report.context, "ok": not report.errors, "findings": findings}


def _lines(report: Report, *, strict: bool) -> Iterator[Line]:
    from polycast.cli.formatting import count

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
    from polycast.cli.context_reference import given_context, type_in
    from polycast.contexts.resolve.inheritance import settle

    context = given_context(given)
    types = settle(context).types
    shown = [context.show(type_in(types, name)) for name in given.type]
    lines = [line for view in shown for line in str(view).splitlines()]
    terminal.show({"types": [view.to_data() for view in shown]}, lines)
    return 1 if context.check().errors else 0


# -- compare ---------------------------------------------------------------------------------------


def run_compare(given: Namespace, terminal: Terminal) -> int:
    """Say which events of history one context shows otherwise than another, and how."""
    import msgspec

    from polycast.cli.bounds import bound_of
    from polycast.cli.targets import place_of
    from polycast.registered_names import RegisteredNames
    from polycast.routing.context_view import Comparing, draft_of
    from polycast.stores.log_bounds import end_of, start_of

    sides = tuple(draft_of(_side(given, text)) for text in (given.old, given.new))
    with place_of(given).looking() as store:
        low = start_of(store, bound_of("--since", given.since)) or store.oldest()
        high = end_of(store, bound_of("--until", given.until))
        if given.spark:
            comparison = _with_spark(given, low, high)
        else:
            comparing = Comparing(store, sides, RegisteredNames(_modules(given)).get, given.samples)
            for view in comparing.outlooks:
                view.check(store.newest(), "per_batch")
            comparison = comparing.nothing()
            for at in range(low, high, _STEP):
                comparison.extend(comparing.part(at, min(at + _STEP, high)), given.samples)
                terminal.progress("comparing", at - low, high - low)
    terminal.show(msgspec.to_builtins(comparison), str(comparison).splitlines())
    return 0


def _side(given: Namespace, text: str) -> Context | str | None:
    """A context in a file or a module, or the name of one that the store has."""
    from polycast.cli.context_reference import given_context

    if text.endswith(".xml") or ":" in text:
        given.context = text
        return given_context(given)
    return None if text == "root" else text


def _modules(given: Namespace) -> list[str]:
    """The modules whose functions a context of the store may name."""
    named = [text.partition(":")[0] for text in (given.old, given.new) if ":" in text]
    return list(dict.fromkeys((*named, *filter(None, (given.modules or "").split(",")))))


def _with_spark(given: Namespace, low: int, high: int) -> Comparison:
    from polycast.cli.targets import place_of
    from polycast.pipeline import compare
    from polycast.pipeline.replay import some_session

    modules = _modules(given)
    old, new = (_side(given, text) for text in (given.old, given.new))
    url, samples = f"sqlite:///{place_of(given).file('Spark')}", given.samples
    with some_session() as spark:
        return compare(
            spark, url, old, new, since=low, until=high, imports=modules, samples=samples
        )
