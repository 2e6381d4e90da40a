"""What is shown at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import rich.table
from rich.console import Console


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]] = field(default_factory=list)
    note: str | None = None

    def plain(self) -> dict[str, object]:
        """For the file of results."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "note": self.note,
        }

    def rendered(self) -> rich.table.Table:
        """For a person."""
        table = rich.table.Table(
            title=self.title, caption=self.note, title_justify="left", caption_justify="left"
        )
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="left" if number == 0 else "right")
        for row in self.rows:
            table.add_row(*row)
        return table


def show(tables: Iterable[Table]) -> None:
    """Print them, wide enough for all columns when nobody watches."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=170)
    for table in tables:
        console.print()
        console.print(table.rendered())
