"""The data pipeline on Spark: the plan over the stream and over history.

Importing it needs `pyspark`; `import polycast` does not import it.
"""

from polycast.errors import NotAvailableError

try:
    import pyspark as pyspark
except ImportError as error:
    raise NotAvailableError(
        "the data pipeline",
        why="pyspark is not installed",
        instead="Install it with `pip install polycast[spark]`",
    ) from error

from polycast.delivery.replay import Replayed
from polycast.pipeline.history_search import compare, deliver
from polycast.pipeline.mapping_columns import translated
from polycast.pipeline.pipeline import Pipeline
from polycast.pipeline.spark_session import session
from polycast.pipeline.tables import replay, stream, table
from polycast.routing.context_view import Comparison
from polycast.stores.pipeline_status import Status, status_of

__all__ = [
    "Comparison",
    "Pipeline",
    "Replayed",
    "Status",
    "compare",
    "deliver",
    "replay",
    "session",
    "status_of",
    "stream",
    "table",
    "translated",
]
