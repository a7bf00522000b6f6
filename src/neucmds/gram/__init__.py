"""B = −½CDC as an operator: where D lives decides the room's inhabitant, nothing else does."""

from neucmds.gram.base import Gram, Moments
from neucmds.gram.dense import DenseGram

__all__ = ["DenseGram", "Gram", "Moments"]
