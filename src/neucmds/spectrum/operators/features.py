"""D computed from features on demand, tile by tile inside every product."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from copy import copy
from typing import Any

from neucmds.backend import arrays
from neucmds.backend.arrays import Array, namespace, row_blocks
from neucmds.backend.progress import Callback
from neucmds.problem.containers import finite_rows
from neucmds.problem.metrics import Metric, refuse_undefined
from neucmds.problem.names import Labels
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.operators.single_precision import Multiply


class FeatureGram(Gram):
    """B = −½CDC for D = squared dissimilarities between rows of features, in O(n·d) memory.

    D is cut into square tiles, and those on and above the diagonal are computed in every pass. The
    tile T of rows i and columns j takes part in the product W = D V twice: ``W_i += T V_j`` and
    ``W_j += Tᵀ V_i``. So D is exactly symmetric, with zeros on its diagonal.

    Parameters
    ----------
    features : array of shape (n, d)
        Of any array library; D is computed there, in float32 for float32 features.
    metric : str or callable, default="euclidean"
        "angular" (radians), "balls" (centres, and radii as the last column), "cosine",
        "euclidean" (``power=1``), "hyperbolic" (in the Poincaré ball), "rbf"
        (``gamma=1/d``: distance in the kernel's feature space), "braycurtis", "chebyshev",
        "cityblock", "hamming", "jaccard". For NumPy also every name that
        `sklearn.metrics.pairwise_distances` knows. Or a symmetric function of two rows of NumPy
        arrays, and of two blocks of rows of other libraries.
    squared : bool, default=False
        Whether the metric returns squared dissimilarities, which may then be negative.
    tile : int, optional
        Number of rows, and of columns, of a tile.
    callback : callable, optional
        Called after every row of tiles with the rows done in this pass, n, and "pass … over D".

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> from neucmds.spectrum.operators.features import FeatureGram
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> neuc_mds(FeatureGram(X, "angular"), n_components=5).coordinates.shape
    (100, 5)
    """

    costly_pass = True

    def __init__(
        self,
        features: Array,
        metric: Any = "euclidean",
        *,
        squared: bool = False,
        tile: int | None = None,
        callback: Callback | None = None,
    ) -> None:
        features = finite_rows(features, "features")
        self.xp = namespace(features)
        self.n = features.shape[0]
        self.dtype = features.dtype
        self.device = features.device
        self.squared = squared
        self.metric = Metric.of(metric).fitted_to(features, squared)
        self.metric.refuse_function()
        self.points = self.metric.points
        # A tile stays in cache through all the steps on it; on a GPU it fills the chip.
        elements = arrays.DEVICE_ELEMENTS // 4
        if arrays.on_cpu(features):
            elements = 2 * arrays.CACHED_ELEMENTS
        self.tile = tile or math.isqrt(elements)
        self.callback = callback
        # In a list, so that the float32 copy that `single` makes counts here, too.
        self._passes = [0]

    @property
    def n_passes(self) -> int:
        """How often all of D has been computed so far."""
        return self._passes[0]

    def rows(self, rows: slice) -> Array:
        """Compute these rows of D, as the tiles have them: symmetric, with a diagonal of zeros."""
        strip = self.metric.squares(self.points[rows, :], self.points)
        strip[:, rows] = _hollow(strip[:, rows], self.xp)
        return strip

    def row_slices(self) -> list[slice]:
        """Cut the objects so that a block of rows has as many entries as a tile."""
        return list(row_blocks(self.n, self.n, self.tile**2))

    def product(self, block: Array) -> Array:
        """D @ block in the precision of `block`, summed over tiles in float64."""
        xp = self.xp
        out = xp.zeros(block.shape, dtype=xp.float64, device=self.device)
        for rows, cols, entries in self._tiles():
            entries = xp.astype(entries, block.dtype, copy=False)
            out[rows, :] += entries @ block[cols, :]
            if rows != cols:
                out[cols, :] += entries.T @ block[rows, :]
        return xp.astype(out, block.dtype, copy=False)

    def read_moments(self) -> tuple[Array, float]:
        """Return the row means and ‖D‖²_F in one pass over the tiles."""
        xp = self.xp
        sums = xp.zeros((self.n,), dtype=xp.float64, device=self.device)
        sq_norm: Any = 0.0
        for rows, cols, entries in self._tiles():
            sums[rows] += xp.sum(entries, axis=1, dtype=xp.float64)
            images = 1
            if rows != cols:
                # The mirror image of the tile is part of D, too.
                sums[cols] += xp.sum(entries, axis=0, dtype=xp.float64)
                images = 2
            entries *= entries
            sq_norm = sq_norm + images * xp.sum(entries, dtype=xp.float64)
        return sums / self.n, float(sq_norm)

    def dense(self, names: Labels = None) -> Array:
        """Return D itself, on the squared scale; messages call objects by their names, if any."""
        objects = names or range(self.n)
        if self.metric.by_pairs:
            # In one call, so that a user's function runs in processes.
            out = self.metric.squares(self.points, self.points)
            refuse_undefined(out, self.metric.name, objects, objects)
            return out
        out = arrays.empty_like(self.points, (self.n, self.n))
        for rows, cols, entries in self._tiles():
            refuse_undefined(
                entries, "the metric", objects[rows], objects[cols]
            )
            out[rows, cols] = entries
            out[cols, rows] = entries.T
        return out

    def single(self) -> AbstractContextManager[Multiply] | None:
        """Return the context with products in float32; None where the metric has none.

        A metric of inner products is computed in float32, too, which takes half the time.
        """
        if self.dtype == self.xp.float32 or not self.metric.inner:
            return super().single()
        in_float32 = copy(self)
        in_float32.dtype = self.xp.float32
        in_float32.points = self.xp.astype(self.points, self.xp.float32)
        return in_float32.single()

    def _tiles(self) -> Iterator[tuple[slice, slice, Array]]:
        """Yield the rows, the columns and the entries of tiles on and above the diagonal.

        Entries are new arrays, which may be overwritten.
        """
        strips = list(row_blocks(self.n, self.tile, self.tile**2))
        self._passes[0] += 1
        for i, rows in enumerate(strips):
            points = self.points[rows, :]
            for cols in strips[i:]:
                entries = self.metric.squares(points, self.points[cols, :])
                if rows == cols:
                    entries = _hollow(entries, self.xp)
                yield rows, cols, entries
            if self.callback is not None:
                self.callback(
                    rows.stop, self.n, f"pass {self.n_passes} over D"
                )


def _hollow(square: Array, xp: Any) -> Array:
    """Return a tile with its upper triangle mirrored below, and zeros on the diagonal."""
    upper = xp.triu(square, k=1)
    return upper + upper.T
