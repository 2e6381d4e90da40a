"""The table of what each back end takes is the one that the back ends give."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_has_the_table_as_it_is_now() -> None:
    spec = importlib.util.spec_from_file_location("support_page", DOCS / "support.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (DOCS / "filters.md").read_text(encoding="utf-8")
    assert module.written(page) == page, "run `python docs/support.py`"
