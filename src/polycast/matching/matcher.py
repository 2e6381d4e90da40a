"""The matcher: which of very many subscriptions want an event, or each of many events."""

from __future__ import annotations

from abc import get_cache_token
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, overload
from weakref import WeakKeyDictionary

from polycast.errors import BadOptionError, BadTopicError
from polycast.filters.tree.relaxation import EVERYTHING
from polycast.matching.index import ArrowRows, Index, Matches
from polycast.matching.native.arrow_columns import ALONE, Sharing
from polycast.matching.native.availability import chosen, engine
from polycast.matching.native.native_index import NativeIndex
from polycast.matching.selectors import Selector, Selectors, check_topic, selector_for
from polycast.runtime import shared_lock

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from polycast.filters import Filter
    from polycast.filters.tree.nodes import Node

K = TypeVar("K", bound="Hashable")
T = TypeVar("T")

MANY = 128  # filters of one selector that get an index of their own; half as many keep it
TOPICS_KEPT = 4_096

AnyIndex = Index | NativeIndex
Share = Literal["events", "filters"]


class ArrowColumns(Protocol):
    """A RecordBatch or Table of pyarrow."""

    @property
    def num_rows(self) -> int:
        """How many events it holds."""

    @property
    def schema(self) -> Any:
        """The names and types of its columns."""


class TopicalFilters(Generic[K]):
    """Filters that read the topic of an event themselves. They are asked one by one."""

    def __init__(self) -> None:
        self._filters: dict[K, tuple[Selector[Any], Filter[Any]]] = {}  # replaced as a whole

    def __bool__(self) -> bool:
        return bool(self._filters)

    def __contains__(self, key: object) -> bool:
        return key in self._filters

    def add(self, key: K, selector: Selector[Any], where: Filter[Any]) -> None:
        """One more, by its key."""
        self._filters = {**self._filters, key: (selector, where)}

    def remove(self, key: K) -> None:
        """One less."""
        self._filters = {k: known for k, known in self._filters.items() if k != key}

    def covering(self, cls: type, topic: str | None) -> list[K]:
        """The keys whose type covers a class, whatever their filters say."""
        known = self._filters.items()
        return [key for key, (selector, _) in known if selector.covers(cls, topic)]

    def match(self, event: Any, topic: str | None) -> list[K]:
        """The keys that an event is for."""
        return [
            key
            for key, (selector, where) in self._filters.items()
            if selector.covers(type(event), topic) and where.matches(event, topic=topic)
        ]


