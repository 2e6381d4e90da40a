"""A context as data, for a store: names, and for functions where to find them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from polycast.contexts.declare.context import Context
from polycast.contexts.declare.rule_functions import Marked, NoName, identity, name_by_which
from polycast.contexts.declare.statements import DISABLED, Direction, annotated_mappings
from polycast.errors import BadContextError, FilterError
from polycast.filters import Filter
from polycast.typesystem import describe, wire_name, wire_version

_FORMAT = 1
_IDENTITY = "polycast:identity"


class TypeState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A type by its name on the wire; the hash is that of its description."""

    name: str
    version: int = 1
    hash: str = ""


class MappingState(msgspec.Struct, frozen=True):
    """`source => target`, one that an annotation stands for included."""

    source: TypeState
    target: TypeState
    direction: Direction


class FunctionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function: `module:name`, or its expression; `-` is none."""

    name: str = ""
    tree: dict[str, Any] | None = None
    unchecked: bool = False
    impure: bool = False


class RuleState(msgspec.Struct, frozen=True):
    """`pattern > function`."""

    pattern: str
    function: FunctionState


class WholeState(msgspec.Struct, frozen=True):
    """A function of whole events."""

    source: TypeState
    function: FunctionState


class ContextState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The statements of a context itself; what it inherits is in its parents."""

    format: int
    name: str
    parents: tuple[str, ...] = ()
    types: tuple[TypeState, ...] = ()
    mappings: tuple[MappingState, ...] = ()
    rules: tuple[RuleState, ...] = ()
    wholes: tuple[WholeState, ...] = ()
    strict: bool = False


def state_of(context: Context) -> bytes:
    """A context as bytes for a store; its functions must be importable or liftable."""
    state = ContextState(
        _FORMAT,
        context.name,
        tuple(parent.name for parent in context.parents),
        tuple(_type(cls, describe(cls).hash) for cls in context.types),
        tuple(
            MappingState(_type(mapping.source), _type(mapping.target), mapping.direction)
            for mapping in (*annotated_mappings(context), *context.mapping_lines)
        ),
        tuple(
            RuleState(line.pattern, _function(context, line.function, f"the rule {line.pattern!r}"))
            for line in context.rule_lines
        ),
        tuple(
            WholeState(
                _type(line.source),
                _function(context, line.function, f"the whole {line.source.__name__!r}"),
            )
            for line in context.whole_lines
        ),
        context.strict,
    )
    return msgspec.json.encode(state)


def _type(cls: type, digest: str = "") -> TypeState:
    return TypeState(wire_name(cls), wire_version(cls), digest)


def _function(context: Context, given: Any, what: str) -> FunctionState:
    if given == DISABLED:
        return FunctionState(DISABLED)
    marked = given if isinstance(given, Marked) else Marked(given)
    marks: dict[str, Any] = {"unchecked": marked.is_unchecked, "impure": marked.is_impure}
    call = marked.function
    if call is identity:
        return FunctionState(_IDENTITY, **marks)
    name = _found_at(call) or _found_at(given)
    if name is not None:
        return FunctionState(name, **marks)
    try:
        tree = (call if isinstance(call, Filter) else Filter(call)).to_json()
    except (FilterError, TypeError) as error:
        accepted = (
            f"a function that a module has under its name, or one that can be lifted: {error}"
        )
        raise BadContextError(f"in {what}", given, accepted=accepted, where=context.name) from None
    return FunctionState(tree=tree, unchecked=True, impure=marked.is_impure)


def functions_of(context: Context) -> dict[str, Callable[..., Any]]:
    """The functions of a context's own statements, by their names in its state."""
    functions: dict[str, Callable[..., Any]] = {}
    given: list[Any] = [line.function for line in context.rule_lines]
    given += [line.function for line in context.whole_lines]
    for function in given:
        inner = function.function if isinstance(function, Marked) else function
        for call in (inner, function):
            name = None if isinstance(call, str) else _found_at(call)
            if name is not None:
                functions.setdefault(name, call)
    return functions


def _found_at(function: Any) -> str | None:
    try:
        return ":".join(name_by_which(function))
    except NoName:
        return None


