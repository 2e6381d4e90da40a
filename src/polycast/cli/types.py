"""`polycast types`: the event types that a store or a broker describes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.command_line import add_command
from polycast.cli.formatting import Line, TextTable, listed
from polycast.cli.operands import meant_by, place_of, row_filter

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from polycast.cli.terminal import Terminal
    from polycast.stores import Store
    from polycast.typesystem import AttributeDescription, Description


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    command = add_command(commands, "types", run, what, "types events.db Sale --count", late="type")
    command.take_place()
    command.take("type TYPE", "the name of a type, or the end of it", nargs="?")
    command.take("--count", "count the events of each type, which reads the whole log")
    command.take_where("a filter on what --json prints, such as 'event.version > 1'")
    command.take_limit()


def run(given: Namespace, terminal: Terminal) -> int:
    """List the types that are described, or show one whole; with --count how many events there are.

    Counting reads the log.
    """
    is_wanted = row_filter(given.where, DescribedType)
    with place_of(given).looking() as store:
        with store.view() as view:
            described = view.descriptions()
        if given.type is not None:
            meant = meant_by(given.type, {description.name for description in described})
            described = [description for description in described if description.name == meant]
        counts = count_events(store, described, terminal) if given.count else None
    described.sort(key=lambda description: (description.name, description.version))
    rows = [(described_type(description, counts), description) for description in described]
    chosen = [row for row in rows if is_wanted(row[0])][: given.limit]
    types = [kind for kind, _ in chosen]
    data = {"types": [kind.data() for kind in types]}
    if not chosen:
        lines = ["no types are described" if not rows else "no type is meant"]
        terminal.show(data, lines)
    elif given.type is None:
        terminal.show(data, [type_table(types, counted=given.count)], paged=True)
    else:
        terminal.show(data, type_lines([row[1] for row in chosen], counts), paged=True)
    return 0


_PAGE = 2_000  # records read at a time


class DescribedAttribute(msgspec.Struct, frozen=True):
    """An attribute of a type."""

    name: str
    type: str
    required: bool


class DescribedType(msgspec.Struct, frozen=True):
    """A type as `polycast types` lists it, and as a filter sees it."""

    name: str
    version: int
    hash: str
    kind: str
    aliases: list[str]
    supertypes: list[str]
    attributes: list[DescribedAttribute]
    constants: list[str]
    events: int | None = None

    def data(self) -> dict[str, Any]:
        """The type for a program; its events only if they were counted."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        if self.events is None:
            del data["events"]
        return data


def described_type(description: Description, counts: Counter[str] | None) -> DescribedType:
    """What is listed of a description."""
    return DescribedType(
        description.name,
        description.version,
        description.hash,
        description.kind,
        list(description.aliases),
        list(description.supertypes),
        [
            DescribedAttribute(attribute.name, str(attribute.type), attribute.required)
            for attribute in description.attributes
        ],
        [constant.name for constant in description.constants],
        None if counts is None else counts[description.hash],
    )


def count_events(
    store: Store, descriptions: Iterable[Description], terminal: Terminal
) -> Counter[str]:
    """Read the log, and count the events of each description, by its hash."""
    wanted = {description.hash for description in descriptions}
    numbers = [number for number, kind in store.types().items() if kind.hash in wanted]
    counts: Counter[str] = Counter()
    low, end = store.oldest(), store.newest() + 1
    begin = low
    while low < end and numbers:
        batch = store.read(low, limit=_PAGE, until=end, types=numbers)
        counts.update(stored.record.hash for stored in batch.entries)
        low = batch.upto if batch.upto > low else end
        terminal.progress("counting", low - begin, end - begin)
    return counts


def type_table(types: Sequence[DescribedType], *, counted: bool) -> TextTable:
    """A row for each type."""
    events = ["events"] if counted else []
    heads = ["name", "version", *events, "kind", "supertypes", "attributes"]
    rows = [
        (
            kind.name,
            kind.version,
            *([kind.events] if counted else []),
            kind.kind,
            listed(kind.supertypes),
            listed([attribute.name for attribute in kind.attributes] or kind.constants),
        )
        for kind in types
    ]
    return TextTable(heads, rows)


def type_lines(descriptions: Iterable[Description], counts: Counter[str] | None) -> Iterator[Line]:
    """All about each type."""
    for description in descriptions:
        yield f"{description.name}, version {description.version}, {description.kind}"
        if counts is not None:
            yield f"  events      {counts[description.hash]:,}"
        yield f"  supertypes  {listed(description.supertypes)}"
        if description.aliases:
            yield f"  aliases     {listed(description.aliases)}"
        rows = [(part.name, str(part.type), _default(part)) for part in description.attributes]
        rows += [(constant.name, "constant", "-") for constant in description.constants]
        yield TextTable(("attribute", "type", "if left out"), rows, indent=2)


def _default(attribute: AttributeDescription) -> str:
    if attribute.required:
        return "refused"
    default = attribute.default
    return repr(default) if isinstance(default, str | int | float) else "its default"
