"""`polycast restore`: a store from a backup."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from polycast.cli.command_line import add_command
from polycast.cli.formatting import size
from polycast.cli.operands import StorePlace, file_of
from polycast.stores.sqlite import restore
from polycast.stores.sqlite.readonly_store import translated

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    command = add_command(commands, "restore", run, what, "restore monday.db events.db --force")
    command.take("backup BACKUP", "a file written by `polycast backup`")
    command.take_file()
    command.take("--force", "replace an existing store that is not open")


def run(given: Namespace, terminal: Terminal) -> int:
    """Make a store from a backup."""
    backup, store = file_of(given.backup), StorePlace(given.store).file("restoring")
    with translated(backup):
        restore(backup, store, force=given.force)
    took = os.path.getsize(store)
    data = {"backup": backup, "store": store, "bytes": took}
    lines = [
        f"{store} is restored from {backup}: {size(took)}, and checked",
        "What was published after the backup is not in it; all publishers begin a new epoch",
    ]
    terminal.show(data, lines)
    return 0
