"""Where a tree could mean something else than the function: constants, names, identity, order."""

# ruff: noqa: E731
from __future__ import annotations

import builtins
import datetime
import decimal
import enum
import inspect
import math
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from test_lifting_property import compiled

import polycast as pc

NAN = float("nan")
PAIR = (1, 2)
BIG = 10**30
TABLE = [[1], [2]]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"
    default = RED  # an alias

    def other(self) -> Colour:
        return Colour.BLUE if self is Colour.RED else Colour.RED

    @property
    def loud(self) -> str:
        return self.name + "!"

    @classmethod
    def first(cls) -> Colour:
        return cls.RED


class Number(enum.IntEnum):
    ONE = 1


class Word(enum.StrEnum):
    A = "a"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: int


class MyInt(int):
    """Not exactly an int."""


POINT, MINE = Point(1, 2), MyInt(3)
LIST, SET, EMPTY = [1, 2], {1, 2, "a"}, ()
DEC, DAY = decimal.Decimal("1.0"), datetime.date(2026, 1, 2)
THREE, TEXT = 3, "abc"
CAPTURED = (
    "NAN PAIR BIG TABLE math Colour Number Word Right Point POINT MINE LIST SET EMPTY DEC DAY "
    "THREE TEXT"
)
NAMES = {name: globals()[name] for name in CAPTURED.split()}


def outcome(function: Any, event: Any) -> Any:
    try:
        return bool(function(event))
    except Exception:
        return "fails"


def values() -> list[Any]:
    return [
        *(None, True, False, 0, 1, 2, 3, -1, 1000, BIG, 1.0, 0.0, -0.0, 2.5, NAN, math.nan),
        *(math.inf, "a", "abc", "", "A", b"a", [], [1], [1, 2], [NAN], [[1]], (), (1,), (1, 2)),
        *(PAIR, {1, 2}, frozenset({1}), {"k": 1}, {}, Colour.RED, Colour.BLUE, Number.ONE, Word.A),
        *(Right.READ, Point(1, 2), MyInt(3), decimal.Decimal(1), datetime.date(2026, 1, 2)),
        *(object(), int, len, TABLE, TABLE[0], LIST, 3 + 0j),
    ]


