"""Every kind of callable and every way to write one: what is lifted, and what stays opaque."""

# ruff: noqa: E731
from __future__ import annotations

import functools
import linecache
import operator
import warnings
from collections.abc import Callable
from types import MethodType, SimpleNamespace
from typing import Any

import pytest

import polycast as pc
from polycast.filters.lifting.function import lift_function


def text(function: Any) -> str:
    """The tree of a callable, which must hold no opaque part."""
    lifted = pc.lift(function)
    assert not lifted.opaque_parts(), lifted
    return str(lifted)


def why(function: Any) -> str:
    """Why all of a callable is opaque."""
    [part] = pc.lift(function).opaque_parts()
    return part.why


def identity(function: Any) -> Any:
    return function


def with_note(note: str) -> Callable[[Any], Any]:
    return lambda function: function


# -- several on a line, nested, over several lines ---------------------------------------------


def test_identical_lambdas_on_a_line_are_lifted() -> None:
    one, two = (lambda t: t.a > 1), (lambda t: t.a > 1)
    assert text(one) == text(two) == "event.a > 1"


def test_lambdas_that_differ_only_in_a_constant_are_told_apart() -> None:
    made = [lambda t: t.a == 1, lambda t: t.a == True, lambda t: t.a == 1.0]  # noqa: E712
    assert [text(lifted) for lifted in made] == [
        "event.a == 1",
        "event.a == True",
        "event.a == 1.0",
    ]


def test_zeros_of_both_signs_are_told_apart() -> None:
    made = [lambda t: t.a == 0.0, lambda t: t.a == -0.0]
    assert [text(lifted) for lifted in made] == ["event.a == 0.0", "event.a == (-0.0)"]


def test_the_inner_and_the_outer_of_nested_lambdas_are_told_apart() -> None:
    outer = lambda limit: lambda t: t.a > limit
    assert text(outer(3)) == "event.a > 3"
    assert "no node" in why(lambda t: (lambda u: u.a)(t))


def test_a_lambda_over_several_lines_with_comments_is_lifted() -> None:
    lifted = text(
        # before
        identity(
            lambda t: (  # the first
                t.a > 1  # a comment with ) and lambda
                and (
                    t.b  # )
                )
            )
        )
    )
    assert lifted == "(event.a > 1) and event.b"


def test_a_lambda_with_continued_lines_is_lifted() -> None:
    # fmt: off
    lifted = text(lambda t: t.a > 1 and \
        t.b \
        == 2)
    # fmt: on
    assert lifted == "(event.a > 1) and (event.b == 2)"


def test_a_lambda_whose_body_begins_on_another_line_is_lifted() -> None:
    # fmt: off
    lifted = text(
        lambda t, \
        n=2:
            t.a
            > n
    )
    # fmt: on
    assert lifted == "event.a > 2"


def test_brackets_that_leave_no_instruction_do_not_matter() -> None:
    # fmt: off
    lifted = text(lambda t: (((t.a))) and (((t.b) > (1))))  # noqa: UP034
    # fmt: on
    assert lifted == "event.a and (event.b > 1)"


def test_letters_of_several_bytes_do_not_shift_the_place() -> None:
    pair = {"ä€😀": (lambda t: t.a == "ä€😀", lambda t: t.ß != "é")}["ä€😀"]
    assert [text(side) for side in pair] == ["event.a == 'ä€😀'", "event.ß != 'é'"]


def test_invalid_escapes_and_odd_comparisons_warn_nobody() -> None:
    space: dict[str, Any] = {}
    source = "made = lambda t: t.a == '\\d' and t.b is 'x'\n"
    linecache.cache["<warned>"] = (len(source), None, [source], "<warned>")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, "<warned>", "exec"), space)
    lifted = pc.lift(space["made"])  # a warning would be an error here
    assert str(lifted).startswith(r"(event.a == '\\d') and opaque(")


# -- def ---------------------------------------------------------------------------------------


@identity
@with_note("a decorator")
def decorated(t: Any) -> Any:
    """Its docstring."""
    return t.a > 1


def closed(
    t: Any,
    n: int = 3,
) -> Any:
    return (
        t.a  #
        > n
    )


def test_a_decorated_function_that_stays_itself_is_lifted() -> None:
    assert text(decorated) == "event.a > 1"


def test_a_function_that_ends_in_closing_brackets_is_lifted() -> None:
    assert text(closed) == "event.a > 3"


def test_a_function_in_a_function_is_lifted() -> None:
    n = 4

    def wants(t: Any) -> Any:
        return t.a > n

    assert text(wants) == "event.a > 4"


# fmt: off
def short(t: Any) -> Any: return t.a == 1; # noqa
# fmt: on


