"""Brings the modules that define types and functions to where the workers are."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from typing import TYPE_CHECKING

from polycast.errors import BadOption
from polycast.routing.borders.versions import function_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from importlib.machinery import ModuleSpec

    from pyspark.sql import SparkSession

__all__ = ["Functions", "check_imports", "import_all", "ship"]

_SOURCES = (".py", ".pyi", ".json", ".txt", ".toml", ".xml")


def check_imports(imports: Iterable[str]) -> tuple[str, ...]:
    """The names of modules that can be imported here; `BadOption` for any other."""
    if isinstance(imports, str):
        accepted = f"a list of modules: [{imports!r}]"
        raise BadOption("imports", imports, accepted=accepted)
    names = tuple(imports)
    for name in names:
        if _spec(name) is None:
            accepted = "modules that this program can import, such as 'shop.events'"
            raise BadOption("imports", name, accepted=accepted)
    return names


def _spec(name: object) -> ModuleSpec | None:
    if not isinstance(name, str) or not all(map(str.isidentifier, name.split("."))):
        return None
    try:
        return find_spec(name)
    except (ImportError, ValueError):
        return None


def ship(spark: SparkSession, imports: Iterable[str]) -> None:
    """Make modules importable in all workers: the whole of each top-level package they are in.

    What is installed with this Python is left alone: the workers have it.
    """
    for top in dict.fromkeys(name.partition(".")[0] for name in imports):
        spec = _spec(top)
        if spec is not None and not _is_installed(spec):
            context = spark.sparkContext
            # A folder of Spark's own, which goes when it stops.
            context.addPyFile(_zipped(top, spec, within=context._temp_dir))


def _is_installed(spec: ModuleSpec) -> bool:
    places = [spec.origin or "", *(spec.submodule_search_locations or ())]
    homes = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return spec.origin in ("built-in", "frozen") or any(
        place.startswith(home + os.sep) for place in places for home in homes
    )


def _zipped(top: str, spec: ModuleSpec, *, within: str) -> str:
    folder = tempfile.mkdtemp(dir=within)
    path = os.path.join(folder, f"{top}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, place in _files(top, spec):
            archive.write(place, inside)
    return path


def _files(top: str, spec: ModuleSpec) -> Iterator[tuple[str, str]]:
    """Names in the archive, and where the files are."""
    if spec.submodule_search_locations is None:
        if spec.origin is not None:
            yield f"{top}{os.path.splitext(spec.origin)[1]}", spec.origin
        return
    for root in spec.submodule_search_locations:
        for folder, _, names in os.walk(root):
            for name in names:
                if name.endswith(_SOURCES):
                    place = os.path.join(folder, name)
                    yield os.path.join(top, os.path.relpath(place, root)), place


def import_all(imports: Iterable[str]) -> None:
    """Import some modules, and nothing else, so that their classes are known."""
    for name in imports:
        importlib.import_module(name)


class Functions:
    """The functions of some modules, by `module:name`; nothing is imported to find one."""

    def __init__(self, imports: Iterable[str]) -> None:
        self._modules = frozenset((*imports, "builtins"))

    def get(self, path: str) -> Callable[..., object] | None:
        """The function of that path, if its module is one of these."""
        return function_here(path) if path.partition(":")[0] in self._modules else None
