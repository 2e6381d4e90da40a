"""Random events and random XPath expressions, and what lxml says about them."""

from __future__ import annotations

import datetime
import math
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from lxml import etree

import polycast as pc
from polycast.languages.xpath.core_library import number_from

LONG = os.environ.get("POLYCAST_STRESS") == "long"
QUICK = settings(
    max_examples=5_000 if LONG else 100,
    derandomize=not LONG,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

_NUMBER = etree.XPath("number(.)")
_NAMES = ["a", "b", "c", "topic", "price", 'say "x"', "it's", "ü", " pad ", "10", "name"]
_TEXTS = [
    "",
    "news",
    "10",
    "1.5",
    "-2",
    "1e3",
    " 7 ",
    "5e",
    ".5",
    "a",
    "ab",
    "b c",
    "ü",
    "NaN",
    "true",
]
_KINDS = [
    "string",
    "int",
    "double",
    "boolean",
    "base64",
    "nil",
    "dateTime.iso8601",
    "array",
    "struct",
]
_ELEMENTS = ["struct", "member", "name", "value", "array", "data", *_KINDS[:7]]


def root_of(event: object) -> Any:
    """The document of an event, for lxml."""
    return etree.fromstring(pc.filterable_xml(event).encode())


def lxml_says(text: str, event: object) -> bool:
    """The verdict of the oracle. In a predicate of the root, position() is 1, and not an error."""
    return bool(etree.XPath(f"boolean(/*[boolean({text})])")(root_of(event)))


def reads_numbers_alike(event: object) -> bool:
    """Whether libxml2, which does not round to the nearest double, reads no number differently."""
    for element in root_of(event).iter():
        theirs, ours = _NUMBER(element), number_from("".join(element.itertext()))
        if theirs != ours and not (math.isnan(theirs) and math.isnan(ours)):
            return False
    return True


# -- events ----------------------------------------------------------------------------------------

_characters = st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc", "Cn"])
_scalars = st.one_of(
    st.sampled_from(_TEXTS),
    st.text(_characters, max_size=8),
    st.integers(-5, 20),
    st.integers(-(2**40), 2**40),
    st.sampled_from([0.0, -0.0, 1.5, 10.0, 1e16, 1e-5, math.inf, -math.inf, math.nan]),
    st.integers(-8_000, 8_000).map(lambda n: n / 8),
    st.booleans(),
    st.binary(max_size=6),
    st.none(),
    st.datetimes().map(lambda t: t.replace(microsecond=0)),
    st.dates(),
    st.sampled_from([datetime.date(2007, 4, 1), datetime.datetime(2007, 4, 1)]),
)
_names = st.sampled_from(_NAMES) | st.text(_characters, max_size=5)
values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=4),
    max_leaves=8,
)
_common = st.fixed_dictionaries({"a": values}, optional={"b": _scalars, "topic": _scalars})
events = st.tuples(_common, st.dictionaries(_names, values, max_size=3)).map(
    lambda both: {**both[0], **both[1]}
)
events = events.filter(lambda event: "filterable" not in event)
level_3 = st.fixed_dictionaries({"filterable": values, "contents": st.text(max_size=3)})


# -- expressions -----------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """A string literal, if there is one."""
    return f"'{text}'" if '"' in text else f'"{text}"'


_literals = st.sampled_from([*_NAMES, *_TEXTS, "2007-04-01", "20070401T00:00:00"]).map(quoted)
_numbers = st.sampled_from(["0", "1", "2", "3", "10", "1.5", ".5", "5.", "-1", "100", "-2.5"])
_MORE_STEPS = """* text() node() . child::value self::member self::* descendant::int
descendant-or-self::* descendant::text() descendant-or-self::node()"""
_steps = st.sampled_from([*_ELEMENTS, *_MORE_STEPS.split()])


def _call(name: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda args: f"{name}({', '.join(args)})")


def _infix(left: st.SearchStrategy[str], signs: str, right: st.SearchStrategy[str]) -> Any:
    sign = st.sampled_from(signs.split())
    return st.tuples(left, sign, right).map(lambda parts: f"({' '.join(parts)})")


_comparisons = "= != < <= > >="
_counts = st.sampled_from(["position()", "last()", "count(*)", "count(.//*)", "string-length()"])