def test_a_function_on_one_line_is_lifted() -> None:
    assert text(short) == "event.a == 1"


def nothing(t: Any) -> Any:
    return


def steps(t: Any) -> Any:
    a = t.a
    return a  # noqa: RET504


def yields(t: Any) -> Any:
    return (yield t)


async def later(t: Any) -> Any:
    return t.a


@pytest.mark.parametrize("function", [nothing, steps])
def test_a_function_that_does_not_return_one_expression_is_opaque(function: Any) -> None:
    assert "more than return" in why(function)


def test_a_generator_is_refused() -> None:
    with pytest.raises(pc.BadOptionError, match="generator"):
        pc.lift(yields)


def test_an_async_function_is_refused_and_never_lifted() -> None:
    with pytest.raises(pc.BadOptionError, match="async"):
        pc.lift(later)
    assert "Opaque" in type(lift_function(later)).__name__


def test_wrapped_functions_are_never_looked_through() -> None:
    @functools.wraps(decorated)
    def opposite(t: Any) -> Any:
        return not decorated(t)

    assert "cannot be looked into" in why(opposite)
    assert not pc.lift(opposite).matches(SimpleNamespace(a=2))


# -- parameters --------------------------------------------------------------------------------


def test_defaults_are_constants() -> None:
    assert text(lambda t, n=3: t.a > n) == "event.a > 3"
    assert text(lambda t, *, n=3: t.a > n) == "event.a > 3"
    assert text(lambda t, /, n=3, *, m=4: n < t.a < m) == "3 < event.a < 4"


def test_the_default_of_the_event_does_not_matter() -> None:
    assert text(lambda t=None: t.a) == "event.a"


def test_mutable_defaults_are_copied() -> None:
    def wants(t: Any, among: list[int] = [1]) -> bool:  # noqa: B006
        return t.a in among

    lifted = pc.lift(wants)
    wants.__defaults__[0].append(2)  # type: ignore[index]
    assert str(lifted) == "event.a in [1]"


@pytest.mark.parametrize(
    "function", [lambda t, *rest: t.a, lambda t, **rest: t.a, lambda *all_of_it: all_of_it[0].a]
)
def test_open_parameters_are_opaque(function: Any) -> None:
    assert "event alone" in why(function)
    assert pc.lift(function).matches(SimpleNamespace(a=1))


# -- partials ----------------------------------------------------------------------------------


def below(low: int, t: Any, high: int = 9, *, other: int = 0) -> Any:
    return low < t.a < high + other


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (functools.partial(below, 1), "1 < event.a < (9 + 0)"),
        (functools.partial(below, 1, high=5), "1 < event.a < (5 + 0)"),
        (functools.partial(below, 1, other=2), "1 < event.a < (9 + 2)"),
        (functools.partial(functools.partial(below, 1), high=4), "1 < event.a < (4 + 0)"),
        (functools.partial(functools.partial(below, high=3), 2, high=4), "2 < event.a < (4 + 0)"),
        (functools.partial(lambda n=1, t=None: t.a == n, 3), "event.a == 3"),
    ],
)
def test_partials_are_looked_through(function: Any, expected: str) -> None:
    assert text(function) == expected


def test_a_partial_that_gives_the_event_away_is_refused() -> None:
    with pytest.raises(pc.BadOptionError):
        pc.lift(functools.partial(below, 1, t=3))
    assert "Opaque" in type(lift_function(functools.partial(below, 1, t=3))).__name__


def test_a_subclass_of_partial_may_call_in_its_own_way() -> None:
    class Opposite(functools.partial):  # type: ignore[type-arg]
        def __call__(self, /, *args: Any) -> Any:
            return not super().__call__(*args)

    lifted = pc.lift(Opposite(below, 1))
    assert lifted.opaque_parts()
    assert not lifted.matches(SimpleNamespace(a=3))


# -- methods and callable objects --------------------------------------------------------------


class Desk:
    limit = 7
    __hidden = 5

    def __init__(self, low: int = 2) -> None:
        self.low = low

    def wants(self, t: Any) -> Any:
        return t.a > self.low

    def between(self, high: int, t: Any) -> Any:
        return self.low < t.a < high

    @classmethod
    def shared(cls, t: Any) -> Any:
        return t.a < cls.limit

    @staticmethod
    def loose(t: Any) -> Any:
        return t.a == 1

    def secret(self, t: Any) -> Any:
        return t.__hidden == self.__hidden

    def helped(self, t: Any) -> Any:
        return t.a and identity(t).__hidden == self.__hidden

    small = functools.partialmethod(between, 4)


