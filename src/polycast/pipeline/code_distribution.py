"""Distributes the modules that define types and functions to the workers."""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import BadOptionError
from polycast.registered_names import RegisteredNames, home_of, imported, placed_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from importlib.machinery import ModuleSpec

    from pyspark.sql import SparkSession

_SOURCES = (".py", ".pyi", ".json", ".txt", ".toml", ".xml")


class CodeBundle(msgspec.Struct, frozen=True, omit_defaults=True):
    """The modules and functions that names may refer to, as data that is sent to the workers."""

    imports: tuple[str, ...] = ()
    functions: tuple[tuple[str, str, str], ...] = ()
    """By which name, in which module, and where in there."""

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that the workers need."""
        return tuple(dict.fromkeys((*self.imports, *(module for _, module, _ in self.functions))))

    def names(self) -> RegisteredNames:
        """Import the modules, and no others, and return what names refer to."""
        for module in self.modules:
            imported(module)
        given = {name: placed_at(module, path) for name, module, path in self.functions}
        return RegisteredNames(self.imports, given)

    def encoded(self) -> str:
        """Return the bundle as text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decoded(cls, text: str) -> CodeBundle:
        """Return the bundle of such a text."""
        return _decode(text)


# Made once: the first use of a type of nested Structs must not happen in two threads at once.
_decode = msgspec.json.Decoder(CodeBundle).decode


def bundle_of(
    imports: Iterable[str], functions: Mapping[str, Callable[..., Any]] | None
) -> CodeBundle:
    """Bundle modules and functions that workers can import; `BadOptionError` for any other."""
    given = {} if functions is None else functions
    accepted = "a function for each name, as in {'shop.rules:is_urgent': is_urgent}"
    if not hasattr(given, "items"):
        raise BadOptionError("functions", functions, accepted=accepted)
    homes = []
    for name, function in given.items():
        home = home_of(function) if callable(function) and isinstance(name, str) else None
        if home is None or home[0] == "__main__":
            why = "the workers import it, by its module and its name there"
            raise BadOptionError("functions", given, accepted=accepted, why=f"{name!r}: {why}")
        homes.append((name, *home))
    return CodeBundle(check_imports(imports), tuple(homes))


def check_imports(imports: Iterable[str]) -> tuple[str, ...]:
    """Check that modules can be imported here; `BadOptionError` for any other."""
    if isinstance(imports, str):
        accepted = f"a list of modules: [{imports!r}]"
        raise BadOptionError("imports", imports, accepted=accepted)
    names = tuple(imports)
    for name in names:
        if _spec(name) is None:
            accepted = "modules that this program can import, such as 'shop.events'"
            raise BadOptionError("imports", name, accepted=accepted)
    return names


def _spec(name: object) -> ModuleSpec | None:
    if not isinstance(name, str) or not all(map(str.isidentifier, name.split("."))):
        return None
    try:
        return find_spec(name)
    except (ImportError, ValueError):
        return None


def distribute(spark: SparkSession, imports: Iterable[str]) -> None:
    """Make modules importable in all workers, with the whole top-level package of each.

    What is installed with this Python is left out, because the workers have it.
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
    """Yield the names in the archive, and where the files are."""
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
