"""Attempts to break out of generated code and of the text parser."""

from __future__ import annotations

import builtins
import dis
import json
from types import CodeType, SimpleNamespace
from typing import Any

import pytest
from test_lifting_property import compiled

import polycast as pc
from polycast.filters.backends.python import SourceWriter, generate
from polycast.filters.conditions import Equals, Invoke
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import parse

EVENT = nodes.Event()
MARK = "broken_out"
HOSTILE_TEXTS = [
    "'); import os; ('",
    '"); __import__("os"); ("',
    "\n    import os\n",
    "\\",
    "\\N{QUOTATION MARK}",
    "\x00",
    "\r\n\f\x0b\x1c\u2028\u2029",
    "{event.__class__}",
    "%s %(event)s",
    "\ud800",
    "#",
    "'''\"\"\"",
    "\u202e\u2066",
]
HOSTILE_NAMES = [
    "a; import os",
    "a\nimport os",
    "a or __import__('os')",
    "__import__('os').system",
    "a.b",
    "a()",
    "a b",
    "",
    " a",
    "a ",
    "a#",
    "1",
    "class",
    "None",
    "lambda",
    "a\x00",
    "a:=1",
    "a[0]",
    "é-",
]


class Shouts(str):
    """A string that writes code when it is shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"setattr(event, {MARK!r}, 1)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


class ShoutsInt(int):
    """A number that writes code when it is shown."""

    def __repr__(self) -> str:
        return f"setattr(event, {MARK!r}, 1)"

    __str__ = __repr__


def codes(code: CodeType) -> list[CodeType]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [code, *(found for nested in inner for found in codes(nested))]


def names_used(function: Any) -> set[str]:
    return {name for code in codes(function.__code__) for name in code.co_names}


# -- constants -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", HOSTILE_TEXTS)
def test_a_text_never_becomes_code(value: str) -> None:
    plain = generate(nodes.Compare(EVENT, (("==", nodes.Constant("x")),)))
    hostile = generate(nodes.Compare(EVENT, (("==", nodes.Constant(value)),)))
    assert hostile.source == plain.source
    assert hostile.function(value) is True


@pytest.mark.parametrize("value", HOSTILE_TEXTS)
def test_a_hostile_text_is_lifted_and_read_back(value: str) -> None:
    lifted = pc.lift(compiled("t.a == VALUE and t.a in (VALUE,) and t.b != b'x'", VALUE=value))
    assert not lifted.opaque_parts()
    again = pc.Filter.from_json(json.loads(json.dumps(lifted.to_json())))
    assert again == lifted
    assert again.matches(SimpleNamespace(a=value, b=1))


@pytest.mark.parametrize("value", [Shouts("x"), ShoutsInt(3), [ShoutsInt(3)], (Shouts("x"),)])
def test_a_value_that_shows_itself_as_code_is_no_constant(value: Any) -> None:
    event = SimpleNamespace(a=value)
    lifted = pc.lift(compiled("t.a == VALUE", VALUE=value))
    assert lifted.opaque_parts()
    assert MARK not in lifted.to_python()
    assert lifted.matches(event)
    assert not hasattr(event, MARK)


@pytest.mark.parametrize("value", [Shouts("x"), ShoutsInt(3)])
def test_such_a_value_in_a_tree_made_by_hand_goes_in_by_reference(value: Any) -> None:
    generated = generate(nodes.Compare(nodes.Constant(value), (("==", EVENT),)))
    assert MARK not in generated.source
    assert generated.function(value) is True


def test_numbers_without_a_literal_go_in_by_reference() -> None:
    for value in (10**5000, -(10**5000), float("inf"), 1e308 * 10, -0.0):
        generated = generate(nodes.Compare(EVENT, (("==", nodes.Constant(value)),)))
        assert len(generated.source) < 100
        assert generated.function(value) is True


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE_NAMES)
@pytest.mark.parametrize(
    "node",
    [
        lambda name: nodes.Attribute(EVENT, name),
        lambda name: nodes.Call(EVENT, name),
        lambda name: nodes.Reach(EVENT, name),
        lambda name: nodes.Quantified("any", EVENT, (), nodes.Call(nodes.Variable(0), name)),
    ],
)
def test_only_identifiers_become_names_of_generated_code(name: str, node: Any) -> None:
    with pytest.raises(pc.FilterError):
        generate(node(name))


@pytest.mark.parametrize("name", [n for n in HOSTILE_NAMES if not n.strip().isidentifier()])
def test_paths_of_conditions_take_only_names(name: str) -> None:
    if name.strip("/"):
        with pytest.raises(pc.BadOptionError):
            Invoke(f"/{name}")
        with pytest.raises(pc.BadOptionError):
            Equals(f"/a/{name}", 1)


@pytest.mark.parametrize(
    "node",
    [
        nodes.Compare(EVENT, (("; import os;", EVENT),)),
        nodes.Arithmetic("+ __import__('os') +", EVENT, EVENT),
        nodes.Sign("__import__('os') or -", EVENT),
        nodes.Function("print", (EVENT,)),
        nodes.Quantified("any(x) or print", EVENT, (), EVENT),
    ],
)
def test_an_operator_that_is_none_never_runs_with_built_ins(node: nodes.Node) -> None:
    """Trees are made by programs, not read: yet what comes of a wrong one has no `print`."""
    try:
        function = generate(node).function
    except (pc.FilterError, KeyError, SyntaxError):
        return
    try:
        function(1)
    except (NameError, TypeError, ImportError):
        pass
    assert names_used(function) <= {"value_0", "__import__"}


# -- what generated code can reach -----------------------------------------------------------------

EXPRESSIONS = [
    "t.a > 1 and t.b.lower().startswith('x')",
    "any(x.a == y for x in t.b if x for y in [1])",
    "any(any(x == y for y in t.b) for x in t.a)",
    "len(t.a) + abs(t.b) == max(1, min(2, t.c))",
    "isinstance(t.a, (int, str)) or t.a is None",
    "t.a[t.b] in (1, 'two', 3.0, (4,), {5})",
    "t.open('x') and t.eval('1') and t.exec and t.__import__('os')",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_generated_code_knows_only_the_event_and_numbered_values(text: str) -> None:
    lifted = pc.lift(compiled(text))
    space = lifted.function.__globals__  # type: ignore[attr-defined]
    assert space["__builtins__"] == {}
    loaded = {
        instruction.argval
        for code in codes(lifted.function.__code__)  # type: ignore[attr-defined]
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_BUILD_CLASS", "IMPORT_NAME")
    }
    assert all(name.startswith("value_") and name in space for name in loaded)
    assert not loaded & set(dir(builtins))


def test_a_prefix_for_other_generated_code_is_kept() -> None:
    writer = SourceWriter("f7")
    writer.write(pc.lift(compiled("t.a == 'x' and len(t.b) > 2 and t.c in (1,)")).tree)
    assert all(name.startswith("f7_") for name in writer.names)


@pytest.mark.parametrize(
    "parameter", ["event", "value_0", "each_1", "where", "self", "__builtins__", "é"]
)
def test_names_of_users_do_not_meet_names_of_generated_code(parameter: str) -> None:
    space: dict[str, Any] = {"value_0": 1, "event": 2, "each_1": 3, "LIMIT": 10**20}
    text = (
        f"lambda {parameter}: {parameter}.value_0 == LIMIT and any(x for x in {parameter}.each_1)"
    )
    function = compiled(f"({text})(t)", **space)
    inner = eval_lambda(text, space)
    event = SimpleNamespace(value_0=10**20, each_1=[1])
    assert pc.lift(inner).matches(event) is pc.lift(function).matches(event) is True


def eval_lambda(text: str, space: dict[str, Any]) -> Any:
    return compiled(f"[{text}]", **space)(None)[0]


# -- texts from outside ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *(
            "__import__('os')",
            "open('x')",
            "eval('1')",
            "exec('1')",
            "print",
            "globals()",
            "type(1)",
        ),
        *(
            "getattr(event, 'a')",
            "vars(event)",
            "object",
            "event()",
            "event.a()()",
            "event.a[0](1)",
        ),
        *("lambda: 0", "(yield)", "(x := 1)", "[x for x in event]", "{**event}", "[*event]"),
        *("f'{event}'", "f'{event.__class__}'", "event if event else event", "event[1:2]"),
        *("().__class__.__base__.__subclasses__()", "''.__class__.__mro__", "(1).__class__"),
        *("[].__class__", "None.__class__", "len.__self__", "any.__module__", "reach.__globals__"),
        *(
            "reach(event, event)",
            "reach(event, 'a.b')",
            "reach(event, 'a')('x')",
            "reach(reach, 'x')",
        ),
        *("isinstance(event, object)", "isinstance(event, event.a)", "isinstance(event, 'x')"),
        *("kind('os.system')", "kind('builtins.eval')", "kind(event)", "kind('builtins.int')(1)"),
        *("member('builtins.int', 'real')", "member('os', 'x')", "event.__a", "event._b.__c()"),
        *("float(event)", "set(event)", "Decimal(event.a)", "datetime('x')", "float('1', x=2)"),
        *("await event", "event.a := 1", "event.a = 1", "import os", "del event", "event; event"),
        *("event\nevent", "event.a\x00", "event.\u200b", "opaque('x')", "each1", "x.each1", "..."),
        *("[1].append(1)", "[1].clear()", "set([1]).pop()", "1j", "event @ event", "`event`"),
    ],
)
def test_what_has_no_node_is_refused(text: str) -> None:
    with pytest.raises(pc.FilterError):
        parse(text)


@pytest.mark.parametrize(
    "data",
    [
        *(
            None,
            1,
            "event.a",
            [],
            {},
            {"format": 2, "filter": "event"},
            {"format": 1, "filter": None},
        ),
        *({"format": 1}, {"format": 1, "filter": ["event"]}, {"format": 1, "filter": {"a": 1}}),
        *({"format": 1, "filter": b"event"}, {"format": "1", "filter": "event"}),
    ],
)
def test_data_of_any_other_shape_is_refused(data: Any) -> None:
    with pytest.raises(pc.FilterError):
        pc.Filter.from_json(data)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 150 + "event" + ")" * 150,
        "-" * 300 + "event",
        "not " * 300 + "event",
        "event" + ".a" * 500,
        "event" + "[0]" * 300,
        "event" + " + 1" * 500,
        "any(" * 80 + "event" + ")" * 80,
        "[" * 90 + "event" + "]" * 90,
        "event.a in " + "[" * 80 + "]" * 80,
    ],
)
def test_what_is_nested_deeply_is_refused_or_works(text: str) -> None:
    try:
        lifted = pc.Filter(parse(text))
    except pc.FilterError:
        return
    lifted.matches(1)
    lifted.interpret(1)


def test_a_long_flat_text_works() -> None:
    lifted = pc.Filter(parse(" or ".join(f"event == {n}" for n in range(5_000))))
    assert lifted.matches(4_999)
    assert not lifted.matches(5_000)
