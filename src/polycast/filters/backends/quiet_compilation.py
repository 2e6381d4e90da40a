"""Compiling generated source, or source that was compiled before, without warnings."""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType

QUIET = "<polycast filter>"  # the file name under which nothing is warned about
IGNORED = ("ignore", None, Warning, re.compile(QUIET), 0)  # as `warnings` keeps it


def compile_quietly(source: str | ast.Module | ast.Expression) -> CodeType:
    """Compile without the warnings that the first compilation gave."""
    silence_warnings()
    mode = "eval" if isinstance(source, ast.Expression) else "exec"
    compiled: CodeType = compile(source, QUIET, mode, 0, True)
    return compiled


def silence_warnings() -> None:
    """Suppress warnings for the file name of generated code."""
    # A filter for a name of our own need not be taken back: catch_warnings is not for threads.
    if not warnings.filters or warnings.filters[0] != IGNORED:
        warnings.filterwarnings("ignore", module=QUIET)
