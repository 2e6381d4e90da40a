"""Tables and colours on a terminal, drawn by `rich`: as wide as the terminal, and plain inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from polycast.cli.formatting import Styled, TextTable
from polycast.plain_text import plain

if TYPE_CHECKING:
    from rich.console import Console


def console_for(screen: TextIO) -> Console:
    """Return a console that takes nothing in a text for markup; it heeds NO_COLOR and COLUMNS."""
    from rich.console import Console

    return Console(file=screen, markup=False, emoji=False, highlight=False)


class RichText:
    """Renders lines for a terminal; `ImportError` without `rich`."""

    def __init__(self, screen: TextIO) -> None:
        self._console = console_for(screen)

    def rendered(self, line: Styled | TextTable) -> str:
        """The characters that draw it, without the end of the last line."""
        from rich.text import Text

        if isinstance(line, TextTable) and _least_width(line) > self._console.width:
            return "\n".join(line.lines())  # the terminal breaks the lines, and no cell
        with self._console.capture() as capture:
            if isinstance(line, Styled):
                # The terminal breaks long lines itself, so that they can be copied whole.
                self._console.print(Text(plain(line.text), style=line.style), soft_wrap=True)
            else:
                self._console.print(_drawn(line))
        return "\n".join(part.rstrip() for part in capture.get().rstrip("\n").split("\n"))


_GAP, _NARROWEST = 2, 12


def _least_width(table: TextTable) -> int:
    """How wide a terminal is at least on which the table can be read."""
    widths = [
        min(max(map(len, column)), max(_NARROWEST, len(column[0])))
        for column in zip(table.heads, *table.cells, strict=True)
    ]
    return table.indent + sum(widths) + _GAP * (len(widths) - 1)


def _drawn(table: TextTable) -> Any:
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for head, is_number in zip(table.heads, table.numeric, strict=True):
        drawn.add_column(
            Text(head),
            justify="right" if is_number else "left",
            overflow="fold",
            min_width=len(head),
            no_wrap=is_number,
        )
    for row in table.cells:
        drawn.add_row(*map(Text, row))
    return Padding(drawn, (0, 0, 0, table.indent), expand=False)
