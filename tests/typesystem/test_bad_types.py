"""Asking about what is no type."""

from __future__ import annotations

from typing import Any

import pytest

import polycast as pc


@pytest.mark.parametrize("ask", [pc.conforming, pc.directly_conforming, pc.interface_of])
@pytest.mark.parametrize("given", [3, "Talk", None, list[int], int | str])
def test_what_is_no_class_has_no_conforming_classes(ask: Any, given: Any) -> None:
    with pytest.raises(pc.NotATypeError, match="a class"):
        ask(given)
