"""Tables and colours on a terminal, drawn by `rich`: as wide as the terminal, and plain inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from polycast.cli.formatting import Styled, Table
from polycast.plain_text import plain

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["RichText", "console_for"]


def console_for(screen: TextIO) -> Console:
    """Return a console that takes nothing in a text for markup; it heeds NO_COLOR and COLUMNS."""
    from rich.console import Console

    return Console(file=screen, markup=False, emoji=False, highlight=False)


class RichText:
    """Renders lines for a terminal; `ImportError` without `rich`."""

    def __init__(self, screen: TextIO) -> None:
        self._console = console_for(screen)

    def rendered(self, line: Styled | Table) -> str:
        """The characters that draw it, without the end of the last line."""
        from rich.text import Text

        with self._console.capture() as capture:
            if isinstance(line, Styled):
                # The terminal breaks long lines itself, so that they can be copied whole.
                self._console.print(Text(plain(line.text), style=line.style), soft_wrap=True)
            else:
                self._console.print(_table(line))
        return capture.get().rstrip("\n")


def _table(table: Table) -> Any:
    from rich import box
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for head, is_number in zip(table.heads, table.numeric, strict=True):
        drawn.add_column(Text(head), justify="right" if is_number else "left", overflow="fold")
    for row in table.cells:
        drawn.add_row(*map(Text, row))
    return Padding(drawn, (0, 0, 0, table.indent), expand=False)