class Matcher(Generic[K]):
    """Keys by the type and the filter of the events they are for.

    It can be asked from any thread while it is changed from others. `native` says whether the
    kernel in C has to be used, or must not; without, the environment does: POLYCAST_NATIVE.
    """

    def __init__(self, *, native: bool | None = None) -> None:
        self._module = chosen(native)
        self._lock = shared_lock()
        self._wanted: dict[K, tuple[Selector[Any], Node]] = {}
        self._by_selector: dict[Selector[Any], dict[K, Node]] = {}
        self._selectors = Selectors()  # the same
        self._of_class: dict[type, Selector[Any]] = {}  # those that mean one plain class
        # Selectors with few filters share an index, so that their terms are read once.
        self._indexes: dict[frozenset[Selector[Any]], AnyIndex] = {}
        self._chosen: WeakKeyDictionary[type, dict[str | None, tuple[AnyIndex, ...]]]
        self._chosen = WeakKeyDictionary()
        self._large: set[Selector[Any]] = set()
        self._topical: TopicalFilters[K] = TopicalFilters()
        self._registrable = 0  # how many selectors are
        self._token = get_cache_token()
        self._dispatch: Any = None
        if self._module is not None and type(self).match is Matcher.match:
            self._dispatch = self._module.Dispatch(self._match)
            self.match = self._dispatch  # type: ignore[method-assign]  # asks kernels itself

    @property
    def engine(self) -> str:
        """What matches: "python", "native, avx2" or "native, scalar"."""
        return engine(self._module)

    @property
    def native_bytes(self) -> int:
        """The memory of kernels in C, which Python's own accounts do not have."""
        kernels = (getattr(index, "kernel", None) for index in self._indexes.values())
        return sum(kernel.bytes for kernel in kernels if kernel is not None)

    def __len__(self) -> int:
        return len(self._wanted)

    def __contains__(self, key: object) -> bool:
        return key in self._wanted

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._wanted))

    # -- changing ----------------------------------------------------------------------------------

    @overload
    def add(self, key: K, what: str, where: Callable[[Any], object] | None = None) -> None: ...
    @overload
    def add(
        self, key: K, what: type[T] | Selector[T], where: Callable[[T], object] | None = None
    ) -> None: ...
    @overload
    def add(
        self, key: K, what: TypeForm[T], where: Callable[[T], object] | None = None
    ) -> None: ...
    def add(self, key: K, what: Any, where: Callable[[Any], object] | None = None) -> None:
        """Let a key have the events of a type that pass a filter."""
        known = self._of_class.get(what) if type(what) is type else None
        selector, asked = (selector_for(what) if known is None else known).parted(where)
        wanted = EVERYTHING if asked is None else asked
        tree = wanted.tree
        with self._lock:
            if key in self._wanted:
                accepted = "a key that is not in use; `remove` it first to replace its filter"
                raise BadOptionError("key", key, accepted=accepted)
            self._wanted[key] = selector, tree
            if wanted.is_topical:
                self._topical.add(key, selector, wanted)
                self._reconsider(selector)
                return
            several = self._by_selector.get(selector)
            if several is None:
                self._by_selector[selector] = {}
                self._selectors.add(selector)
                self._registrable += selector.registrable
                if type(what) is type and selector == Selector((what,)):
                    self._of_class[what] = selector
                self._reconsider(selector)
                several = self._by_selector[selector]
            several[key] = tree
            if len(several) >= MANY and selector not in self._large:
                self._large.add(selector)
                self._reconsider(selector)
            for group, index in list(self._indexes.items()):
                if selector in group:
                    index.add(tree, key)

    def remove(self, key: K) -> None:
        """Let a key have nothing more."""
        with self._lock:
            if key not in self._wanted:
                raise BadOptionError(
                    "key", key, accepted="a key that was added and not removed yet"
                )
            selector, tree = self._wanted.pop(key)
            if key in self._topical:
                self._topical.remove(key)
                return
            several = self._by_selector[selector]
            del several[key]
            for group, index in list(self._indexes.items()):
                if selector in group:
                    index.remove(tree, key)
            if not several:
                del self._by_selector[selector]
                if selector.types and self._of_class.get(selector.types[0]) == selector:
                    del self._of_class[selector.types[0]]
                self._selectors.remove(selector)
                self._registrable -= selector.registrable
            if not several or (selector in self._large and len(several) < MANY // 2):
                self._large.discard(selector)
                self._reconsider(selector)

    def prepare(self, selector: Selector[Any]) -> None:
        """Do what the next event would otherwise wait for, if there are many filters."""
        with self._lock:
            if selector in self._large:
                self._index(frozenset([selector])).prepare()

    def _reconsider(self, selector: Selector[Any] | None) -> None:
        """Which selectors share an index is decided anew for the classes that this one covers."""
        kept = WeakKeyDictionary(self._chosen)
        for cls in list(kept):
            if selector is None or selector.covers_class(cls):
                del kept[cls]
        self._chosen = kept
        if self._dispatch is not None:  # which kernels are asked for a class is found out anew
            self._dispatch.clear()
            tokens = (get_cache_token, self._token) if self._registrable else (None, None)
            self._dispatch.check(*tokens)
        used = {
            id(index)
            for by_topic in list(kept.values())
            for indexes in by_topic.values()
            for index in indexes
        }
        self._indexes = {
            group: index
            for group, index in self._indexes.items()
            if id(index) in used or (len(group) == 1 and group <= self._large)
        }

    def _direct(self, cls: type) -> None:
        """Let events of a class go to the kernels without coming by here."""
        with self._lock:
            indexes = self._chosen.get(cls, {}).get(None)
            if indexes is not None and not self._topical:
                natives = [index for index in indexes if isinstance(index, NativeIndex)]
                self._dispatch.put(cls, tuple(index.kernel for index in natives))

    # -- asking ------------------------------------------------------------------------------------

    def match(self, event: Any, *, topic: str | None = None) -> list[K]:
        """The keys that an event is for."""
        return self._match(event, topic=topic)

    def _match(self, event: Any, *, topic: str | None = None) -> list[K]:
        indexes = self._indexes_for(type(event), topic)
        if self._dispatch is not None and not self._dispatch.has(type(event)):
            self._direct(type(event))
        found: list[K] = indexes[0].match(event) if indexes else []
        for index in indexes[1:]:
            found += index.match(event)
        return [*found, *self._topical.match(event, topic)] if self._topical else found

    def covering(self, cls: type, *, topic: str | None = None) -> list[K]:
        """The keys whose type covers a class, whatever their filters say."""
        with self._lock:
            found = [
                key
                for selector in self._selectors.covering(cls, topic)
                for key in self._by_selector[selector]
            ]
            return [*found, *self._topical.covering(cls, topic)]

    @overload
    def match_batch(self, events: Iterable[Any], *, topic: str | None = None) -> list[list[K]]: ...
    @overload
    def match_batch(
        self,
        events: ArrowColumns,
        *,
        of: type,
        topic: str | None = None,
        threads: int = 1,
        share: Share = "events",
    ) -> tuple[Any, Any]: ...
    def match_batch(
        self,
        events: Any,
        *,
        of: type | None = None,
        topic: str | None = None,
        threads: int = 1,
        share: Share = "events",
    ) -> Any:
        """The keys that each of many events is for: a list of keys for each.

        A record batch or table of Arrow holds events `of` one class. For it the answer is two
        arrays: the keys for event n are `ids[offsets[n]:offsets[n + 1]]`. With the native kernel,
        several threads share its events, or the filters.
        """
        if of is not None or hasattr(events, "num_rows"):
            return self._match_rows(events, of, topic, _sharing(threads, share))
        if isinstance(events, str | bytes | Mapping) or hasattr(events, "columns"):
            accepted = "a list of events, or with `of` a RecordBatch or Table of pyarrow"
            raise BadOptionError("events", type(events), accepted=accepted)
        events = list(events)
        if self._dispatch is not None and topic is None:
            at_once: list[list[K]] | None = self._dispatch.many(events)
            if at_once is not None:
                return at_once
        if self._topical:
            return [self.match(event, topic=topic) for event in events]
        kinds = list(map(type, events))
        if len(set(kinds)) == 1:
            return self._match_alike(kinds[0], events, topic)
        by_class: dict[type, list[int]] = {}
        for number, cls in enumerate(kinds):
            by_class.setdefault(cls, []).append(number)
        found: list[list[K]] = [[]] * len(events)
        for cls, numbers in by_class.items():
            alike = self._match_alike(cls, [events[number] for number in numbers], topic)
            for number, keys in zip(numbers, alike, strict=True):
                found[number] = keys
        return found

    def _match_rows(
        self, batch: Any, of: type | None, topic: str | None, sharing: Sharing
    ) -> tuple[Any, Any]:
        if not hasattr(batch, "num_rows") or not hasattr(batch, "schema"):
            raise BadOptionError(
                "events", batch, accepted="with `of`: a RecordBatch or Table of pyarrow"
            )
        if not isinstance(of, type):
            accepted = "the class whose events the rows are: match_batch(batch, of=Talk)"
            raise BadOptionError("of", of, accepted=accepted)
        rows = ArrowRows(batch, of)
        several = [
            index.match_rows(rows, sharing=sharing)
            if isinstance(index, NativeIndex)
            else index.match_rows(rows)
            for index in self._indexes_for(of, topic)
        ]
        if self._topical:
            asked = [self._topical.match(rows.event(n), topic) for n in range(len(rows))]
            several.append(Matches.of(asked))
        return Matches.together(several, len(rows)).arrays()

    def _match_alike(self, cls: type, events: list[Any], topic: str | None) -> list[list[K]]:
        """The keys for events of one class."""
        several = [index.match_batch(events) for index in self._indexes_for(cls, topic)]
        if len(several) == 1:
            return several[0]
        if not several:
            return [[] for _ in events]
        return [list(chain.from_iterable(keys)) for keys in zip(*several, strict=True)]

    def _indexes_for(self, cls: type, topic: str | None) -> tuple[AnyIndex, ...]:
        if self._registrable and get_cache_token() != self._token:
            with self._lock:  # ABC.register: old verdicts may be wrong
                self._token = get_cache_token()
                self._reconsider(None)
        try:
            return self._chosen[cls][topic]
        except KeyError:
            return self._choose(cls, topic)
        except TypeError:
            raise BadTopicError(
                topic, why=f"it is a {type(topic).__name__}, not a string"
            ) from None

    def _choose(self, cls: type, topic: str | None) -> tuple[AnyIndex, ...]:
        if topic is not None:
            check_topic(topic)
        with self._lock:
            covering = self._selectors.covering(cls, topic)
            large = [selector for selector in covering if selector in self._large]
            groups = [frozenset([selector]) for selector in large]
            if len(large) < len(covering):
                groups.append(frozenset(covering).difference(large))
            chosen = tuple(self._index(group) for group in groups)
            by_topic = self._chosen.setdefault(cls, {})
            if len(by_topic) > TOPICS_KEPT:
                by_topic.clear()
            by_topic[topic] = chosen
            return chosen

    def _index(self, group: frozenset[Selector[Any]]) -> AnyIndex:
        index = self._indexes.get(group)
        if index is None:
            module = self._module
            index = Index(self._lock) if module is None else NativeIndex(self._lock, module)
            for selector in group:
                index.add_all(self._by_selector[selector].items())
            self._indexes[group] = index
        return index


def _sharing(threads: int, share: str) -> Sharing:
    if type(threads) is not int or threads < 1:
        raise BadOptionError("threads", threads, accepted="a number of threads, 1 or more")
    if share not in ("events", "filters"):
        raise BadOptionError.choice("share", share, ("events", "filters"))
    return Sharing(threads, share == "filters") if threads > 1 else ALONE
