"""One event that a plan is asked about: its form in each context, and the answers so far."""

from __future__ import annotations

from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec.structs import replace

from polycast.events.isolation import copied, copier
from polycast.routing.translation import ContextRemoved, TranslationFailed
from polycast.stores import Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polycast.matching import Interest
    from polycast.routing.target_table import Target
    from polycast.routing.translation import ContextTranslation
    from polycast.stores import Entry

    Verdicts = list[tuple[Target, object]]  # who wants an event, and what its filter said
    Answer = tuple[tuple[Interest, ...], object]

Recipient = tuple["Target", object, Any]
"""Who wants an event, what its filter said, and the event as it is in its context."""


class EventForm(Protocol):
    """An event as it is in a context: a `LiveForm`, or an `Entry` of a log."""

    @property
    def event(self) -> Any:
        """The object."""

    @property
    def own(self) -> Callable[[], Any] | None:
        """What makes a copy for each recipient; None: they share it."""


class LiveForm(NamedTuple):
    """An event that is being published, as it is in a context."""

    event: Any
    context: str | None
    again: Callable[[], Any] | None = None  # translates it again, if the result may differ
    own: Callable[[], Any] | None = None


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

    def is_published_in(self, context: str | None) -> bool:
        """Whether a context is the publisher's, which gets the very object."""
        return context == self.source

    def own_form(self, form: LiveForm) -> LiveForm:
        """The form in the publisher's context for a target that has an object of its own."""
        return form._replace(own=self.copies())


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

    def is_published_in(self, context: str | None) -> bool:
        """What comes from a log is not shared with its publisher."""
        del context
        return False

    def own_form(self, form: Entry) -> Entry:
        """Return the form, which says how it is copied."""
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
