"""Block Lanczos with full reorthogonalisation: a basis that grows and is restarted.

The projected matrix is kept whole, as Rayleigh–Ritz on the basis: thick restarts and vectors
injected from outside need no bookkeeping, their couplings come out of the next projection.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    centered,
    contiguous,
    namespace,
    small_eigh,
    to_numpy,
)
from neucmds._operator.single_precision import Multiply
from neucmds._spectrum.orthogonal import orthonormal_rows, project_out, random_rows

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Ritz:
    """Eigenpairs of the projected matrix, largest first.

    Parameters
    ----------
    values : ndarray of shape (m,)
    coefficients : ndarray of shape (m, m)
        Column i holds the i-th Ritz vector in the basis.
    remainder : ndarray of shape (m, b)
        Row i holds B u − θ u of the i-th pair in the next block, by the recurrence; rounding in the
        products comes on top.
    residuals : ndarray of shape (m,)
        The length of that.
    """

    values: Floats
    coefficients: Floats
    remainder: Floats
    residuals: Floats


@dataclass
class KrylovBasis:
    """Orthonormal centered rows: `size` projected ones, then the block to multiply next.

    Parameters
    ----------
    rows : array of shape (capacity, n), float64
    multiply : callable
        Product of B with a block of columns.
    rng : numpy Generator
        Refills the block where it breaks down (exact low rank, repeated eigenvalues).
    precision : float
        Relative error of a product.
    """

    rows: Array
    multiply: Multiply
    rng: np.random.Generator
    precision: float
    size: int = 0
    width: int = 0
    local: int = 0
    n_products: int = 0
    projected: Floats = field(init=False)
    coupling: Floats = field(init=False)

    def __post_init__(self) -> None:
        capacity = int(self.rows.shape[0])
        self.projected = np.zeros((capacity, capacity))
        self.coupling = np.zeros((0, 0))

    def inject(self, count: int) -> None:
        """Append random rows to the next block.

        A block of b rows finds at most b copies of a repeated eigenvalue, whatever the number of
        products; a vector independent of the first block finds another.
        """
        used = self.size + self.width
        fresh = random_rows(
            min(count, int(self.rows.shape[0]) - used), self.rows[:used, :], self.rng
        )
        self._append(fresh)

    def expand(self) -> None:
        """Multiply the next block, project it, and make what is left the block after it."""
        old, new = self.size, self.size + self.width
        image = contiguous(self.multiply(self.rows[old:new, :].T).T)
        self.n_products += self.width
        largest = _longest(image)
        # First the rows with couplings (the last two blocks; after a restart, all), then all. With
        # a huge trace a single pass estimated a residual of 1e-11 where the true one was 7e-3; with
        # the block alone in the first, a hypercube's basis lost a digit of orthogonality per block.
        image, coupled = project_out(self.rows[self.local : new, :], image)
        image, coefficients = project_out(self.rows[:new, :], image)
        coefficients[:, self.local :] += coupled
        # Fetched last, for a GPU has to be waited for.
        taken, longest = to_numpy(coefficients), float(largest)
        self.projected[old:new, :new] = taken
        self.projected[:new, old:new] = taken.T
        self.local, self.size, width, self.width = old, new, self.width, 0
        self._follow(image, longest, width)

    def _follow(self, image: Array, largest: float, width: int) -> None:
        """Make the orthonormalised image the next block, refilled where it has broken down."""
        # Without this the basis drifts into the constant vector, an eigenvector that is not ours.
        image = centered(image, axis=1)
        rows, self.coupling = orthonormal_rows(image, self.precision * largest)
        weakest = _weakest(self.coupling) / largest
        while weakest < 1e-4:
            # Scaling a weak direction up scales up what it still has of the basis, and of the
            # constant vector: without another pass a hypercube's rows were centered to 1e-10 only.
            rows, _ = project_out(self.rows[: self.size, :], centered(rows, axis=1))
            rows, turn = orthonormal_rows(rows, 0.1)
            self.coupling, weakest = self.coupling @ turn, _weakest(turn)
        self._append(rows)
        if self.width < width:
            self.inject(width - self.width)

    def ritz(self) -> Ritz:
        """Solve the projected problem: Rayleigh–Ritz, signs kept."""
        m = self.size
        projected = 0.5 * (self.projected[:m, :m] + self.projected[:m, :m].T)
        lam, vectors = small_eigh(projected, near=self.rows)
        lam, vectors = lam[::-1], vectors[:, ::-1]
        left = vectors[m - self.coupling.shape[0] :, :].T @ self.coupling
        return Ritz(lam, vectors, left, np.linalg.norm(left, axis=1))

    def vectors(self, ritz: Ritz, which: npt.NDArray[np.intp]) -> Array:
        """Ritz vectors as orthonormal rows."""
        coefficients = np.ascontiguousarray(ritz.coefficients[:, which].T)
        return asarray_like(coefficients, self.rows) @ self.rows[: self.size, :]

    def remainder(self, ritz: Ritz, which: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """B u − θ u of Ritz pairs: coefficients, and the rows they are for."""
        xp, b = namespace(self.rows), ritz.remainder.shape[1]
        block = xp.asarray(self.rows[self.size : self.size + b, :], copy=True)
        return asarray_like(np.ascontiguousarray(ritz.remainder[which]), self.rows), block

    def restart(self, ritz: Ritz, which: npt.NDArray[np.intp]) -> None:
        """Restart with these Ritz vectors and the next block: a thick restart."""
        xp, m, kept = namespace(self.rows), self.size, int(which.size)
        block = xp.asarray(self.rows[m : m + self.width, :], copy=True)
        self.rows[:kept, :] = self.vectors(ritz, which)
        # The residual of every Ritz pair lies in the next block, so nothing is forgotten.
        self.projected[:kept, :kept] = np.diag(ritz.values[which])
        self.coupling = ritz.remainder[which]
        self.local, self.size, self.width = 0, kept, 0
        self._append(block)

    def _append(self, rows: Array) -> None:
        used, count = self.size + self.width, int(rows.shape[0])
        self.rows[used : used + count, :] = rows
        self.width += count


def _weakest(factor: Floats) -> float:
    return float(np.linalg.svd(factor, compute_uv=False).min(initial=np.inf))


def _longest(block: Array) -> Array:
    xp = namespace(block)
    return xp.max(xp.linalg.vector_norm(block, axis=1))
