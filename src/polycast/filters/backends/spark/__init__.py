"""Filters as Spark columns: exact, or refused by name.

Importing it needs `pyspark`; `import polycast` does not import it.
"""

from polycast.errors import NotAvailableError

try:
    import pyspark as pyspark
except ImportError as error:
    raise NotAvailableError(
        "a filter as a Spark column",
        why="pyspark is not installed",
        instead="Install it with `pip install polycast[spark]`",
    ) from error

from pyspark.sql import Column

from polycast.filters.backends.spark.columns import column, compiled
from polycast.filters.backends.spark.schema import spark_type, struct_of

__all__ = ["Column", "column", "compiled", "spark_type", "struct_of"]
