"""D in memory, as one array of any library."""

from __future__ import annotations

from typing import Any

from neucmds.arrays import Array, device, namespace
from neucmds.gram.base import Gram

__all__ = ["DenseGram"]


class DenseGram(Gram):
    """B = −½CDC for a D held in memory; D is only read, no centered copy is made.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n)
        Symmetric and hollow, on the squared scale; checked by `neucmds.inputs`, not here.
    """

    def __init__(self, sq_dissimilarity: Array) -> None:
        self.sq_dissimilarity = sq_dissimilarity
        self.xp = namespace(sq_dissimilarity)
        self.n = int(sq_dissimilarity.shape[0])
        self.dtype = sq_dissimilarity.dtype

    @property
    def device(self) -> Any:
        """The device that D lies on."""
        return device(self.sq_dissimilarity)

    def rows(self, rows: slice) -> Array:
        """Return a view of these rows of D."""
        return self.sq_dissimilarity[rows, :]

    def product(self, block: Array) -> Array:
        """D @ block in one matrix product."""
        return self.sq_dissimilarity @ block
