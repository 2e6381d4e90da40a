"""Many filters at once in C, where the package was built with a compiler. Never needed.

`availability` loads it, `kernel_form` brings filters into the form it takes, `native_index` is the
index that has the same interface as that in pure Python, and `arrow_columns` hands columns to it.
"""

from polycast.matching.native.availability import available, engine, use

__all__ = ["available", "engine", "use"]
