"""Which events a client may publish and receive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.broker.server.ownership import owner_of_publisher
from polycast.broker.server.request_limits import check_topic_text
from polycast.broker.server.type_catalog import MOST_ABOVE
from polycast.errors import AccessDeniedError, BadFrameError, LimitReachedError
from polycast.routing.translation import letter_name
from polycast.stores import EventType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.broker.server.access import Principal
    from polycast.broker.server.type_authorization import TypeAuthorization
    from polycast.broker.server.usage import Usage
    from polycast.events import Record
    from polycast.matching import Definition
    from polycast.stores import Run, Store, Stray


class EventAuthorization:
    """Judges events by the names of their class and supertypes, by topic and by publisher."""

    def __init__(
        self, principal: Principal, types: TypeAuthorization, store: Store, usage: Usage
    ) -> None:
        self._principal, self._types, self._store, self._usage = principal, types, store, usage
        self._names = types.catalog.names  # by the wire name and the hash of a class
        self._is_open = principal.rights.admin
        self._own_publishers: set[str] = set()  # those already looked up

    def check_append(self, runs: Sequence[Run], astray: Sequence[Stray]) -> None:
        """Refuse events that the client may not publish."""
        contexts = [run.context for run in runs for _ in run.payloads] if astray else []
        for stray in astray:
            context = contexts[stray.number] if 0 <= stray.number < len(contexts) else None
            if context is None or stray.subscription != letter_name(context):
                raise BadFrameError("`append`", why="it names an event astray that it has not")
        if not self._is_open:
            for run in runs:
                check_topic_text(run.topic, is_pattern=False)
                self._check_run(run)
            self._usage.add_runs(self._principal, runs, astray)

    def _check_run(self, run: Run) -> None:
        """Check the events of a run in their own form and in that of the root context."""
        self._check_publisher(run.first.publisher)
        self._check_form(EventType(run.name, run.version, run.hash), run.topic)
        if run.root is not None:
            root = EventType(run.root.name, run.root.version, run.root.hash)
            self._check_form(root, run.topic)

    def check_record(self, record: Record) -> None:
        """Refuse an event that the client might not publish, in its own form or the root's."""
        for form in (record, *(() if record.root is None else (record.root,))):
            self._check_form(EventType(form.name, form.version, form.hash), record.topic)

    def _check_publisher(self, publisher: str) -> None:
        if publisher not in self._own_publishers:
            with self._store.view() as view:
                owner = owner_of_publisher(view, publisher)
            if not self._principal.owns(owner):
                self._principal.refuse("publish as", f"the publisher {publisher!r}")
            self._own_publishers.add(publisher)

    def _check_form(self, form: EventType, topic: str | None) -> None:
        """Refuse a class without a grant, or one that would pass for another owner's."""
        name, catalog = form.name, self._types.catalog
        self._principal.check_publish(self._names(name, form.hash), topic)
        if catalog.pinned(name, form.version, form.hash) is None:
            self._types.refuse_form(name, form.hash)
        ancestry = catalog.ancestry(name, form.hash)
        if ancestry is not None and ancestry.is_too_much:
            text = f"{name!r:.100} has more than {MOST_ABOVE} supertypes and aliases above it"
            raise LimitReachedError("types", text, {"limit": MOST_ABOVE})
        for below, above in () if ancestry is None else ancestry.steps:
            if self._types.crosses_owners(below, above):
                self._check_supertype(name, above, topic)

    def _check_supertype(self, name: str, above: str, topic: str | None) -> None:
        names = self._types.catalog.names_of_type(above)
        if not self._principal.rights.may_publish(names, topic):
            owner = self._types.owner_of(above) or "nobody"
            what = f"{name}, which derives from {above} of {owner},"
            needs = f"publish grant that covers {above}"
            raise AccessDeniedError("publish", what, token=self._principal.name, needs=needs)

    def may_receive(self, record: Record) -> bool:
        """Whether the client may receive an event."""
        if self._is_open:
            return True
        forms = [(record.name, record.hash)]
        if record.root is not None:
            forms.append((record.root.name, record.root.hash))
        may_receive = self._principal.rights.may_receive
        return any(may_receive(self._names(*form), record.topic) for form in forms)

    def check_letter(self, record: Record) -> None:
        """Refuse a dead letter of an event that the client may neither receive nor publish."""
        if not self.may_receive(record):
            self._principal.check_publish(self._names(record.name, record.hash), record.topic)

    def check_definition(self, definition: Definition) -> None:
        """Refuse a subscription that the client has no grant for."""
        if not self._is_open:
            check_topic_text(definition.topic, is_pattern=True)
            names = tuple(
                name for kind in definition.types for name in self._names(kind.name, kind.hash)
            )
            self._principal.check_subscribe(names, None)
