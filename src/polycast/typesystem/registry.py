"""The names of one bus: the class and the description of each."""

from __future__ import annotations

import abc
import enum
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from polycast.errors import NameClashError, NotDecodableError
from polycast.registered_names import classes_called
from polycast.typesystem.class_factory import make_class
from polycast.typesystem.class_kinds import kind_of
from polycast.typesystem.describe import describe, reachable
from polycast.typesystem.descriptions import Description, difference
from polycast.typesystem.standard_types import STANDARD, is_standard, is_standard_library
from polycast.typesystem.wire_names import DESCRIPTION, named_classes, wire_name, wire_version

MOST_ABOVE = 50  # nested supertypes that are made for one class

OWN = "polycast.events.structured_event"
"""The module of the classes of events that the library itself has."""


class Registry:
    """Binds wire names to classes, weakly, and to descriptions, for good; thread-safe.

    A name that nobody has bound may resolve to any class of this process, or with `classes`, only
    to one of these: a broker or a pipeline, which runs filters of others, must not expose other
    classes of its process to them.
    """

    def __init__(self, *, classes: Iterable[type] | None = None) -> None:
        self._lent = None if classes is None else frozenset(classes)
        self._lock = threading.RLock()
        self._bound: weakref.WeakKeyDictionary[type, Description] = weakref.WeakKeyDictionary()
        self._classes: dict[str, dict[int, weakref.ref[type]]] = {}
        self._described: dict[str, dict[int, Description]] = {}
        self._hashed: dict[str, Description] = {}
        self._aliases: dict[str, str] = {}
        self._made: dict[str, type] = {}
        self._making: set[str] = set()
        self.derived: dict[str, Any] = {}
        """Caches of other modules; emptied when a name gets another meaning."""
        self.attached: dict[str, Any] = {}
        """Data of other modules that lives as long as the registry."""

    def bind(self, cls: type) -> Description:
        """Bind a class, and all it mentions, to their names; `NameClashError` if one is taken."""
        description = self._bound.get(cls)
        return description if description is not None else self._bind_all(cls)

    def add(self, description: Description) -> None:
        """Add a description from elsewhere; the first for a name and version is used."""
        with self._lock:
            if description.hash not in self._hashed:
                doubtful = self._is_known(description)
                self._hashed[description.hash] = description
                self._described.setdefault(description.name, {}).setdefault(
                    description.version, description
                )
                self._learn_aliases(description)
                if doubtful:
                    self.derived = {}

    def resolve(self, name: str, *, version: int | None = None) -> type | None:
        """Return the class of a name or alias: of that version if there is one, else the newest."""
        if name in STANDARD:
            return STANDARD[name]
        with self._lock:
            current = self._aliases.get(name)
            return (
                self._bound_class(name, version)
                or (self._bound_class(current, version) if current else None)
                or _class_alive(name, version, self._lent)
                or (_class_alive(current, version, self._lent) if current else None)
            )

    def describe(self, name: str, *, version: int | None = None) -> Description | None:
        """The description bound to a name and version; without one the newest version's."""
        if name in STANDARD:
            return describe(STANDARD[name])
        with self._lock:
            versions = self._described.get(name) or self._described.get(self._aliases.get(name, ""))
            if not versions:
                return None
            return versions.get(max(versions) if version is None else version)

    def versions(self, name: str) -> list[Description]:
        """All descriptions bound to a name, whatever their version."""
        if name in STANDARD:
            return [describe(STANDARD[name])]
        with self._lock:
            known = self._described.get(name) or self._described.get(self._aliases.get(name, ""))
            return list((known or {}).values())

    def described(self, digest: str) -> Description | None:
        """The description with a hash."""
        return self._hashed.get(digest)

    def descriptions(self) -> tuple[Description, ...]:
        """All descriptions known here, in the order they came."""
        with self._lock:
            return tuple(self._hashed.values())

    @property
    def count(self) -> int:
        """How many descriptions are known here; it only grows."""
        return len(self._hashed)

    def class_for(self, name: str, version: int, digest: str | None) -> type:
        """Return the class of this process for a name, else one made from the description."""
        cls = self.resolve(name, version=version)
        if cls is not None:
            return cls
        known = self._hashed.get(digest) if digest else self.describe(name, version=version)
        if known is None or name not in known.names:  # that of another class says nothing
            raise NotDecodableError(
                f"an event of class {name!r} version {version}",
                why=f"neither the class nor its description {digest or ''} is known here",
            )
        return self.made(known)

    def made(self, description: Description) -> type:
        """Return the class made from a description; one per description."""
        with self._lock:
            cls = self._made.get(description.hash)
            if cls is None:
                if len(self._making) >= MOST_ABOVE:
                    why = f"it has more than {MOST_ABOVE} supertypes one above the other"
                    raise NotDecodableError(description.name, why=why)
                self._making.add(description.name)
                try:
                    cls = make_class(description, self._known_bases(description))
                finally:
                    self._making.discard(description.name)
                self._made[description.hash] = cls
            return cls

    def made_apart(self, description: Description) -> type:
        """Make a new class from a description that is not added here."""
        with self._lock:
            return make_class(description, self._known_bases(description))

    def _known_bases(self, description: Description) -> tuple[type, ...]:
        bases = [self._known_base(name) for name in description.supertypes]
        return tuple(dict.fromkeys(base for base in bases if base is not None))

    def _known_base(self, name: str) -> type | None:
        known = self.resolve(name)
        if known is not None:
            return known
        described = self.describe(name)
        # A description from elsewhere may name itself among its supertypes.
        if described is None or described.name in self._making:
            return None
        return self.made(described)

    def _bind_all(self, cls: type) -> Description:
        if is_standard(cls):
            return describe(cls)
        with self._lock:
            parts = {part: describe(part) for part in reachable(cls)}
            for description in parts.values():
                self._check_free(description)
            new = [description for part, description in parts.items() if part not in self._bound]
            doubtful = any(map(self._is_known, new))
            for part, description in parts.items():
                self._record(part, description)
            if doubtful:
                self.derived = {}
            return parts[cls]

    def _is_known(self, description: Description) -> bool:
        # Nobody can have computed anything from a name that is new here.
        return any(name in self._described or name in self._aliases for name in description.names)

    def _check_free(self, description: Description) -> None:
        taken = self._described.get(description.name, {}).get(description.version)
        if taken is not None and taken.hash != description.hash:
            raise NameClashError(
                description.name, description.version, difference=difference(taken, description)
            )

    def _record(self, cls: type, description: Description) -> None:
        name, version = description.name, description.version
        self._described.setdefault(name, {})[version] = description
        self._hashed.setdefault(description.hash, description)
        self._learn_aliases(description)
        if cls not in self._bound and DESCRIPTION not in cls.__dict__:
            self._classes.setdefault(name, {})[version] = weakref.ref(cls)
        self._bound[cls] = description

    def _learn_aliases(self, description: Description) -> None:
        for alias in description.aliases:
            self._aliases[alias] = description.name

    def _bound_class(self, name: str, version: int | None) -> type | None:
        versions = self._classes.get(name, {})
        alive = {key: cls for key, ref in versions.items() if (cls := ref()) is not None}
        if not alive:
            return None
        return alive[version] if version in alive else alive[max(alive)]


