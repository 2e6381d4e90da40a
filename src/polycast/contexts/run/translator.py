"""One direction of a context at work: translates events of one side to those of the other."""

from __future__ import annotations

import collections.abc
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from polycast.contexts.check.assignability import hint_text, is_one, kind_met
from polycast.contexts.check.findings import Finding
from polycast.contexts.compile.builder import Builder
from polycast.contexts.compile.translation_codegen import Code, write
from polycast.contexts.compile.translation_ir import Choice, Recipe, gives_fixed
from polycast.contexts.resolve.attribute_shapes import attribute_hints, has_attributes
from polycast.contexts.resolve.resolution import (
    FEW_PATHS,
    Resolver,
    TooManyPaths,
    is_subtype,
    most_derived,
)
from polycast.errors import BadResultError, EventTooDeepError
from polycast.events.isolation import copied
from polycast.metrics import Trials
from polycast.runtime import shared_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.contexts.declare.statements import Direction, Mapping
    from polycast.contexts.resolve.inheritance import SettledContext

T = TypeVar("T")
_LABEL = "<polycast "
"""Begins the file name of generated code."""


class _ITSELF:
    """Stands for the class itself: a value must not keep its own key alive."""


class _UNKNOWN:
    """Stands for a class that was not asked about before."""


class Translator:
    """The functions of one direction, compiled when a class is first met, and kept."""

    def __init__(
        self,
        settled: SettledContext,
        direction: Direction,
        report: Callable[[Finding], None],
        *,
        few: int = FEW_PATHS,
    ) -> None:
        self.direction: Direction = direction
        self._settled, self._report = settled, report
        self._lock = shared_lock()
        self._resolver = Resolver(settled.rules, settled.types, few=few)
        self._builder = Builder(settled, self._resolver, direction)
        self._codes: dict[type, Code] = {}
        self._targets: weakref.WeakKeyDictionary[type, type | None] = weakref.WeakKeyDictionary()
        self.functions: dict[type, Callable[[Any], Any]] = {}
        """The function that translates events of each class that was met."""
        self.counts: dict[type, int] = {}
        """How many events of each class were translated; two at once may count as one."""
        self.trials: dict[type, tuple[int, Trials]] = {}
        """For each class that failed: how many were translated when it last did."""
        self.culprits: dict[type, str] = {}
        """The function that last failed for a class, if its name is known."""
        self.fixed: set[type] = set()
        """The classes whose translated events are immutable, as far as is known."""
        self._is_sure = True  # no class was met that the recipes do not name

    def mapping(self, cls: type) -> Mapping | None:
        """The mapping of a class."""
        return self._settled.mapping_for(cls, self.direction)

    def becomes(self, cls: type) -> type | None:
        """The class of an event on the other side; None if it cannot get there."""
        target = self._targets.get(cls, _UNKNOWN)
        if target is _UNKNOWN:
            mapping = self.mapping(cls)
            stays = _ITSELF if self._settled.is_root_type(cls) else None
            target = self._targets[cls] = stays if mapping is None else mapping.target
        return cls if target is _ITSELF else target

    def translate(self, event: Any) -> Any:
        """An event of the other side; None if it cannot get there."""
        cls = type(event)
        run = self.functions.get(cls) or self.function(cls)
        try:
            return None if run is None else run(event)
        except RecursionError:
            check_depth(event)
            raise

    def failed(self, cls: type, error: BaseException) -> None:
        """Record that an event could not be translated; the caller holds the federation's lock."""
        self.culprits[cls] = _called_last(error)
        worked = self.counts.get(cls, 0)
        before, trials = self.trials.get(cls, (0, Trials()))
        if worked != before or cls not in self.trials:
            trials.work(worked - before)
        trials.fail(error)
        self.trials[cls] = worked, trials

    def vain(self) -> list[tuple[type, Trials]]:
        """The classes whose events keep failing, with the trials."""
        return [
            (cls, trials)
            for cls, (worked, trials) in list(self.trials.items())
            if worked == self.counts.get(cls, 0) and trials.are_vain
        ]

    def function(self, cls: type) -> Callable[[Any], Any] | None:
        """The function that translates events of a class; None if they cannot get there."""
        with self._lock:
            if self.mapping(cls) is not None:
                run = self.code(cls).run
            elif self._settled.is_root_type(cls):
                run = copied
            else:
                return None
            self.functions[cls] = run
            return run

    def code(self, cls: type) -> Code:
        """The generated code for events of a class that has a mapping."""
        with self._lock:
            code = self._codes.get(cls)
            if code is None:
                recipe = self.recipe(cls)
                code = self._codes[cls] = self._write(recipe, cls.__qualname__)
                if self._is_sure and gives_fixed(recipe):
                    self.fixed.add(cls)
            return code

    def recipe(self, cls: type) -> Recipe:
        """The recipe by which events of a class are translated."""
        mapping = self.mapping(cls)
        assert mapping is not None
        with self._lock:
            recipe = self._tried(lambda: self._builder.event(cls, mapping), cls)
            if recipe is None:  # it is translated as the nearest supertype that is known
                known = [other for other in self._settled.types.types if other is not cls]
                above = [other for other in known if self.mapping(other) == mapping]
                recipe = self._builder.event(most_derived(cls, above)[0], mapping)
            return recipe

    def _write(self, recipe: Recipe, where: str) -> Code:
        label = f"{_LABEL}{self._settled.name} {self.direction} {where}>"
        return write(recipe, label=label, newly=self._newly, unsure=self._unsure)

    # -- types not known before --------------------------------------------------------------------

    def _newly(
        self, choice: Choice, functions: dict[type, Callable[[Any], Any]], value: Any
    ) -> Any:
        """Compile and keep a function for a class that is met at a path for the first time."""
        cls = type(value)
        self._unsure()
        with self._lock:
            run = functions.get(cls)
            if run is None:
                where = f"{choice.node.path}.{choice.attribute}({cls.__qualname__})"
                run = functions[cls] = self._write(self._case(choice, cls), where).run
        return run(value)

    def _unsure(self) -> None:
        """From now on, check each event before several readers share it."""
        with self._lock:
            self._is_sure = False
            self.fixed.clear()

    def _case(self, choice: Choice, cls: type) -> Recipe:
        known = choice.cases.get(cls)
        if known is not None:
            return known
        if any(is_subtype(cls, declared) for declared in choice.shape.classes):
            recipe = self._tried(lambda: self._builder.case(choice, cls), cls)
            if recipe is not None:
                return recipe
        above = most_derived(cls, list(choice.cases))
        if above:
            return self._builder.view(choice, above[0])
        for declared, recipe in choice.cases.items():
            if is_one(cls, declared):  # an int for a float, or a class that conforms to a protocol
                return recipe
        containers = dict(choice.containers)
        kind = kind_met(cls, containers)
        if kind is not None:
            return containers[kind]
        if not choice.cases:
            where, wanted = f"{choice.node.path}.{choice.attribute}", hint_text(choice.shape.hint)
            raise TypeError(f"{where} holds a {cls.__name__}; accepted: {wanted}")
        return next(iter(choice.cases.values()))

    def _tried(self, build: Callable[[], T], cls: type) -> T | None:
        """What `build` returns; None if it has errors. Findings are reported."""
        before = len(self._builder.findings)
        result: T | None = None
        try:
            result = build()
        except TooManyPaths as error:
            finding = Finding("too-many-paths", f"{cls.__name__}: {error}", self._settled.name)
            self._builder.findings.append(finding)
        new = self._builder.findings[before:]
        wrong = [finding for finding in new if finding.severity == "error"]
        is_new = cls not in self._settled.types.types  # else a check has reported the warnings
        doubtful = [finding for finding in new if finding.severity == "warning" and is_new]
        for finding in dict.fromkeys((*wrong, *doubtful)):
            self._report(finding)
        return None if wrong else result


