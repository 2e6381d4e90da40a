"""Every way by which a name comes in: what leads out of the table comes to nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hostile_names import MODULE, shell

import polycast as pc
from polycast.matching import Definition
from polycast.matching.definitions import SelectedType
from polycast.pipeline.route import Piece, rows_of
from polycast.pipeline.shipping import Shipment
from polycast.routing import decode_takers
from polycast.routing.takers import Takers
from polycast.stores import Transaction, open_store
from polycast.stores.doctor.looking import looking
from polycast.typesystem import describe

TEXT = SelectedType("builtins.str", 1, describe(str).hash)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events.db")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace"


def subscribed(path: str, functions: Iterable[str]) -> None:
    """Definitions with functions, as they may have come over the wire."""
    store = open_store(path)

    def write(tx: Transaction) -> None:
        for number, function in enumerate(functions):
            wanted = Definition(
                "str", "strong_set", (TEXT,), where="?", function=function, partial=True
            )
            tx.begin_route(f"evil-{number}", wanted.encoded())

    store.write(write).result()
    store.close()


def routed(path: str, event: object, *, imports: tuple[str, ...] = (MODULE,)) -> Takers:
    """Who takes an event, by what a worker of the pipeline says, and of whom it is not sure."""
    with pc.Bus(f"sqlite:///{path}") as bus:
        position = bus.publish(event).position
    with looking(path) as store, store.view() as view:
        identity, effect = view.identity(), view.in_effect(position)
    piece = Piece(position, position + 1, *effect)
    (row,) = rows_of(path, identity, Shipment(imports), [piece])
    assert (row.error, row.troubles) == (None, b"")
    return decode_takers(position, row.takers)


@pytest.mark.parametrize("name", [f"{MODULE}:os.system", f"{MODULE}:system", "builtins:exec"])
def test_a_definition_runs_no_program_in_the_pipeline(path: str, trace: Path, name: str) -> None:
    subscribed(path, [name])
    event = shell(trace) if "system" in name else f"open({str(trace)!r}, 'w').close()"
    routed(path, event)
    assert not trace.exists()
