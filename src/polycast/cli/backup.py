"""`polycast backup` and `polycast restore`: a store in one file, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import add_command, add_file

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal

__all__ = ["declare"]


def declare(commands: Any) -> None:
    """Declare the commands."""
    what = "copy a store, which may be in use, to one file"
    command = add_command(commands, "backup", run_backup, what, "backup events.db monday.db")
    add_file(command)
    command.add_argument("target", metavar="TARGET", help="file to write")
    command.add_argument(
        "--force", action="store_true", help="replace a file that is there, if it is no open store"
    )
    what, example = "make a store from a back-up", "restore monday.db events.db --force"
    command = add_command(commands, "restore", run_restore, what, example)
    command.add_argument("backup", metavar="BACKUP", help="file that `polycast backup` wrote")
    add_file(command)
    command.add_argument(
        "--force", action="store_true", help="replace a store that is there and not open"
    )


def run_backup(given: Namespace, terminal: Terminal) -> int:
    """Copy a store that may be in use."""
    from polycast.cli.formatting import size
    from polycast.cli.targets import StorePlace, file_of
    from polycast.stores.doctor.readonly_store import translated
    from polycast.stores.sqlite import back_up

    store, target = StorePlace(given.store).file("a back-up"), file_of(given.target)
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


def run_restore(given: Namespace, terminal: Terminal) -> int:
    """Make a store from a back-up."""
    from polycast.cli.formatting import size
    from polycast.cli.targets import StorePlace, file_of
    from polycast.stores.doctor.readonly_store import translated
    from polycast.stores.sqlite import restore

    backup, store = file_of(given.backup), StorePlace(given.store).file("restoring")
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
