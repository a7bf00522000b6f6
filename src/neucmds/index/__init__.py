"""Search by any distance: an index that learns coordinates and asks for few distances."""

from neucmds.index.metric_index import MetricIndex

__all__ = ["MetricIndex"]