def read_state(state: bytes) -> ContextState:
    """Decode a state, without looking up any class or function."""
    try:
        decoded = msgspec.json.decode(state, type=ContextState)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        accepted = f"what state_of() makes ({error})"
        raise BadContextError("the state of a context", state, accepted=accepted) from None
    if decoded.format != _FORMAT:
        accepted = f"format {_FORMAT}"
        raise BadContextError("the format of a context", decoded.format, accepted=accepted)
    return decoded


def context_from(
    state: bytes,
    *,
    class_named: Callable[[str, int], type],
    function_named: Callable[[str], Callable[[Any], Any]],
    parents: Mapping[str, Context],
) -> Context:
    """The context of a state; its names are looked up only through the functions given."""
    declared = read_state(state)
    missing = [name for name in declared.parents if name not in parents]
    if missing:
        accepted = f"one that is known: {', '.join(sorted(parents)) or 'none'}"
        raise BadContextError("a parent", missing[0], accepted=accepted, where=declared.name)

    def cls(named: TypeState) -> type:
        return class_named(named.name, named.version)

    def function(given: FunctionState) -> Any:
        if given.name in (DISABLED, _IDENTITY):
            return DISABLED if given.name == DISABLED else identity
        call: Any
        if given.tree is not None:
            call = Filter.from_json(given.tree, class_named=lambda name: class_named(name, 1))
        else:
            call = function_named(given.name)
        marked = Marked(call, is_unchecked=given.unchecked, is_impure=given.impure)
        known = Marked(call)  # it may be marked where it is defined
        is_new = (marked.is_unchecked, marked.is_impure) != (known.is_unchecked, known.is_impure)
        return marked if is_new else call

    above = [parents[name] for name in declared.parents]
    types = map(cls, declared.types)
    context = Context(declared.name, parent=above or None, types=types, strict=declared.strict)
    for mapping in declared.mappings:
        context.map(cls(mapping.source), cls(mapping.target), mapping.direction)
    for rule in declared.rules:
        context.rule(rule.pattern, function(rule.function))
    for whole in declared.wholes:
        context.whole(cls(whole.source), function(whole.function))
    return context


# -- differences -----------------------------------------------------------------------------------


_OTHER_FORM = "its attributes are others"


def differences(there: bytes, here: bytes) -> list[str]:
    """The differences between the stored declaration and the local one, line by line."""
    old, new = _declared(read_state(there)), _declared(read_state(here))
    lines = [
        line
        for what, declared in old.items()
        for line in _changed(what, declared, new[what], _OTHER_FORM if what == "type " else "")
    ]
    return lines or ["the same lines are in another order"]


def _declared(state: ContextState) -> dict[str, dict[str, str]]:
    """What is declared: by what kind of line, and by what it is about."""
    return {
        "": {"parents": ", ".join(state.parents), "strict": str(state.strict)},
        "type ": {_type_text(cls): cls.hash for cls in state.types},
        "mapping ": {
            f"{_type_text(mapping.source)} {mapping.direction}": _type_text(mapping.target)
            for mapping in state.mappings
        },
        "rule ": {rule.pattern: _function_text(rule.function) for rule in state.rules},
        "whole ": {_type_text(line.source): _function_text(line.function) for line in state.wholes},
    }


def _changed(
    what: str, there: Mapping[str, str], here: Mapping[str, str], otherwise: str
) -> list[str]:
    lines = []
    for key in dict.fromkeys((*there, *here)):
        old, new = there.get(key), here.get(key)
        if old == new:
            continue
        if old is None or new is None:
            lines.append(f"{what}{key}: only {'here' if old is None else 'in the store'}")
        elif otherwise:
            lines.append(f"{what}{key}: {otherwise}")
        else:
            lines.append(f"{what}{key}: {old or 'none'} in the store, {new or 'none'} here")
    return lines


def _type_text(given: TypeState) -> str:
    return given.name if given.version == 1 else f"{given.name} version {given.version}"


def _function_text(given: FunctionState) -> str:
    name = given.name or f"the expression {given.tree}"
    # An expression is always taken unchecked.
    marks = ["unchecked"] if given.unchecked and given.name else []
    marks += ["impure"] if given.impure else []
    return f"{name} ({', '.join(marks)})" if marks else name
