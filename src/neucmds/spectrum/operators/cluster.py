"""D in chunks on the workers of a dask cluster: blocks of columns travel, D stays."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any

import array_api_compat.numpy as xp
import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import Array
from neucmds.backend.dask_arrays import require_dask
from neucmds.errors import InputError
from neucmds.spectrum.operators.gram import Gram, Moments

Floats = npt.NDArray[Any]

# LAPACK needs all of D in one place: 200 MB at this size.
MOST_GATHERED = 5000


class DaskGram(Gram):
    """B = −½CDC for a D, checked and persisted by `lazy_dissimilarity`, whose chunks stay in place.

    A product sums over each row of chunks on its worker; the block moves in pieces, and one partial
    sum per worker. The scheduler knows the pieces, so that a lost worker's can be computed again.
    """

    costly_pass = True
    # Blocks of columns are NumPy arrays of the client.
    device = "cpu"

    def __init__(self, sq_dissimilarity: Array) -> None:
        self.sq_dissimilarity = sq_dissimilarity
        self.xp = xp
        self.n = int(sq_dissimilarity.shape[0])
        self.dtype = sq_dissimilarity.dtype

    def rows(self, rows: slice) -> Array:
        """Gather these rows of D."""
        return np.asarray(self.sq_dissimilarity[rows, :].compute())

    def row_slices(self) -> list[slice]:
        """Cut D for those who want to read it all, if it is small enough to be gathered."""
        if self.n > MOST_GATHERED:
            raise InputError(
                f"this would gather D of {self.n} objects ({8e-9 * self.n**2:.1f} GB) from the "
                "workers; ask for fewer than n/8 coordinates, or pass D.compute()."
            )
        return super().row_slices()

    def product(self, block: Array) -> Array:
        """D @ block, in the precision of `block`."""
        if self._futures:
            return self._product_on_cluster(block)
        da = require_dask()
        d, width = self.sq_dissimilarity, int(block.shape[1])
        pieces = da.from_array(
            np.ascontiguousarray(block), chunks=(d.chunks[1], (width,)), name=False
        )
        # A copy: arrays from a worker are read-only.
        return np.array((d.astype(block.dtype) @ pieces).compute())

    @cached_property
    def _futures(self) -> dict[Any, Any]:
        """The persisted chunks by their keys, if a distributed cluster holds them."""
        if "distributed" not in sys.modules:
            return {}
        distributed: Any = sys.modules["distributed"]
        return {future.key: future for future in distributed.futures_of(self.sq_dissimilarity)}

    def _product_on_cluster(self, block: Array) -> Array:
        """Multiply where the chunks lie: a task for each row of chunks and worker that has some.

        Left to itself the scheduler runs one product in twenty where the block's piece is, and
        moves the chunk there. With the chunks' places known, sums over a row of chunks are made
        before anything leaves a worker, so what moves does not depend on how D is cut.
        """
        client = next(iter(self._futures.values())).client
        ends = np.cumsum(self.sq_dissimilarity.chunks[1])[:-1]
        # The scheduler keeps a task's arguments: unlike scattered data they outlive a worker.
        pieces = [client.submit(np.asarray, piece, pure=False) for piece in np.split(block, ends)]
        places = client.who_has(list(self._futures.values()))
        sums = []
        for row in self.sq_dissimilarity.__dask_keys__():
            parts = [
                client.submit(
                    _multiply_row,
                    [self._futures[row[j]] for j in columns],
                    [pieces[j] for j in columns],
                    workers=place,
                    allow_other_workers=place is not None,
                    pure=False,
                )
                for place, columns in _by_place(row, places)
            ]
            sums.append(client.submit(sum, parts, pure=False))
        return np.concatenate(client.gather(sums), axis=0)

    @cached_property
    def moments(self) -> Moments:
        """Row means and norm of D in one pass over the chunks."""
        wide = self.sq_dissimilarity.astype(np.float64)
        means, sq_norm = require_dask(whole=True).compute(wide.mean(axis=1), (wide * wide).sum())
        return Moments(means, float(sq_norm))


def _by_place(row: list[Any], places: Any) -> list[tuple[str | None, list[int]]]:
    """Group the chunks of a row by the worker that holds them; None: lost, or on its way."""
    groups: dict[str | None, list[int]] = {}
    for j, key in enumerate(row):
        holders = sorted(places.get(key) or ())
        groups.setdefault(holders[0] if holders else None, []).append(j)
    return list(groups.items())


def _multiply_row(chunks: list[Floats], pieces: list[Floats]) -> Floats:
    """Σ_j D_ij V_j over the chunks at hand, one product at a time."""
    total = np.zeros((chunks[0].shape[0], pieces[0].shape[1]), dtype=pieces[0].dtype)
    for chunk, piece in zip(chunks, pieces, strict=True):
        total += chunk.astype(piece.dtype, copy=False) @ piece
    return total
