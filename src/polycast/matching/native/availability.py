"""Whether the kernel in C is there, and wanted: `POLYCAST_NATIVE` is auto, require or off."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

from msgspec import UNSET

from polycast.errors import BadOptionError, NotAvailableError
from polycast.filters.normal_form.ordered_domains import ABSENT
from polycast.filters.tree import nodes

VARIABLE = "POLYCAST_NATIVE"
CHOICES = ("auto", "require", "off")
# What the trees are made of that the kernel reads itself.
NODES = (nodes.And, nodes.Compare, nodes.Call, nodes.Constant, nodes.Attribute, nodes.Event)


@cache
def available() -> Any | None:
    """The module of the kernel; None if the package was built without a compiler."""
    try:
        module = import_module("polycast.matching.native._kernel")
    except ImportError:
        return None
    if not hasattr(module, "set_nodes"):  # built from older sources
        return None
    module.set_absent(ABSENT, UNSET)
    secret = os.urandom(16)
    module.set_nodes(*NODES, int.from_bytes(secret[:8]), int.from_bytes(secret[8:]))
    return module


def chosen(native: bool | None) -> Any | None:  # noqa: FBT001
    """The module to match with: as asked, or if nothing is, as the environment says."""
    choice = os.environ.get(VARIABLE, "auto") if native is None else "require" if native else "off"
    if choice not in CHOICES:
        raise BadOptionError(VARIABLE, choice, accepted=", ".join(CHOICES))
    if choice == "off":
        return None
    module = available()
    if module is None and choice == "require":
        raise missing()
    return module


def missing() -> NotAvailableError:
    """The error if it has to be there and is not."""
    return NotAvailableError(
        "the matching kernel",
        why="polycast was built without a C compiler",
        instead=f"Install one and polycast again; or set {VARIABLE}=auto: it does without",
    )


def use(scan: str) -> str:
    """Have boxes scanned in `scalar` code, with `avx2`, or the `best` way; says which it is."""
    module = available()
    if module is None:
        raise missing()
    try:
        return str(module.use(scan))
    except ValueError:
        raise BadOptionError("scan", scan, accepted="best, scalar; avx2 where there is") from None


def engine(module: Any | None) -> str:
    """What matches, in words."""
    return "python" if module is None else f"native, {module.use('')}"
