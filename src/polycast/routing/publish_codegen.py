"""One generated function per (class, topic, plan version): the hot path of publish.

The source holds no value of a user's, only numbered names; values come in as globals. Filters
stand in it as expressions, whose attribute names are checked to be identifiers.
What the function shares with the dispatcher (whose turn it is, the newest position) are closure
cells, because nothing is faster. A test-and-set of a cell and `position + 1` are not interrupted
by another thread under the GIL: CPython switches threads at calls and backward jumps only, and
there is none in between. A Python without the GIL is refused by the dispatcher.
"""

from __future__ import annotations

import itertools
import linecache
from dataclasses import dataclass, replace
from functools import partial
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from polycast.events.isolation import is_fixed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from polycast.events import Identity
    from polycast.routing.plan import Choice, Plan, Target
    from polycast.stores import Receipt


UNROLLED = 32  # more direct targets than this are a loop: compiling must stay cheap
NESTING_MARK = "<polycast turn"  # how the file names of functions begin that take the inline lock
PLAIN_MARK = "<polycast route"
MOST_CODES = 1_000  # that are kept


@dataclass(frozen=True, slots=True)
class RouteShape:
    """All that the source depends on. Where there are many targets they are a loop."""

    logged: bool
    locked: bool  # some target runs in the publisher's thread
    topic: bool
    queued: tuple[bool, ...] = ()  # for each target with a queue: has it a filter
    direct: tuple[str | None, ...] = ()  # for each target called directly: its filter's expression
    registrable: bool = False  # ABC.register may give it targets it does not have now
    indexed: bool = False  # an index says who wants an event; those below are the others
    many_queued: bool = False
    many_direct: bool = False
    within: bool = False  # it is published in a context, which the entry says

    def compact(self) -> RouteShape:
        """The same with loops instead of more than a few lines for each target."""
        many_queued = self.indexed or len(self.queued) > UNROLLED
        many_direct = self.indexed or len(self.direct) > UNROLLED
        return replace(
            self,
            queued=() if many_queued else self.queued,
            direct=() if many_direct else self.direct,
            many_queued=many_queued,
            many_direct=many_direct,
        )


@dataclass(frozen=True, slots=True)
class Route:
    """A generated function, and the cell that tells it that the plan has changed."""

    run: Callable[[Any], Any]
    stale: CellType


def make_route(shape: RouteShape, cells: Mapping[str, CellType], names: dict[str, object]) -> Route:
    """Compile the function for a shape over shared cells and named values."""
    stale = CellType(False)
    if any(shape.queued) or "boxes" in names:
        names["unfit"] = partial(_unfit, names)
    code = _code_for(shape.compact())
    bound = {**cells, "stale": stale}
    closure = tuple(bound[name] for name in code.co_freevars)
    return Route(FunctionType(code, names, "route", None, closure), stale)


def _unfit(names: dict[str, Any], target: Target, error: BaseException) -> None:
    """A filter has failed; from the first time on, the route counts what it answers.

    That the route is made anew would have others asked twice about this event.
    """
    was_watched = target.watched
    target.unfit(error)
    if was_watched or not target.watched:
        return
    boxes = names.get("boxes")
    if boxes is None:
        number = next(n for n in range(UNROLLED) if names[f"box_{n}"] is target)
        names[f"test_{number}"] = target.counting(names[f"test_{number}"])
        return
    places = names.get("places")
    if places is None:
        places = names["places"] = {box: number for number, (box, _) in enumerate(boxes)}
    box, test = boxes[places[target]]
    boxes[places[target]] = box, target.counting(test)


def guarded(route: Route, otherwise: Callable[[Any], Any]) -> Route:
    """The same for events that nobody can change; others go another way."""
    run = route.run
    return Route(lambda event: run(event) if is_fixed(event) else otherwise(event), route.stale)


_codes: dict[RouteShape, CodeType] = {}
_numbers = itertools.count(1)


def _code_for(shape: RouteShape) -> CodeType:
    code = _codes.get(shape)
    if code is None:
        if len(_codes) > MOST_CODES:
            for old in _codes.values():
                linecache.cache.pop(old.co_filename, None)
            _codes.clear()
        code = _codes[shape] = _compile(shape)
    return code


