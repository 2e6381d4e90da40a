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


BY_NAME = {"getattr": 1, "setattr": 1, "hasattr": 1, "delattr": 1, "object": 1}
BY_PATH = {"attrgetter": 0, "methodcaller": 0}
"""Functions that take a name as text, and which argument it is; `object` is `patch.object`."""


def reached(tree: ast.AST) -> Iterator[str]:
    """What is private to others: attributes of other objects, imports, and names as texts."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) if is_private(name):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.ImportFrom() | ast.Import():
                parts = [part for name in _imported(node) for part in name.split(".")]
                yield from (
                    f"{node.lineno}: import of {each}" for each in parts if is_private(each)
                )
            case ast.Call() | ast.Subscript():
                if any(is_private(part) for name in _texts(node) for part in name.split(".")):
                    yield f"{node.lineno}: {ast.unparse(node)}"


def _imported(node: ast.ImportFrom | ast.Import) -> list[str]:
    names = [each.name for each in node.names]
    if isinstance(node, ast.Import):
        return names
    return [] if node.module == "__future__" else [node.module or "", *names]


def _texts(node: ast.Call | ast.Subscript) -> list[str]:
    """Names of attributes that are given as texts."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
            first = BY_NAME.get(name, BY_PATH.get(name, len(args)))
            given = args[first : first + 1] if name in BY_NAME else args[first:]
        case ast.Subscript(value=ast.Call(func=ast.Name(id="vars")), slice=key):
            given = [key]
        case ast.Subscript(value=ast.Attribute(attr="__dict__"), slice=key):
            given = [key]
        case _:
            given = []
    found = (each.value for each in given if isinstance(each, ast.Constant))
    return [each for each in found if isinstance(each, str)]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_benchmark_reaches_into_nothing(script: Path) -> None:
    assert list(reached(ast.parse(script.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "planted",
    [
        "plan._matcher.match(1)",
        "super()._begin()",
        "from polycast.pipeline.route_stream import _rows",
        "from polycast._inside import thing",
        "import polycast._inside",
        "getattr(plan, '_decoded')",
        "hasattr(plan, '_decoded')",
        "delattr(plan, '_decoded')",
        "operator.attrgetter('plan._decoded')(worker)",
        "methodcaller('_begin')(worker)",
        "vars(plan)['_decoded']",
        "plan.__dict__['_decoded']",
        "patch.object(plan, '_decoded', 1)",
    ],
)
def test_a_private_name_is_noticed(planted: str) -> None:
    assert list(reached(ast.parse(planted)))


def test_own_names_and_those_of_tuples_are_let_pass() -> None:
    assert list(reached(ast.parse("self._x = piece._replace(low=1).__class__"))) == []
