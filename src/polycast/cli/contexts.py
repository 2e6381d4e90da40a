"""`polycast context`: what is wrong with a context, and what it makes of events."""

from __future__ import annotations

import difflib
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.bounds import bound_of
from polycast.cli.formatting import count
from polycast.cli.targets import place_of
from polycast.cli.terminal import Refused
from polycast.contexts import Context
from polycast.contexts.resolve.inheritance import settle
from polycast.errors import BadContextError
from polycast.registered_names import RegisteredNames, imported
from polycast.routing.context_trial import Comparing
from polycast.routing.context_view import tried
from polycast.stores.log_bounds import end_of, start_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from polycast.cli.terminal import Terminal
    from polycast.contexts import Report
    from polycast.contexts.declare.local_types import KnownTypes
    from polycast.routing.context_trial import Comparison

__all__ = ["check_context", "compare_contexts", "show_context"]

_STEP = 20_000  # positions between two looks at the progress


def check_context(given: Namespace, terminal: Terminal) -> int:
    """Say what is wrong, doubtful or worth knowing; 1 if there are errors."""
    context = _context(given)
    report, strict = context.check(), settle(context).is_strict
    terminal.show({**_data(report), "strict": strict}, _lines(report, strict=strict))
    return 1 if report.errors else 0


def _data(report: Report) -> dict[str, Any]:
    findings = [{"severity": each.severity, **asdict(each)} for each in report.findings]
    return {"context": report.context, "ok": not report.errors, "findings": findings}


def _lines(report: Report, *, strict: bool) -> Iterable[str]:
    if report.findings:
        yield from str(report).splitlines()
    words = (
        (report.errors, "error"),
        (report.warnings, "warning"),
        (report.observations, "observation"),
    )
    yield f"{'strict ' * strict}context {report.context!r}: " + ", ".join(
        count(len(each), word) for each, word in words
    )


def show_context(given: Namespace, terminal: Terminal) -> int:
    """Show what a context makes of events of some types; 1 if it has errors."""
    context = _context(given)
    types = settle(context).types
    shown = [context.show(_type(types, name)) for name in given.type]
    lines = [line for each in shown for line in str(each).splitlines()]
    terminal.show({"types": [each.to_data() for each in shown]}, lines)
    return 1 if context.check().errors else 0


def _type(types: KnownTypes, name: str) -> type:
    found = types.named(name)
    if len(found) == 1:
        return found[0]
    near = types.alike(name)
    accepted = f"a type of the context{f'; did you mean {near[0]}?' if near else ''}"
    if found:
        accepted = " or ".join(map(types.full_names, found))
    raise BadContextError("TYPE", name, accepted=accepted)


# -- comparing -------------------------------------------------------------------------------------


def compare_contexts(given: Namespace, terminal: Terminal) -> int:
    """Say which events of history one context shows otherwise than another, and how."""
    sides = tuple(tried(_side(given, text)) for text in (given.old, given.new))
    with place_of(given).looking() as store:
        low = start_of(store, bound_of("--since", given.since)) or store.oldest()
        high = end_of(store, bound_of("--until", given.until))
        if given.spark:
            found = _with_spark(given, low, high)
        else:
            comparing = Comparing(store, sides, RegisteredNames(_modules(given)).get, given.samples)
            for each in comparing.outlooks:
                each.check(store.newest(), "per_batch")
            found = comparing.nothing()
            for at in range(low, high, _STEP):
                found.extend(comparing.part(at, min(at + _STEP, high)), given.samples)
                terminal.progress("comparing", at - low, high - low)
    terminal.show(msgspec.to_builtins(found), str(found).splitlines())
    return 0


def _side(given: Namespace, text: str) -> Context | str | None:
    """A context in a file or a module, or the name of one that the store has."""
    if text.endswith(".xml") or ":" in text:
        given.context = text
        return _context(given)
    return None if text == "root" else text


def _modules(given: Namespace) -> list[str]:
    """The modules whose functions a context of the store may name."""
    named = [text.partition(":")[0] for text in (given.old, given.new) if ":" in text]
    return list(dict.fromkeys((*named, *filter(None, (given.modules or "").split(",")))))


def _with_spark(given: Namespace, low: int, high: int) -> Comparison:
    from polycast.pipeline import compare
    from polycast.pipeline.replay import some_session

    modules = _modules(given)
    old, new = (_side(given, text) for text in (given.old, given.new))
    url, samples = f"sqlite:///{place_of(given).file('Spark')}", given.samples
    with some_session() as spark:
        return compare(
            spark, url, old, new, since=low, until=high, imports=modules, samples=samples
        )


# -- from words to contexts ------------------------------------------------------------------------


def _context(given: Namespace) -> Context:
    here = os.getcwd()
    if here not in sys.path:  # as `python -m` would find modules
        sys.path.insert(0, here)
    modules = [name for name in (given.modules or "").split(",") if name]
    root = None if given.root is None else _found(given.root, None, modules)
    parents = [_found(each, root, modules) for each in given.parent]
    return _found(given.context, parents or root, modules)


def _found(text: str, parent: Context | list[Context] | None, modules: list[str]) -> Context:
    """A context in a file, or one that a module has; the latter knows its parents itself."""
    if text.endswith(".xml"):
        return Context.load(text, parent=parent, modules=modules)
    module, colon, name = text.partition(":")
    if not (colon and module and name):
        raise Refused(f"{text!r} is no context: a file that ends in .xml is one, or MODULE:NAME")
    try:
        there = vars(imported(module))
    except ImportError as error:
        accepted = f"a module that can be imported ({error})"
        raise BadContextError("the module of a context", module, accepted=accepted) from error
    if name not in there:
        what = f"the name of a context in {module}"
        raise BadContextError(what, name, accepted=_contexts_in(there, name))
    found: object = there[name]
    if not isinstance(found, Context):
        raise BadContextError(f"{name!r} in {module}", found, accepted=_contexts_in(there, name))
    return found


def _contexts_in(there: dict[str, Any], name: str) -> str:
    names = sorted(key for key, value in there.items() if isinstance(value, Context))
    if not names:
        return "the name of a pc.Context; the module has none"
    near = difflib.get_close_matches(name, names, n=1)
    return f"{', '.join(names)}{f'; did you mean {near[0]!r}?' if near else ''}"
