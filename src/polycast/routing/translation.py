"""Events that cross from one context into others: who can want them there, and as what."""

from __future__ import annotations

import traceback
from bisect import bisect_right
from functools import partial
from operator import is_, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from polycast.errors.failures import failures_here
from polycast.events.isolation import copied, copier
from polycast.stores import Entry, Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from polycast.contexts import Federation, FederationMember
    from polycast.matching import Interest
    from polycast.routing.plan import Target

    # From which position on; None: the context is not there.
    Versions = tuple[tuple[int, FederationMember | None], ...]

    Verdicts = list[tuple[Target, object]]  # who wants an event, and what its filter said
    Answer = tuple[tuple[Interest, ...], object]


class MemoryContextVersions:
    """Contexts by position, as far back as somebody can ask for.

    The first version of a context is for all that was before it, too: as over a store.
    """

    def __init__(self) -> None:
        self._versions: dict[str, Versions] = {}  # replaced, and never changed

    def change(self, members: Mapping[str, FederationMember], start: int, oldest: int) -> None:
        """Contexts have changed from a position on; nobody asks for what is before the oldest."""
        kept: dict[str, Versions] = {}
        for name in dict.fromkeys((*self._versions, *members)):
            # One that begins where the next does was never in effect.
            versions = tuple(
                version for version in self._versions.get(name, ()) if version[0] < start
            )
            member = members.get(name)
            if member is not (versions[-1][1] if versions else None):
                versions = (*versions, (start, member))
            if versions:
                kept[name] = versions[_last_begun(versions, oldest) :]
        self._versions = kept

    def member(self, name: str, at: int) -> FederationMember | None:
        """A context at a position; None if it was not there."""
        versions = self._versions.get(name)
        return versions[_last_begun(versions, at)][1] if versions else None

    def __len__(self) -> int:
        return sum(map(len, self._versions.values()))


def _last_begun(versions: Versions, position: int) -> int:
    """Which of the versions is in effect at a position."""
    return max(0, bisect_right(versions, position, key=itemgetter(0)) - 1)


_PREFIX = "context "


def letter_name(context: str) -> str:
    """Under which dead letters are kept of events that could not get to a context."""
    return f"{_PREFIX}{context}"


