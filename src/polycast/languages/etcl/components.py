"""Components of ETCL, such as `$.a.b[3]`: read from text, written as text, followed in events."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from polycast.config import Clock, SystemClock
from polycast.errors import FilterError
from polycast.events.structured_event import StructuredEvent
from polycast.languages.etcl import structures
from polycast.languages.etcl.scanner import DIGITS, Scanner, quoted, written_name
from polycast.languages.etcl.structures import UNTYPED, WELL_KNOWN, fields_of
from polycast.languages.etcl.values import AbsentError, Character, EnumLabel

ACCEPTED = "a member, a position, a tag in parentheses, _d, _length, _type_id or _repos_id"
LONGEST = 2_000  # characters
PATHS_KEPT = 1_024
LAST = {
    "_d": structures.discriminator,
    "_length": structures.length,
    "_type_id": structures.type_id,
    "_repos_id": structures.repository_id,
}
"""What can only stand at the end of a path."""
CLOCK = SystemClock()


class EtclStep(NamedTuple):
    """One step of a path."""

    kind: str  # "variable", "member", "position", "element", "property", "tag", "default", or last
    argument: Any = None

    def __str__(self) -> str:
        return _WRITTEN[self.kind](self.argument) if self.kind in _WRITTEN else f".{self.kind}"


class EtclPath:
    """A way into an event; equal ways have equal texts."""

    __slots__ = ("_read", "steps", "text")

    def __init__(self, steps: tuple[EtclStep, ...]) -> None:
        self.steps = steps
        self.text = f"${''.join(map(str, steps))}"
        self._read: Callable[[Any], Any] | None = None

    @property
    def read(self) -> Callable[[Any], Any]:
        """A function that follows the path in an event, or raises; built on first use."""
        if self._read is None:
            self._read = self.by(CLOCK)
        return self._read

    @property
    def asks_time(self) -> bool:
        """Whether it begins with `$curtime`."""
        return self.steps[:1] == (EtclStep("variable", "curtime"),)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members on the way."""
        named = ("variable", "member", "property")
        return tuple(step.argument for step in self.steps if step.kind in named)

    def by(self, clock: Clock) -> Callable[[Any], Any]:
        """The same function, reading another clock."""
        read = _reader(self.steps, clock)
        read.__qualname__ = self.text  # as an explanation calls it; a store knows it again by it
        return read

    def is_default(self, event: Any) -> bool:
        """Whether the union whose discriminator it asks for has its default member active."""
        return structures.active_default(_reader(self.steps[:-1], CLOCK)(event))


# -- following -------------------------------------------------------------------------------------

_FOLLOWED: dict[str, Callable[[Any, Any], Any]] = {
    "variable": structures.variable,
    "member": structures.member,
    "position": structures.position,
    "element": structures.element,
    "property": structures.property_named,
    "tag": structures.tagged,
    "default": structures.default_member,
    **LAST,
}


def _reader(steps: tuple[EtclStep, ...], clock: Clock) -> Callable[[Any], Any]:
    if steps[:1] == (EtclStep("variable", "curtime"),):
        rest = _reader(steps[1:], clock)
        return lambda _: rest(structures.time_told(clock))
    if len(steps) == 1:
        [(kind, argument)] = steps
        if kind == "variable":
            return structures.variable_reader(argument)
        follow = _FOLLOWED[kind]
        return lambda event: follow(event, argument)
    several = tuple((_FOLLOWED[kind], argument) for kind, argument in steps)

    def read(event: Any) -> Any:
        for follow, argument in several:
            event = follow(event, argument)
        return event

    return read


# -- reading and writing ---------------------------------------------------------------------------


def _written_tag(tag: Any) -> str:
    if isinstance(tag, EnumLabel):
        return f".({written_name(tag.name)})"
    if isinstance(tag, bool):
        return f".({str(tag).upper()})"
    return f".({quoted(tag) if isinstance(tag, str) else tag})"


def _written_member(name: str) -> str:
    return f".\\{name}" if name in LAST else f".{written_name(name)}"


_WRITTEN: dict[str, Callable[[Any], str]] = {
    "variable": lambda name: f"\\{name}" if name in LAST else written_name(name),
    "member": _written_member,
    "position": lambda place: f".{place}",
    "element": lambda place: f"[{place}]",
    "property": lambda name: f"({written_name(name)})",
    "tag": _written_tag,
    "default": lambda _: ".()",
}


@lru_cache(PATHS_KEPT)
def path_of(text: str) -> EtclPath:
    """The path of a text; FilterError if it is none."""
    if not isinstance(text, str):
        raise FilterError(f"{text!r:.40} is no path")
    scanner = Scanner(text)
    path = scan_path(scanner)
    if scanner.space() or path.text != text:
        raise FilterError(f"{text!r:.80} is no path as it is written here")
    return path


def scan_path(scanner: Scanner) -> EtclPath:
    """Parse the path that comes next."""
    scanner.expect("$", accepted="a component, which begins with $")
    begin = scanner.at
    steps = _beginning(scanner)
    while True:
        scanner.space()
        at, last = scanner.at, steps[-1].kind if steps else ""
        step = _step(scanner)
        if scanner.at - begin > LONGEST:
            accepted = f"at most {LONGEST} characters"
            scanner.wrong(begin, "the component is too long", accepted=accepted)
        if step is None:
            return EtclPath(tuple(steps))
        if last in LAST:
            scanner.wrong(at, f"nothing can follow {last}", accepted="an operator")
        steps.append(step)


