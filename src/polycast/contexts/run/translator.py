"""One direction of a context at work: events of one side made events of the other."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from polycast.contexts.check.assignability import hint_text, is_one, kind_met
from polycast.contexts.check.findings import Finding
from polycast.contexts.compile.builder import Builder
from polycast.contexts.compile.object_makers import copied
from polycast.contexts.compile.shareable import gives_fixed
from polycast.contexts.compile.translation_codegen import write
from polycast.contexts.resolve.derivation import is_subtype, most_derived
from polycast.contexts.resolve.resolution import FEW_PATHS, Resolver, TooManyPaths
from polycast.contexts.run.depth import check_depth
from polycast.errors import BadResultError
from polycast.forks import shared_lock
from polycast.metrics import Trials

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.contexts.compile.translation_codegen import Code
    from polycast.contexts.compile.translation_ir import Choice, Recipe
    from polycast.contexts.declare.statements import Direction, Mapping
    from polycast.contexts.resolve.inheritance import SettledContext

__all__ = ["Translator"]

T = TypeVar("T")
_LABEL = "<polycast "
"""Begins the file name of generated code."""


class _ITSELF:
    """In place of a class: a value must not keep its own key alive."""


class _UNKNOWN:
    """In place of a class that was not asked about before."""


class Translator:
    """The functions of one direction, made when a class is first met, and kept."""

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
        """For each class that was met: what makes its events those of the other side."""
        self.counts: dict[type, int] = {}
        """How many events of each class were translated; two at once may count as one."""
        self.trials: dict[type, tuple[int, Trials]] = {}
        """For each class of which one could not be: how many were when it last failed."""
        self.culprits: dict[type, str] = {}
        """The function that failed for it last, if its name is known."""
        self.fixed: set[type] = set()
        """The classes whose events become such that nobody can change, as far as is known."""
        self._is_sure = True  # nothing has been met that recipes do not name

    def mapping(self, cls: type) -> Mapping | None:
        """The mapping of a class."""
        return self._settled.mapping_for(cls, self.direction)

    def becomes(self, cls: type) -> type | None:
        """What an event of a class is on the other side; None if it cannot get there."""
        found = self._targets.get(cls, _UNKNOWN)
        if found is _UNKNOWN:
            mapping = self.mapping(cls)
            stays = _ITSELF if self._settled.is_root_type(cls) else None
            found = self._targets[cls] = stays if mapping is None else mapping.target
        return cls if found is _ITSELF else found

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
        """An event of a class could not be translated. The lock of the federation is held."""
        self.culprits[cls] = _called_last(error)
        worked = self.counts.get(cls, 0)
        before, trials = self.trials.get(cls, (0, Trials()))
        if worked != before or cls not in self.trials:
            trials.work(worked - before)
        trials.fail(error)
        self.trials[cls] = worked, trials

    def vain(self) -> list[tuple[type, Trials]]:
        """The classes of which no event is translated of late, however often that is tried."""
        found = list(self.trials.items())
        here = [(cls, trials, worked == self.counts.get(cls, 0)) for cls, (worked, trials) in found]
        return [(cls, trials) for cls, trials, is_last in here if is_last and trials.are_vain]

    def function(self, cls: type) -> Callable[[Any], Any] | None:
        """What makes events of a class those of the other side; None if they cannot get there."""
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
            found = self._codes.get(cls)
            if found is None:
                label = f"{_LABEL}{self._settled.name} {self.direction} {cls.__qualname__}>"
                recipe = self.recipe(cls)
                found = write(recipe, label=label, newly=self._newly, unsure=self._unsure)
                self._codes[cls] = found
                if self._is_sure and gives_fixed(recipe):
                    self.fixed.add(cls)
            return found

    def recipe(self, cls: type) -> Recipe:
        """How events of a class are made those of the other side."""
        mapping = self.mapping(cls)
        assert mapping is not None
        with self._lock:
            found = self._tried(lambda: self._builder.event(cls, mapping), cls)
            if found is None:  # it goes on as what it is that somebody knew
                known = [each for each in self._settled.types.types if each is not cls]
                above = [each for each in known if self.mapping(each) == mapping]
                found = self._builder.event(most_derived(cls, above)[0], mapping)
            return found

    # -- types that nobody knew --------------------------------------------------------------------

    def _newly(
        self, choice: Choice, functions: dict[type, Callable[[Any], Any]], value: Any
    ) -> Any:
        """A class was met for the first time at some path: resolve it, keep it, go on."""
        cls = type(value)
        self._unsure()
        with self._lock:
            run = functions.get(cls)
            if run is None:
                recipe = self._case(choice, cls)
                where = f"{choice.node.path}.{choice.attribute}({cls.__qualname__})"
                label = f"{_LABEL}{self._settled.name} {self.direction} {where}>"
                made = write(recipe, label=label, newly=self._newly, unsure=self._unsure)
                run = functions[cls] = made.run
        return run(value)

    def _unsure(self) -> None:
        """From now on each event is looked at before several may have it."""
        with self._lock:
            self._is_sure = False
            self.fixed.clear()

    def _case(self, choice: Choice, cls: type) -> Recipe:
        known = choice.cases.get(cls)
        if known is not None:
            return known
        if any(is_subtype(cls, declared) for declared in choice.shape.classes):
            found = self._tried(lambda: self._builder.case(choice, cls), cls)
            if found is not None:
                return found
        above = most_derived(cls, list(choice.cases))
        if above:
            return self._builder.view(choice, above[0])
        for declared, recipe in choice.cases.items():
            if is_one(cls, declared):  # an int for a float, or what has the members of a protocol
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
        """What is built; None if something is wrong with it, which is reported."""
        before = len(self._builder.findings)
        found: T | None = None
        try:
            found = build()
        except TooManyPaths as error:
            self._builder.findings.append(
                Finding("too-many-paths", f"{cls.__name__}: {error}", self._settled.name)
            )
        new = self._builder.findings[before:]
        wrong = [each for each in new if each.severity == "error"]
        is_new = cls not in self._settled.types.types  # else all but errors was said ahead
        doubtful = [each for each in new if each.severity == "warning" and is_new]
        for each in dict.fromkeys((*wrong, *doubtful)):
            self._report(each)
        return None if wrong else found


def _called_last(error: BaseException) -> str:
    """The function that generated code had called; nothing for one that shows no frame."""
    if isinstance(error, BadResultError):
        return error.function
    name, trace = "", error.__traceback__
    while trace is not None:
        code, trace = trace.tb_frame.f_code, trace.tb_next
        if code.co_filename.startswith(_LABEL):
            name = "" if trace is None else trace.tb_frame.f_code.co_qualname
    return name.rpartition("<locals>.")[2]
