"""Puts the tables of all results into docs/benchmarks/, in place of those with the same columns.

python benchmarks/page.py            # after `make bench`
python benchmarks/page.py --quick    # shows which tables there are; nothing is written
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tables import Table, show

HERE = Path(__file__).parent
PAGES = HERE.parent / "docs" / "benchmarks"
# The pages that a file of results has its tables on, in the order of the tables.
PAGES_OF = {
    "in_process": ("in-process", "types"),
    "filters": ("filters",),
    "languages": ("languages",),
    "matching": ("matching",),
    "matching_parallel": ("matching",),
    "matching_peers": ("matching-peers",),
    "durable": ("files",),
    "pipeline": ("pipeline",),
    "broker": ("broker",),
    "contexts": ("contexts",),
    "contexts_effort": ("contexts",),
}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def row(values: list[Any]) -> str:
    readable = (str(value).replace("-", " to ") if "(" in str(value) else value for value in values)
    return f"| {' | '.join(str(value) for value in readable)} |"


def updated(page: str, left: list[dict[str, Any]]) -> str:
    """The page with new rows; tables with the same columns are taken out of `left`, in order."""
    lines = page.splitlines()
    result: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        found = next(
            (t for t in left if line.startswith("|") and t["columns"] == cells(line)), None
        )
        result.append(line)
        number += 1
        if found is None:
            continue
        left.remove(found)
        result.append(lines[number])  # the line of dashes
        result += [row(values) for values in found["rows"]]
        while number < len(lines) and lines[number].startswith("|"):
            number += 1
    return "\n".join(result) + "\n"


def tables_in(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of a file of results: several, or the one."""
    tables = results["tables"] if "tables" in results else [results["table"]]
    return list(tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try it out; nothing is written")
    quick = parser.parse_args().quick
    pages = {path.stem: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
    rows = []
    for path in sorted((HERE / "results").glob("*.json")):
        results = tables_in(json.loads(path.read_text(encoding="utf-8")))
        rows += [(path.stem, table["title"], str(len(table["rows"]))) for table in results]
        for name in PAGES_OF.get(path.stem, ()):
            pages[name] = updated(pages[name], results)
    if not quick:
        for name, page in pages.items():
            (PAGES / f"{name}.md").write_text(page, encoding="utf-8")
    show([Table("Tables of results", ("file", "table", "rows"), rows)])


if __name__ == "__main__":
    main()
