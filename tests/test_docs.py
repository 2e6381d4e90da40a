"""Every Python block in the documentation runs, and prints what the page says it prints.

The Python blocks of a page are one script, run in a folder of its own. A block

- marked ``python no-run`` is only compiled;
- followed by the comment ``<!-- output -->`` and a ``text`` block must print exactly that text.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATIENCE = 120.0
# For the pages with Spark: a JVM that lives for seconds need not compile itself well.
SHORT_LIVED = (
    '--conf "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" pyspark-shell'
)

FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})\s*(?P<info>[^`]*?)\s*$")
OUTPUT_COMMENT = re.compile(r"^\s*<!--\s*output\s*-->\s*$")
RUNS, ONLY_COMPILES = "python", "python no-run"

# Printed between the blocks, so that each block's output can be told from the next one's.
SEPARATOR = "\x1e"
PRINT_SEPARATOR = f"__import__('sys').stdout.write({SEPARATOR!r})"


class PageError(Exception):
    """A page that is not written as the module's docstring says."""


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its first line of text, counted from one."""

    info: str
    text: str
    line: int
    shows_output: bool


@dataclass(frozen=True)
class Step:
    """A Python block that is run, with the output that the page shows for it."""

    code: str
    line: int
    output: str | None = None


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = page.splitlines()
    start: int | None = None
    opening: re.Match[str] | None = None
    shows_output = False
    for n, line in enumerate(lines):
        fence = FENCE.match(line)
        if opening is None or start is None:
            if fence:
                start, opening = n + 1, fence
            elif line.strip():
                if shows_output:
                    raise PageError(f"line {n + 1}: no block follows the comment on output")
                shows_output = bool(OUTPUT_COMMENT.match(line))
        elif fence and not fence["info"] and fence["ticks"].startswith(opening["ticks"]):
            text = textwrap.dedent("\n".join(lines[start:n]))
            yield Block(opening["info"], text, start + 1, shows_output)
            start, opening, shows_output = None, None, False
    if opening is not None or shows_output:
        raise PageError("the page ends inside a block, or with a comment on output")


def steps(page: str) -> list[Step]:
    """The Python blocks that are run; the others are checked here."""
    found: list[Step] = []
    may_show_output = False
    for block in blocks(page):
        if block.shows_output:
            if block.info != "text" or not may_show_output:
                raise PageError(f"line {block.line}: output is a text block after one that runs")
            found[-1] = Step(found[-1].code, found[-1].line, block.text)
            may_show_output = False
        elif block.info == RUNS:
            found.append(Step(block.text, block.line))
            may_show_output = True
        elif block.info == ONLY_COMPILES:
            compile(block.text, f"the block at line {block.line}", "exec", dont_inherit=True)
            may_show_output = False
        elif block.info.lower().startswith("py"):
            raise PageError(f"line {block.line}: {block.info!r}; use {RUNS!r} or {ONLY_COMPILES!r}")
    return found


def script(found: list[Step]) -> str:
    """The page as a script in which every line has the number that it has in the page."""
    lines: list[str] = []
    for step in found:
        lines += [""] * (step.line - 1 - len(lines))
        lines += [*step.code.splitlines(), PRINT_SEPARATOR]
    return "\n".join(lines) + "\n"


def run_page(page: str, *, where: Path) -> None:
    """Run a page; fail with what a reader would see go wrong."""
    found = steps(page)
    if not found:
        return
    file = where / "page.py"
    file.write_text(script(found), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "utf8", str(file)],
        cwd=where,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": SHORT_LIVED},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"the page ended with {done.returncode}:\n{done.stderr}"
    assert not done.stderr, f"the page has something to complain of:\n{done.stderr}"
    # What is printed at exit, after the last separator, belongs to no block.
    outputs = done.stdout.split(SEPARATOR)
    for step, printed in zip(found, outputs, strict=False):
        if step.output is not None:
            at = f"the block at line {step.line}"
            assert printed.rstrip("\n") == step.output.rstrip("\n"), f"{at} printed something else"


def pages() -> list[Path]:
    """The pages of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.slow
@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    run_page(path.read_text(encoding="utf-8"), where=tmp_path)


