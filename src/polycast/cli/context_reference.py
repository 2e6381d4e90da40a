"""Contexts and their types, as a command line names them."""

from __future__ import annotations

import difflib
import os
import sys
from typing import TYPE_CHECKING, Any

from polycast.cli.terminal import UsageError
from polycast.contexts import Context
from polycast.errors import BadContextError
from polycast.registered_names import imported

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.contexts.declare.local_types import KnownTypes

__all__ = ["given_context", "type_in"]


def given_context(given: Namespace) -> Context:
    """The context that a command line names."""
    here = os.getcwd()
    if here not in sys.path:  # as `python -m` would find modules
        sys.path.insert(0, here)
    modules = [name for name in (given.modules or "").split(",") if name]
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
    near = difflib.get_close_matches(name, names, n=1)
    return f"{', '.join(names)}{f'; did you mean {near[0]!r}?' if near else ''}"


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