EXPRESSIONS = """
t.a is None; t.a is not None; t.a is True; t.a is 1000; t.a is "abc"; "abc" is t.a; t.a is PAIR
t.a is (1, 2); t.a is (); t.a is EMPTY; t.a is []; t.a is LIST; t.a is TABLE[0]; t.a is BIG
t.a is Colour.RED; t.a is not Colour.RED; t.a is Number.ONE; t.a is NAN; t.a is t.a; t.a is (t.a)
t.a is (t.b or PAIR); t.a is t.b is None; None is t.a is PAIR; t.a is 500 + 500; t.a is -1
t.a is max(PAIR, (0,)); t.a is TEXT; t.a is THREE; t.a is (t.a, PAIR)[1]; t.a is TABLE[t.b]
t.a in (NAN,); t.a in [NAN]; t.a in (1, NAN); NAN in t.a; t.a == NAN; t.a != NAN; t.a == [NAN]
t.a in (math.nan, 1); math.nan in t.a; t.a < NAN; t.a in ((NAN,),); t.a in TABLE; t.a in [[1]]
t.a in {1, 2}; t.a in {1, 2, "a"}; t.a not in {1, 2}; t.a in SET; t.a in {1}; t.a == {1, 2}
{t.a} == {1}; t.a in {t.a, 1}; t.a in [t.a]; [1, 2] == t.a; t.a == (1, 2); t.a == PAIR
t.a in (1, 2) == True; 1 in t.a in [t.a]; not t.a in (1, 2); not t.a == 1; (not t.a) == 1
not t.a and t.b; not (t.a and t.b); 1 < t.a < 3; 1 < t.a == 2; t.a == 1 == 1.0 == True
-0.0 == t.a; t.a == -0.0; -(2**70) < t.a; t.a == -1; t.a == - -1; t.a == ~0; t.a == +True
-True == t.a; t.a == 1 + 2; t.a == "a" * 3; t.a == "a" "bc"; t.a == 2**10; t.a == 7 // 2 % 2
t.a == b"a"; t.a == "a"; t.a < b"b"; t.a + "x" == "ax"; t.a + b"x" == b"ax"; t.a % 2 == 1
t.a == 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFF; t.a < 10**40; t.a == 1e400; t.a > -1e400; t.a == 3j
Number.ONE == t.a; t.a == Word.A; t.a < Number.ONE; Number.ONE + t.a; t.a in (Number.ONE, Word.A)
t.a == Colour.RED.value; t.a == Colour.RED.name; t.a == Number.ONE.value; t.a == Colour.default
t.a == Colour.RED.other(); t.a == Colour.RED.loud; t.a == Colour.first(); t.a == Colour("red")
t.a == Colour["RED"]; t.a in Colour; t.a in Right.READ; Right.READ | Right.WRITE == t.a
t.a == POINT; t.a == POINT.x; t.a == POINT[0]; t.a == MINE; t.a == MINE + 0; t.a in [MINE]
t.a == DEC; t.a < DEC; t.a == DAY; t.a == DAY.year; t.a < DAY; t.a == DAY.isoformat()
[1, 2].pop() == 2; LIST.index(t.a) == 0; LIST.count(t.a); {1, 2}.isdisjoint(t.a); [3].clear() or t.a
len(LIST) == 2; LIST + [3] == t.a; LIST * 2 == t.a
any(t.a == x for x in SET); any(t.a > x for x in SET); max(SET) == t.a; any(x == t.a for x in LIST)
any(t.a > x for x in (1, "a")); all(t.a > x for x in ("a", 1)); min(t.a, 1) == 1; max(t.a) == 2
any(t for t in t.a); any(t == 1 for t in t.a); all(t for t in t.a if t)
any(x for x in t.a for y in x)
any(any(x == y for y in t.a) for x in t.a); any(any(x for x in x) for x in t.a)
any(any(t == x for t in x) for x in t.a); all(any(x is y for y in t.a) for x in t.a)
any([x for x in t.a]); any(t.a); any(x for x in t.a if x if x > 1); any((x, 1) for x in t.a)
any(len == 1 for len in t.a); [len for len in t.a]; {x: 1 for x in t.a}; [*t.a]; (*t.a, 1) == t.a
(y := t.a) and y; (t := t.a) and t; t.a and (THREE := t.a) and THREE == 1; [THREE := t.a, THREE][1]
any((z := x) for x in t.a) and z; t.a if t.b else THREE; f"{t.a}" == "1"; t.a[0:1]; t.a[:, 1]
t.a[0]; t.a[-1]; t.a["k"]; t.a[t.b]; (t.a, 1)[0]; [t.a][t.b]; {t.a}[0]; None[t.a]; 1[t.a]
"abc"[t.a]; "abc"[1]; PAIR[0] == t.a; PAIR[t.a]; LIST[t.a]; TABLE[t.a][0]; (1, 2)[t.a]
t.a[None]; (t.a,)[None]
"abc".startswith(t.a); "abc".find(t.a) == 0; ",".join(t.a); t.a.lower() == "a"; t.a.get("k") == 1
"x".join("ab") == t.a; b"a".upper() == t.a; (1).bit_length() == t.a; TEXT.upper() == t.a; TEXT[t.b]
t.a.split(sep=","); t.a.__class__ is int; t.a.__class__.__name__ == "int"; t.__a; t.a.__len__() == 2
isinstance(t.a, int); isinstance(t.a, (int, str)); isinstance(t.a, int | str); isinstance(t.a, ())
isinstance(t.a, (int, (str, (bytes,)))); isinstance(t.a, Colour); isinstance(t, int)
isinstance(1, int); isinstance(t.a, t.b); isinstance(t.a, list[int]); isinstance(t.a, [int])
isinstance(t.a); len(t.a, 1); len(t.a) == 2; len(t); abs(t.a) == 1; abs(-1) == t.a
min(1, t.a); max(*t.a); min(t.a, key=len)
math.pi < t.a; math.inf == t.a; math.nothing == t.a; math.floor(t.a) == 1; UNDEFINED == t.a
t; t.a; not t; (); 1; None; "x"; THREE; [] or t.a; () and t.a; 0 or None; t.a or 1 / 0; 1 / 0 or t.a
t == t; t != t; t(1); t.a(1); t.a()(); t[0]; t.missing; t.a.missing; t.missing or True; lambda: t
... is t.a; t.a == ...; __debug__ and t.a; t.a == __name__; print; t.a == print; t.a is len
t.a + 1 + 1 + 1 == 4; t.a - 1 - 1; 2 ** t.b ** 2; -t.a ** 2 == -1; (-1) ** t.b
not not t.a; 1 if 1 else t; t.a @ t.b; t.a << 2; t.a >> 1; t.a & 1; t.a | 1; t.a ^ 1
~t.a == -2; t.a // 2; t.a / 0; t.a % 0
""".replace("\n", ";").split(";")


