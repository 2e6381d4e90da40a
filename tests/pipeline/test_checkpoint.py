"""A checkpoint in doubt is refused, and whoever follows the advice loses and doubles nothing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import polycast as pc
from polycast.errors import BadCheckpointError, PipelineTakenOverError
from polycast.pipeline import Pipeline
from polycast.routing import decode_recipients
from polycast.stores import open_store
from polycast.stores.sqlite import back_up, restore
from polycast.stores.sqlite.readonly_store import open_readonly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, BATCH = 40, 10
ADVICE = "nothing is lost by that"


@pc.event(name="checkpoint.Sale")
@dataclass(frozen=True)
class Sale:
    number: int


class World:
    """A store with two subscriptions that nobody reads, and the checkpoint of its pipeline."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.path, self.folder, self.spark = home / "events.db", home / "checkpoint", spark
        self.url = f"sqlite:///{self.path}"

    def begin(self) -> None:
        """Subscribe, publish, and route all of it, in several batches."""
        with pc.Bus(self.url) as bus:
            bus.subscribe(Sale, print, durable="all", engine="spark").detach()
            few = bus.subscribe(
                Sale, print, durable="few", engine="spark", where=lambda sale: sale.number % 3 == 0
            )
            few.detach()
        self.publish()
        self.run()

    def publish(self, count: int = EVENTS) -> None:
        """Some more."""
        with pc.Bus(self.url) as bus, open_readonly(self.path) as store:
            newest = store.newest()
            bus.publish_many([Sale(newest + 1 + n) for n in range(count)])

    def pipeline(self, folder: Path | None = None) -> Pipeline:
        """One over the store."""
        folder = self.folder if folder is None else folder
        return Pipeline(self.url, checkpoint=folder, spark=self.spark, batch=BATCH)

    def run(self) -> None:
        """Route what is there, and see that this was done exactly once."""
        self.pipeline().run_available()
        self.check()

    def taken(self) -> list[tuple[int, list[str]]]:
        """Who takes what."""
        with open_readonly(self.path) as store, store.view() as view:
            names = {route.number: route.name for route in view.routes()}
            kept = view.stretches(0, limit=1_000_000)
        found = [pair for each in kept for pair in decode_recipients(each.low, each.takers)]
        return [(position, [names[number] for number in numbers]) for position, numbers in found]

    def state(self) -> tuple[object, ...]:
        """All that a pipeline changes in the store, and all files of the checkpoint."""
        files = {each: each.read_bytes() for each in self.folder.rglob("*") if each.is_file()}
        with open_readonly(self.path) as store, store.view() as view:
            return view.routed(), view.routes(), view.stretches(0, limit=1_000_000), files

    def check(self) -> None:
        """Everything is routed once, and right."""
        with open_readonly(self.path) as store, store.view() as view:
            newest = view.newest()
            assert view.routed().high == newest + 1
        wanted = [(n, ["all"] + ["few"] * (n % 3 == 0)) for n in range(1, newest + 1)]
        assert self.taken() == wanted

    def forget(self) -> None:
        """Remove the store."""
        for file in self.path.parent.glob(f"{self.path.name}*"):
            file.unlink()

    def file(self, part: str) -> Path:
        """A file of the checkpoint: `offsets/-1` is the last of its kind."""
        name, _, number = part.partition("/")
        if not number:
            return self.folder / name
        numbers = [int(each.name) for each in (self.folder / name).glob("[0-9]*")]
        return self.folder / name / str(sorted(numbers)[int(number)])


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("checkpoint"), spark)
    world.begin()
    return world


@pytest.fixture
def world(begun: World, tmp_path: Path, spark: SparkSession) -> World:
    """A copy: of the store, and of its checkpoint."""
    world = World(tmp_path, spark)
    back_up(begun.path, world.path)
    shutil.copytree(begun.folder, world.folder)
    return world


# -- what is refused -------------------------------------------------------------------------------


