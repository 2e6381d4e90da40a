"""Spark's checkpoint of a pipeline: whether it is intact, and belongs to this store.

A checkpoint can be thrown away, because the store knows how far the pipeline has come. A doubtful
one is therefore refused, and never repaired.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from polycast.errors import BadCheckpointError

MARK = "polycast.json"  # says which store a checkpoint is of
_ASIDE = f"{MARK}.new"
_FORMAT = 1


def prepare_checkpoint(
    folder: str | os.PathLike[str], *, identity: str, high: int, end: int
) -> None:
    """Make a folder a checkpoint, or check that it is one; `BadCheckpointError` if it is not.

    All before `high` is routed, and the log ends before `end`.
    """
    checkpoint = _Checkpoint(Path(folder), high)
    if not checkpoint.create(identity):
        checkpoint.check_mark(identity)
        checkpoint.check_files(end)


class _Checkpoint:
    """A folder, for a pipeline that has come to the position `high`."""

    def __init__(self, path: Path, high: int) -> None:
        self._path, self._high = path, high

    def _refusal(self, why: str) -> BadCheckpointError:
        return BadCheckpointError(self._path, why=why, high=self._high)

    def create(self, identity: str) -> bool:
        """Mark a new or empty folder, and say whether it was one."""
        path = self._path
        if path.exists() and not path.is_dir():
            raise self._refusal("it is a file")
        try:
            path.mkdir(parents=True, exist_ok=True)
            is_new = all(file.name == _ASIDE for file in path.iterdir())
            if is_new:
                self._mark(identity)
        except OSError as error:
            raise self._refusal(f"it cannot be used: {error}") from None
        if not os.access(path, os.W_OK | os.X_OK):
            raise self._refusal("it cannot be used: it may not be written")
        return is_new

    def _mark(self, identity: str) -> None:
        aside = self._path / _ASIDE
        with aside.open("w") as file:
            json.dump({"format": _FORMAT, "store": identity}, file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._path / MARK)

    def check_mark(self, identity: str) -> None:
        """Refuse a folder that is something else, or the checkpoint of another store."""
        mark = self._path / MARK
        if not mark.exists():
            raise self._refusal(f"it has no {MARK}, so it is something else, or was not made whole")
        content = self._json(mark, self._text(mark))
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise self._refusal(f"{MARK} does not say format {_FORMAT}")
        if content.get("store") != identity:
            raise self._refusal("it is of a pipeline over another store")

    def check_files(self, end: int) -> None:
        """Refuse what is damaged, incomplete, or further than the store or its log."""
        offsets, commits = _numbered(self._path / "offsets"), _numbered(self._path / "commits")
        metadata = self._path / "metadata"
        if metadata.exists():
            if not isinstance(self._json(metadata, self._text(metadata)), dict):
                raise self._refusal("metadata is damaged")
        elif offsets or commits:
            raise self._refusal("its metadata is missing")
        for number, file in commits.items():
            self._lines(file, at_least=2)
            if number not in offsets:
                raise self._refusal(f"offsets/{number} is missing")
        ends = {number: self._end(file) for number, file in offsets.items()}
        if ends:
            self._check_sequence(sorted(ends), commits)
        done = max((ends[number] for number in commits), default=0)
        if done > self._high:
            raise self._refusal(f"it has come to position {done}, the store only to {self._high}")
        planned = max(ends.values(), default=0)
        if planned > end:
            raise self._refusal(f"it has planned to position {planned}, and the log ends at {end}")

    def _check_sequence(self, numbers: list[int], commits: dict[int, Path]) -> None:
        """Batches follow each other, and all but the last were committed."""
        gaps = set(range(numbers[0], numbers[-1] + 1)).difference(numbers)
        if gaps:
            raise self._refusal(f"offsets/{min(gaps)} is missing")
        missing = [number for number in numbers[:-1] if number not in commits]
        if missing and any(number > missing[0] for number in commits):
            raise self._refusal(f"commits/{missing[0]} is missing")

    def _end(self, file: Path) -> int:
        """The position at which a batch ends."""
        offset = self._json(file, self._lines(file, at_least=3)[1])
        if not isinstance(offset, dict) or type(offset.get("position")) is not int:
            raise self._refusal(f"{self._name(file)} has no position: it is of another query")
        return int(offset["position"])

    def _lines(self, file: Path, *, at_least: int) -> list[str]:
        """Spark writes a version, then JSON, one object in each line."""
        version, *rest = self._text(file).splitlines() or [""]
        if not version.startswith("v") or len(rest) + 1 < at_least:
            raise self._refusal(f"{self._name(file)} is torn")
        for line in rest:
            self._json(file, line)
        return rest

    def _json(self, file: Path, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._refusal(f"{self._name(file)} is damaged: {error}") from None

    def _text(self, file: Path) -> str:
        try:
            return file.read_text()
        except (OSError, ValueError) as error:
            raise self._refusal(f"{self._name(file)} is damaged: {error}") from None

    def _name(self, file: Path) -> Path:
        return file.relative_to(self._path)


def _numbered(folder: Path) -> dict[int, Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    return {int(file.name): file for file in files if file.name.isdecimal()}