def _called_last(error: BaseException) -> str:
    """The function that generated code had called; empty for one without a frame."""
    if isinstance(error, BadResultError):
        return error.function
    name, trace = "", error.__traceback__
    while trace is not None:
        code, trace = trace.tb_frame.f_code, trace.tb_next
        if code.co_filename.startswith(_LABEL):
            name = "" if trace is None else trace.tb_frame.f_code.co_qualname
    return name.rpartition("<locals>.")[2]


# -- events that contain themselves, or are nested too deep ----------------------------------------

_DEEP = 100  # less deep events do not fill a stack


def check_depth(event: object) -> None:
    """Raise `EventTooDeepError` if an event contains itself or is nested too deep."""
    path: list[str] = [type(event).__name__]
    within = {id(event): None}  # what contains the current part, outermost first
    seen, deepest = {id(event)}, 0
    names: dict[type, tuple[str, ...]] = {}
    waiting = [_parts(event, names)]
    while waiting:
        name, part = next(waiting[-1], ("", None))
        if not name:
            waiting.pop()
            path.pop()
            within.popitem()
            continue
        if id(part) in within:
            raise EventTooDeepError(event, cycle="".join((*path, name)))
        if id(part) in seen:
            continue
        seen.add(id(part))
        path.append(name)
        within[id(part)] = None
        waiting.append(_parts(part, names))
        deepest = max(deepest, len(waiting))
    if deepest > _DEEP:
        raise EventTooDeepError(event, cycle=None)


def _parts(value: Any, names: dict[type, tuple[str, ...]]) -> Iterator[tuple[str, Any]]:
    """The parts of a value, each with the text that selects it; `names` caches attributes."""
    cls = type(value)
    if isinstance(value, collections.abc.Mapping):
        for key, item in value.items():
            yield f"[{key!r}]", item
    elif isinstance(value, collections.abc.Collection) and not isinstance(value, str | bytes):
        for place, item in enumerate(value):
            yield f"[{place}]", item
    else:
        if cls not in names:
            names[cls] = tuple(attribute_hints(cls)) if has_attributes(cls) else ()
        for name in names[cls]:
            if hasattr(value, name):
                yield f".{name}", getattr(value, name)
