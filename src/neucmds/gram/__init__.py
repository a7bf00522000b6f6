"""B = −½CDC as an operator: where D lives decides the room's inhabitant, nothing else does."""

from neucmds.gram.base import Gram, Moments
from neucmds.gram.blocked import BlockedGram
from neucmds.gram.dense import DenseGram
from neucmds.gram.features import FeatureGram

__all__ = ["BlockedGram", "DenseGram", "FeatureGram", "Gram", "Moments"]