LINK = re.compile(r"!?\[[^\]]*\]\((?P<to>[^)\s]+)\)")
HEADING = re.compile(r"^#+ +(?P<text>.+?)\s*$", re.MULTILINE)
CODE = re.compile(r"^ *(`{3,}).*?^ *\1 *$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def anchors(page: str) -> set[str]:
    """What a link may name after `#`: the headings, as forges write them."""
    prose = re.sub(r"^ *(`{3,}).*?^ *\1 *$", "", page, flags=re.MULTILINE | re.DOTALL)
    names = (heading["text"].lower() for heading in HEADING.finditer(prose))
    return {re.sub(r"[^\w\- ]", "", name).replace(" ", "-") for name in names}


def broken_links(path: Path) -> list[str]:
    """The links of a page that lead to no file, or to no heading of it."""
    links = [link["to"] for link in LINK.finditer(CODE.sub("", path.read_text(encoding="utf-8")))]
    return [link for link in links if "://" not in link and not leads_somewhere(link, path)]


def leads_somewhere(link: str, path: Path) -> bool:
    file, _, anchor = link.partition("#")
    target = path.parent / file if file else path
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "path",
    [*pages(), *sorted(ROOT.glob("[CS]*.md")), ROOT / "examples" / "README.md"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_each_link_of_a_page_leads_somewhere(path: Path) -> None:
    assert broken_links(path) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A `b` c!\n")
    page = tmp_path / "page.md"
    page.write_text("[a](other.md#a-b-c) [b](other.md#d) [c](gone.md)\n\n`[d](x.md)` [e](#f)\n")
    assert broken_links(page) == ["other.md#d", "gone.md", "#f"]


def page_of(*parts: str) -> str:
    """A page: code and output are written as `info|text`, all else is prose."""
    written = []
    for part in parts:
        info, bar, text = part.partition("|")
        written.append(f"```{info}\n{text}\n```" if bar else part)
    return "\n\n".join(written)


SHOWN = "<!-- output -->"


@pytest.mark.parametrize(
    "page",
    [
        "",
        "Only prose, and `code` in it.",
        page_of("sh|exit 1", "text|anything"),
        page_of("python|x = 1", "Later:", "python|assert x == 1"),
        page_of(
            "python|print(1)\nprint(2)", SHOWN, "text|1\n2", "python|print(3)", SHOWN, "text|3"
        ),
        page_of("python|print(1)", "python|print(2, end='')", "which prints", SHOWN, "text|2"),
        page_of("python no-run|while True: pass"),
        page_of("python|open('left.txt', 'w').close()"),
        page_of("python|import inspect\ndef f(): pass\nassert 'def f' in inspect.getsource(f)"),
        page_of("python|class A: pass\nassert A.__module__ == '__main__'"),
        "1. In a list:\n\n   ```python\n   if True:\n       pass\n   ```\n",
        "````text\n```python\nraise SystemExit(1)\n```\n````\n",
    ],
)
def test_a_true_page_passes(page: str, tmp_path: Path) -> None:
    run_page(page, where=tmp_path)


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (page_of("python|raise ValueError('no')"), "ValueError: no"),
        (page_of("prose", "python|x = 1\n1 / 0"), "line 5"),
        (page_of("python|print(1)", SHOWN, "text|2"), "the block at line 2"),
        (page_of("python|print(1)", "python|pass", SHOWN, "text|1"), "the block at line 6"),
        (page_of("python|import warnings; warnings.warn('old')"), "UserWarning: old"),
    ],
)
def test_a_page_that_does_not_do_what_it_says_fails(page: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=said):
        run_page(page, where=tmp_path)


@pytest.mark.parametrize(
    "page",
    [
        page_of(SHOWN, "text|1"),
        page_of("python no-run|print(1)", SHOWN, "text|1"),
        page_of("python|print(1)", SHOWN, "python|1"),
        page_of("python|print(1)", SHOWN, "prose", "text|1"),
        page_of("python|print(1)", SHOWN),
        page_of("python3|print(1)"),
        page_of("python norun|print(1)"),
        "```python\nprint(1)\n",
    ],
)
def test_a_page_that_cannot_be_understood_is_refused(page: str) -> None:
    with pytest.raises(PageError):
        steps(page)


def test_a_block_that_is_only_compiled_must_compile() -> None:
    with pytest.raises(SyntaxError):
        steps(page_of("python no-run|def"))
