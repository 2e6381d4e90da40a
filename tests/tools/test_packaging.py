"""What goes into a wheel, what only into the source distribution, and what an index page shows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from rich.markdown import Markdown

ROOT = Path(__file__).parents[2]
HOME = "https://example.org/polycast"
MORE = """
## More

A [page](docs/filters.md#more), a [folder](docs/decisions/), [`its`
name](docs/types.md), ![a picture](docs/images/demo.png), [above](#in-one-minute), `[no](link.md)`,
and [elsewhere](https://example.com/).

```python
handlers[0](event)
```
"""


def copied(folder: Path) -> Path:
    """The project, where a build may leave things behind."""
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    unwanted = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=unwanted)
    return folder


def run(project: Path, *words: str, home: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "-q", *words],
        cwd=project,
        env=os.environ | {"POLYCAST_HOME": home},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def setup(project: Path, *words: str, home: str = "") -> None:
    done = run(project, *words, home=home)
    assert done.returncode == 0, done.stderr


def metadata(project: Path, home: str) -> Message:
    """What a wheel says of itself, with links of every kind in the README."""
    with (project / "README.md").open("a", encoding="utf-8") as readme:
        readme.write(MORE)
    setup(project, "dist_info", "--output-dir", ".", home=home)
    (made,) = project.glob("*.dist-info/METADATA")
    return message_from_bytes(made.read_bytes())


def page(said: Message) -> str:
    shown = said.get_payload(decode=True)
    assert isinstance(shown, bytes)
    return shown.decode("utf-8")


def leads(text: str) -> set[str]:
    """Where the links and pictures of a page lead, as a Markdown parser sees them."""
    blocks = Markdown(text).parsed
    inside = [each for block in blocks for each in block.children or ()]
    html = [each for each in (*blocks, *inside) if each.type.startswith("html_")]
    assert [each.content for each in html if "=" in each.content] == []
    return {str(each.attrs[at]) for each in inside for at in ("href", "src") if at in each.attrs}


def test_a_wheel_has_the_modules_and_the_mark_of_types_and_no_sources_in_c(tmp_path: Path) -> None:
    project = copied(tmp_path)
    setup(project, "build_py", "--build-lib", "built")
    built = {each.relative_to(project / "built") for each in (project / "built").rglob("*.*")}
    modules = {each.relative_to(project / "src") for each in (project / "src").rglob("*.py")}
    assert built == modules | {Path("polycast/py.typed")}


def test_a_source_distribution_has_the_sources_in_c(tmp_path: Path) -> None:
    project = copied(tmp_path)
    setup(project, "sdist", "--formats=tar", "--dist-dir", "dist")
    (made,) = (project / "dist").iterdir()
    shutil.unpack_archive(made, tmp_path / "unpacked", filter="data")
    (root,) = (tmp_path / "unpacked").iterdir()
    kernel = "src/polycast/matching/native/c"
    wanted = {each.name for each in (ROOT / kernel).iterdir() if each.suffix in (".c", ".h")}
    assert {each.name for each in (root / kernel).iterdir()} == wanted


def test_without_an_address_an_index_page_has_no_link_that_leads_nowhere(tmp_path: Path) -> None:
    said = metadata(copied(tmp_path), home="")
    text = page(said)
    assert said.get_all("Project-URL") is None
    assert leads(text) == {"#in-one-minute", "https://example.com/"}
    assert "A page, a folder, `its`\nname, a picture, [above]" in text
    assert "`[no](link.md)`" in text
    assert "handlers[0](event)" in text


@pytest.mark.parametrize("home", [HOME, HOME + "/"])
def test_with_an_address_each_link_of_an_index_page_leads_to_what_is_there(
    tmp_path: Path, home: str
) -> None:
    said = metadata(copied(tmp_path), home=home)
    text = page(said)
    named = dict(each.split(", ") for each in said.get_all("Project-URL", []))
    assert list(named) == ["Homepage", "Documentation", "Changelog", "Issues"]
    assert (named.pop("Homepage"), named.pop("Issues")) == (HOME, f"{HOME}/issues")
    led = leads(text)
    assert f"{HOME}/blob/HEAD/docs/filters.md#more" in led
    others = {each for each in led if not each.startswith(HOME)}
    assert others == {"#in-one-minute", "https://example.com/"}
    for to in (led - others) | set(named.values()):
        kind, head, path = to.removeprefix(f"{HOME}/").partition("#")[0].split("/", 2)
        assert head == "HEAD"
        assert {"tree": Path.is_dir, "blob": Path.is_file, "raw": Path.is_file}[kind](
            ROOT / path
        ), to
        assert (kind == "raw") == path.endswith(".png")
    assert "`[no](link.md)`" in text
    assert "handlers[0](event)" in text


@pytest.mark.parametrize(
    "wrong",
    [
        "http://example.org/polycast",
        "example.org/polycast",
        "https://example.org",
        f"{HOME}?at=1",
        f"{HOME}/(x)",
        f"{HOME} ",
        "https://me:secret@example.org/polycast",
    ],
)
def test_an_address_that_is_no_https_address_of_a_repository_is_refused(
    tmp_path: Path, wrong: str
) -> None:
    done = run(copied(tmp_path), "--version", home=wrong)
    assert done.returncode != 0
    assert f"POLYCAST_HOME is {wrong!r}" in done.stderr
    assert "https://example.org/polycast" in done.stderr
