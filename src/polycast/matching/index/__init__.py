"""Many filters at once, in pure Python.

`predicates` brings a filter into conjunctions, `layout` puts each where its most selective
predicate leads, `generated` writes the code, `filters` is the index that changes while it is used.
"""

from polycast.matching.index.filters import Index

__all__ = ["Index"]
