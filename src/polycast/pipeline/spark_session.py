"""A Spark session for programs without one, and the settings that a pipeline needs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from polycast.errors import NotAvailableError

TERMINAL = "-"  # sends Spark's messages to the terminal

_SETTINGS = {
    "spark.app.name": "polycast",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A worker that fails for a reason of its own is no reason to stop.
    "spark.task.maxFailures": "4",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.worker.reuse": "true",
    # Without checksums of its own, which nobody reads: they are half of what a checkpoint costs.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}

# For who runs nothing but a pipeline: the JVM sees no events, so compiling itself, and collecting
# garbage beside it, cost more than they bring, and that in time that the workers need.
LEAN = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

# A micro-batch is small, and its plan is always the same: what costs time is all around it. The
# checkpoint needs no care, because the store knows how far the pipeline has come.
_STREAMING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.pollingDelay": "1ms",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}


def session(
    master: str = "local[*]",
    *,
    log: str | os.PathLike[str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the session of this process, or a new one that prints nothing.

    Spark's own messages go to the file `log`, with "-" to the terminal, and without it nowhere.
    """
    active = active_session()
    if active is not None:
        return active
    # Workers have to have what this process has.
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.setdefault(name, sys.executable)
    wanted = SparkConf(loadDefaults=False)
    wanted.setMaster(_patient(master))
    wanted.setAll([*_SETTINGS.items(), *(settings or {}).items()])
    if SparkContext._gateway is None:
        SparkContext._ensure_initialized(gateway=_gateway(wanted, log))
    return SparkSession(SparkContext.getOrCreate(SparkConf().setAll(wanted.getAll())))


def active_session() -> SparkSession | None:
    """The session of this process, whichever thread made it."""
    active: SparkSession | None = SparkSession._instantiatedSession
    alive = active is not None and active.sparkContext._jsc is not None
    return active if alive else None


def _patient(master: str) -> str:
    """In local mode Spark gives up after the first failure, unless the master says how many."""
    if master.startswith("local[") and "," not in master:
        return f"{master[:-1]},4]"
    return master


def _gateway(wanted: SparkConf, log: str | os.PathLike[str] | None) -> object:
    """Start the JVM, and send its output where it is wanted."""
    if log == TERMINAL:
        return _launched(wanted, {})
    with open(os.devnull if log is None else log, "ab") as sink:
        return _launched(wanted, {"stdout": sink, "stderr": sink})


def _launched(wanted: SparkConf, streams: dict[str, object]) -> object:
    try:
        return _uninterrupted(wanted, streams)
    except Exception as error:
        raise NotAvailableError(
            "a Spark session",
            why=f"its JVM did not start ({_java()})",
            instead="Install Java 17 or newer, or let JAVA_HOME name it; a log= says more",
        ) from error


def _uninterrupted(wanted: SparkConf, streams: dict[str, object]) -> object:
    """Start the JVM in a thread: an interrupted start would leave a JVM that nobody ends."""
    with ThreadPoolExecutor(1) as apart:
        launching = apart.submit(launch_gateway, wanted, streams)
        try:
            return launching.result()
        except Exception:
            raise
        except BaseException:
            _end(launching.result())
            raise


def _end(gateway: Any) -> None:
    gateway.shutdown()
    if gateway.proc is not None:
        gateway.proc.stdin.close()  # which it takes as the end
        gateway.proc.wait(30)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    with suppress(OSError, subprocess.SubprocessError):
        version = subprocess.run(  # noqa: S603  (the Java of whoever runs this)
            [java, "-version"], check=False, capture_output=True, text=True, timeout=20
        )
        return version.stderr.partition("\n")[0] or version.stdout.partition("\n")[0] or java
    return f"{java} cannot be run"


def tuned(spark: SparkSession) -> SparkSession:
    """A second session on the same cluster, with the settings of a pipeline."""
    ours = spark.newSession()
    for name, value in _STREAMING.items():
        ours.conf.set(name, value)
    return ours
