"""`polycast backup`: a store in one file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from polycast.cli.command_line import add_command
from polycast.cli.formatting import size
from polycast.cli.operands import StorePlace, file_of
from polycast.stores.sqlite import back_up
from polycast.stores.sqlite.readonly_store import translated

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    command = add_command(commands, "backup", run, what, "backup events.db monday.db")
    command.take_file()
    command.take("target TARGET", "the file to write")
    command.take("--force", "replace an existing file, unless it is an open store")


def run(given: Namespace, terminal: Terminal) -> int:
    """Copy a store that may be in use."""
    store, target = StorePlace(given.store).file("a backup"), file_of(given.target)
    with translated(store):
        pages = back_up(
            store,
            target,
            force=given.force,
            progress=lambda done, all_: terminal.progress("copying", done, all_),
        )
    took = os.path.getsize(target)
    data = {"store": store, "target": target, "pages": pages, "bytes": took}
    terminal.show(data, [f"{target} is a backup of {store}: {size(took)}, and checked"])
    return 0
