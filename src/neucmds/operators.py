"""B = −½CDC where D is not a matrix in memory: computed from features, or read in blocks.

Anything here can be handed to `neucmds.neuc_mds` in place of D.
"""

from neucmds._operator import BlockedGram, DenseGram, FeatureGram, Gram

__all__ = ["BlockedGram", "DenseGram", "FeatureGram", "Gram"]