@pytest.mark.parametrize(
    "text", [expression.strip() for expression in EXPRESSIONS if expression.strip()]
)
def test_the_tree_agrees_with_the_function(text: str) -> None:
    function = compiled(text, **NAMES)
    lifted = pc.lift(function)
    for a in values():
        for b in (0, None):
            event = SimpleNamespace(a=a, b=b)
            expected = outcome(function, event)
            assert outcome(lifted, event) == expected, (a, str(lifted))
            assert lifted.interpret(event) == (expected is True), (a, str(lifted))


@pytest.mark.parametrize(
    "text",
    [
        *("LIST.pop()", "[1, 2].pop() == 2", "TABLE[t.b].append(1)", "SET.pop()", "[].append(t)"),
        *("(t.a or LIST).append(1)", "LIST.append(t.a) or len(LIST) == 3", "TABLE[0].clear()"),
    ],
)
def test_what_may_change_a_constant_is_opaque(text: str) -> None:
    names = {**NAMES, "LIST": [1, 2], "SET": {1, 2}, "TABLE": [[1]]}
    assert pc.lift(compiled(text, **names)).opaque_parts()


@pytest.mark.parametrize(
    "text",
    [
        *("t.a is 1000", "t.a is 'x y'", "t.a is PAIR", "PAIR is not t.a", "t.a is TEXT"),
        *("t.a is (t.b or PAIR)", "t.a is TABLE[t.b]"),
        *("t.a in (NAN,)", "NAN in t.a", "t.a == [[NAN]]"),
        *("any(t.a > x for x in SET)", "max(SET) == t.a"),
    ],
)
def test_what_asks_for_identity_or_order_of_a_copy_is_opaque(text: str) -> None:
    assert pc.lift(compiled(text, **NAMES)).opaque_parts()


@pytest.mark.parametrize(
    "text",
    [
        *("t.a is None", "t.a.get('k') is None", "t.a is Colour.RED", "t.a is t.b", "t is t.a()"),
        *("t.items[0] is t.first", "t.a in SET", "len(SET) == t.a", "t.a == NAN", "t.a in TABLE"),
        *("LIST.index(t.a) == 0", "t.a == Colour.RED.value", "t.a == Number.ONE.name"),
        *("TEXT.upper() == t.a", "PAIR[t.a]", "t.a in {1, 2}", "1 < t.a <= BIG"),
    ],
)
def test_what_is_the_same_for_copies_is_lifted(text: str) -> None:
    assert not pc.lift(compiled(text, **NAMES)).opaque_parts()


# -- names ---------------------------------------------------------------------------------------


def test_a_captured_list_is_copied() -> None:
    among, nested = [1], [[1]]
    lifted = pc.lift(lambda t: t in among or t in nested)
    among.append(2)
    nested[0].append(2)
    assert str(lifted) == "(event in [1]) or (event in [[1]])"


def test_a_list_that_holds_itself_is_opaque() -> None:
    among: list[Any] = []
    among.append(among)
    assert pc.lift(lambda t: t in among).opaque_parts()


def test_a_global_that_changes_later_does_not_matter() -> None:
    space = {"LIMIT": 1}
    function = compiled("t > LIMIT", **space)
    lifted = pc.lift(function)
    function.__globals__["LIMIT"] = 100
    assert lifted.matches(2)
    assert not pc.lift(function).matches(2)


def test_loop_variables_are_read_when_the_filter_is_made() -> None:
    during, made = [], []
    for n in range(3):
        made.append(lambda t: t == n)  # noqa: B023
        during.append(str(pc.lift(made[-1])))
    assert during == ["event == 0", "event == 1", "event == 2"]
    assert [str(pc.lift(lifted)) for lifted in made] == ["event == 2"] * 3


def test_an_empty_cell_makes_a_part_opaque_until_it_is_filled() -> None:
    function = lambda t: t > later
    lifted = pc.lift(function)
    assert "no value yet" in lifted.opaque_parts()[0].why
    assert not lifted.matches(2)
    later = 1
    assert lifted.matches(2)
    assert str(pc.lift(function)) == "event > 1"


