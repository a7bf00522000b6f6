"""Operators for a D that is not a matrix in memory: from features, or read in blocks.

Pass them to `neucmds.neuc_mds` in place of D.
"""

from neucmds._operator import BlockedGram, DenseGram, FeatureGram, Gram

__all__ = ["BlockedGram", "DenseGram", "FeatureGram", "Gram"]
