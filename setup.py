"""What of the build is worked out: the matching kernel in C, and what an index page shows.

The rest is pyproject.toml.
"""

import os
import re
import sys
from glob import glob
from pathlib import Path

from setuptools import Extension, setup

FOLDER = "src/polycast/matching/native/c"
SANITIZED = ["-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"]

CODE = r"^```.*?^```|`[^`]*`"
LINK = r"(?P<picture>!?)\[(?P<text>(?:`[^`]*`|[^][`])*)\]\((?P<to>[^()\s]+)\)"
CODE_OR_LINK = re.compile(f"{CODE}|{LINK}", re.MULTILINE | re.DOTALL)
ABSOLUTE = re.compile(r"#|https?://|mailto:")
HOME = re.compile(r"https://[\w-]+(\.[\w-]+)*(:\d+)?(/[\w.~-]+)+/?", re.ASCII)


def flags() -> dict[str, list[str]]:
    """What the compiler is told; `POLYCAST_SANITIZE=1` is how `make torture` builds."""
    if sys.platform == "win32":
        return {}
    if os.environ.get("POLYCAST_SANITIZE"):
        return {"extra_compile_args": SANITIZED, "extra_link_args": SANITIZED[-1:]}
    return {
        "extra_compile_args": ["-O3", "-std=gnu11", "-fno-strict-aliasing", "-fvisibility=hidden"]
    }


def home() -> str:
    """Where the project is at home, from `POLYCAST_HOME`; empty if nobody says so."""
    given = os.environ.get("POLYCAST_HOME", "")
    if given and not HOME.fullmatch(given):
        raise SystemExit(
            f"POLYCAST_HOME is {given!r}, and has to be the https address of the repository, "
            "such as https://example.org/polycast"
        )
    return given.rstrip("/")


def readme(at: str) -> str:
    """The README for an index page: relative links lead home, or are text where none is known."""

    def mended(found: re.Match[str]) -> str:
        to = found["to"]
        if to is None or ABSOLUTE.match(to):
            return found[0]
        if not at:
            return found["text"]
        kind = "raw" if found["picture"] else "tree" if to.endswith("/") else "blob"
        return f"{found['picture']}[{found['text']}]({at}/{kind}/HEAD/{to})"

    return CODE_OR_LINK.sub(mended, Path("README.md").read_text("utf-8"))


def addresses(at: str) -> dict[str, str]:
    """The links beside it, if there is an address."""
    if not at:
        return {}
    return {
        "Homepage": at,
        "Documentation": f"{at}/tree/HEAD/docs/",
        "Changelog": f"{at}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{at}/issues",
    }


AT = home()
setup(
    long_description=readme(AT),
    long_description_content_type="text/markdown",
    project_urls=addresses(AT),
    ext_modules=[
        Extension(
            "polycast.matching.native._kernel",
            [f"{FOLDER}/module.c"],
            depends=sorted(glob(f"{FOLDER}/*.[ch]")),
            optional=True,  # without a compiler everything works, in Python
            **flags(),
        )
    ],
)
