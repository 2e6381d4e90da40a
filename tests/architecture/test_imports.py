"""Imports go one way: the tables below are the architecture, the tests keep it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "polycast"

# From the lowest to the highest. A package imports itself and what is strictly below it; packages
# of one layer do not know each other, except under `if TYPE_CHECKING:`.
LAYERS = (
    ("plain_text",),
    ("config", "metrics", "errors", "registered_names"),
    ("runtime",),
    ("typesystem",),
    ("events",),
    ("formats",),
    ("filters",),
    ("languages",),
    ("matching", "contexts", "stores"),
    ("routing",),
    ("delivery", "broker.wire"),
    ("log_reader", "broker.client"),
    ("subscriptions",),
    ("bus",),
    ("channels", "collections", "rules"),
    ("broker.server", "pipeline", "testing"),
    ("broker",),
    ("public_names",),
    ("cli", "lazy_names"),
    ("__main__",),
)

# (importer, imported) within one layer, and why it is allowed.
ALLOWED = {
    ("config", "errors"): "an option that is not accepted is refused with BadOptionError",
    ("filters", "languages"): "the registry of languages loads them when the first is needed",
}

# (importer, imported) that the layers would allow.
FORBIDDEN = {
    ("pipeline", "bus"),
    ("pipeline", "channels"),
    ("pipeline", "collections"),
}

# Libraries that only these modules, and what is in them, import at all.
OWNERS = {
    "pyspark": ("pipeline", "filters.backends.spark"),
    "starlette": ("broker.server",),
    "uvicorn": ("broker.server",),
    "fastapi": ("broker.server",),
    "aiohttp": ("broker.server",),
}

# Libraries that are imported inside the function that needs them.
LAZY = {"attr", "attrs", "pint", "pyarrow", "pydantic", "rich"}

RANK = {package: rank for rank, layer in enumerate(LAYERS) for package in layer}


@dataclass(frozen=True)
class Import:
    """One imported module, by its absolute name."""

    target: str
    line: int
    typing_only: bool
    at_module_level: bool


def imports(module: str, source: str, *, is_package: bool) -> Iterator[Import]:
    """Everything that a module imports, wherever in it."""
    package = module if is_package else module.rpartition(".")[0]
    tree = ast.parse(source)
    yield from _walk(tree.body, package, typing_only=False, at_module_level=True)


def _walk(
    nodes: list[ast.AST] | list[ast.stmt], package: str, *, typing_only: bool, at_module_level: bool
) -> Iterator[Import]:
    for node in nodes:
        for target in _targets(node, package):
            yield Import(target, node.lineno, typing_only, at_module_level)
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _walk(node.body, package, typing_only=True, at_module_level=at_module_level)
            inner: list[ast.AST] = list(node.orelse)
        else:
            inner = list(ast.iter_child_nodes(node))
        in_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _walk(
            inner,
            package,
            typing_only=typing_only,
            at_module_level=at_module_level and not in_function,
        )


def _targets(node: ast.AST, package: str) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            origin = _absolute(node, package)
            if origin != "polycast":
                return [origin]
            # `from polycast import errors` means the module, any other name the package itself.
            return [f"polycast.{a.name}" if a.name in RANK else "polycast" for a in node.names]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]):
            if name in ("import_module", "__import__") and isinstance(first, ast.Constant):
                return [str(first.value)]
    return []


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if node.level == 0:
        return node.module or ""
    parents = package.split(".")
    kept = parents[: len(parents) - node.level + 1]
    return ".".join([*kept, node.module] if node.module else kept)


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def complaints(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What is wrong with the imports of one module, one sentence each."""
    found = (
        (each, _order(module, each) or _ownership(module, each) or _laziness(each))
        for each in imports(module, source, is_package=is_package)
    )
    return [f"{module}, line {each.line}: {text}" for each, text in found if text]


def package_of(module: str) -> str:
    """The package of the table that a module is in: the longest name that leads to it."""
    parts = module.split(".")[1:]
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in names if name in RANK), parts[0])


def _order(module: str, each: Import) -> str | None:
    root, _, rest = each.target.partition(".")
    if root != "polycast" or module == "polycast":
        return None
    if not rest:
        return "nothing inside imports polycast itself; import the module that defines the name"
    importer, imported = package_of(module), package_of(each.target)
    for package in (importer, imported):
        if package not in RANK:
            return f"{package} has no place in LAYERS"
    if importer == imported or (importer, imported) in ALLOWED:
        return None
    if (importer, imported) in FORBIDDEN:
        return f"{importer} never imports {imported}"
    if RANK[importer] == RANK[imported]:
        return None if each.typing_only else f"{importer} and {imported} are in one layer"
    return f"{importer} is below {imported}" if RANK[importer] < RANK[imported] else None


def _ownership(module: str, each: Import) -> str | None:
    library = each.target.partition(".")[0]
    owners = OWNERS.get(library)
    if owners is None or any(f"{module}.".startswith(f"polycast.{owner}.") for owner in owners):
        return None
    return f"only {' and '.join(owners)} may import {library}"


def _laziness(each: Import) -> str | None:
    library = each.target.partition(".")[0]
    if library in LAZY and each.at_module_level and not each.typing_only:
        return f"{library} is imported inside the function that needs it"
    return None