def test_a_deleted_global_is_not_defined() -> None:
    function = compiled("t > LIMIT", LIMIT=1)
    del function.__globals__["LIMIT"]
    [part] = pc.lift(function).opaque_parts()
    assert "not defined" in part.why


def test_a_patched_built_in_is_not_the_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    function = compiled("len(t) == 100")
    monkeypatch.setattr(builtins, "len", lambda value: 100)
    lifted = pc.lift(function)
    monkeypatch.undo()
    assert lifted.opaque_parts()


def test_a_function_has_the_built_ins_it_was_made_with() -> None:
    function = compiled("len(t) == 100", __builtins__={"len": lambda value: 100})
    assert pc.lift(function).matches("")
    [part] = pc.lift(compiled("abs(t)", __builtins__={})).opaque_parts()
    assert "not defined" in part.why


def test_a_walrus_makes_all_of_it_opaque() -> None:
    function = compiled("(y := t.a) and y > 1", y=100)
    [part] = pc.lift(function).opaque_parts()
    assert part.function is function
    assert pc.lift(function).matches(SimpleNamespace(a=2))


# -- captured objects ----------------------------------------------------------------------------


class Plain:
    shared = 4

    def __init__(self) -> None:
        self.limit = 3


class Slots:
    __slots__ = ("limit", "unset")

    def __init__(self) -> None:
        self.limit = 3


class Computes(Plain):
    def __getattr__(self, name: str) -> int:
        return 3


class Intercepts(Plain):
    def __getattribute__(self, name: str) -> int:
        return 9


class Describes:
    """Its instances are descriptors, and one is an attribute of itself."""

    limit: Any

    def __get__(self, instance: object, owner: object = None) -> int:
        return 9


Describes.limit = Describes()


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        return 9 if name == "limit" else super().__getattribute__(name)


class Made(metaclass=Meta):
    limit = 3


def module(**names: Any) -> ModuleType:
    made = ModuleType("made")
    vars(made).update(names)
    return made


class Lazy(ModuleType):
    def __getattribute__(self, name: str) -> Any:
        return 9 if name == "limit" else super().__getattribute__(name)


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (Plain(), "t > held.limit"),
        (Plain(), "t > held.shared"),
        (Plain, "t > held.shared"),
        (Slots(), "t > held.limit"),
        (module(limit=3), "t > held.limit"),
        (Computes(), "t > held.limit"),
        (SimpleNamespace(inner=Plain()), "t > held.inner.limit"),
        (inspect, "t > held.CO_VARARGS"),
    ],
)
def test_plain_attributes_of_captured_objects_are_constants(held: Any, text: str) -> None:
    lifted = pc.lift(compiled(text, held=held))
    assert not lifted.opaque_parts()


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (Slots(), "t > held.unset"),
        (Slots, "t > held.limit"),
        (Computes(), "t > held.other"),
        (Intercepts(), "t > held.limit"),
        (Describes, "t > held.limit"),
        (Made, "t > held.limit"),
        (module(__getattr__=lambda name: 9), "t > held.limit"),
        (Lazy("lazy"), "t > held.limit"),
        (SimpleNamespace(f=len), "t > held.f"),
        (decimal.Decimal(3), "t > held.real"),
        (Colour.RED, "t == held.loud"),
    ],
)
def test_other_attributes_of_captured_objects_are_opaque(held: Any, text: str) -> None:
    function = compiled(text, held=held)
    lifted = pc.lift(function)
    assert lifted.opaque_parts()
    for event in (5, 10, "RED!"):
        assert outcome(lifted, event) == outcome(function, event)


# -- depth -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", [" + t.a", " and t.a", " == t.a", ".b"])
@pytest.mark.parametrize("length", [50, 59, 60, 61, 100, 190, 220, 900])
def test_however_long_an_expression_is_it_works(operator: str, length: int) -> None:
    function = compiled(f"t.a{operator * length}")
    chain = SimpleNamespace()
    chain.b = chain
    event = SimpleNamespace(a=chain if operator == ".b" else 1)
    lifted = pc.lift(function)
    assert outcome(lifted, event) == outcome(function, event) is True
    assert lifted.interpret(event)


def test_brackets_in_brackets_work() -> None:
    for depth in (30, 60, 90, 150):
        function = compiled("(" * depth + "t.a" + " + 1)" * depth)
        assert pc.lift(function).matches(SimpleNamespace(a=1))
