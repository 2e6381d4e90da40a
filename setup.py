"""The part of the build that is optional: the matching kernel in C. The rest is pyproject.toml."""

import os
import sys
from glob import glob

from setuptools import Extension, setup

FOLDER = "src/polycast/matching/native/c"
SANITIZED = ["-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"]


def flags() -> dict[str, list[str]]:
    """What the compiler is told; `POLYCAST_SANITIZE=1` is how `make torture` builds."""
    if sys.platform == "win32":
        return {}
    if os.environ.get("POLYCAST_SANITIZE"):
        return {"extra_compile_args": SANITIZED, "extra_link_args": SANITIZED[-1:]}
    return {
        "extra_compile_args": ["-O3", "-std=gnu11", "-fno-strict-aliasing", "-fvisibility=hidden"]
    }


setup(
    ext_modules=[
        Extension(
            "polycast.matching.native._kernel",
            [f"{FOLDER}/module.c"],
            depends=sorted(glob(f"{FOLDER}/*.[ch]")),
            optional=True,  # without a compiler everything works, in Python
            **flags(),
        )
    ]
)