def _compile(shape: RouteShape) -> CodeType:
    mark, source = NESTING_MARK if shape.locked else PLAIN_MARK, source_of(shape)
    name = f"{mark} {next(_numbers)}>"
    # So that tracebacks and debuggers show it.
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    module = compile(source, name, "exec")
    factory = next(const for const in module.co_consts if isinstance(const, CodeType))
    return next(const for const in factory.co_consts if isinstance(const, CodeType))


def source_of(shape: RouteShape) -> str:
    """The source of the function for a shape."""
    lines = [
        "def factory(busy, position, latest, stale):",
        " def route(event):",
        "  nonlocal busy, position, latest, stale",
        *_indent(2, _body(shape)),
        " return route",
    ]
    return "\n".join(lines)


def _body(shape: RouteShape) -> Iterator[str]:
    if not shape.locked:
        yield from _work(shape)
        yield "return Receipt(here, publisher)"
        return
    yield "if busy:"
    yield " return contended(event)"
    yield "busy = mine = True"  # `mine` tells on the slow side whether this call has the turn
    yield "step = -1"
    yield "try:"
    yield from _indent(1, _work(shape))
    yield "except BaseException:"
    yield " if mine: interrupted(step, event, here if step >= 0 else 0)"
    yield " raise"
    yield "if pending:"
    yield " give_turn()"
    yield "else:"
    yield " busy = False"
    yield "return Receipt(here, publisher)"


def _work(shape: RouteShape) -> Iterator[str]:
    if shape.registrable:
        yield from _instead("token() != known", "registered(event)")
    yield from _queued_loop_tests(shape) if shape.many_queued else _queued_tests(shape)
    if shape.queued or shape.many_queued or (shape.logged and not shape.locked):
        yield from _ordered_part(shape)
    elif shape.logged:
        yield from _logged_part(shape)
    else:
        yield from _position()
    if shape.indexed:
        yield from _chosen_calls()
    else:
        yield from _direct_loop() if shape.many_direct else _direct_calls(shape)


def _instead(condition: str, call: str) -> Iterator[str]:
    """Go on elsewhere, which gives the turn back itself."""
    yield f"if {condition}:"
    yield " mine = False"
    yield f" return {call}"


def _position() -> Iterator[str]:
    """No other thread runs between the two, so a new subscription sees the event or is seen."""
    yield from _instead("stale", "again(event)")
    yield "position = here = position + 1"


def _queued_tests(shape: RouteShape) -> Iterator[str]:
    """What a filter says is asked for its truth here, where no lock is held."""
    for number, filtered in enumerate(shape.queued):
        if not filtered:
            continue
        yield "try:"
        yield f" hit_{number} = test_{number}(event) or None"
        yield "except failures_here() as error:"
        yield f" hit_{number} = None"
        yield f" unfit(box_{number}, error)"


def _queued_loop_tests(shape: RouteShape) -> Iterator[str]:
    if shape.indexed:
        yield "chosen, wanting = choose(event)"
        yield "hits = [(box, True) for box in wanting]"
    else:
        yield "hits = []"
    yield "for box, test in boxes:"
    yield " try:"
    yield "  hit = True if test is None else test(event) or None"
    yield "  if hit is not None: hits.append((box, hit))"
    yield " except failures_here() as error:"
    yield "  unfit(box, error)"


def _ordered_part(shape: RouteShape) -> Iterator[str]:
    topic = _about(shape)
    # What interrupts this thread, where it has one of these locks, would wait for itself.
    yield "noted = LATEST.lock"  # as is_inside() does, without the call
    yield "if is_ordering() or (noted is not None and noted._is_owned()): refuse_nested()"
    yield "with order:"
    yield " if stale:"
    yield "  here = 0"
    yield " else:"
    yield "  position = here = position + 1"
    yield "  moment = time()"
    yield "  if moment > latest: latest = moment"
    yield f"  entry = Entry(here, event, latest, publisher{topic})"
    if shape.logged:
        yield "  append(entry)"
    if shape.many_queued:
        yield "  idle = []"
        yield "  for box, hit in hits:"
        yield "   if not box.put(entry, hit): idle.append(box)"
    for number, filtered in enumerate(shape.queued):
        guard = f"hit_{number} is not None and " if filtered else ""
        hit = f"hit_{number}" if filtered else "True"
        yield f"  idle_{number} = {guard}not box_{number}.put(entry, {hit})"
    yield from _instead("not here", "again(event)")
    if shape.many_queued:
        yield "for box in idle: box.wake()"
    for number in range(len(shape.queued)):
        yield f"if idle_{number}: box_{number}.wake()"


