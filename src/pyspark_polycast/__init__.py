"""Where Spark finds the data source `polycast` by itself: it looks for modules called so."""

from polycast.pipeline.data_source import PolycastSource as DefaultSource

__all__ = ["DefaultSource"]
