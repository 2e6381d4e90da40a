"""The methods of a store as calls: their arguments and results as bytes, by their annotations.

The contract of a store is what a client may ask; nothing is listed twice. What comes in is decoded
by the annotation of its parameter, so that only what the method takes gets to it.
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.broker.wire.frames import encode
from polycast.errors import BadFrameError
from polycast.events import Identity, Root
from polycast.stores import claims as claiming
from polycast.stores import contract, values
from polycast.typesystem import Description

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ASKED", "CALLS", "ERRANDS", "LOG", "NOTICES", "READ", "READS", "STEPS", "Verb"]

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
class Verb:
    """One method that can be called from elsewhere."""

    name: str
    method: Callable[..., Any]

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return typing.get_type_hints(self.method, _NAMES)

    @cached_property
    def _signature(self) -> inspect.Signature:
        given = list(inspect.signature(self.method).parameters.values())
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
        """Whether it says anything."""
        return self._hints["return"] is not type(None)

    def arguments(self, *args: Any, **options: Any) -> bytes:
        """Arguments as bytes."""
        bound = self._signature.bind(*args, **options)
        bound.apply_defaults()
        return encode(list(bound.arguments.values()))

    def given(self, arguments: bytes) -> dict[str, Any]:
        """Arguments that came as bytes, by name."""
        try:
            values = self._arguments.decode(arguments)
        except _WRONG as error:
            raise BadFrameError(f"the arguments of {self.name}", why=str(error)) from None
        return dict(zip(self._signature.parameters, values, strict=True))

    def call(self, owner: object, given: dict[str, Any]) -> Any:
        """Call the method of an object."""
        return getattr(owner, self.name)(**given)

    def result(self, data: bytes) -> Any:
        """A result that came as bytes."""
        try:
            return self._result.decode(data)
        except _WRONG as error:
            raise BadFrameError(f"the result of {self.name}", why=str(error)) from None


class Errand(Verb):
    """A function that is called with a transaction."""

    def call(self, owner: object, given: dict[str, Any]) -> Any:
        """Have it do what is asked."""
        return self.method(owner, **given)


def _verbs(protocol: type) -> dict[str, Verb]:
    found = inspect.getmembers(protocol, inspect.isfunction)
    return {name: Verb(name, method) for name, method in found if not name.startswith("_")}


READS = _verbs(contract.View)
"""What can be asked of the state."""
_OF_BROKERS = {"after", "answer", "put_answer", "drop_answers"}
STEPS = {
    name: each for name, each in _verbs(contract.Transaction).items() if name not in _OF_BROKERS
}
"""What a transaction consists of, questions included."""
ERRANDS = {
    each.__name__: Errand(each.__name__, each) for each in (claiming.settle, claiming.take_claims)
}
"""What is done as one step of work, however much has to be asked for it."""
LOG = {
    name: Verb(name, getattr(contract.Store, name))
    for name in ("types", "newest", "oldest", "position_at", "find", "size", "truncate")
}
"""What can be asked of the log, but for reading it."""
READ = Verb("read", contract.Store.read)
"""Reading the log; its result is a batch."""

NOTICES = Verb("notices", contract.Store.notices)
"""What a broker does otherwise than usual, such as that it does not ask filters for a while."""
ASKED = Verb("asked", contract.Store.asked)
"""What a broker asks of the filters of a subscription of the connection."""
CALLS = READS | LOG | {each.name: each for each in (READ, NOTICES, ASKED)}
