"""Benchmarks use public names only: what is renamed inside a package must not break them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(FOLDER.glob("*.py"))
OF_TUPLES = {"_replace", "_make", "_asdict", "_fields"}  # public, whatever they look like


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_TUPLES


def reached(tree: ast.AST) -> Iterator[str]:
    """What is private to others: attributes of other objects, imports, and names as texts."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) if is_private(name):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.ImportFrom(module=module, names=names) if module != "__future__":
                parts = [*(module or "").split("."), *(each.name for each in names)]
                yield from (
                    f"{node.lineno}: import of {each}" for each in parts if is_private(each)
                )
            case ast.Import(names=names):
                parts = [part for each in names for part in each.name.split(".")]
                yield from (
                    f"{node.lineno}: import of {each}" for each in parts if is_private(each)
                )
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr"), args=[_, ast.Constant(str(name)), *_]
            ):
                if is_private(name):
                    yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Call(func=ast.Attribute(attr="object"), args=[_, ast.Constant(str(name)), *_]):
                if is_private(name):  # patch.object
                    yield f"{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_benchmark_reaches_into_nothing(script: Path) -> None:
    assert list(reached(ast.parse(script.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "planted",
    [
        "plan._matcher.match(1)",
        "super()._begin()",
        "from polycast.pipeline.sink import _rows",
        "from polycast._inside import thing",
        "import polycast._inside",
        "getattr(plan, '_decoded')",
        "patch.object(plan, '_decoded', 1)",
    ],
)
def test_a_private_name_is_noticed(planted: str) -> None:
    assert list(reached(ast.parse(planted)))


def test_own_names_and_those_of_tuples_are_let_pass() -> None:
    assert list(reached(ast.parse("self._x = piece._replace(low=1).__class__"))) == []
