"""D as a dask array: read by threads from a file, or spread over the workers of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any

import array_api_compat.numpy as xp
import numpy as np

from neucmds.backend import memory
from neucmds.backend.arrays import Array, Floats, Indices
from neucmds.backend.dask_arrays import compute, require_dask
from neucmds.backend.progress import Callback
from neucmds.errors import InputError
from neucmds.spectrum.operators.gram import MOST_GATHERED, Gram, Result


class DaskGram(Gram):
    """B = −½CDC for a D, checked by `lazy_dissimilarity`, whose chunks stay where they are.

    On a cluster blocks of columns travel: a product sums over each row of chunks on its worker; the
    block moves in pieces, and one partial sum per worker. The scheduler knows the pieces, so that a
    lost worker's can be computed again.
    """

    costly_pass = True
    # Blocks of columns are NumPy arrays of the client.
    device = "cpu"

    def __init__(
        self, sq_dissimilarity: Array, callback: Callback | None = None
    ) -> None:
        self.sq_dissimilarity = sq_dissimilarity
        self.callback = callback
        self.n_passes = 0
        self.xp = xp
        self.n = sq_dissimilarity.shape[0]
        self.dtype = sq_dissimilarity.dtype

    def rows(self, rows: slice) -> Array:
        """Gather these rows of D."""
        (gathered,) = compute(self.sq_dissimilarity[rows, :])
        return gathered

    def row_slices(self) -> list[slice]:
        """Cut D by its rows of chunks; refuse to gather a large one from the workers."""
        if self._futures and self.n > MOST_GATHERED:
            raise InputError(
                f"this would gather D of {self.n} objects ({8e-9 * self.n**2:.1f} GB) from the "
                "workers; ask for fewer than n/8 coordinates, or pass D.compute()."
            )
        bounds = np.cumsum([0, *self.sq_dissimilarity.chunks[0]]).tolist()
        return [slice(start, stop) for start, stop in pairwise(bounds)]

    def on_each(self, work: Callable[[slice, Array], Result]) -> list[Result]:
        """Do a piece of work on every row slice and its rows, in the threads that read them."""
        if self._futures:
            return super().on_each(work)
        delayed = require_dask().delayed(work, pure=False)
        strips = self.sq_dissimilarity.rechunk({1: -1}).to_delayed()[:, 0]
        return compute(*map(delayed, self.row_slices(), strips))

    def entries(self, i: Indices, j: Indices) -> Floats:
        """Return D of some pairs, as NumPy float64, from the chunks that hold them."""
        (entries,) = compute(self.sq_dissimilarity.vindex[i, j])
        return np.asarray(entries, dtype=np.float64)

    def product(self, block: Array) -> Array:
        """D @ block, in the precision of `block`."""
        if self._futures:
            product = self._product_on_cluster(block)
        else:
            d = self.sq_dissimilarity
            chunks = (d.chunks[1], (block.shape[1],))
            pieces = require_dask().array.from_array(
                np.ascontiguousarray(block), chunks, name=False
            )
            (product,) = compute(d.astype(block.dtype) @ pieces)
        self._passed()
        # A copy: arrays from a worker are read-only.
        return np.array(product)

    @cached_property
    def rounds(self) -> bool:
        """Whether the float32 copy of B fits in memory: then D is read no more."""
        free = memory.available_memory()
        return not self._futures and free is not None and 4 * self.n**2 <= free

    @cached_property
    def _futures(self) -> dict[Any, Any]:
        """The persisted chunks by their keys, if a distributed cluster holds them."""
        if "distributed" not in sys.modules:
            return {}
        distributed: Any = sys.modules["distributed"]
        return {
            future.key: future
            for future in distributed.futures_of(self.sq_dissimilarity)
        }

    def _product_on_cluster(self, block: Array) -> Array:
        """Multiply where the chunks lie: a task for each row of chunks and worker that has some.

        Left to itself the scheduler runs one product in twenty where the block's piece is, and
        moves the chunk there. With the chunks' places known, sums over a row of chunks are made
        before anything leaves a worker, so what moves does not depend on how D is cut.
        """
        client = next(iter(self._futures.values())).client
        # Piece j holds the rows of the block that chunks (i, j) of D are multiplied with.
        bounds = np.cumsum(self.sq_dissimilarity.chunks[1])[:-1]
        # The scheduler keeps a task's arguments: unlike scattered data they outlive a worker.
        pieces = [
            client.submit(np.asarray, piece, pure=False)
            for piece in np.split(block, bounds)
        ]
        workers_of = client.who_has(list(self._futures.values()))
        sums = []
        for row_keys in self.sq_dissimilarity.__dask_keys__():
            parts = [
                client.submit(
                    _multiply_row,
                    [self._futures[row_keys[j]] for j in columns],
                    [pieces[j] for j in columns],
                    workers=worker,
                    allow_other_workers=worker is not None,
                    pure=False,
                )
                for worker, columns in _by_worker(row_keys, workers_of)
            ]
            sums.append(client.submit(sum, parts, pure=False))
        return np.concatenate(client.gather(sums), axis=0)

    def read_moments(self) -> tuple[Array, float]:
        """Return the row means and ‖D‖²_F in one pass over the chunks."""
        wide = self.sq_dissimilarity.astype(np.float64)
        means, sq_norm = compute(wide.mean(axis=1), (wide * wide).sum())
        self._passed()
        return means, float(sq_norm)

    def _passed(self) -> None:
        self.n_passes += 1
        if self.callback is not None:
            self.callback(self.n, self.n, f"pass {self.n_passes} over D")


def _by_worker(
    row_keys: list[Any], workers_of: Any
) -> list[tuple[str | None, list[int]]]:
    """Group the chunks of a row by the worker that holds them; None: lost, or on its way."""
    groups: dict[str | None, list[int]] = {}
    for j, key in enumerate(row_keys):
        holder = min(workers_of.get(key) or [None])
        groups.setdefault(holder, []).append(j)
    return list(groups.items())


def _multiply_row(chunks: list[Array], pieces: list[Array]) -> Array:
    """Σ_j D_ij V_j over the chunks at hand, one product at a time."""
    total = np.zeros(
        (chunks[0].shape[0], pieces[0].shape[1]), dtype=pieces[0].dtype
    )
    for chunk, piece in zip(chunks, pieces, strict=True):
        total += chunk.astype(piece.dtype, copy=False) @ piece
    return total