def _class_alive(name: str, version: int | None, lent: frozenset[type] | None) -> type | None:
    """A class of this process that is not bound yet; nothing is imported for it.

    Only the library's own classes and those in `lent` are accepted, unless that is None.
    """
    placed = [cls for cls in classes_called(name) if wire_name(cls) == name and _is_event_like(cls)]
    classes = [*named_classes(name), *placed]
    if lent is not None:
        classes = [cls for cls in classes if _is_own(cls) or cls in lent]
    if not classes:
        return None
    exact = [cls for cls in classes if wire_version(cls) == version]
    return exact[0] if exact else max(classes, key=wire_version)


def _is_event_like(cls: type) -> bool:
    # A name from the wire must not resolve to a class that was never meant to be an event.
    if issubclass(cls, enum.Enum):
        return True
    if is_standard_library(cls) or hasattr(cls, "__del__") or issubclass(cls, type):
        return False
    if cls.__module__.partition(".")[0] == "polycast":
        return _is_own(cls)
    return kind_of(cls) != "class" or isinstance(cls, abc.ABCMeta) or _has_fields(cls)


def _is_own(cls: type) -> bool:
    """Whether it is one of the library's own classes of events."""
    return cls.__module__ == OWN


def _has_fields(cls: type) -> bool:
    """Whether an ordinary class says what its objects hold, and finds nothing else by itself."""
    parts = [part.__dict__ for part in cls.__mro__[:-1]]
    finds = any(name in part for part in parts for name in ("__getattr__", "__getattribute__"))
    return not finds and any("__annotations__" in part for part in parts)
