"""Counts what it takes to say how events are translated (FOS table 1).

For each example there is the context that it declares, and the same written by hand in `by_hand`.
Both are run on the same events first: what is not the same is not compared. Then lines are counted
in their sources. Classes, imports, comments, docstrings and the functions that both use count on
neither side.

- specify: lines that say the translation.
- change: places that name the function of one type, to be changed if that type gets another form.
- extend: lines that exist for one type of event only, as they would be added with it.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tables import Table, show

import polycast as pc

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
RESULTS = HERE / "results" / "contexts_effort.json"
sys.path += [str(EXAMPLES), str(HERE / "by_hand")]


@dataclass(frozen=True)
class Side:
    """A source, and which of its top-level names say the translation."""

    path: Path
    names: frozenset[str]

    def parts(self) -> list[ast.AST]:
        """What defines one of the names or does something with it, at the top or at a class."""
        found: list[ast.AST] = []
        for each in ast.parse(self.path.read_text(encoding="utf-8")).body:
            if isinstance(each, ast.ClassDef):
                found += [at for at in each.decorator_list if self.names & _names_in(at)]
            elif self.names & set(_subjects(each)):
                found.append(each)
        if not found:
            raise SystemExit(f"{self.path}: nothing is about {', '.join(sorted(self.names))}")
        return found


@dataclass(frozen=True)
class Example:
    """Something to be translated, in both ways."""

    name: str
    context: Side
    by_hand: Side
    function: str
    """What is called for the type that is to be changed."""
    extension: frozenset[str]
    """The classes of the event that is added."""
    check: Callable[[], int]
    """Compares what both ways give; how many events were compared."""


@dataclass(frozen=True)
class Effort:
    """A row of table 1, one side of it."""

    specify: int
    change: int
    extend: int


def effort_of(side: Side, example: Example) -> Effort:
    """Count in a source."""
    parts = side.parts()
    return Effort(
        len(_code_lines(parts)),
        sum(_is_named(node, {example.function}) for part in parts for node in ast.walk(part)),
        len(_lines_about(parts, example.extension)),
    )


def _subjects(statement: ast.stmt) -> Iterator[str]:
    """What a statement at the top is about."""
    match statement:
        case ast.FunctionDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (each.id for each in targets if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            yield name
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            yield name
        case ast.For(body=body):
            for each in body:
                yield from _subjects(each)


def _code_lines(parts: Sequence[ast.AST]) -> set[int]:
    """The numbers of lines with code; a docstring is none."""
    lines: set[int] = set()
    for part in parts:
        lines |= {node.lineno for node in ast.walk(part) if isinstance(node, ast.expr | ast.stmt)}
        lines |= {
            node.end_lineno or node.lineno
            for node in ast.walk(part)
            if isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.FunctionDef)
        }
        for node in ast.walk(part):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _lines_about(parts: Sequence[ast.AST], names: frozenset[str]) -> set[int]:
    """A function that takes such an event as a whole, and else the lines that name it."""
    lines: set[int] = set()
    for part in parts:
        if isinstance(part, ast.FunctionDef) and any(
            _is_named(node, names) for each in part.args.args for node in ast.walk(each)
        ):
            lines |= _code_lines([part])
            continue
        for node in ast.walk(part):
            if isinstance(node, ast.match_case) and _names_case(node, names):
                lines |= {node.pattern.lineno} | _code_lines(node.body)
            elif _is_named(node, names):
                lines.add(node.lineno)  # type: ignore[attr-defined]
    return lines


def _names_case(case: ast.match_case, names: frozenset[str]) -> bool:
    return any(_is_named(node, names) for node in ast.walk(case.pattern))


def _is_named(node: ast.AST, names: set[str] | frozenset[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in names
    return isinstance(node, ast.Name) and node.id in names


def _names_in(part: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}


# -- the examples ----------------------------------------------------------------------------------


def _compared(events: list[Any], context: pc.Context, by_hand: Callable[[Any], Any]) -> int:
    federation = pc.Federation(context.root)
    federation.add(context)
    for event in events:
        mine, theirs = federation.translate(event, target=context), by_hand(event)
        if not _alike(mine, theirs):
            raise SystemExit(f"not the same:\n  {mine}\n  {theirs}")
    return len(events)


def _alike(mine: Any, theirs: Any) -> bool:
    """The same, but for the last digits of numbers."""
    if isinstance(mine, float) and isinstance(theirs, float):
        return abs(mine - theirs) <= 1e-9 * max(1.0, abs(mine))
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, tuple | list):
        return len(mine) == len(theirs) and all(map(_alike, mine, theirs))
    if hasattr(mine, "__dataclass_fields__"):
        names = mine.__dataclass_fields__
        return all(_alike(getattr(mine, each), getattr(theirs, each)) for each in names)
    return bool(mine == theirs)


def _check_market_data() -> int:
    market_data = importlib.import_module("market_data")
    by_hand = importlib.import_module("market_data_by_hand")
    return _compared(market_data.EVENTS, market_data.desk, by_hand.translate)


def _check_traffic() -> int:
    traffic = importlib.import_module("traffic")
    by_hand = importlib.import_module("traffic_by_hand")
    events = traffic.traffic()
    some = [next(events) for _ in range(100)]
    return _compared(some, traffic.city(traffic.WITH_OIL), by_hand.translate)


def _check_supply_chain() -> int:
    us = importlib.import_module("supply_chain.us")
    workload = importlib.import_module("supply_chain.workload")
    by_hand = importlib.import_module("supply_chain_by_hand")
    participants = importlib.import_module("supply_chain.participants")
    events = workload.Workload(participants.World(1, 100), 1)
    return _compared(list(islice(events, 2_000)), us.context, by_hand.translate)


def _written(name: str) -> Side:
    """All functions and tables of a file of `by_hand`."""
    path = HERE / "by_hand" / f"{name}_by_hand.py"
    names = {each for part in ast.parse(path.read_text("utf-8")).body for each in _subjects(part)}
    return Side(path, frozenset(names))


def examples() -> list[Example]:
    """All that are there."""
    return [
        Example(
            "supply chain, US",
            Side(
                EXAMPLES / "supply_chain" / "us.py", frozenset({"context", "version", "both_ways"})
            ),
            _written("supply_chain"),
            function="from_reference_address",
            extension=frozenset({"Invoice", "USInvoice"}),
            check=_check_supply_chain,
        ),
        Example(
            "market data",
            Side(EXAMPLES / "market_data.py", frozenset({"desk"})),
            _written("market_data"),
            function="rename",
            extension=frozenset({"Trade", "Abschluss"}),
            check=_check_market_data,
        ),
        Example(
            "traffic",
            Side(EXAMPLES / "traffic.py", frozenset({"MAPPINGS", "city", "WITH_OIL"})),
            _written("traffic"),
            function="to_grid",
            extension=frozenset({"Oil", "CityOil"}),
            check=_check_traffic,
        ),
    ]


def table() -> Table:
    """Table 1."""
    rows = []
    for example in examples():
        example.check()
        hand, declared = (effort_of(side, example) for side in (example.by_hand, example.context))
        rows.append([example.name, *map(str, _figures(hand)), *map(str, _figures(declared))])
    sides = [f"{side}: {what}" for side in ("by hand", "context") for what in WHAT]
    return Table("What it takes to say it (FOS table 1)", ["example", *sides], rows)


WHAT = ("specify", "change", "extend")


def _figures(effort: Effort) -> tuple[int, int, int]:
    return effort.specify, effort.change, effort.extend


def main() -> None:
    """Count, write, show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try it out; nothing is written")
    quick = parser.parse_args().quick
    found = table()
    if not quick:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps({"tables": [found.plain()]}, indent=1) + "\n")
    show([found])


if __name__ == "__main__":
    main()
