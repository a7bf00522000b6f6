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

    On a cluster a product moves pieces of the block of columns to the workers, and one partial sum
    for each row of chunks back from each worker. The scheduler knows the pieces, so that what a
    lost worker had is computed again.
    """

    costly_pass = True
    # Blocks of columns are NumPy arrays in the process of the user.
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
        """Return these rows of D as a NumPy array."""
        (gathered,) = compute(self.sq_dissimilarity[rows, :])
        return gathered

    def row_slices(self) -> list[slice]:
        """Return the row slices of the chunks; refuse to gather a large D from the workers."""
        if self._futures and self.n > MOST_GATHERED:
            raise InputError(
                f"this would gather D of {self.n} objects ({8e-9 * self.n**2:.1f} GB) from the "
                "workers; ask for fewer than n/8 coordinates, or pass D.compute()."
            )
        bounds = np.cumsum([0, *self.sq_dissimilarity.chunks[0]]).tolist()
        return [slice(start, stop) for start, stop in pairwise(bounds)]

    def on_each(self, work: Callable[[slice, Array], Result]) -> list[Result]:
        """Return ``work(rows, part of D)`` of every row slice, in the threads that read them."""
        if self._futures:
            return super().on_each(work)
        delayed = require_dask().delayed(work, pure=False)
        strips = self.sq_dissimilarity.rechunk({1: -1}).to_delayed()[:, 0]
        return compute(*map(delayed, self.row_slices(), strips))

    def entries(self, i: Indices, j: Indices) -> Floats:
        """Return D of pairs (i, j), as NumPy float64, from the chunks that hold them."""
        (entries,) = compute(self.sq_dissimilarity.vindex[i, j])
        return np.asarray(entries, dtype=np.float64)

    def product(self, block: Array) -> Array:
        """D @ block, in the precision of `block`."""
        if self._futures:
            product = self._product_on_cluster(block)
        else:
            sq_d = self.sq_dissimilarity
            # A piece has the rows that a chunk of D is multiplied with.
            chunks = (sq_d.chunks[1], (block.shape[1],))
            pieces = require_dask().array.from_array(
                np.ascontiguousarray(block), chunks, name=False
            )
            (product,) = compute(sq_d.astype(block.dtype) @ pieces)
        self._count_pass()
        # A copy: arrays from a worker are read-only.
        return np.array(product)

    @cached_property
    def uses_float32_copy(self) -> bool:
        """Whether a float32 copy of B fits in memory: then D is not read again."""
        free = memory.available_memory()
        return not self._futures and free is not None and 4 * self.n**2 <= free

    @cached_property
    def _futures(self) -> dict[Any, Any]:
        """The chunks on the workers of a cluster, by their keys; empty without a cluster."""
        if "distributed" not in sys.modules:
            return {}
        distributed: Any = sys.modules["distributed"]
        return {
            future.key: future
            for future in distributed.futures_of(self.sq_dissimilarity)
        }

    def _product_on_cluster(self, block: Array) -> Array:
        """Multiply where the chunks lie: a task for each row of chunks and worker that has some.

        The scheduler alone would run one product in twenty where the piece of the block is, and
        move the chunk there. Here each worker sums over its chunks of a row before it sends the
        sum, so that what moves does not depend on how D is cut.
        """
        client = next(iter(self._futures.values())).client
        # Piece j holds the rows of the block that chunks (i, j) of D are multiplied with.
        bounds = np.cumsum(self.sq_dissimilarity.chunks[1])[:-1]
        # Submitted as arguments of a task, which outlive a worker, unlike scattered data.
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
        self._count_pass()
        return means, float(sq_norm)

    def _count_pass(self) -> None:
        """Count a pass over D, and tell the callback."""
        self.n_passes += 1
        if self.callback is not None:
            self.callback(self.n, self.n, f"pass {self.n_passes} over D")


def _by_worker(
    row_keys: list[Any], workers_of: Any
) -> list[tuple[str | None, list[int]]]:
    """Group the columns of a row of chunks by the worker that holds them; None: no worker does."""
    groups: dict[str | None, list[int]] = {}
    for j, key in enumerate(row_keys):
        holder = min(workers_of.get(key) or [None])
        groups.setdefault(holder, []).append(j)
    return list(groups.items())


def _multiply_row(chunks: list[Array], pieces: list[Array]) -> Array:
    """Σ_j D_ij V_j over chunks D_ij of row i and the pieces V_j of the block."""
    total = np.zeros(
        (chunks[0].shape[0], pieces[0].shape[1]), dtype=pieces[0].dtype
    )
    for chunk, piece in zip(chunks, pieces, strict=True):
        total += chunk.astype(piece.dtype, copy=False) @ piece
    return total
