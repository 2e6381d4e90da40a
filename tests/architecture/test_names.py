"""Names say what a thing is: how often they fail to is counted, and may only fall.

`LIMITS` is a ratchet. When your change brings a number down, lower its limit in the same change; no
change may raise one.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "polycast"

MOST_METHODS = 20

LIMITS = {
    "gerund modules": 3,
    "repeated file names": 10,
    "repeated class names": 5,
    "large classes": 2,
    "methods of the largest class": 34,
    "`for each in`": 1,
}

ADVICE = {
    "gerund modules": "Name the module with a noun of the field: `retention_job`, not `keeping`.",
    "repeated file names": "Say in the name what this one is: `spark_tables.py`, not `tables.py`.",
    "repeated class names": "Say in the name what this one is: `MatchedRow`, not `Row`.",
    "large classes": f"Give a class of more than {MOST_METHODS} methods a part that it holds.",
    "methods of the largest class": "Move methods that use the same attributes into a part.",
    "`for each in`": "Name the variable after what it holds: `for record in records`.",
}

Modules = dict[Path, ast.Module]
Places = dict[str, list[str]]
"""What was counted, and where each of it is."""


def parsed(folder: Path) -> Modules:
    """The syntax trees of the modules below a folder, by their paths in it."""
    return {
        path.relative_to(folder): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }


def classes(modules: Modules) -> Iterator[tuple[Path, ast.ClassDef]]:
    """Every class, with the module it is in."""
    for path, module in modules.items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                yield path, node


def method_names(cls: ast.ClassDef) -> set[str]:
    """The methods of a class; a property and its setter are one."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in cls.body if isinstance(node, kinds)}


def gerund_modules(modules: Modules) -> Places:
    """Modules whose names end in -ing."""
    return {str(path): [] for path in modules if path.stem.endswith("ing")}


def repeated_file_names(modules: Modules) -> Places:
    """Names of two files or more, except those that Python gives."""
    places: Places = defaultdict(list)
    for path in modules:
        if path.stem not in ("__init__", "__main__"):
            places[path.name].append(str(path))
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def repeated_class_names(modules: Modules) -> Places:
    """Names of two classes or more."""
    places: Places = defaultdict(list)
    for path, cls in classes(modules):
        places[cls.name].append(str(path))
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def large_classes(modules: Modules) -> dict[str, int]:
    """The classes with many methods, and how many each has."""
    sizes = {f"{cls.name} in {path}": len(method_names(cls)) for path, cls in classes(modules)}
    return {name: size for name, size in sizes.items() if size > MOST_METHODS}


def loops_over_each(modules: Modules) -> list[str]:
    """Where a loop variable is called `each`, and so says nothing."""
    loops = ast.For | ast.AsyncFor | ast.comprehension
    return [
        f"{path}:{node.target.lineno}"
        for path, module in modules.items()
        for node in ast.walk(module)
        if isinstance(node, loops)
        and isinstance(node.target, ast.Name)
        and node.target.id == "each"
    ]


def counted(modules: Modules) -> dict[str, tuple[int, object]]:
    """For every limit, the number there is and what it consists of."""
    large, loops = large_classes(modules), loops_over_each(modules)
    found: dict[str, Places] = {
        "gerund modules": gerund_modules(modules),
        "repeated file names": repeated_file_names(modules),
        "repeated class names": repeated_class_names(modules),
    }
    return {
        **{name: (len(places), places) for name, places in found.items()},
        "large classes": (len(large), large),
        "methods of the largest class": (max(large.values(), default=0), large),
        "`for each in`": (len(loops), loops),
    }


@pytest.fixture(scope="module")
def today() -> dict[str, tuple[int, object]]:
    """The numbers of polycast itself."""
    return counted(parsed(SOURCE))


@pytest.mark.parametrize("name", LIMITS)
def test_names_and_sizes_get_no_worse(name: str, today: dict[str, tuple[int, object]]) -> None:
    number, places = today[name]
    assert number <= LIMITS[name], (
        f"{name}: {number}, at most {LIMITS[name]}. {ADVICE[name]}\n{places}"
    )


def planted(**sources: str) -> dict[str, int]:
    """The numbers of a few modules, written with two underscores for a folder."""
    modules = {
        Path(f"{name.replace('__', '/')}.py"): ast.parse(source) for name, source in sources.items()
    }
    return {name: number for name, (number, _) in counted(modules).items()}


def test_a_planted_gerund_is_counted() -> None:
    assert planted(bus__keeping="", bus__feed="")["gerund modules"] == 1


def test_a_planted_file_name_is_counted_when_it_comes_twice() -> None:
    assert planted(bus__rows="", stores__rows="", bus__feed="")["repeated file names"] == 1


def test_a_planted_class_name_is_counted_when_it_comes_twice() -> None:
    assert planted(rows="class Row: pass", columns="class Row: pass")["repeated class names"] == 1


def test_a_planted_large_class_is_counted() -> None:
    methods = [f"    def method_{n}(self): pass" for n in range(MOST_METHODS + 1)]
    numbers = planted(rows="\n".join(["class Row:", *methods]))
    assert numbers["large classes"] == 1
    assert numbers["methods of the largest class"] == MOST_METHODS + 1


def test_overloads_and_setters_are_one_method() -> None:
    numbers = planted(rows="class Row:\n" + "    def value(self): pass\n" * (MOST_METHODS + 1))
    assert numbers["large classes"] == 0


@pytest.mark.parametrize("loop", ["for each in rows: pass", "x = [each for each in rows]"])
def test_a_planted_each_is_counted(loop: str) -> None:
    assert planted(rows=loop)["`for each in`"] == 1