def context_of_letter(name: str) -> str | None:
    """The context of such a name."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


class ContextTranslation:
    """The contexts of one bus. None is the root; `at` is the position of an event in a log."""

    def __init__(self) -> None:
        self.federation: Federation | None = None
        self.members: Mapping[str, FederationMember] = {}
        """As they are now. A route that was made with others is stale."""
        self.revision = 0
        self._history = MemoryContextVersions()

    def change(self, start: int, oldest: int) -> None:
        """Have the contexts as they are, from a position on; nothing is older than the oldest."""
        assert self.federation is not None
        self.members = self.federation.members
        self.revision += 1
        self._history.change(self.members, start, oldest)

    def member(self, name: str, at: int | None) -> FederationMember | None:
        """A context, as it is for an event, or now; None if it is not here any more."""
        current = self.members.get(name)
        return current if at is None or current is None else self._history.member(name, at)

    def is_gone(self, name: str | None) -> bool:
        """Whether a context was taken out, so that no event gets there."""
        return name is not None and name not in self.members

    def publisher(self, name: str, at: int | None) -> FederationMember | None:
        """The context of a publisher; what was published before it went has a root form."""
        return self.members.get(name) if at is None else self._history.member(name, at)

    def becomes(
        self, cls: type, source: str | None, target: str | None, at: int | None = None
    ) -> type | None:
        """What events of a class are in another context; None if they do not get there."""
        there: type | None = cls
        if source == target:
            return there
        if source is not None:
            outer = self.publisher(source, at)
            there = None if outer is None else outer.outgoing.becomes(cls)
        if target is None or there is None:
            return there
        inner = self.member(target, at)
        return None if inner is None else inner.incoming.becomes(there)

    def root_of(self, entry: Entry) -> Entry | None:
        """The root form that was kept with an event in a store; None if it has none."""
        del entry
        return None  # in memory, no entry comes from a store

    def leaves(self, cls: type, source: str) -> type | None:
        """What an event of a context is in the root; one that cannot get there is counted."""
        there = self.becomes(cls, source, None)
        if there is None and self.federation is not None:
            self.federation.count_dropped(source, cls)
        return there

    def is_mapped(self, cls: type, source: str) -> bool:
        """Whether events of a class are translated when they leave a context."""
        member = self.member(source, None)
        return member is not None and member.outgoing.mapping(cls) is not None

    def way_out(self, source: str, at: int | None = None) -> Callable[[Any], Any]:
        """What brings events of a context to the root; `TranslationFailed` if a function raises."""
        member = self.publisher(source, at)
        if member is None or self.federation is None:
            raise ContextRemoved(source)
        return partial(_carried, source, partial(self.federation.cross, member, member.outgoing))

    def way_in(self, target: str, at: int | None = None) -> Callable[[Any], Any]:
        """What brings root events into a context; `TranslationFailed` if a function raises."""
        member = self.member(target, at)
        if member is None or self.federation is None:
            raise ContextRemoved(target)
        return partial(_carried, target, partial(self.federation.cross, member, member.incoming))

    def way_again(self, target: str | None, at: int | None = None) -> Callable[[Any], Any] | None:
        """The way into a context, if it may make another event of the same one each time."""
        member = None if target is None else self.member(target, at)
        if member is None or member.is_pure or self.federation is None:
            return None
        return partial(self.federation.cross, member, member.incoming)

    def fixed(self, source: str | None, target: str | None) -> Collection[type]:
        """The classes whose events become, elsewhere, such that nobody can change; it may shrink.

        What is not among them has to be looked at.
        """
        member = self.member(source or target or "", None)
        if member is None or (source is not None and target is not None):
            return ()
        return member.incoming.fixed if source is None else member.outgoing.fixed

    def way(self, source: str | None, target: str | None) -> Callable[[Any], Any]:
        """What shows events of one context to another, as these are now."""
        if source == target:
            return lambda event: event
        if source is None or target is None:
            return self.way_in(target or "") if source is None else self.way_out(source)
        out, into = self.way_out(source), self.way_in(target)
        return lambda event: into(out(event))


def _carried(context: str, cross: Callable[[Any], Any], event: Any) -> Any:
    try:
        return cross(event)
    except failures_here() as error:
        raise TranslationFailed(context, error) from None


class ContextRemoved(Exception):
    """A context has been removed since somebody found that an event gets there."""


class TranslationFailed(Exception):
    """A function of a context raised, so an event does not get out of it, or into it."""

    def __init__(self, context: str, error: BaseException) -> None:
        super().__init__(context)
        self.context, self.error = context, error


def reason_of(error: BaseException) -> str:
    """Why a function kept an event from a context, as a store can keep it."""
    text = "".join(traceback.format_exception(error)).rstrip()
    return text.encode(errors="backslashreplace").decode()


Recipient = tuple["Target", object, Any]
"""Who wants an event, what its filter said, and the event as it is in its context."""


class LiveForm(NamedTuple):
    """An event that is being published, as it is in a context."""

    event: Any
    context: str | None
    again: Callable[[], Any] | None = None  # translates it again, if the result may differ
    own: Callable[[], Any] | None = None


EventForm = LiveForm | Entry
"""An event as it is in a context, live or of a log."""


class LiveForms:
    """The forms of an event that is being published, or was, as contexts were `at` a position."""

    def __init__(
        self,
        event: Any,
        source: str | None,
        translation: ContextTranslation,
        *,
        at: int | None = None,
        snapshot: Callable[[Any], Callable[[], Any] | None] = copier,
    ) -> None:
        self.event, self.source, self._translation, self._at = event, source, translation, at
        self._snapshot = snapshot
        self._root: tuple[Any, ...] = (event,) if source is None else ()
        self._stuck: TranslationFailed | None = None  # why there is no root form
        self._forms: dict[str | None, LiveForm] = {}
        self._copies: tuple[Callable[[], Any] | None] | None = None

    def form(self, context: str | None) -> LiveForm:
        """The event as a context sees it; `TranslationFailed` if a function raises."""
        form = self._forms.get(context)
        if form is None:
            form = self._forms[context] = self._made(context)
        return form

    def _made(self, context: str | None) -> LiveForm:
        if context == self.source:
            return LiveForm(self.event, context)
        root = self._root_form()
        if context is None:
            return LiveForm(root, None, None, copier(root))
        event = self._translation.way_in(context, self._at)(root)
        way = self._translation.way_again(context, self._at)
        # Those of its own context may change the object that they are given.
        again = None if way is None else partial(way, copied(root))
        return LiveForm(event, context, again, copier(event))

    def _root_form(self) -> Any:
        """The root form is the publisher's, and is made once."""
        if self._stuck is not None:
            raise self._stuck
        if not self._root:
            assert self.source is not None
            try:
                self._root = (self._translation.way_out(self.source, self._at)(self.event),)
            except TranslationFailed as error:
                self._stuck = error
                raise
        return self._root[0]

    def copies(self) -> Callable[[], Any] | None:
        """What copies the event as it was when this was first asked; it may refuse to."""
        if self._copies is None:
            self._copies = (self._snapshot(self.event),)
        return self._copies[0]

    def in_context(self, context: str | None, form: LiveForm, target: Target) -> LiveForm:
        """The form for a target: in the publisher's context the very object, unless it copies."""
        own = context == self.source and target.copies
        return form._replace(own=self.copies()) if own else form


