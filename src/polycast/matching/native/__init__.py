"""Many filters at once in C, where the package was built with a compiler. Never needed.

`kernel` loads it, `translation` brings conjunctions into the form it takes, `filters` is the index
that has the same interface as that in pure Python, and `rows` hands columns of Arrow to it.
"""

from polycast.matching.native.availability import available, engine, use

__all__ = ["available", "engine", "use"]
