"""From the words of a command line to what is done, and to an exit status."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from polycast.cli.parsing import understood
from polycast.cli.terminal import Refused, Terminal
from polycast.errors import PolycastError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.config import Clock

__all__ = ["main"]

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
_SUBS = ("list", "cancel", "-h", "--help")


def main(arguments: Sequence[str] | None = None, *, clock: Clock | None = None) -> int:
    """Run one command; the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    terminal = Terminal(as_json="--json" in words, clock=clock)
    try:
        given = understood(_complete(words))
        terminal.options = given.command.options
        return int(given.run(given, terminal) or 0)
    except Refused as error:
        terminal.fail(error)
        return MISUSED
    except PolycastError as error:
        terminal.fail(error)
        return FAILED
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # a file that is no longer what it was can surprise anybody
        terminal.fail(error)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _complete(words: list[str]) -> list[str]:
    """`subs PLACE` means `subs list PLACE`."""
    if words[:1] == ["subs"] and words[1:2] and words[1] not in _SUBS:
        return ["subs", "list", *words[1:]]
    return words
