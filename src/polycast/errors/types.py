"""Classes and values that cannot be events."""

from __future__ import annotations

from polycast.errors.root import PolycastError, shown

__all__ = [
    "MethodNotHereError",
    "NameClashError",
    "NotATypeError",
    "NotDecodableError",
    "NotSerialisableError",
    "NotShareableError",
]


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
