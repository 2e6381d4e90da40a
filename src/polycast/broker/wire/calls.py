"""Remote calls: the methods of a store, with arguments and results as bytes.

The contract of a store says what a client may call; nothing is listed twice. Arguments are decoded
by the annotations of their parameters, so that a method gets only what it accepts.
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from polycast.broker.wire.protocol import encode
from polycast.errors import BadFrameError
from polycast.events import Identity, Root
from polycast.stores import claims as claiming
from polycast.stores import contract, values
from polycast.typesystem import Description

_NAMES = {
    **vars(values),
    **vars(contract),
    **vars(claiming),
    **{name: getattr(collections.abc, name) for name in ("Callable", "Collection", "Sequence")},
    "Identity": Identity,
    "Root": Root,
    "Description": Description,
}
_WRONG = (msgspec.DecodeError, ValueError, RecursionError)


@dataclass(frozen=True)
class RemoteMethod:
    """A method of the store that clients can call."""

    name: str
    function: Callable[..., Any]

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return typing.get_type_hints(self.function, _NAMES)

    @cached_property
    def _signature(self) -> inspect.Signature:
        given = list(inspect.signature(self.function).parameters.values())
        return inspect.Signature(given[1:])  # without self

    @cached_property
    def _arguments(self) -> msgspec.msgpack.Decoder[Any]:
        kinds: Any = tuple(self._hints[name] for name in self._signature.parameters)
        return msgspec.msgpack.Decoder(tuple[kinds] if kinds else tuple[()])

    @cached_property
    def _result(self) -> msgspec.msgpack.Decoder[Any]:
        return msgspec.msgpack.Decoder(self._hints["return"])

    @cached_property
    def has_result(self) -> bool:
        """Whether it returns anything."""
        return self._hints["return"] is not type(None)

    def arguments(self, *args: Any, **options: Any) -> bytes:
        """Encode arguments."""
        if not options and len(args) == len(self._signature.parameters):
            return encode(args)
        bound = self._signature.bind(*args, **options)
        bound.apply_defaults()
        return encode(list(bound.arguments.values()))

    def given(self, arguments: bytes) -> dict[str, Any]:
        """Decode arguments, by name."""
        try:
            values = self._arguments.decode(arguments)
        except _WRONG as error:
            raise BadFrameError(f"the arguments of {self.name}", why=str(error)) from None
        return dict(zip(self._signature.parameters, values, strict=True))

    def call(self, owner: object, given: dict[str, Any]) -> Any:
        """Call the method on an object."""
        return getattr(owner, self.name)(**given)

    def result(self, data: bytes) -> Any:
        """Decode a result."""
        try:
            return self._result.decode(data)
        except _WRONG as error:
            raise BadFrameError(f"the result of {self.name}", why=str(error)) from None


class RemoteFunction(RemoteMethod):
    """A function whose first argument is a transaction."""

    def call(self, owner: object, given: dict[str, Any]) -> Any:
        """Call the function with a transaction."""
        return self.function(owner, **given)


def _methods(protocol: type) -> dict[str, RemoteMethod]:
    functions = inspect.getmembers(protocol, inspect.isfunction)
    return {name: RemoteMethod(name, call) for name, call in functions if not name.startswith("_")}


READS = _methods(contract.View)
"""Questions about the state."""
_OF_BROKERS = {"after", "answer", "put_answer", "drop_answers"}
STEPS = {
    name: method
    for name, method in _methods(contract.Transaction).items()
    if name not in _OF_BROKERS
}
"""Steps of a transaction, questions included."""
ERRANDS = {
    function.__name__: RemoteFunction(function.__name__, function)
    for function in (claiming.settle, claiming.take_claims)
}
"""Functions that run at the broker as one step, however many questions they ask."""
LOG = {
    name: RemoteMethod(name, getattr(contract.Store, name))
    for name in ("types", "newest", "oldest", "position_at", "find", "size", "truncate")
}
"""Questions about the log, except reading it."""
READ = RemoteMethod("read", contract.Store.read)
"""Reading the log; its result is a batch."""

NOTICES = RemoteMethod("notices", contract.Store.notices)
"""What a broker has suspended, such as the filters of an owner."""
ASKED = RemoteMethod("asked", contract.Store.asked)
"""What the broker evaluates of the filters of a subscription."""
CALLS = READS | LOG | {method.name: method for method in (READ, NOTICES, ASKED)}
