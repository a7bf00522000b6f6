"""D in chunks on the workers of a dask cluster: blocks of columns travel, D does not."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import array_api_compat.numpy as xp
import numpy as np
import numpy.typing as npt

from neucmds.arrays import Array
from neucmds.errors import InputError
from neucmds.gram.base import Gram, Moments
from neucmds.lazy import require_dask

__all__ = ["DaskGram"]

Floats = npt.NDArray[Any]

# Partial products of one row of chunks are added up so many at a time, where they lie.
SPLIT_EVERY = 16
# LAPACK needs all of D in one place: 200 MB at this size.
MOST_GATHERED = 5000


class DaskGram(Gram):
    """B = −½CDC for a D whose chunks stay where they are.

    A product is one task a chunk and a tree of sums over each row of chunks. What moves is the
    block, in pieces that belong to a column of chunks, and partial sums of the same size. Pieces
    are part of the graph, so whatever a lost worker held can be computed again.

    Parameters
    ----------
    sq_dissimilarity : dask array of shape (n, n)
        Checked and persisted by `neucmds.inputs.lazy_dissimilarity`.
    """

    def __init__(self, sq_dissimilarity: Array) -> None:
        self.sq_dissimilarity = sq_dissimilarity
        self.xp = xp
        self.n = int(sq_dissimilarity.shape[0])
        self.dtype = sq_dissimilarity.dtype

    @property
    def device(self) -> Any:
        """Blocks of columns are NumPy arrays of the client."""
        return "cpu"

    def rows(self, rows: slice) -> Array:
        """Gather these rows of D."""
        return np.asarray(self.sq_dissimilarity[rows, :].compute())

    def row_slices(self) -> list[slice]:
        """Cut D for those who want to read it all, if it is small enough to be gathered."""
        if self.n > MOST_GATHERED:
            raise InputError(
                f"this would gather D of {self.n} objects ({8e-9 * self.n**2:.1f} GB) from the "
                "workers; ask for fewer than n/8 coordinates with solver='krylov', or pass "
                "D.compute()."
            )
        return super().row_slices()

    def product(self, block: Array) -> Array:
        """D @ block, in the precision of `block`."""
        da = require_dask()
        d = self.sq_dissimilarity
        width = int(block.shape[1])
        pieces = da.from_array(
            np.ascontiguousarray(block), chunks=(d.chunks[1], (width,)), name=False
        )
        partial = da.blockwise(
            _multiply, "ijb", d, "ij", pieces, "jb",
            dtype=block.dtype, adjust_chunks={"j": 1}, meta=np.empty((0, 0, 0), block.dtype),
        )  # fmt: skip
        return np.asarray(partial.sum(axis=1, split_every=SPLIT_EVERY).compute())

    @cached_property
    def moments(self) -> Moments:
        """Row means and norm of D in one pass over the chunks."""
        da = require_dask()
        d = self.sq_dissimilarity
        partial = da.blockwise(
            _sums, "ijb", d, "ij",
            new_axes={"b": 2}, dtype=np.float64, adjust_chunks={"j": 1},
            meta=np.empty((0, 0, 0)),
        )  # fmt: skip
        sums = np.asarray(partial.sum(axis=1, split_every=SPLIT_EVERY).compute())
        return Moments(sums[:, 0] / self.n, float(sums[:, 1].sum()))


def _multiply(chunk: Floats, piece: Floats) -> Floats:
    return np.asarray((chunk.astype(piece.dtype, copy=False) @ piece)[:, None, :])


def _sums(chunk: Floats) -> Floats:
    """Row sums and row sums of squares, as (rows, 1, 2)."""
    wide = chunk.astype(np.float64, copy=False)
    return np.stack([wide.sum(axis=1), np.vecdot(wide, wide)], axis=-1)[:, None, :]
