"""`polycast doctor`: examine a store or a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import add_command, add_place

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal
    from polycast.stores.doctor import StoreReport

__all__ = ["declare"]

STATUS = {"healthy": 0, "damaged": 1, "warnings": 3}
_STATUS_IN_WORDS = "Exit status: 0 healthy, 1 damaged, or no store or broker, 3 warnings only."


def declare(commands: Any) -> None:
    """Declare the command."""
    what = "examine a store or a broker: integrity, figures, and what somebody should see to"
    example = "doctor events.db --json"
    command = add_command(commands, "doctor", run, what, example, more=_STATUS_IN_WORDS)
    add_place(command)
    command.add_argument(
        "--no-sync-test", action="store_true", help="do not measure the cost of a sync"
    )


def run(given: Namespace, terminal: Terminal) -> int:
    """Examine a store, or a broker with the store behind it."""
    import msgspec

    from polycast.cli.broker_examination import examine_broker
    from polycast.cli.report_text import broker_lines, report_lines
    from polycast.cli.targets import has_died, place_of
    from polycast.stores.doctor import examine

    place = place_of(given)
    if place.is_broker:
        with place.reached() as store:
            examination = examine_broker(store, place.text, has_died=has_died)
        broker = msgspec.to_builtins(examination.broker)
        terminal.show({**_data(examination.report), "broker": broker}, broker_lines(examination))
        return STATUS[examination.report.state]
    report = examine(
        place.file("an examination"),
        clock=terminal.clock,
        has_died=has_died,
        sync_test=not given.no_sync_test,
        progress=terminal.progress,
    )
    terminal.show(_data(report), report_lines(report))
    return STATUS[report.state]


def _data(report: StoreReport) -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = {"state": report.state, **msgspec.to_builtins(report)}
    for row, figures in zip(data["subscriptions"], report.subscriptions, strict=True):
        row["attached"] = figures.attached
    return data