def _step_with(predicate: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    filtered = st.tuples(_steps.filter(lambda step: step != "."), predicate)
    return _steps | filtered.map(lambda parts: f"{parts[0]}[{parts[1]}]")


def _paths(predicate: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    steps = st.lists(_step_with(predicate), min_size=1, max_size=4)
    joints = st.lists(st.sampled_from(["/", "/", "/", "//"]), min_size=4, max_size=4)
    start = st.sampled_from(["", "", "/", "//", ".//"])

    def put_together(parts: tuple[str, list[str], list[str]]) -> str:
        begin, several, signs = parts
        return begin + "".join(
            s + (j if n + 1 < len(several) else "")
            for n, (s, j) in enumerate(zip(several, signs, strict=False))
        )

    return st.tuples(start, steps, joints).map(put_together)


_asked = st.sampled_from(["a", "b", "topic", *_NAMES]).map(quoted)


def _usual() -> st.SearchStrategy[str]:
    """The shapes that become look-ups."""
    name = _asked
    kind = st.sampled_from(["", "", "/*", *(f"/{element}" for element in _KINDS)])
    end = st.sampled_from(["", "", "", "/text()"])
    struct, array = '/struct/member[name="a"]/value', "/array/data/value"
    deeper = st.sampled_from(["", "", struct, f"{array}[2]", array])
    begin = st.sampled_from(["/struct/", "", "/*/", "./"])
    return st.tuples(begin, name, deeper, kind, end).map(
        lambda p: f"{p[0]}member[name={p[1]}]/value{p[2]}{p[3]}{p[4] if p[3] else ''}"
    )


def _usual_truth() -> st.SearchStrategy[str]:
    name, path = _asked, _usual()
    value = _literals | _numbers | st.sampled_from(["true()", "false()"])
    inside = st.tuples(name, st.sampled_from(_comparisons.split()), value).map(
        lambda p: f"/struct/member[name={p[0]} and value {p[1]} {p[2]}]"
    )
    twice = st.tuples(name, value).map(lambda p: f"member[{p[0]}=name][not(value={p[1]})][1]/value")
    return st.one_of(
        path,
        inside,
        twice,
        _infix(path, _comparisons, value),
        _infix(value, _comparisons, path),
        _call("contains", path, _literals),
        _call("starts-with", path, _literals),
        _infix(_call("string-length", path), _comparisons, _numbers),
        _infix(_call("string", path), _comparisons, value),
        _infix(_call("number", path), _comparisons, value),
    )


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Truths from smaller ones."""
    path = st.one_of(
        _paths(inner),
        _paths(inner | st.sampled_from(["1", "2", "last()", "position() > 1", "last() - 1"])),
        _usual(),
    )
    nodes = path | st.lists(path, min_size=2, max_size=3).map(lambda p: f"({' | '.join(p)})")
    nodes |= st.tuples(nodes, inner | st.sampled_from(["1", "2"])).map(
        lambda p: f"({p[0]})[{p[1]}]"
    )
    plain_text = _literals | nodes | _counts | inner
    text = st.one_of(
        _literals,
        _call("string", plain_text),
        _call("concat", plain_text, plain_text),
        _call("substring", plain_text, _numbers, _numbers),
        _call("substring", plain_text, _numbers),
        _call("substring-before", plain_text, _literals),
        _call("substring-after", plain_text, _literals),
        _call("normalize-space", plain_text),
        _call("translate", plain_text, _literals, _literals),
        _call("name", nodes),
        _call("local-name", nodes),
    )
    number = st.one_of(
        _numbers,
        _counts,
        _call("count", nodes),
        _call("string-length", text),
        _call("number", text | nodes | inner),
    )
    number |= st.one_of(
        _infix(number, "+ - * div mod", number),
        number.map(lambda n: f"-{n}"),
        st.tuples(st.sampled_from(["floor", "ceiling", "round"]), number).map(
            lambda p: f"{p[0]}({p[1]})"
        ),
    )
    anything = nodes | number | text | inner
    return st.one_of(
        nodes,
        anything,
        _infix(nodes, _comparisons, anything),
        _infix(anything, _comparisons, nodes),
        _infix(anything, _comparisons, anything),
        _infix(inner, "and or", inner),
        _call("not", anything),
        _call("boolean", anything),
        _call("contains", plain_text, plain_text),
        _call("starts-with", plain_text, plain_text),
    )


_small = _usual_truth() | st.sampled_from(["true()", "false()", "1", "(/)", ".", "'a'", "0"])
_larger = _grown(_small)
expressions = _larger | _grown(_small | _larger)
usual = st.recursive(
    _usual_truth(),
    lambda inner: _infix(inner, "and or", inner) | _call("not", inner) | _call("boolean", inner),
    max_leaves=4,
)