def _about(shape: RouteShape) -> str:
    """What an entry says besides its event, position, time and publisher."""
    if shape.within:
        return ", topic, 0, None, None, None, None, context"
    return ", topic" if shape.topic else ""


def _logged_part(shape: RouteShape) -> Iterator[str]:
    """With the turn and no queue to fill, the log alone does not need the order lock.

    Another thread may append a later position first; the log sorts itself when it is read, and
    whoever wants all up to a position takes the turn.
    """
    topic = _about(shape)
    yield "moment = time()"
    yield "if moment > latest: latest = moment"
    yield from _position()
    yield f"append(Entry(here, event, latest, publisher{topic}))"


def _direct_calls(shape: RouteShape) -> Iterator[str]:
    """`step` is twice the number of the target, and one more from its callback on."""
    for number, expression in enumerate(shape.direct):
        if number:
            yield from _instead("stale", f"rest({number}, event, here)")
        yield f"step = {2 * number}"
        yield "try:"
        space = " " if expression is None else "  "
        if expression is not None:
            yield f" if {expression}:"
        yield f"{space}step = {2 * number + 1}"
        yield f"{space}if (said := call_{number}(event)) is not None: has_run(said)"
        yield "except failures_here() as error:"
        yield " raised(step, event, here, error)"


def _direct_loop() -> Iterator[str]:
    """As above, in a loop. `step` comes with the call: most have no filter, and need no sum."""
    yield "for step, want, call in calls:"
    yield from _indent(1, _instead("stale", "rest(step >> 1, event, here)"))
    yield " try:"
    yield "  if want is not None:"
    yield "   if not want(event): continue"
    yield "   step += 1"
    yield "  if (said := call(event)) is not None: has_run(said)"
    yield " except failures_here() as error:"
    yield "  raised(step, event, here, error)"


def _chosen_calls() -> Iterator[str]:
    yield "for number in chosen:"
    yield from _indent(1, _instead("stale", "rest(number, event, here)"))
    yield " step = 2 * number + 1"
    yield " try:"
    yield "  if (said := calls[number](event)) is not None: has_run(said)"
    yield " except failures_here() as error:"
    yield "  raised(step, event, here, error)"


def _indent(depth: int, lines: Iterator[str]) -> Iterator[str]:
    return (" " * depth + line for line in lines)


def names_for(targets: tuple[Target, ...], tests: tuple[object, ...]) -> dict[str, object]:
    """The names of targets that have a queue."""
    if len(targets) > UNROLLED:
        return {"boxes": list(zip(targets, tests, strict=True))}
    boxes = {f"box_{number}": target for number, target in enumerate(targets)}
    return {**boxes, **{f"test_{number}": test for number, test in enumerate(tests)}}


def call_names(calls: tuple[Any, ...], wants: tuple[Any, ...]) -> dict[str, object]:
    """The names of callbacks that are called directly."""
    if len(calls) > UNROLLED:
        steps = (2 * number + (want is None) for number, want in enumerate(wants))
        return {"calls": tuple(zip(steps, wants, calls, strict=True))}
    return {f"call_{number}": call for number, call in enumerate(calls)}


def expression_of(
    target: Target, number: int, cls: type, topic: str | None
) -> tuple[str | None, dict[str, Any]]:
    """The filter of a target that is called directly, as an expression, and what that names."""
    interests = target.interests()
    where = interests[0].where if interests else None
    if where is None:
        return None, {}
    if target.watched:
        name = f"watched_{number}"
        return f"{name}(event)", {name: target.test_for(cls, topic)}
    return where.on(topic).expression(f"where_{number}", cls)