def _beginning(scanner: Scanner) -> list[EtclStep]:
    """`$name`; a keyword there belongs to what comes after `$`, the event."""
    name = scanner.peek_name()
    if name is None or name.keyword:
        return []
    scanner.name()
    last = name.text in LAST and not name.escaped
    return [EtclStep(name.text) if last else EtclStep("variable", name.text)]


def _step(scanner: Scanner) -> EtclStep | None:
    """Parse one more step of a path; None at its end."""
    sign = scanner.take(".", "[", "(")
    if sign == "[":
        place = scanner.place(accepted="the number of an element, from 0")
        scanner.expect("]", accepted="]")
        return EtclStep("element", place)
    if sign == "(":
        found = _plain_name(scanner, accepted="the name of a property")
        scanner.expect(")", accepted=")")
        return EtclStep("property", found)
    return None if sign is None else _after_dot(scanner)


def _after_dot(scanner: Scanner) -> EtclStep:
    first = scanner.space()
    if first == "(":
        scanner.at += 1
        return _tag(scanner)
    if first in DIGITS:
        return EtclStep("position", scanner.place(accepted=ACCEPTED))
    name = scanner.peek_name()
    if name is not None and name.text in LAST and not name.escaped:
        scanner.name()
        return EtclStep(name.text)
    return EtclStep("member", _plain_name(scanner, accepted=ACCEPTED))


def _plain_name(scanner: Scanner, *, accepted: str) -> str:
    name = scanner.name()
    if name is None:
        scanner.unexpected(accepted=accepted)
    if name.keyword:
        accepted = f"\\{name.text}, if that is a name"
        scanner.wrong(name.begin, f"{name.text} is a keyword", accepted=accepted)
    return name.text


def _tag(scanner: Scanner) -> EtclStep:
    """What stands in `.(...)`, whose opening parenthesis is taken."""
    if scanner.take(")"):
        return EtclStep("default")
    text = scanner.string()
    found: Any
    if text is not None:
        found = Character(text) if len(text) == 1 else text
    elif (name := scanner.peek_name()) is not None and name.keyword in ("true", "false"):
        scanner.name()
        found = name.keyword == "true"
    elif name is not None:
        found = EnumLabel(_plain_name(scanner, accepted="a tag"))
    else:
        sign = scanner.take("-", "+")
        place = scanner.place(accepted="a number, a character, TRUE, FALSE, a label, or nothing")
        found = -place if sign == "-" else place
    scanner.expect(")", accepted=")")
    return EtclStep("tag", found)


def component(event: Any, text: str, /) -> Any:
    """What a path leads to in an event."""
    return path_of(text).read(event)


def exists(event: Any, text: str, /) -> bool:
    """Whether a path leads somewhere; it never fails."""
    try:
        path_of(text).read(event)
    except Exception:
        return False
    return True


def default(event: Any, text: str, /) -> bool:
    """`default $.u._d`: whether the union has a default member, and that is active."""
    path = path_of(text)
    if not path.steps or path.steps[-1].kind != "_d":
        raise AbsentError("not the discriminator of a union")
    return path.is_default(event)


# -- slots -----------------------------------------------------------------------------------------


_HEADERS = ("$.header", "$header")
_FIXED_HEADERS = (*(f"{header}.fixed_header" for header in _HEADERS), "$fixed_header")
_EVENT_TYPES = (*(f"{header}.event_type" for header in _FIXED_HEADERS), "$event_type")
_ATTRIBUTES = {
    **{
        f"{event_type}.{name}": name
        for event_type in _EVENT_TYPES
        for name in ("domain_name", "type_name")
    },
    **{f"{header}.event_name": "event_name" for header in _FIXED_HEADERS},
    **{f"${name}": name for name in ("domain_name", "type_name", "event_name")},
}
"""The fixed header of a structured event, by the texts of paths."""
_DICTIONARIES = {
    **{f"{header}.variable_header": "variable_header" for header in _HEADERS},
    "$variable_header": "variable_header",
    **dict.fromkeys(("$.filterable_data", "$filterable_data"), "filterable_data"),
}
"""Its lists of properties."""
_VARIABLES = ("variable_header", "filterable_data")  # in which `$name` is looked up


def slot_of_path(path: EtclPath, cls: type) -> str | tuple[str, ...] | None:
    """The slot of a path in events of exactly one class, if following it is a single look-up."""
    if not path.steps or path.asks_time:
        return None
    *before, last = path.steps
    kind, name = last
    if issubclass(cls, StructuredEvent):
        if kind == "variable" and name not in WELL_KNOWN:
            return (name, *_VARIABLES)
        owner = _DICTIONARIES.get(path.text.removesuffix(str(last)))
        return _ATTRIBUTES.get(path.text) if kind != "property" else owner and (name, owner)
    simple = kind in ("member", "property") or (kind == "variable" and name not in UNTYPED)
    if before or not simple:
        return None
    if cls is dict:
        return (name,)
    return name if kind != "property" and name in fields_of(cls) else None
