"""Numbers, times and tables as a person reads them; `rich` draws them on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

from polycast.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

_UNITS = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_WIDEST = 60  # characters of a cell


def size(number: float) -> str:
    """Bytes: 1.2 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.3g} {unit}"
        number /= 1_000
    return f"{number:.3g} TB"


def duration(seconds: float) -> str:
    """Seconds: 3 min, 0.4 ms."""
    if seconds < 0.9995:
        return f"{seconds * 1_000:.3g} ms" if seconds else "0 s"
    length, unit = next((unit for unit in _UNITS if seconds >= unit[0]), _UNITS[-1])
    many = max(1, int(seconds / length))
    return f"{many} {'day' if unit == 'days' and many == 1 else unit}"


def ago(time: float | None, now: float) -> str:
    """A time, seen from now: 3 min ago, in 20 s."""
    if time is None:
        return "-"
    if abs(time - now) < 1:
        return "now"
    return f"in {duration(time - now)}" if time > now else f"{duration(now - time)} ago"


def moment(time: float | None) -> str:
    """A time by the clock on the wall here."""
    if time is None:
        return "-"
    try:
        return datetime.fromtimestamp(time).astimezone().isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):  # what a damaged file says
        return f"{time:g}"


def count(number: int, one: str, many: str | None = None) -> str:
    """1 event, 12,345 events."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def clip(text: str, most: int = _WIDEST) -> str:
    """One line of so many characters at most; what a terminal would obey is shown as text."""
    line = plain(text)
    return line if len(line) <= most else f"{line[: most - 3]}..."


def listed(names: Iterable[object]) -> str:
    """Separated by commas; a dash if there are none."""
    return ", ".join(map(str, names)) or "-"


@dataclass(frozen=True)
class Styled:
    """A line with a colour, where there are colours."""

    text: str
    style: str

    def lines(self) -> list[str]:
        """The line without it."""
        return [self.text]


ERROR, WARNING, GOOD = "bold red", "yellow", "green"
_STYLES = {"error": ERROR, "warning": WARNING}


def by_severity(severity: str, text: str) -> Line:
    """A line in the colour of what it tells."""
    return Styled(text, _STYLES[severity]) if severity in _STYLES else text


class TextTable:
    """Aligned columns; numbers to the right, the last column as long as it is."""

    def __init__(
        self, heads: Sequence[str], rows: Iterable[Sequence[object]], *, indent: int = 0
    ) -> None:
        rows = list(rows)
        self.heads, self.indent = list(heads), indent
        self.cells = [[_cell(value) for value in row] for row in rows]
        self.numeric = [all(isinstance(row[at], int) for row in rows) for at in range(len(heads))]

    def lines(self) -> list[str]:
        """The table as plain text."""
        lines = [self.heads, *self.cells]
        widths = [max(len(line[at]) for line in lines) for at in range(len(self.heads))]
        return [
            " " * self.indent
            + "  ".join(
                cell.rjust(width) if is_number else cell.ljust(width)
                for cell, width, is_number in zip(line, widths, self.numeric, strict=True)
            ).rstrip()
            for line in lines
        ]


Line = str | Styled | TextTable
"""What a command prints: a line as it is, one with a colour, or a table."""


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else clip(str(value))


# -- drawn by rich: as wide as the terminal --------------------------------------------------------


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
