"""`polycast backup` and `polycast restore`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from polycast.cli.formatting import size
from polycast.cli.targets import Place, file_of
from polycast.stores.doctor.readonly_store import translated
from polycast.stores.sqlite import back_up, restore

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal

__all__ = ["make_backup", "restore_backup"]


def make_backup(given: Namespace, terminal: Terminal) -> int:
    """Copy a store that may be in use."""
    store, target = Place(given.store).file("a back-up"), file_of(given.target)
    with translated(store):
        pages = back_up(
            store,
            target,
            force=given.force,
            progress=lambda done, all_: terminal.progress("copying", done, all_),
        )
    took = os.path.getsize(target)
    data = {"store": store, "target": target, "pages": pages, "bytes": took}
    terminal.show(data, [f"{target} is a back-up of {store}: {size(took)}, and checked"])
    return 0


def restore_backup(given: Namespace, terminal: Terminal) -> int:
    """Make a store from a back-up."""
    backup, store = file_of(given.backup), Place(given.store).file("restoring")
    with translated(backup):
        restore(backup, store, force=given.force)
    took = os.path.getsize(store)
    data = {"backup": backup, "store": store, "bytes": took}
    lines = [
        f"{store} is restored from {backup}: {size(took)}, and checked",
        "What was published after the back-up is not in it; all publishers begin a new epoch",
    ]
    terminal.show(data, lines)
    return 0
