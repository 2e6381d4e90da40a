"""`polycast tail` shows which context an event comes from, and what it is in the root."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import polycast as pc

VERSION_3 = Path(__file__).parents[1] / "stores" / "files" / "version_3.db"


@pytest.fixture
def abroad(tmp_path: Path) -> Path:
    """A store with events of contexts from position 14 on."""
    shutil.copy(VERSION_3, tmp_path / "abroad.db")
    pc.Bus(f"sqlite:///{tmp_path / 'abroad.db'}").close()  # brings it up to date
    return tmp_path / "abroad.db"


def test_the_context_and_the_class_of_the_root_form_are_in_the_data(run: Any, abroad: Path) -> None:
    rows = run("tail", abroad, "--json", "--since", "13").rows
    assert "context" not in rows[0]
    assert [(row["context"], row["root"]) for row in rows[1:]] == [
        ("us", {"class": "shop.Order", "version": 1}),
        ("us", None),
        ("uk", {"class": "shop.Order", "version": 1}),
        ("us", {"class": "shop.Order", "version": 1}),
    ]


def test_the_text_tells_them_in_words(run: Any, abroad: Path) -> None:
    lines = run("tail", abroad, "--since", "13").out.splitlines()
    assert " in " not in lines[0]
    for line, said in zip(
        lines[1:],
        (
            "us.Order  in us, root form shop.Order  ",
            "us.Order  in us, no root form  ",
            "shop.Order  in uk  ",
            "us.Order  in us, root form shop.Order  ",
        ),
        strict=True,
    ):
        assert said in line


def test_events_are_found_by_the_class_of_their_root_form(run: Any, abroad: Path) -> None:
    rows = run("tail", abroad, "--json", "--since", "13", "--type", "shop.Order").rows
    assert [row["position"] for row in rows] == [14, 16, 17]