def tear(part: str) -> Callable[[World], None]:
    def damage(world: World) -> None:
        file = world.file(part)
        os.truncate(file, file.stat().st_size * 2 // 3)

    return damage


def empty(part: str) -> Callable[[World], None]:
    return lambda world: os.truncate(world.file(part), 0)


def remove(part: str) -> Callable[[World], None]:
    return lambda world: world.file(part).unlink()


def write(part: str, text: str) -> Callable[[World], None]:
    def damage(world: World) -> None:
        world.file(part).write_text(text)

    return damage


def move_on(part: str) -> Callable[[World], None]:
    """As if it had come farther than the store."""

    def damage(world: World) -> None:
        file = world.file(part)
        *rest, last = file.read_text().splitlines()
        far = json.loads(last)["position"] + 1_000
        file.write_text("\n".join([*rest, json.dumps({"position": far})]))

    return damage


def foreign(world: World) -> None:
    shutil.rmtree(world.folder)
    world.folder.mkdir()
    (world.folder / "notes.txt").write_text("mine")


def uncommitted(damage: Callable[[World], None]) -> Callable[[World], None]:
    """The same where the last batch was not committed."""

    def both(world: World) -> None:
        world.file("commits/-1").unlink()
        damage(world)

    return both


DAMAGES = {
    "something else": (foreign, "no polycast.json"),
    "no mark": (remove("polycast.json"), "no polycast.json"),
    "mark torn": (tear("polycast.json"), "polycast.json is damaged"),
    "mark empty": (empty("polycast.json"), "polycast.json is damaged"),
    "mark of later": (write("polycast.json", '{"format": 2}'), "format 1"),
    "mark of nobody": (write("polycast.json", "[]"), "format 1"),
    "no metadata": (remove("metadata"), "metadata is missing"),
    "metadata torn": (tear("metadata"), "metadata is damaged"),
    "metadata empty": (empty("metadata"), "metadata is damaged"),
    "metadata of another kind": (write("metadata", "7"), "metadata is damaged"),
    "offsets torn": (tear("offsets/-1"), "offsets/3 is"),
    "offsets empty": (empty("offsets/-1"), "offsets/3 is torn"),
    "offsets are noise": (lambda w: w.file("offsets/-1").write_bytes(b"\xff\0"), "offsets/3 is"),
    "offsets of another query": (
        write("offsets/-1", 'v1\n{}\n{"topic": 5}'),
        "offsets/3 has no position",
    ),
    "offsets of a committed batch gone": (remove("offsets/-1"), "offsets/3 is missing"),
    "offsets between others gone": (remove("offsets/1"), "offsets/1 is missing"),
    "commit torn": (tear("commits/-1"), "commits/3 is"),
    "commit empty": (empty("commits/-1"), "commits/3 is torn"),
    "commit between others gone": (remove("commits/1"), "commits/1 is missing"),
    "ahead": (move_on("offsets/-1"), "position 1041"),
    "planned beyond the log": (uncommitted(move_on("offsets/-1")), "position 1041"),
}


def refused(world: World, name: str) -> None:
    """Damage it, and have it refused; nothing has changed by that."""
    damage, told = DAMAGES[name]
    damage(world)
    before = world.state()
    with pytest.raises(BadCheckpointError, match=told) as caught:
        world.pipeline().run_available()
    assert str(world.folder) in str(caught.value)
    assert ADVICE in str(caught.value)
    assert world.state() == before


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_refused(name: str, world: World) -> None:
    refused(world, name)


@pytest.mark.parametrize("name", ["something else", "offsets torn", "ahead"])
def test_when_it_is_removed_nothing_is_lost_or_doubled(name: str, world: World) -> None:
    world.publish(5)
    refused(world, name)
    shutil.rmtree(world.folder)
    world.run()


def test_the_checkpoint_of_another_store_is_refused(world: World, tmp_path: Path) -> None:
    other = World(tmp_path / "other", world.spark)
    other.path.parent.mkdir()
    other.begin()
    shutil.rmtree(world.folder)
    shutil.copytree(other.folder, world.folder)
    with pytest.raises(BadCheckpointError, match="another store"):
        world.pipeline().run_available()
    world.check()


def test_after_a_restore_the_checkpoint_is_one_of_another_store(
    world: World, tmp_path: Path
) -> None:
    back_up(world.path, tmp_path / "copy.db")
    world.publish(25)
    world.run()
    world.forget()  # workers that live on have it open, so it cannot be replaced by force
    restore(tmp_path / "copy.db", world.path)
    world.check()
    world.publish(7)
    with pytest.raises(BadCheckpointError, match="another store"):
        world.pipeline().run_available()
    shutil.rmtree(world.folder)
    world.run()  # by the same workers, which had the file open that was replaced


def test_an_older_file_in_the_place_of_the_store_is_noticed(world: World, tmp_path: Path) -> None:
    back_up(world.path, tmp_path / "copy.db")
    world.publish(25)
    world.run()
    world.forget()
    shutil.copy(tmp_path / "copy.db", world.path)
    with pytest.raises(
        BadCheckpointError, match="it has come to position 66, the store only to 41"
    ):
        world.pipeline().run_available()


def test_a_file_is_no_checkpoint(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, told in (("file", "it is a file"), ("file/below", "cannot be used")):
        with pytest.raises(BadCheckpointError, match=told):
            world.pipeline(tmp_path / folder).run_available()
    world.check()


@pytest.mark.skipif(os.geteuid() == 0, reason="this user may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(world: World) -> None:
    world.folder.chmod(0o500)
    with pytest.raises(BadCheckpointError, match="may not be written"):
        world.pipeline().run_available()
    world.folder.chmod(0o700)


# -- what is recovered -----------------------------------------------------------------------------


def test_a_batch_whose_commit_is_gone_adds_nothing(world: World) -> None:
    world.file("commits/-1").unlink()
    world.publish(5)
    world.run()


def test_a_checkpoint_from_before_adds_nothing(world: World, tmp_path: Path) -> None:
    shutil.copytree(world.folder, tmp_path / "older")
    world.publish(25)
    world.run()
    shutil.rmtree(world.folder)
    shutil.copytree(tmp_path / "older", world.folder)
    world.publish(5)
    world.run()


def test_a_new_folder_goes_on_where_the_store_is(world: World, tmp_path: Path) -> None:
    world.publish(5)
    assert world.pipeline(tmp_path / "another").run_available().events == 5
    world.check()


# -- two at a time ---------------------------------------------------------------------------------


@pytest.fixture
def first(world: World, tmp_path: Path) -> Iterator[Pipeline]:
    pipeline = world.pipeline(tmp_path / "first").start()
    yield pipeline
    pipeline.stop()


def test_a_second_pipeline_takes_over_and_nothing_is_done_twice(
    world: World, first: Pipeline, eventually: Callable[[Callable[[], object]], None]
) -> None:
    world.publish(15)
    eventually(lambda: first.status().lag == 0)
    with world.pipeline() as second:
        world.publish(25)
        with pytest.raises(PipelineTakenOverError):
            first.wait(30)
        eventually(lambda: second.status().lag == 0)
        assert second.status().state == "running"
    assert first.status().state == "failed"
    world.check()


def test_one_that_was_taken_over_cannot_write(world: World) -> None:
    with closing(open_store(str(world.path))) as store:
        stale = store.write(lambda tx: tx.take_routing()).result().token
        world.publish(5)
        world.run()
        assert not store.write(lambda tx: tx.advance([], token=stale)).result()
