"""Pipelines and tables."""

from __future__ import annotations

from polycast.errors.root import PolycastError

__all__ = [
    "BadCheckpointError",
    "NoRowError",
    "PipelineError",
    "PipelineFailedError",
    "PipelineTakenOverError",
]


class PipelineError(PolycastError):
    """The root of the errors of a pipeline."""


class BadCheckpointError(PipelineError):
    """A folder that a pipeline cannot go on from."""

    def __init__(self, path: object, *, why: str, high: int) -> None:
        self.path, self.why, self.high = path, why, high
        super().__init__(
            f"{path} is no checkpoint that this pipeline can go on from: {why}. Name another "
            f"folder, or remove this one: nothing is lost by that, as the store knows that all "
            f"before position {high} is routed"
        )


class PipelineFailedError(PipelineError):
    """A pipeline that had to stop."""

    def __init__(self, where: str, *, why: str) -> None:
        self.where, self.why = where, why
        super().__init__(f"the pipeline stopped at {where}: {why}")


class PipelineTakenOverError(PipelineError):
    """Another pipeline was started over the same store."""

    def __init__(self) -> None:
        super().__init__(
            "another pipeline was started over the same store, and routes from now on; "
            "this one has stopped, and nothing is lost or done twice"
        )


class NoRowError(PolycastError, ValueError):
    """An event that a table of its type cannot hold exactly, or that cannot be read at all."""

    def __init__(
        self, position: int, name: str, *, why: str, about: tuple[str, object] | None = None
    ) -> None:
        self.position, self.name = position, name
        self.attribute = about[0] if about else None
        self.value = about[1] if about else None
        super().__init__(
            f"the event at position {position}, of {name}, has no row: {why}. misfits='skip' "
            f"leaves such events out"
        )
