"""The subscriptions of all clients as one routing plan."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from polycast.broker.server.encoding_cache import RoutedBatch
from polycast.broker.server.log_rate_limit import server_log
from polycast.broker.server.request_limits import parts_of
from polycast.routing import MatchResult, Plan
from polycast.stores import StoredRoute
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from polycast.broker.server.filter_budget import FilterBudget
    from polycast.broker.server.outbox import EventStream
    from polycast.stores import Stored, View
    from polycast.stores.values import PushedFilter
    from polycast.typesystem import Description

TURN = 0.005  # seconds of a background job before others have their turn
FEW = 10  # filters handled between two looks at the clock
PENDING = "\0coming"  # suffix of a subscription's name for definitions that are being added
_log = server_log()


class ClientPlan:
    """Which client wants which events. In the thread of the event loop."""

    def __init__(self, budget: FilterBudget, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._plan = Plan(Registry(classes=()), budget=budget)
        self._recipients: dict[int, EventStream] = {}  # by the number of a definition
        self._numbers: dict[EventStream, dict[str, list[int]]] = {}  # and by subscription
        self._counts: Counter[EventStream] = Counter()  # definitions of each
        self._removed: deque[int] = deque()  # still in the plan, but of no client
        self._last = 0

    def learn(self, view: View) -> None:
        """Load new types and contexts of the store."""
        self._plan.routes.learn(view, later=True)
        self._plan.routes.learn_contexts(view)

    def replace(
        self,
        recipient: EventStream,
        name: str,
        definitions: Sequence[bytes],
        private: Mapping[str, Description],
    ) -> Generator[None, None, None]:
        """Replace the definitions of a subscription.

        It yields between two parts, so that other clients have a turn; until the end, the previous
        definitions stay in effect. `private` describes types for this client only.
        """
        pending = f"{name}{PENDING}"
        try:
            for part in parts_of(definitions):
                for definition in part:
                    self._add(recipient, pending, definition, private)
                yield
        except BaseException:
            self._remove(recipient, pending)
            self._remove(recipient, name)
            raise
        self._remove(recipient, name)
        subscriptions = self._numbers.setdefault(recipient, {})
        subscriptions[name] = subscriptions.pop(pending, [])

    def _add(
        self,
        recipient: EventStream,
        name: str,
        definition: bytes,
        private: Mapping[str, Description],
    ) -> None:
        self._last += 1
        route = StoredRoute(self._last, name, definition, 0)
        self._plan.routes.add(route, private=private, owner=recipient.owner)
        self._recipients[self._last] = recipient
        self._numbers.setdefault(recipient, {}).setdefault(name, []).append(self._last)
        self._counts[recipient] += 1
        recipient.groups += self._is_group(self._last)

    def _remove(self, recipient: EventStream, name: str) -> None:
        for number in self._numbers.get(recipient, {}).pop(name, ()):
            recipient.groups -= self._is_group(number)
            self._counts[recipient] -= 1
            del self._recipients[number]
            self._removed.append(number)

    def _is_group(self, number: int) -> bool:
        return self._plan.routes.entries[number].definition.group is not None

    def remove_all(self, recipient: EventStream) -> None:
        """Remove all subscriptions of a client."""
        for name in list(self._numbers.get(recipient, ())):
            self._remove(recipient, name)
        self._numbers.pop(recipient, None)
        self._counts.pop(recipient, None)

    def _of(self, recipient: EventStream, name: str) -> list[int]:
        return self._numbers.get(recipient, {}).get(name, [])

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return sum(map(len, self._numbers.values()))

    def count(self, recipient: EventStream, *, but: str) -> int:
        """How many definitions a client has, except those of one subscription."""
        return self._counts[recipient] - len(self._of(recipient, but))

    def asked(self, recipient: EventStream, name: str) -> list[PushedFilter]:
        """What the broker evaluates of a subscription's filters, for each definition."""
        return [self._plan.routes.asked(number) for number in self._of(recipient, name)]

    # -- upkeep ------------------------------------------------------------------------------------

    def reconsider(self) -> bool:
        """Recompile some filters whose types have changed; whether there is more to do."""
        began = self._now()
        while more := self._plan.routes.reconsider(FEW):
            if self._now() - began > TURN:
                break
        return more

    def purge(self) -> bool:
        """Drop some removed definitions from the plan; whether there is more to do."""
        began = self._now()
        while self._removed and self._now() - began < TURN:
            for _ in range(min(FEW, len(self._removed))):
                self._plan.routes.remove(self._removed.popleft())
        return bool(self._removed)

    # -- matching ----------------------------------------------------------------------------------

    def route(self, records: Sequence[Stored], *, owner: str | None = None) -> RoutedBatch:
        """Who may want which records; for a owner, only its own filters are evaluated."""
        by_takers: dict[tuple[int, ...], list[Stored]] = {}
        if records and self._recipients:
            taken = self._match(records, owner)
            at = {stored.position: stored for stored in records}
            same: dict[int, list[Stored]] = {}  # many records share one list of takers
            for position, numbers in zip(taken.positions, taken.takers, strict=True):
                if id(numbers) not in same:
                    same[id(numbers)] = by_takers.setdefault(tuple(numbers), [])
                same[id(numbers)].append(at[position])
        lots: dict[EventStream, list[int]] = {}
        for lot, takers in enumerate(by_takers):
            wanting = (self._recipients[taker] for taker in takers if taker in self._recipients)
            for recipient in dict.fromkeys(wanting):
                lots.setdefault(recipient, []).append(lot)
        return RoutedBatch(list(by_takers.values()), lots)

    def select(
        self, recipient: EventStream, name: str, records: Sequence[Stored]
    ) -> Sequence[Stored]:
        """The records that a subscription may want; all of them while that is not known."""
        numbers = set(self._of(recipient, name))
        if not numbers or not self._plan.routes.is_settled:
            return records
        taken = self._match(records, recipient.owner)
        wanted = {
            position
            for position, takers in zip(taken.positions, taken.takers, strict=True)
            if not numbers.isdisjoint(takers)
        }
        return [stored for stored in records if stored.position in wanted]

    def _match(self, records: Sequence[Stored], owner: str | None) -> MatchResult:
        """Match records; one that breaks the plan goes to all clients, which find out why."""
        try:
            return self._plan.match(records, owner=owner)
        except Exception as error:
            if len(records) == 1:
                _log.error("position %d goes to all: %r", records[0].position, error)
                return MatchResult([records[0].position], [sorted(self._recipients)])
        found = MatchResult()
        for record in records:
            one = self._match([record], owner)
            found.positions += one.positions
            found.takers += one.takers
        return found
