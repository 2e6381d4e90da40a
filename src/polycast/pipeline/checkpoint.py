"""Spark's checkpoint of a pipeline: whether it is one, whole, and of this store.

It is disposable: the store knows how far the pipeline has come. So one that is in doubt is refused
and never repaired.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from polycast.errors import BadCheckpointError

__all__ = ["MARK", "prepare_checkpoint"]

MARK = "polycast.json"  # says which store a checkpoint is of
_ASIDE = f"{MARK}.new"
_FORMAT = 1


def prepare_checkpoint(
    folder: str | os.PathLike[str], *, identity: str, high: int, end: int
) -> None:
    """Make a folder a checkpoint, or see that it is one; `BadCheckpointError` if it is not.

    All before `high` is routed, and the log ends before `end`.
    """
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise BadCheckpointError(path, why="it is a file", high=high)
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_new = all(each.name == _ASIDE for each in path.iterdir())
        if is_new:
            _mark(path, identity)
    except OSError as error:
        raise BadCheckpointError(path, why=f"it cannot be used: {error}", high=high) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise BadCheckpointError(path, why="it cannot be used: it may not be written", high=high)
    if not is_new:
        _check_mark(path, identity, high)
        _check_files(path, high, end)


def _mark(path: Path, identity: str) -> None:
    body = json.dumps({"format": _FORMAT, "store": identity})
    aside = path / _ASIDE
    with aside.open("w") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path / MARK)


def _check_mark(path: Path, identity: str, high: int) -> None:
    mark = path / MARK
    if not mark.exists():
        why = f"it has no {MARK}, so it is something else, or was not made whole"
        raise BadCheckpointError(path, why=why, high=high)
    found = _json(path, mark, high)
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise BadCheckpointError(path, why=f"{MARK} does not say format {_FORMAT}", high=high)
    if found.get("store") != identity:
        raise BadCheckpointError(path, why="it is of a pipeline over another store", high=high)


def _json(path: Path, file: Path, high: int, text: str | None = None) -> Any:
    try:
        return json.loads(file.read_text() if text is None else text)
    except (OSError, ValueError) as error:
        why = f"{file.relative_to(path)} is damaged: {error}"
        raise BadCheckpointError(path, why=why, high=high) from None


def _check_files(path: Path, high: int, end: int) -> None:
    offsets, commits = _numbered(path / "offsets"), _numbered(path / "commits")
    metadata = path / "metadata"
    if metadata.exists():
        if not isinstance(_json(path, metadata, high), dict):
            raise BadCheckpointError(path, why="metadata is damaged", high=high)
    elif offsets or commits:
        raise BadCheckpointError(path, why="its metadata is missing", high=high)
    for number, file in commits.items():
        _lines(path, file, high, at_least=2)
        if number not in offsets:
            raise BadCheckpointError(path, why=f"offsets/{number} is missing", high=high)
    ends = {number: _end(path, file, high) for number, file in offsets.items()}
    if ends:
        _check_row(path, sorted(ends), commits, high)
    done = max((ends[number] for number in commits), default=0)
    if done > high:
        why = f"it has come to position {done}, the store only to {high}"
        raise BadCheckpointError(path, why=why, high=high)
    if max(ends.values(), default=0) > end:
        why = f"it has planned to position {max(ends.values())}, and the log ends at {end}"
        raise BadCheckpointError(path, why=why, high=high)


def _check_row(path: Path, numbers: list[int], commits: dict[int, Path], high: int) -> None:
    """Batches follow each other, and all but the last were committed."""
    gaps = set(range(numbers[0], numbers[-1] + 1)).difference(numbers)
    if gaps:
        raise BadCheckpointError(path, why=f"offsets/{min(gaps)} is missing", high=high)
    missing = [number for number in numbers[:-1] if number not in commits]
    if missing and any(number > missing[0] for number in commits):
        raise BadCheckpointError(path, why=f"commits/{missing[0]} is missing", high=high)


def _numbered(folder: Path) -> dict[int, Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    return {int(file.name): file for file in files if file.name.isdecimal()}


def _lines(path: Path, file: Path, high: int, *, at_least: int) -> list[str]:
    """Spark writes a version, then JSON, one object in each line."""
    try:
        version, *rest = file.read_text().splitlines() or [""]
    except (OSError, ValueError) as error:
        why = f"{file.relative_to(path)} is damaged: {error}"
        raise BadCheckpointError(path, why=why, high=high) from None
    if not version.startswith("v") or len(rest) + 1 < at_least:
        raise BadCheckpointError(path, why=f"{file.relative_to(path)} is torn", high=high)
    for line in rest:
        _json(path, file, high, line)
    return rest


def _end(path: Path, file: Path, high: int) -> int:
    """The position at which a batch ends."""
    offset = _json(path, file, high, _lines(path, file, high, at_least=3)[1])
    if not isinstance(offset, dict) or type(offset.get("position")) is not int:
        why = f"{file.relative_to(path)} has no position: it is of another query"
        raise BadCheckpointError(path, why=why, high=high)
    return int(offset["position"])