def test_methods_of_every_kind_are_lifted() -> None:
    desk = Desk()
    assert text(desk.wants) == "event.a > 2"
    assert text(Desk.shared) == text(desk.shared) == "event.a < 7"
    assert text(Desk.loose) == text(desk.loose) == "event.a == 1"
    assert text(functools.partial(desk.between, 5)) == "2 < event.a < 5"
    assert text(functools.partial(Desk.wants, desk)) == "event.a > 2"


def test_a_partial_method_is_lifted() -> None:
    assert text(Desk().small) == "2 < event.a < 4"


def test_a_private_name_is_the_one_that_the_class_gives_it() -> None:
    assert text(Desk().secret) == "event._Desk__hidden == 5"


def test_an_opaque_part_has_the_private_names_of_the_class() -> None:
    lifted = pc.lift(Desk().helped)
    assert len(lifted.opaque_parts()) == 1
    assert lifted.matches(SimpleNamespace(a=1, _Desk__hidden=5))
    assert not lifted.matches(SimpleNamespace(a=1, _Desk__hidden=6))


class __Odd__name:
    made = [lambda t: t.__x, lambda t: t.__x__y + t._Odd__name__x]
    closed = (lambda __n: lambda t: t.a > __n)(3)
    inner = lambda self, t: any(x.__y == self.__class__ for x in t.a)


def test_private_names_of_odd_classes_are_right() -> None:
    one, two = __Odd__name.made
    assert text(one) == "event._Odd__name__x"
    assert text(two) == "event._Odd__name__x__y + event._Odd__name__x"
    assert text(__Odd__name.closed) == "event.a > 3"


def test_bound_methods_of_objects_that_are_no_functions_are_looked_through() -> None:
    class Wants:
        def __call__(self, low: int, t: Any) -> Any:
            return t.a > low

    assert text(MethodType(Wants(), 3)) == "event.a > 3"


def test_a_partial_of_itself_is_opaque() -> None:
    endless = functools.partial(decorated)
    endless.__setstate__((endless, (), {}, {}))  # type: ignore[attr-defined]
    assert lift_function(endless) == lift_function(endless)
    endless.__setstate__((decorated, (), {}, {}))  # type: ignore[attr-defined]


def test_a_class_is_no_function() -> None:
    assert "not a Python function" in why(bool)


# -- getters of the standard library -----------------------------------------------------------


@pytest.mark.parametrize(
    ("getter", "expected"),
    [
        (operator.attrgetter("a"), "event.a"),
        (operator.attrgetter("a.b"), "event.a.b"),
        (operator.attrgetter("a", "b.c"), "(event.a, event.b.c,)"),
        (operator.itemgetter(0), "event[0]"),
        (operator.itemgetter("k", 1), "(event['k'], event[1],)"),
        (operator.methodcaller("lower"), "event.lower()"),
        (operator.methodcaller("find", "x", 2), "event.find('x', 2)"),
    ],
)
def test_getters_of_the_standard_library_are_lifted(getter: Any, expected: str) -> None:
    assert text(getter) == expected


@pytest.mark.parametrize(
    "getter",
    [
        operator.attrgetter("no-name"),
        operator.attrgetter("class"),
        operator.attrgetter("__class__"),
        operator.attrgetter("ﬁ"),
        operator.itemgetter(slice(1)),
        operator.itemgetter(object()),
        operator.methodcaller("split", sep=","),
        operator.not_,
        str.isupper,
        "abc".__contains__,
    ],
)
def test_other_built_in_callables_are_opaque(getter: Any) -> None:
    assert pc.lift(getter).opaque_parts()


# -- opaque parts that are the same ------------------------------------------------------------


def opaque(value: Any) -> Any:
    return value


def test_opaque_parts_with_other_defaults_are_different() -> None:
    made = [lambda t, n=n: opaque(n) == t.a for n in range(3)]
    assert len({pc.lift(lifted) for lifted in made}) == 3
    assert pc.lift(made[0]) == pc.lift(made[0])


def test_opaque_parts_with_other_globals_are_different() -> None:
    source = "made = lambda t: opaque(t) and limit"
    spaces: list[dict[str, Any]] = [{"limit": 1}, {"limit": 0}]
    for space in spaces:
        exec(source, {**globals(), **space}, space)
    assert pc.lift(spaces[0]["made"]) != pc.lift(spaces[1]["made"])


def test_an_opaque_part_outlives_what_it_came_from() -> None:
    seen = set()
    for n in range(50):  # each partial might get the place of the one before in memory
        lifted = pc.lift(functools.partial(lambda n, t: opaque(n) == t, n))
        assert lifted not in seen
        seen.add(lifted)
    assert len(seen) == 50
