"""Puts the tables of all results into docs/benchmarks.md, in place of those with the same columns.

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
PAGE = HERE.parent / "docs" / "benchmarks.md"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def row(values: list[Any]) -> str:
    readable = (str(value).replace("-", " to ") if "(" in str(value) else value for value in values)
    return f"| {' | '.join(str(value) for value in readable)} |"


def updated(page: str, tables: list[dict[str, Any]]) -> str:
    """The page with new rows; tables with the same columns are taken in their order."""
    left = list(tables)
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
    page, rows = PAGE.read_text(encoding="utf-8"), []
    for path in sorted((HERE / "results").glob("*.json")):
        results = tables_in(json.loads(path.read_text(encoding="utf-8")))
        page = updated(page, results)
        rows += [(path.stem, each["title"], str(len(each["rows"]))) for each in results]
    if not quick:
        PAGE.write_text(page, encoding="utf-8")
    show([Table("Tables of results", ("file", "table", "rows"), rows)])


if __name__ == "__main__":
    main()
