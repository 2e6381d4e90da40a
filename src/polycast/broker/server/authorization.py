"""What a client may ask and change, by the rights of its token and by what belongs to its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from polycast.broker.server.authorized_request import Asked, admins
from polycast.broker.server.bus_listing import Register
from polycast.broker.server.permissions import RULES
from polycast.broker.server.publisher_owners import owner_of_publisher
from polycast.broker.server.supertype_claims import Ascent
from polycast.broker.server.topic_limits import check_topic_text
from polycast.broker.server.type_ancestry import MOST_ABOVE
from polycast.errors import AccessDeniedError, BadFrameError, LimitReachedError
from polycast.routing.translation import letter_name
from polycast.stores import EventType
from polycast.typesystem.standard_types import STANDARD

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from polycast.broker.server.access import Identified
    from polycast.broker.server.authorized_request import Rule
    from polycast.broker.server.publisher_owners import Publishers
    from polycast.broker.server.type_ancestry import Vocabulary
    from polycast.broker.server.usage import Usage
    from polycast.broker.wire.calls import Verb
    from polycast.events import Record
    from polycast.matching import Definition
    from polycast.stores import Run, Store, Stray, Transaction, View
    from polycast.typesystem import Description

__all__ = ["Guard"]

MOST_REMEMBERED = 2_000  # descriptions that were not taken, for errors
_TAKING = frozenset({"open_bus", "save", "take_over", "bury", "settle", "take_claims"})
"""What makes something belong to somebody, also to admins."""


class Guard:
    """Stands between one client and the store; whatever is not allowed is `AccessDeniedError`."""

    def __init__(
        self,
        who: Identified,
        vocabulary: Vocabulary,
        store: Store,
        owner_of: Callable[[str], str | None],
        *,
        usage: Usage,
        publishers: Publishers,
        rules: Mapping[str, Rule] = RULES,
    ) -> None:
        self.who = who
        self.usage, self.publishers, self.store = usage, publishers, store
        self._vocabulary, self._rules = vocabulary, rules
        self._names = vocabulary.names  # of the class of a wire name and a hash
        self._owner_of = owner_of  # the name of a type
        self._mine: set[str] = set()  # publishers that are known to be
        self.register = Register()
        self._untaken: tuple[frozenset[str], LimitReachedError] | None = None
        self._raising: frozenset[str] = frozenset()  # descriptions that were not taken for that
        self._first: int | None = None  # the revision at which it first asked what has changed
        self.is_open = who.rights.admin

    # -- the one decision --------------------------------------------------------------------------

    def answer(self, view: View, verb: Verb, given: dict[str, Any]) -> Any:
        """What a question about the state is answered."""
        return self._decide(verb, view, given, lambda: verb.call(view, given), is_committed=True)

    def answer_of_log(self, verb: Verb, given: dict[str, Any]) -> Any:
        """What a question about the log is answered."""
        return self._of_log(verb, given, lambda: verb.call(self.store, given))

    def check_read(self, verb: Verb, given: dict[str, Any]) -> None:
        """Refuse to read the log to who may see nothing of it."""
        self._of_log(verb, given, lambda: None)

    def _of_log(self, verb: Verb, given: dict[str, Any], do: Callable[[], Any]) -> Any:
        if self.is_open:
            return do()
        with self.store.view() as view:
            return self._decide(verb, view, given, do, is_committed=True)

    def begin(self) -> None:
        """A transaction of the client begins."""
        self.usage.begin()
        self.register.begin()

    def take(self, tx: Transaction, verb: Verb, given: dict[str, Any]) -> Any:
        """The result of a step of a transaction."""
        return self._decide(verb, tx, given, lambda: verb.call(tx, given), is_committed=False)

    def _decide(
        self,
        verb: Verb,
        view: View,
        given: dict[str, Any],
        do: Callable[[], Any],
        *,
        is_committed: bool,
    ) -> Any:
        if self.is_open and (self.owner is None or verb.name not in _TAKING):
            return do()
        rule = self._rules.get(verb.name, admins)
        return rule(Asked(self, verb.name, cast("Transaction", view), given, do, is_committed))

    # -- who it is ---------------------------------------------------------------------------------

    @property
    def owner(self) -> str | None:
        """To whom belongs what it makes; None where there are no tokens."""
        return self.who.owner

    def is_mine(self, owner: str | None) -> bool:
        """Whether what belongs to an owner, or to nobody, is its own; admins may use all."""
        return self.is_open or (owner is not None and owner == self.owner)

    @property
    def may_subscribe(self) -> bool:
        """Whether it may receive anything."""
        return self.who.rights.may_subscribe((), None)

    def check_granted(self, action: str) -> None:
        """Refuse who may do nothing at all."""
        rights = self.who.rights
        if not (self.is_open or rights.publish or rights.subscribe or rights.describe):
            needs = "publish, subscribe or describe grant"
            raise AccessDeniedError(action, "of the store", token=self.who.name, needs=needs)

    def refuse(self, action: str, what: str) -> None:
        """It belongs to somebody else, or to nobody."""
        needs = "owner in common with whoever has it"
        raise AccessDeniedError(action, what, token=self.who.name, needs=needs)

    def was_away(self, since: int, revision: int) -> bool:
        """Whether it asks for changes of before it was here, when other things had the names."""
        if self._first is None:
            self._first = revision
        return since < self._first

    # -- events ------------------------------------------------------------------------------------

    def check_append(self, runs: Sequence[Run], astray: Sequence[Stray]) -> None:
        """Refuse what the client may not publish."""
        contexts = [run.context for run in runs for _ in run.payloads] if astray else []
        for each in astray:
            context = contexts[each.number] if 0 <= each.number < len(contexts) else None
            if context is None or each.subscription != letter_name(context):
                raise BadFrameError("`append`", why="it names an event astray that it has not")
        if not self.is_open:
            for run in runs:
                check_topic_text(run.topic, is_pattern=False)
                self._check_run(run)
            self.usage.add_runs(self.who, runs, astray)

    def _check_run(self, run: Run) -> None:
        """As what it is, and as what it is in the root."""
        self._check_publisher(run.first.publisher)
        self._check_form(EventType(run.name, run.version, run.hash), run.topic)
        if run.root is not None:
            root = EventType(run.root.name, run.root.version, run.root.hash)
            self._check_form(root, run.topic)

    def check_record(self, record: Record) -> None:
        """Refuse an event that the client might not publish, as what it is and in the root."""
        for form in (record, *(() if record.root is None else (record.root,))):
            named = EventType(form.name, form.version, form.hash)
            self._check_form(named, record.topic)

    def _check_publisher(self, publisher: str) -> None:
        if publisher not in self._mine:
            with self.store.view() as view:
                owner = owner_of_publisher(view, publisher)
            if not self.is_mine(owner):
                self.refuse("publish as", f"the publisher {publisher!r}")
            self._mine.add(publisher)

    def _check_form(self, form: EventType, topic: str | None) -> None:
        """Refuse a class that is not covered, or that passes for what is another owner's."""
        name = form.name
        self.who.check_publish(self._names(name, form.hash), topic)
        if self._vocabulary.pinned(name, form.version, form.hash) is None:
            if self._untaken is not None and form.hash in self._untaken[0]:
                error = self._untaken[1]
                raise LimitReachedError(error.code, str(error), error.data)
            self._refuse_form(name, form.hash)
        found = self._vocabulary.ancestry(name, form.hash)
        if found is not None and found.is_too_much:
            text = f"{name!r:.100} has more than {MOST_ABOVE} supertypes and aliases above it"
            raise LimitReachedError("types", text, {"limit": MOST_ABOVE})
        for below, above in () if found is None else found.steps:
            if self._is_border(below, above):
                self._check_border(name, above, topic)

    def _refuse_form(self, name: str, digest: str) -> None:
        owner = self._owner_of(name)
        whose = "" if owner in (None, self.owner) else f", which belongs to {owner!r}"
        what = f"the type {name} in a form that nobody with a right to has described{whose}"
        if digest in self._raising:
            self.refuse_raised("publish", what)
        self.refuse_undescribed("publish", what, name)

    def _is_border(self, below: str, above: str) -> bool:
        """Whether a step up the ancestry leads to what belongs to somebody else."""
        if above in STANDARD or self._owner_of(below) == self._owner_of(above):
            return False
        return self._owner_of(above) is not None or self._vocabulary.has_name(above)

    def _check_border(self, name: str, above: str, topic: str | None) -> None:
        names = self._vocabulary.names_of_type(above)
        if not self.who.rights.may_publish(names, topic):
            what = f"{name}, which derives from {above} of {self._owner_of(above) or 'nobody'},"
            needs = f"publish grant that covers {above}"
            raise AccessDeniedError("publish", what, token=self.who.name, needs=needs)

    def may_receive(self, record: Record) -> bool:
        """Whether the client may see an event."""
        if self.is_open:
            return True
        forms = [(record.name, record.hash)]
        if record.root is not None:
            forms.append((record.root.name, record.root.hash))
        may_receive = self.who.rights.may_receive
        return any(may_receive(self._names(*each), record.topic) for each in forms)

    def check_letter(self, record: Record) -> None:
        """Refuse a dead letter of an event that the client may neither see nor have published."""
        if not self.may_receive(record):
            self.who.check_publish(self._names(record.name, record.hash), record.topic)

    def check_definition(self, definition: Definition) -> None:
        """Refuse what the client may not subscribe to."""
        if not self.is_open:
            check_topic_text(definition.topic, is_pattern=True)
            names = tuple(n for each in definition.types for n in self._names(each.name, each.hash))
            self.who.check_subscribe(names, None)

    # -- what types are ----------------------------------------------------------------------------

    def may_describe(self, description: Description) -> bool:
        """Whether the client may say for all what a type is; nobody may for standard types."""
        return self.is_open or self.who.rights.may_describe(description.names)

    def describable(self, new: Sequence[Description]) -> frozenset[str]:
        """The hashes of the descriptions that the client may give to all.

        It makes no types that are known, and so no events that are there, another owner's: for that
        it needs the right to publish them as such.
        """
        mine = [each for each in new if self.may_describe(each)]
        if self.is_open:
            return frozenset(each.hash for each in mine)
        ascent = Ascent(new, self._vocabulary, self._is_free)
        found = frozenset(each.hash for each in mine if ascent.raises_nothing_known(each))
        before = self._raising if len(self._raising) < MOST_REMEMBERED else frozenset()
        self._raising = before.union(each.hash for each in mine) - found
        return found

    def raises_nothing(self, description: Description) -> bool:
        """The same of one, whatever else a transaction has described that nobody knows yet."""
        ascent = Ascent([description], self._vocabulary, self._is_free)
        return self.is_open or ascent.adds_nothing(description)

    def _is_free(self, below: str, above: str) -> bool:
        names = self._vocabulary.names_of_type
        return not self._is_border(below, above) or self.who.rights.may_publish(names(above), None)

    def refuse_undescribed(self, action: str, what: str, name: str) -> None:
        """It needs a type that nobody who may has described."""
        needs = f"describe grant that covers it, such as describe = [{name!r}]"
        raise AccessDeniedError(action, what, token=self.who.name, needs=needs)

    def refuse_raised(self, action: str, what: str) -> None:
        """It would make types that are known another owner's, too."""
        needs = "publish grant that covers what its known subtypes would be of another owner's"
        raise AccessDeniedError(action, what, token=self.who.name, needs=needs)

    def is_public(self, digest: str) -> bool:
        """Whether a description is one that all go by."""
        return self._vocabulary.described(digest) is not None

    def check_types(self, new: Collection[Description]) -> None:
        """Refuse more descriptions than the owner may have; events of them are told the same."""
        self._untaken = None
        if not new or self.usage.quota(self.who) is None:
            return
        there = self._vocabulary.count(lambda name: self._owner_of(name) == self.owner)
        try:
            self.usage.check(self.who, "types", there, len(new))
        except LimitReachedError as error:
            self._untaken = frozenset(each.hash for each in new), error
            raise