class PublishMetadata(msgspec.Struct, frozen=True, gc=False):
    """The same for all events of one publish; without options, only where they come from."""

    topic: str | None = None
    priority: int = 0
    expires: float | None = None  # by the wall clock
    headers: Mapping[str, str] | None = None
    given: Identity | None = None
    """The identity of one that may have been published before."""
    context: str | None = None  # the publisher's; None is the root


class RouteKey(NamedTuple):
    """How events come: on a topic, from a publisher in a context."""

    topic: str | None
    source: str | None = None

    def metadata(self) -> PublishMetadata:
        """What is said of events that come so."""
        return PublishMetadata(self.topic, context=self.source)


MOST_ROUTES = 4_096  # of one class: each topic has its own, and topics never end


class RouteCache:
    """Whoever changes it holds the lock of the plan."""

    def __init__(self) -> None:
        # What publish looks up. Its keys would keep classes alive, so a full collection empties
        # it; `_made` has everything again, weakly.
        self.plain: dict[type, Callable[[Any], Receipt]] = {}
        self.on_topic: dict[tuple[type, str], Callable[[Any], Receipt]] = {}
        self.in_context: dict[str, dict[type, Callable[[Any], Receipt]]] = {}
        self._made: WeakKeyDictionary[type, dict[RouteKey, Route]] = WeakKeyDictionary()
        self._dense: WeakKeyDictionary[type, set[RouteKey]] = WeakKeyDictionary()

    def all(self) -> list[tuple[type, RouteKey]]:
        """All that were made."""
        return [(cls, key) for cls, made in list(self._made.items()) for key in made]

    def leading_to(self, plan: Plan, target: Target) -> list[tuple[type, RouteKey]]:
        """Those that a target can be reached by."""
        choices = plan.targets.choices(target)
        return [
            (cls, key)
            for cls, key in self.all()
            if any(_leads_to(choice, plan, cls, key) for choice in choices)
        ]

    def get(self, cls: type, key: RouteKey) -> Route | None:
        """The one that was made."""
        return self._made.get(cls, {}).get(key)

    def put(self, cls: type, key: RouteKey, route: Route) -> None:
        """Keep one that was made."""
        made = self._made.setdefault(cls, {})
        if len(made) > MOST_ROUTES:
            self.expire([(cls, known) for known in made])
        made[key] = route

    def use(self, cls: type, key: RouteKey) -> Callable[[Any], Receipt]:
        """Let publish find one that was made."""
        run = self._made[cls][key].run
        if key.source is not None:
            if key.topic is None:
                self.in_context.setdefault(key.source, {})[cls] = run
        elif key.topic is None:
            self.plain[cls] = run
        else:
            self.on_topic[cls, key.topic] = run
        return run

    def mark_dense(self, cls: type, key: RouteKey) -> None:
        """So many targets want most events that the next route asks each, and no index."""
        self._dense.setdefault(cls, set()).add(key)

    def is_dense(self, cls: type, key: RouteKey) -> bool:
        """Whether that was found since the plan has last changed."""
        return key in self._dense.get(cls, ())

    def expire(self, stale: Iterable[tuple[type, RouteKey]]) -> None:
        """Whoever calls one of these finds out, and publishes by the plan as it is now."""
        for cls, key in stale:
            self._dense.get(cls, set()).discard(key)
            route = self._made[cls].pop(key, None)
            if route is not None:
                route.stale.cell_contents = True
            self.plain.pop(cls, None)
            if key.source is not None:
                self.in_context.get(key.source, {}).pop(cls, None)
            elif key.topic is not None:
                self.on_topic.pop((cls, key.topic), None)

    def let_go(self) -> None:
        """Hold no class only because its events were published."""
        self.plain.clear()
        self.on_topic.clear()
        for routes in self.in_context.values():
            routes.clear()

    def leave(self) -> None:
        """In a process that was forked: let nobody go on by a route."""
        for made in list(self._made.values()):
            for route in made.values():
                route.stale.cell_contents = True


def _leads_to(choice: Choice, plan: Plan, cls: type, key: RouteKey) -> bool:
    """Whether events of a class can be what is chosen, in the context where it is."""
    context, selector = choice
    there = plan.translation.becomes(cls, key.source, context)
    return there is not None and selector.covers(there, key.topic)
