"""From the words of a command line to what is done, and to an exit status."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from polycast.cli.command_line import understood
from polycast.cli.terminal import Terminal, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.config import Clock

__all__ = ["main"]

FAILED, MISUSED, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None, *, clock: Clock | None = None) -> int:
    """Run one command; the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    terminal = Terminal(as_json="--json" in words, clock=clock)
    try:
        given = understood(words)
        terminal.options = given.command.options
        return int(given.run(given, terminal) or 0)
    except UsageError as error:
        terminal.fail(error)
        return MISUSED
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # a file that is no longer what it was can surprise anybody
        terminal.fail(error)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