def modules() -> list[tuple[str, Path]]:
    """The name and the file of every module of polycast."""
    return [(_name(path), path) for path in sorted(SOURCE.rglob("*.py"))]


def _name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_module_imports_only_what_is_below_it() -> None:
    found = [
        text
        for name, path in modules()
        for text in complaints(
            name, path.read_text(encoding="utf-8"), is_package=path.stem == "__init__"
        )
    ]
    assert not found, "\n".join(found)


def test_every_module_has_a_place_in_the_layers() -> None:
    packages = {package_of(name) for name, _ in modules() if name != "polycast"}
    assert packages <= RANK.keys()


def test_only_the_registry_of_languages_loads_them_into_filters_and_only_when_asked() -> None:
    loading = {
        (name, imported.at_module_level)
        for name, path in modules()
        if name.startswith("polycast.filters.")
        for imported in imports(
            name, path.read_text(encoding="utf-8"), is_package=path.stem == "__init__"
        )
        if imported.target.startswith("polycast.languages")
    }
    assert loading == {("polycast.filters.tree.language_registry", False)}


def test_the_tables_speak_of_packages_that_have_a_place() -> None:
    assert {package for pair in [*ALLOWED, *FORBIDDEN] for package in pair} <= RANK.keys()


PLANTED_BAD = [
    ("polycast.errors", "from polycast.bus import Bus", "errors is below bus"),
    ("polycast.filters.tree.nodes", "import polycast.matching.index", "filters is below matching"),
    ("polycast.filters.tree.nodes", "from ...routing import plan", "filters is below routing"),
    ("polycast.filters.tree.nodes", "from ... import bus", "filters is below bus"),
    ("polycast.filters.tree.nodes", "from polycast import bus", "filters is below bus"),
    ("polycast.bus.local", "def f():\n    from polycast.cli import main", "bus is below cli"),
    ("polycast.events.codec", "if TYPE_CHECKING:\n    from ..bus import Bus", "is below bus"),
    ("polycast.matching.index", "from polycast.stores import Log", "in one layer"),
    ("polycast.events.codec", "from polycast import Bus", "polycast itself"),
    ("polycast.events.codec", "import polycast as pc", "polycast itself"),
    ("polycast.events.codec", "from .. import Bus", "polycast itself"),
    (
        "polycast.broker.wire.protocol",
        "from polycast.broker.client import x",
        "is below broker.client",
    ),
    (
        "polycast.broker.client.store",
        "from polycast.broker.server import x",
        "is below broker.server",
    ),
    ("polycast.bus.local", "from polycast.magic import spell", "no place in LAYERS"),
    (
        "polycast.pipeline.route_stream",
        "from polycast.bus import Bus",
        "pipeline never imports bus",
    ),
    ("polycast.bus.local", "def f():\n    import pyspark.sql", "may import pyspark"),
    ("polycast.filters.backends.python", "from pyspark import sql", "may import pyspark"),
    ("polycast.filters.backends.sparkle", "import pyspark", "may import pyspark"),
    ("polycast.bus.local", "importlib.import_module('pyspark')", "may import pyspark"),
    (
        "polycast.broker.wire.protocol",
        "import starlette.routing",
        "only broker.server may import starlette",
    ),
    ("polycast.pipeline.tables", "import pyarrow as pa", "inside the function"),
    ("polycast.typesystem.read", "try:\n    import attrs\nexcept ImportError: pass", "inside"),
    ("polycast.cli", "class Table:\n    import rich", "inside the function"),
]


@pytest.mark.parametrize(("module", "source", "said"), PLANTED_BAD)
def test_a_planted_bad_import_is_found(module: str, source: str, said: str) -> None:
    found = complaints(module, source)
    assert len(found) == 1
    assert said in found[0]


PLANTED_GOOD = [
    ("polycast.bus.local", "from polycast.errors import BusClosedError"),
    ("polycast.bus.local", "from . import remote"),
    (
        "polycast.routing.context_target",
        "from polycast.routing.translation import TranslationFailed",
    ),
    ("polycast.routing.plan", "from polycast.routing.translation import TranslationFailed"),
    ("polycast.bus.local", "from .. import errors"),
    ("polycast.config", "from polycast.errors import BadOptionError"),
    ("polycast.matching.index", "if TYPE_CHECKING:\n    from polycast.stores import Log"),
    ("polycast.typesystem.read", "def f():\n    import attrs"),
    ("polycast.typesystem.read", "if typing.TYPE_CHECKING:\n    import pydantic"),
    ("polycast.filters.backends.spark", "from pyspark.sql import Column"),
    ("polycast.pipeline.route_stream", "import pyspark"),
    ("polycast.broker.server.http", "from starlette.routing import Route"),
    ("polycast", "from polycast.bus import Bus"),
]


@pytest.mark.parametrize(("module", "source"), PLANTED_GOOD)
def test_an_allowed_import_is_not_found(module: str, source: str) -> None:
    assert complaints(module, source) == []


def test_a_relative_import_in_a_package_starts_at_the_package() -> None:
    found = imports("polycast.filters", "from .nodes import Node", is_package=True)
    assert [each.target for each in found] == ["polycast.filters.nodes"]
