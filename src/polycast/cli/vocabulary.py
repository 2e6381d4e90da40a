"""`polycast types`: what a store or a broker knows of event types."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from polycast.cli.formatting import listed, table
from polycast.cli.naming import meant_by
from polycast.cli.targets import place_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

    from polycast.cli.terminal import Terminal
    from polycast.stores import Store
    from polycast.typesystem import AttributeDescription, Description

__all__ = ["show_types"]

_PAGE = 2_000  # records read at a time


def show_types(given: Namespace, terminal: Terminal) -> int:
    """List the types that are described, or show one whole; with --count how many events there are.

    Counting reads the log.
    """
    with place_of(given).looking() as store:
        with store.view() as view:
            found = view.descriptions()
        if given.type is not None:
            meant = meant_by(given.type, {each.name for each in found})
            found = [each for each in found if each.name == meant]
        counts = _counts(store, found, terminal) if given.count else None
    found.sort(key=lambda each: (each.name, each.version))
    data = [_data(each) | _counted(each, counts) for each in found]
    lines = _list(found, counts) if given.type is None else _whole(found, counts)
    terminal.show({"types": data}, lines if found else ["no types are described"])
    return 0


def _counts(store: Store, found: Iterable[Description], terminal: Terminal) -> Counter[str]:
    wanted = {each.hash for each in found}
    numbers = [number for number, each in store.types().items() if each.hash in wanted]
    counts: Counter[str] = Counter()
    low, end = store.oldest(), store.newest() + 1
    begin = low
    while low < end and numbers:
        batch = store.read(low, limit=_PAGE, until=end, types=numbers)
        counts.update(each.record.hash for each in batch.entries)
        low = batch.upto if batch.upto > low else end
        terminal.progress("counting", low - begin, end - begin)
    return counts


def _counted(each: Description, counts: Counter[str] | None) -> dict[str, Any]:
    return {} if counts is None else {"events": counts[each.hash]}


def _data(each: Description) -> dict[str, Any]:
    return {
        "name": each.name,
        "version": each.version,
        "hash": each.hash,
        "kind": each.kind,
        "aliases": list(each.aliases),
        "supertypes": list(each.supertypes),
        "attributes": [
            {"name": part.name, "type": str(part.type), "required": part.required}
            for part in each.attributes
        ],
        "constants": [part.name for part in each.constants],
    }


def _list(found: list[Description], counts: Counter[str] | None) -> list[str]:
    heads = ["name", "version", "kind", "supertypes", "attributes"]
    rows: list[list[object]] = [
        [
            each.name,
            each.version,
            each.kind,
            listed(each.supertypes),
            listed([part.name for part in each.attributes or each.constants]),
        ]
        for each in found
    ]
    if counts is not None:
        heads.insert(2, "events")
        for row, each in zip(rows, found, strict=True):
            row.insert(2, counts[each.hash])
    return table(heads, rows)


def _whole(found: list[Description], counts: Counter[str] | None) -> Iterator[str]:
    for each in found:
        yield f"{each.name}, version {each.version}, {each.kind}"
        if counts is not None:
            yield f"  events      {counts[each.hash]:,}"
        yield f"  supertypes  {listed(each.supertypes)}"
        if each.aliases:
            yield f"  aliases     {listed(each.aliases)}"
        rows = [(part.name, str(part.type), _filled(part)) for part in each.attributes]
        rows += [(part.name, "constant", "-") for part in each.constants]
        yield from table(("attribute", "type", "if left out"), rows, indent=2)


def _filled(part: AttributeDescription) -> str:
    if part.required:
        return "refused"
    return repr(part.default) if isinstance(part.default, str | int | float) else "its default"
