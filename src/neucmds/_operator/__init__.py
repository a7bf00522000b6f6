"""B = −½CDC as an operator, never formed: dense, in blocks, on a cluster, or from features."""

from neucmds._operator.blocked import BlockedGram as BlockedGram
from neucmds._operator.blocked import Progress as Progress
from neucmds._operator.choose import dense_operator as dense_operator
from neucmds._operator.choose import feature_operator as feature_operator
from neucmds._operator.choose import is_store as is_store
from neucmds._operator.choose import lazy_operator as lazy_operator
from neucmds._operator.choose import outside_memory as outside_memory
from neucmds._operator.chunked_rows import ChunkedRows as ChunkedRows
from neucmds._operator.dense import DenseGram as DenseGram
from neucmds._operator.features import FeatureGram as FeatureGram
from neucmds._operator.gram import Gram as Gram
from neucmds._operator.gram import Moments as Moments
from neucmds._operator.graph import as_graph as as_graph
from neucmds._operator.graph import graph_pairs as graph_pairs
from neucmds._operator.graph import landmark_paths as landmark_paths
from neucmds._operator.graph import neighbor_graph as neighbor_graph
from neucmds._operator.graph import networkx_lengths as networkx_lengths
from neucmds._operator.graph import shortest_path_rows as shortest_path_rows
from neucmds._operator.metric_registry import BoundMetric as BoundMetric
from neucmds._operator.metric_registry import FittedMetric as FittedMetric
from neucmds._operator.metric_registry import known_everywhere as known_everywhere
from neucmds._operator.outliers import Outliers as Outliers
from neucmds._operator.outliers import outlying_entries as outlying_entries
from neucmds._operator.sampled_pairs import Sizes as Sizes
from neucmds._operator.sampled_pairs import feature_pairs as feature_pairs
from neucmds._operator.single_precision import Multiply as Multiply
