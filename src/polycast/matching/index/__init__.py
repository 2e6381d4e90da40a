"""Many filters at once, in pure Python.

Filters come as conjunctions of predicates; `layout` puts each where its most selective
predicate leads, `index_codegen` writes the code, `filter_index` changes while it is used. For
batches, `batch` sorts the columns, and `lane_table` has the conjunctions as arrays.
"""

from polycast.matching.index.batch import ArrowRows
from polycast.matching.index.filter_index import Index, Matches

__all__ = ["ArrowRows", "Index", "Matches"]
