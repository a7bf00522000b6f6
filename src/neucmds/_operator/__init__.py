"""B = −½CDC as an operator, never formed: dense, in blocks, on a cluster, or from features."""

from neucmds._operator.blocked import BlockedGram as BlockedGram
from neucmds._operator.dense import DenseGram as DenseGram
from neucmds._operator.features import FeatureGram as FeatureGram
from neucmds._operator.gram import Gram as Gram
from neucmds._operator.gram import Moments as Moments
from neucmds._operator.outliers import Outliers as Outliers
from neucmds._operator.outliers import outlying_entries as outlying_entries
