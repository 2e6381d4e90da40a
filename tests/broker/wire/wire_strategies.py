"""Values of any annotation that has a form on the wire, for property tests."""

from __future__ import annotations

import collections.abc
import functools
import types
import typing
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from polycast.broker.wire.calls import CALLS, ERRANDS, STEPS, RemoteMethod
from polycast.broker.wire.protocol import encode_description
from polycast.typesystem import Description

__all__ = ["VERBS", "arguments_of", "values_of"]

_ALL = CALLS | STEPS | ERRANDS
VERBS: list[RemoteMethod] = list({id(each): each for each in _ALL.values()}.values())
"""All that can be asked and changed."""
MANY = 2  # items of a collection
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.one_of(st.integers(-2, 100), st.integers(-(2**63), 2**64 - 1)),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=12),
    bytes: st.binary(max_size=20),
    type(None): st.none(),
    Any: st.one_of(st.none(), st.integers(-9, 9), st.text(max_size=5)),
}
_LISTED = (list, collections.abc.Sequence, collections.abc.Collection)


@functools.cache
def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Anything of an annotation; what contains itself is as deep as chance has it."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is msgspec.Raw:  # only descriptions are sent so
        return values_of(Description).map(encode_description)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values_of, inner))
    if origin in _LISTED:
        return st.lists(values_of(inner[0]), max_size=MANY)
    if origin in (set, frozenset):
        return st.frozensets(values_of(inner[0]), max_size=MANY).map(origin)
    if origin is tuple and inner[-1:] == (...,):
        return st.lists(values_of(inner[0]), max_size=MANY).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, inner))
    if origin in (dict, collections.abc.Mapping):
        return st.dictionaries(values_of(inner[0]), values_of(inner[1]), max_size=MANY)
    return st.deferred(lambda: _made(hint))


@functools.cache
def _made(cls: Any) -> st.SearchStrategy[Any]:
    """Those of a Struct, or of a named tuple."""
    hints = get_type_hints(cls)
    names = [name for name in _fields(cls) if name in hints]
    values = st.tuples(*(values_of(hints[name]) for name in names))

    @st.composite
    def instances(draw: st.DrawFn) -> Any:
        given = draw(values)
        try:
            return cls(**dict(zip(names, given, strict=True)))
        except ValueError:  # what contradicts itself
            return draw(st.nothing())

    return instances()


def _fields(cls: Any) -> tuple[str, ...]:
    if issubclass(cls, msgspec.Struct):
        return tuple(cls.__struct_fields__)
    return tuple(typing.cast("Any", cls)._fields)


def arguments_of(verb: RemoteMethod) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments that a method takes, by name."""
    hints = verb._hints
    names = list(verb._signature.parameters)
    return st.tuples(*(values_of(hints[name]) for name in names)).map(
        lambda values: dict(zip(names, values, strict=True))
    )
