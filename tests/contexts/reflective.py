"""The same rules applied by reflection, decided anew for each value: slow and obvious.

It judges the generated code in tests, and is what the paper compares with (FOS, figure 4a).
"""

from __future__ import annotations

import collections
import collections.abc
from typing import TYPE_CHECKING, Any

from polycast.contexts.check.assignability import (
    class_fits,
    expected,
    holds,
    is_one,
    keys_fit,
    kind_met,
    met_fits,
    shape_fits,
    takes_any,
)
from polycast.contexts.compile.object_makers import (
    NoMaker,
    alike,
    completing,
    maker_of,
    may_hold_more,
    put_together,
)
from polycast.contexts.compile.translation_codegen import as_sequence, as_set
from polycast.contexts.resolve.attribute_shapes import (
    ValueShape,
    attribute_hints,
    extends_container,
    has_attributes,
    one_of,
    shape_of,
)
from polycast.contexts.resolve.resolution import EventPath, is_subtype, strength
from polycast.events.isolation import copied

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.contexts.declare.rule_functions import RuleFunction
    from polycast.contexts.declare.statements import Direction, Mapping
    from polycast.contexts.resolve.attribute_shapes import Container
    from polycast.contexts.resolve.inheritance import SettledContext

__all__ = ["reflect"]

_ANYTHING = shape_of(Any)


def reflect(settled: SettledContext, direction: Direction, event: Any) -> Any:
    """An event as the other side of a context sees it; None if it cannot get there."""
    mapping = settled.mapping_for(type(event), direction)
    if mapping is None:
        return copied(event) if settled.is_root_type(type(event)) else None
    return _Reflection(settled, direction).built(event, EventPath((type(event),)), mapping)


class _Reflection:
    def __init__(self, settled: SettledContext, direction: Direction) -> None:
        self._settled, self._direction = settled, direction

    def built(self, value: Any, path: EventPath, mapping: Mapping) -> Any:
        """An object of the type that a mapping says."""
        whole = self._settled.wholes.get(mapping.source)
        if whole is None:
            return self._made(value, path, mapping.target)
        return _called(whole.function, value, path, shape_of(mapping.target))

    def _made(self, value: Any, path: EventPath, target: type) -> Any:
        maker, given = maker_of(target), attribute_hints(type(value))
        state = {}
        for name, hint in attribute_hints(target).items():
            if name not in maker.own and name in given:
                try:
                    part = getattr(value, name)
                    shape = shape_of(given[name])
                    state[name] = self._converted(part, path, name, shape, shape_of(hint))
                except _Misfit:
                    continue  # the target has a default: that is checked ahead
        if maker.by_state:
            return put_together(target, state)
        words = dict(maker.names)
        state = {name: default.make() for name, default in maker.defaults} | state
        return target(**{words[name]: part for name, part in state.items()})

    def _converted(
        self, value: Any, path: EventPath, name: str, shape: ValueShape, wanted: ValueShape
    ) -> Any:
        if shape.opaque:
            there = path.to(name, object)
            function = self._winner(there)
            if function is None and not shape_fits(shape, wanted):
                raise _Misfit
            return copied(value) if function is None else _called(function, value, there, wanted)
        if value is None and shape.none:
            if not (wanted.none or wanted.unknown):
                raise _Misfit
            return None
        kind = kind_met(type(value), [container.kind for container in shape.containers])
        is_named = any(type(value) is cls for cls in shape.classes)
        if kind is not None and not is_named:
            container = next(held for held in shape.containers if held.kind is kind)
            inside = shape.all_of(kind)
            inner = _inside(container, wanted)
            return _each(
                value, container.kind, lambda i: self._converted(i, path, name, inside, inner)
            )
        return self._value(value, path.to(name, _met(value, shape)), shape, wanted)

    def _value(self, value: Any, path: EventPath, held: ValueShape, wanted: ValueShape) -> Any:
        function = self._winner(path)
        if function is not None:
            return _called(function, value, path, wanted)
        met = path.types[-1]
        place = _folded(path)
        for mapping in self._settled.mappings_for(met, self._direction):
            if class_fits(mapping.target, wanted):
                return self.built(value, place, mapping)
        if not met_fits(met, held, wanted):
            raise _Misfit
        try:
            maker_of(met)
        except NoMaker:
            return copied(value)
        if not has_attributes(met) or extends_container(met):
            return copied(value)
        made = self._made(value, place, met)
        return completing(met)(value, made) if may_hold_more(met) else made

    def _winner(self, path: EventPath) -> RuleFunction | None:
        keys = [(strength(rule.pattern, path), rule) for rule in self._settled.rules]
        fitting = [(key, rule) for key, rule in keys if key is not None]
        if not fitting:
            return None
        return min(fitting, key=lambda pair: pair[0])[1].function


def _called(function: RuleFunction, value: Any, path: EventPath, wanted: ValueShape) -> Any:
    """What a function gives, if it is what it should be."""
    if function.is_identity:
        return copied(value)
    result = expected(function, wanted, str(path))
    return result.checked(function.call(copied(value)))


class _Misfit(Exception):
    """A value that the target does not take."""


def _met(value: Any, shape: ValueShape) -> type:
    """The type that is met: that of the value, if it is one that may be there."""
    cls = type(value)
    if any(is_subtype(cls, declared) for declared in shape.classes):
        return cls
    return next((known for known in shape.classes if is_one(cls, known)), shape.classes[0])


def _inside(container: Container, wanted: ValueShape) -> ValueShape:
    """What a target wants of the elements of a container."""
    if takes_any(container.kind, wanted):
        return _ANYTHING
    hints = [
        taker.inner.hint
        for taker in wanted.containers
        if holds(container.kind, taker.kind) and keys_fit(container, taker)
    ]
    if not hints:
        raise _Misfit
    return one_of(hints)


def _folded(path: EventPath) -> EventPath:
    """A type that comes again is treated as where it came first."""
    first = path.types.index(path.types[-1])
    return EventPath(path.types[: first + 1], path.attributes[:first])


def _each(value: Any, kind: type, convert: Callable[[Any], Any]) -> Any:
    if kind in (collections.OrderedDict, collections.defaultdict):
        return alike(value, {key: convert(item) for key, item in value.items()})
    if kind is collections.deque:
        return alike(value, [convert(item) for item in value])
    if kind is dict:
        return {key: convert(item) for key, item in value.items()}
    items = [convert(item) for item in value]
    if kind is collections.abc.Sequence:
        return as_sequence(value, items)
    return as_set(value, items) if kind is collections.abc.Set else kind(items)