class EntryForms:
    """The forms of an entry of a log."""

    __slots__ = ("_form_in", "_forms")

    def __init__(self, form_in: Callable[[str | None], Entry | None]) -> None:
        self._form_in = form_in
        self._forms: dict[str | None, Entry | None] = {}

    def form(self, context: str | None) -> Entry | None:
        """The entry in a context; None if it is not there."""
        if context not in self._forms:
            self._forms[context] = self._form_in(context)
        return self._forms[context]

    def in_context(self, context: str | None, form: Entry, target: Target) -> Entry:
        """The form for a target: what comes from a log is not shared with its publisher."""
        del context, target
        return form


class RecipientQuery:
    """One event in its forms, live or of a log; who was asked about it, and the answers."""

    __slots__ = ("_answers", "_asked", "failed", "forms", "remembers", "revision")

    def __init__(self, forms: Any, revision: int = 0, *, remembers: bool = False) -> None:
        self.forms, self.revision = forms, revision
        self.remembers = remembers  # so that a target is asked once, however often the plan is
        self.failed: dict[str, BaseException] = {}  # the contexts it could not get to
        # Nearly always one round is enough, and nobody looks at this.
        self._asked: list[tuple[list[tuple[Target, tuple[Interest, ...]]], Verdicts]] = []
        self._answers: dict[Target, Answer] | None = None

    def ask_again(self) -> None:
        """The plan has changed: a target that has not is not asked again."""
        self.failed = {}
        if self._answers is None:
            self._answers = {}
            for asked, verdicts in self._asked:
                self._note(self._answers, asked, verdicts)

    def answers(
        self, targets: Sequence[Target], ask: Callable[[list[Target]], Verdicts]
    ) -> Verdicts:
        """Those of some targets that want it."""
        asked = [(target, target.interests()) for target in targets]
        answers = self._answers
        if answers is None:
            verdicts = ask(list(targets))
            self._asked.append((asked, verdicts))
            return verdicts
        new = [pair for pair in asked if not _same(answers.get(pair[0]), pair[1])]
        if new:
            self._note(answers, new, ask([target for target, _ in new]))
        return [(target, said) for target in targets if (said := answers[target][1])]

    def _note(
        self,
        answers: dict[Target, Answer],
        asked: list[tuple[Target, tuple[Interest, ...]]],
        verdicts: Verdicts,
    ) -> None:
        said = dict(verdicts)
        answers.update({target: (interests, said.get(target)) for target, interests in asked})


def _same(before: Answer | None, now: tuple[Interest, ...]) -> bool:
    return before is not None and len(before[0]) == len(now) and all(map(is_, before[0], now))


def entry_as(entry: Entry, form: LiveForm) -> Entry:
    """The entry of an event as another context sees it."""
    event, context, again, own = form
    if context == entry.context and own is entry.own:
        return entry
    return replace(entry, event=event, context=context, again=again, own=own)


def entry_in(
    context: str | None, entry: Entry, translation: ContextTranslation, at: int | None
) -> Entry | None:
    """An entry as a context sees it at a position, or now; `TranslationFailed` if that raises.

    None if it does not get there.
    """
    if context == entry.context:
        return entry
    if entry.record is not None and entry.context is not None:
        root = translation.root_of(entry)
        if root is None or isinstance(root.event, Undecodable):
            return root
        return entry_in(context, root, translation, at)
    if translation.becomes(type(entry.event), entry.context, context, at) is None:
        return None
    forms = LiveForms(entry.fresh(), entry.context, translation, at=at)
    try:
        return entry_as(entry, forms.form(context))
    except ContextRemoved:
        return None
