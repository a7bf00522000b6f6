"""B = −½CDC as an operator, never formed: dense, in blocks, on a cluster, or from features."""

from neucmds._operator.blocked import BlockedGram
from neucmds._operator.dense import DenseGram
from neucmds._operator.features import FeatureGram
from neucmds._operator.gram import Gram, Moments
from neucmds._operator.outliers import Outliers, outlying_entries

__all__ = [
    "BlockedGram",
    "DenseGram",
    "FeatureGram",
    "Gram",
    "Moments",
    "Outliers",
    "outlying_entries",
]
