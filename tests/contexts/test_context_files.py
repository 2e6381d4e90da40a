"""Files of contexts: what is wrong comes at once, and soon, however large they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_context_xml import Write, load, write

import polycast as pc

__all__ = ["write"]


def test_wrong_patterns_and_unknown_functions_come_at_once(write: Write) -> None:
    text = """
    <context>
      <rules>
        <rule pattern="InvoiceLine.prise" function="logistics.to_dollars"/>
        <rule pattern="Money" function="nowhere"/>
        <rule pattern="InvoiceLine.amountToPay" function="logistics.Money"/>
      </rules>
    </context>
    """
    with pytest.raises(pc.BadContextError) as refused:
        load(write(text))
    assert [(error.code, error.where) for error in refused.value.errors] == [
        ("unknown-attribute", "us.xml:3"),
        ("unknown-function", "us.xml:4"),
        ("bad-argument", "us.xml:5"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"<context><types>{'Nothing ' * 200_000}</types></context>",
        "<context><rules>"
        + '<rule pattern="Money" function="no"/>' * 20_000
        + "</rules></context>",
    ],
    ids=["types", "rules"],
)
def test_a_hundred_errors_are_enough(write: Write, text: str) -> None:
    with pytest.raises(pc.BadContextError) as refused:
        load(write(text))
    assert len(refused.value.errors) == 100
    assert "these 100 errors, and perhaps more: the rest of the file was" in str(refused.value)


def test_an_encoding_that_nobody_knows(tmp_path: Path) -> None:
    path = tmp_path / "us.xml"
    path.write_bytes(b'<?xml version="1.0" encoding="klingon"?><context/>')
    with pytest.raises(pc.BadContextError, match="no well-formed XML: unknown encoding: klingon"):
        load(path)


def test_what_is_no_path() -> None:
    given: Any = 5
    with pytest.raises(pc.BadContextError, match=r"was 5 \(int\); accepted: a path"):
        load(given)
