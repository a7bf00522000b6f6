"""Finish in float64: Rayleigh–Ritz on the single-precision basis, and true residuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    center_rows,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds._operator import Gram
from neucmds._spectrum.lanczos import orthonormal_rows, project_out
from neucmds._spectrum.search import null_level
from neucmds.errors import InputError

Floats = npt.NDArray[np.float64]

# The first step removes most of the float32 noise, the next ones little.
_STEPS = 3


@dataclass(frozen=True)
class RitzPairs:
    """Ritz pairs with their images B u: some from the top, the rest from the bottom."""

    values: Floats
    rows: Array
    images: Array
    residual_rows: Array
    residuals: Floats

    @classmethod
    def of(cls, rows: Array, images: Array, n_top: int, n_bottom: int) -> RitzPairs:
        """Rayleigh–Ritz on orthonormal rows and their images."""
        projected = to_numpy(rows @ images.T)
        lam, vectors = np.linalg.eigh(0.5 * (projected + projected.T))
        ends = np.r_[np.arange(lam.size)[::-1][:n_top], np.arange(n_bottom)[::-1]]
        lam, turn = lam[ends], asarray_like(np.ascontiguousarray(vectors[:, ends].T), rows)
        rows, images = turn @ rows, turn @ images
        left = asarray_like(-lam[:, None], rows) * rows
        left += images
        xp = namespace(rows)
        lengths = to_numpy(xp.sqrt(xp.vecdot(left, left)))
        return cls(lam, rows, images, left, lengths)

    def real(self, gram: Gram) -> npt.NDArray[np.bool_]:
        """Tell which values differ from zero."""
        return np.abs(self.values) > np.maximum(self.residuals, null_level(gram, self.values))

    def known(self, gram: Gram, allowed: Floats) -> npt.NDArray[np.bool_]:
        """Tell which pairs have the residual allowed and a certain sign, or are zero."""
        size = np.abs(self.values)
        small = self.residuals <= np.minimum(allowed, size)
        return small | (size <= null_level(gram, self.values))


def polish(
    gram: Gram, rows: Array, n_top: int, allowed: Callable[[Floats], Floats]
) -> tuple[RitzPairs, float]:
    """Improve Ritz vectors in float64 until their residuals are as allowed, in at most three steps.

    The first `n_top` rows belong to the largest values, the others to the smallest; `allowed` gives
    the largest residual of each pair from their values. Return the pairs, and the largest residual
    that the first float64 product found.
    """
    xp, n_bottom = gram.xp, int(rows.shape[0]) - n_top
    pairs = RitzPairs.of(rows, gram.matmat(rows.T).T, n_top, n_bottom)
    noise = float(np.max(pairs.residuals, initial=0.0))
    for _ in range(_STEPS):
        size = np.abs(pairs.values)
        # Neither clearly zero nor known to have the sign they show.
        undecided = (size > null_level(gram, size)) & (size < pairs.residuals)
        bad = np.flatnonzero((pairs.residuals > allowed(pairs.values)) | undecided)
        if not bad.size:
            break
        # The residual of a pair points along its error. Its image must be exact: float32 turns
        # null vectors into values of 1e-8.
        left = xp.take(pairs.residual_rows, asarray_like(bad, rows, dtype=xp.int64), axis=0)
        steps, _ = orthonormal_rows(left, 0.0)
        for _ in range(2):
            center_rows(steps)
            steps, _ = project_out(pairs.rows, steps)
            steps, _ = orthonormal_rows(steps, 1e-8)
        images = xp.concat([pairs.images, gram.matmat(steps.T).T], axis=0)
        pairs = RitzPairs.of(xp.concat([pairs.rows, steps], axis=0), images, n_top, n_bottom)
    return pairs, noise


def unexplained_sq(gram: Gram, values: Floats, rows: Array) -> float | None:
    """‖B − UΛUᵀ‖²_F from its entries, in one pass over D.

    Its error is some ε‖B‖ times its root, that of ‖B‖² less the squared values some ε‖B‖². None if
    D cannot be read row by row.
    """
    xp, means = gram.xp, gram.moments.row_means
    offsets, weighted = means - gram.moments.mean, rows * asarray_like(values[:, None], rows)

    def part_sq(whole: slice, part: Array) -> float:
        total = 0.0
        for some in row_blocks(int(part.shape[0]), gram.n):
            here = slice(whole.start + some.start, whole.start + some.stop)
            left = xp.astype(part[some, :], xp.float64, copy=False) - means[here, None]
            left = -0.5 * (left - offsets[None, :]) - weighted[:, here].T @ rows
            total += float(xp.sum(left * left))
        return total

    try:
        return sum(gram.on_each(part_sq))
    except InputError:  # chunks on the workers of a cluster, too many to be gathered
        return None
