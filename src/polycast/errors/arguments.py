"""What was given and cannot be taken: classes, values, topics, callbacks and options."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from polycast.errors.root import PolycastError, did_you_mean, listed, shown

__all__ = [
    "BadCallbackError",
    "BadOptionError",
    "BadTopicError",
    "MethodNotHereError",
    "NameClashError",
    "NotATypeError",
    "NotAvailableError",
    "NotAwaitedError",
    "NotDecodableError",
    "NotSerialisableError",
    "NotShareableError",
]


class BadTopicError(PolycastError, ValueError):
    """A topic that cannot be published to or subscribed to."""

    def __init__(self, topic: object, *, why: str, at: int | None = None) -> None:
        self.topic = topic
        place = "" if at is None else f"\n  {topic}\n  {' ' * at}^"
        super().__init__(
            f"{topic!r} is not a topic: {why}. A topic looks like '/Chat/Insomnia'; "
            f"in a subscription '*' stands for one level and '**' for any number of levels{place}"
        )


class BadCallbackError(PolycastError, TypeError):
    """A callback that cannot take an event."""

    def __init__(self, callback: object, *, why: str) -> None:
        self.callback = callback
        super().__init__(
            f"{shown(callback)} cannot be a callback: {why}. A callback takes (event) or "
            f"(event, delivery), and may be async"
        )


class BadOptionError(PolycastError, ValueError):
    """An option that does not exist, or a value that it does not take."""

    def __init__(self, option: str, given: object, *, accepted: str, why: str = "") -> None:
        self.option, self.given = option, given
        reason = f": {why}" if why else ""
        super().__init__(f"{option}={given!r:.200} is not accepted{reason}. Accepted: {accepted}")

    @classmethod
    def unknown(cls, option: str, given: object, known: Iterable[str]) -> BadOptionError:
        """The error for an option nobody knows, with the nearest one that exists."""
        names = sorted(known)
        near = difflib.get_close_matches(option, names, n=1)
        hint = f"; did you mean {near[0]}=?" if near else ""
        return cls(option, given, accepted=listed(names), why=f"there is no such option{hint}")

    @classmethod
    def choice(cls, option: str, given: object, choices: Iterable[str]) -> BadOptionError:
        """The error for a value that is none of the choices."""
        names = list(choices)
        accepted = f"one of {listed(map(repr, names))}{did_you_mean(str(given), names)}"
        return cls(option, given, accepted=accepted)


class NotAwaitedError(PolycastError, TypeError):
    """A function gave a coroutine or a generator where nobody runs it: it has done nothing."""

    def __init__(self, what: str, given: object) -> None:
        self.what, self.given = what, type(given).__name__
        super().__init__(
            f"{what} gave {shown(given)}, which nobody awaits or iterates there, so it has done "
            f"nothing. Accepted: a function that does its work before it returns (of callbacks "
            f"with dispatch='pool', which is the default, coroutines are awaited)"
        )


class NotAvailableError(PolycastError):
    """A part that is not installed, or that this version does not have."""

    def __init__(self, what: str, *, why: str, instead: str) -> None:
        self.what = what
        super().__init__(f"{what} is not available: {why}. {instead}")


class NotATypeError(PolycastError, TypeError):
    """What was given is no event type and no topic."""

    def __init__(
        self, given: object, *, why: str, accepted: str, action: str = "to subscribe to"
    ) -> None:
        self.given = given
        super().__init__(f"{shown(given)} is not something {action}: {why}. {accepted}")


class NameClashError(PolycastError):
    """Two different classes under one wire name on one bus."""

    def __init__(self, name: str, version: int, *, difference: str) -> None:
        self.name, self.version, self.difference = name, version, difference
        super().__init__(
            f"another class is already known as {name!r} version {version} on this bus, and it is "
            f"different: {difference}. Give one of them a name or version of its own with "
            f"@pc.event(name=..., version=...)"
        )


class NotShareableError(PolycastError):
    """A class that no other process could name."""

    def __init__(self, cls: type, *, why: str) -> None:
        self.cls = cls
        super().__init__(
            f"{cls.__module__}.{cls.__qualname__} cannot leave this process: {why}. Define it at "
            f"the top level of a module, or in a class that is, or use pc.Bus() in memory"
        )


class NotSerialisableError(PolycastError, TypeError):
    """A value that has no form on the wire."""

    def __init__(self, given: object, *, path: str, why: str) -> None:
        self.given, self.path = given, path
        super().__init__(
            f"{path} is {shown(given)}, which cannot be serialised: {why}. Accepted: None, bool, "
            f"int, float, str, bytes, date and time types, Decimal, UUID, enums, lists, tuples, "
            f"sets, dicts, and dataclasses, attrs classes, msgspec Structs, pydantic models or "
            f"annotated classes of these"
        )


class NotDecodableError(PolycastError, ValueError):
    """Bytes that are no event of the expected kind."""

    def __init__(self, what: str, *, why: str) -> None:
        self.what = what
        super().__init__(f"cannot decode {what}: {why}")


class MethodNotHereError(PolycastError, AttributeError):
    """A method of a class this process does not have."""

    def __init__(self, class_name: str, method: str) -> None:
        self.class_name, self.method = class_name, method
        super().__init__(
            f"{class_name}.{method}() is not here: this process has only the description of "
            f"{class_name}, with its fields. Import the module that defines it to call its methods"
        )
