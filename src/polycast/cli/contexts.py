"""`polycast context`: what is wrong with a context, and what it makes of events."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from polycast.cli.terminal import Refused
from polycast.cli.words import count
from polycast.contexts import Context
from polycast.contexts.inheritance import settle
from polycast.errors import BadContext

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from polycast.cli.terminal import Terminal
    from polycast.contexts import Report
    from polycast.contexts.vocabulary import Vocabulary

__all__ = ["check_context", "show_context"]


def check_context(given: Namespace, terminal: Terminal) -> int:
    """Say what is wrong, doubtful or worth knowing; 1 if there are errors."""
    report = _context(given).check()
    terminal.show(_data(report), _lines(report))
    return 1 if report.errors else 0


def _data(report: Report) -> dict[str, Any]:
    findings = [{"severity": each.severity, **asdict(each)} for each in report.findings]
    return {"context": report.context, "ok": not report.errors, "findings": findings}


def _lines(report: Report) -> Iterable[str]:
    if report.findings:
        yield from str(report).splitlines()
    words = (
        (report.errors, "error"),
        (report.warnings, "warning"),
        (report.observations, "observation"),
    )
    yield f"context {report.context!r}: " + ", ".join(
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


def _type(types: Vocabulary, name: str) -> type:
    found = types.named(name)
    if len(found) == 1:
        return found[0]
    near = types.alike(name)
    accepted = f"a type of the context{f'; did you mean {near[0]}?' if near else ''}"
    if found:
        accepted = " or ".join(map(types.full_names, found))
    raise BadContext("TYPE", name, accepted=accepted)


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
        found: object = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        accepted = f"a module that can be imported ({error})"
        raise BadContext("the module of a context", module, accepted=accepted) from error
    if not isinstance(found, Context):
        raise BadContext(f"{name!r} in {module}", found, accepted="a pc.Context")
    return found
