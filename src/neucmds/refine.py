"""Coordinates set free: the true STRESS minimised over X by preconditioned conjugate gradients.

    f(X) = 4‖B − XAXᵀ‖² + 2n‖e‖² + 2(Σe)²,   e = diag(B) − (X∘X)a,   A = Diag(a) the signature

Value and gradient come from BX alone, f is an exact quartic along any direction, and BX is updated
instead of computed: one product with B an iteration, on any `Gram`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from neucmds.arrays import Array, asarray_like, namespace, to_numpy
from neucmds.descent import Callback, Descent, descend, lowest_point, point_blocks
from neucmds.gram import Gram
from neucmds.gram.rounded import Multiply

__all__ = ["Refined", "refine"]

Floats = npt.NDArray[np.float64]

# Up to here float64 products cost next to nothing.
SMALL = 1500


@dataclass(frozen=True)
class Refined:
    """Free coordinates and how they were reached.

    Parameters
    ----------
    coordinates : array of shape (n, k), float64
        Centered; columns are orthogonal and ordered by the size of their weight.
    weights : ndarray of shape (k,)
        Signed squared length of each column.
    stress_terms : tuple of three floats
        C1, C2, C3 of G = XAXᵀ.
    history : tuple of floats
        STRESS at the start and after every iteration; it never rises.
    converged : bool
        Whether the gain fell below the tolerance before `max_iter`.
    """

    coordinates: Array
    weights: Floats
    stress_terms: tuple[float, float, float]
    history: tuple[float, ...]
    converged: bool

    @property
    def stress(self) -> float:
        """The STRESS reached."""
        return sum(self.stress_terms)


def refine(
    gram: Gram,
    coordinates: Array,
    signs: Floats,
    *,
    max_iter: int = 100,
    tol: float = 2e-3,
    callback: Callback | None = None,
) -> Refined:
    """Lower the STRESS of coordinates with a fixed signature until it hardly moves.

    Parameters
    ----------
    gram : Gram
    coordinates : array of shape (n, k)
        Where to start; centered eigenvector coordinates are best.
    signs : ndarray of shape (k,)
        ±1.0 each; the number of each sign does not change.
    max_iter : int, default=100
    tol : float, default=2e-3
        Stop when three iterations together gain less than this share of the STRESS.
    callback : callable, optional
        Called with the iteration and the STRESS after every step.
    """

    def descent(multiply: Multiply) -> Descent[_FreeCoordinates] | None:
        start = _FreeCoordinates.start(gram, coordinates, signs, multiply)
        # STRESS is ‖B‖² less what fits: at a share of 1e-5 single precision has two digits left.
        if multiply != gram.matmat and start.value <= 4e-5 * gram.frobenius_sq:
            return None
        return descend(start, max_iter=max_iter, tol=tol, callback=callback)

    with _cheapest_product(gram, signs.size) as multiply:
        found = descent(multiply)
    found = found or descent(gram.matmat)
    assert found is not None
    # One exact product at the end: what is reported owes nothing to single precision.
    end = replace(found.state, bx=gram.matmat(found.state.x))
    x, weights = canonical(end.x, signs)
    return Refined(x, weights, end.stress_terms(), found.history, found.converged)


def _cheapest_product(gram: Gram, columns: int) -> AbstractContextManager[Multiply]:
    """Choose single precision where it pays."""
    rounded = gram.rounded() if gram.n > SMALL else None
    return nullcontext(gram.matmat) if rounded is None else rounded.products(columns)


@dataclass(frozen=True)
class _FreeCoordinates:
    """X, BX and all that f and its gradient are made of."""

    gram: Gram
    x: Array
    bx: Array
    signs: Array
    diagonal: Array
    multiply: Multiply

    @classmethod
    def start(
        cls, gram: Gram, coordinates: Array, signs: Floats, multiply: Multiply
    ) -> _FreeCoordinates:
        diagonal = gram.diagonal()
        x = gram.center(asarray_like(coordinates, diagonal))
        return cls(gram, x, multiply(x), asarray_like(signs, diagonal), diagonal, multiply)

    @cached_property
    def value(self) -> float:
        return sum(self.stress_terms())

    @cached_property
    def inner(self) -> Array:
        """S = XᵀX."""
        return namespace(self.x).matrix_transpose(self.x) @ self.x

    @cached_property
    def diagonal_error(self) -> Array:
        """Return e = diag(B) − (X∘X)a."""
        return self.diagonal - (self.x * self.x) @ self.signs

    @cached_property
    def overlap(self) -> float:
        """⟨B, XAXᵀ⟩."""
        xp = namespace(self.x)
        return float(xp.sum(xp.sum(self.x * self.bx, axis=0) * self.signs))

    def stress_terms(self) -> tuple[float, float, float]:
        xp, a, s = namespace(self.x), self.signs, self.inner
        e = self.diagonal_error
        own = float(xp.sum(a[:, None] * (s * s) * a[None, :]))
        c1 = 4 * max(0.0, self.gram.frobenius_sq - 2 * self.overlap + own)
        c2 = 4 * float(xp.sum(e)) ** 2
        return c1, c2, max(0.0, 2 * self.gram.n * float(xp.vecdot(e, e)) - c2 / 2)

    def gradient(self) -> Array:
        """∇f = −2C[8(BX − XAS) + (4n·e + 4Σe)∘X]A, within the centered X that f is written for."""
        xp, a, e = namespace(self.x), self.signs, self.diagonal_error
        gradient = self.x @ (16 * a[:, None] * self.inner * a[None, :])
        gradient -= self.bx * (16 * a)[None, :]
        own = self.x * (8 * (self.gram.n * e + xp.sum(e)))[:, None]
        own *= a[None, :]
        gradient -= own
        # Centered here and again after preconditioning: with the second alone, directions that the
        # preconditioner turns into translations stall the descent far from a stationary point.
        return self.gram.center(gradient)

    def precondition(self, gradient: Array) -> Array:
        return self.gram.center(point_blocks(self.x, self.inner, self.signs, gradient))

    def minimize_along(self, direction: Array) -> _FreeCoordinates | None:
        """Go to the lowest point of the quartic f(X + tP); None if rounding leaves no way down."""
        b_direction = self.multiply(direction)
        t = lowest_point(self._quartic(direction, b_direction))
        if t is None:
            return None
        b_direction *= t
        b_direction += self.bx
        moved = replace(self, x=self.x + t * direction, bx=b_direction)
        return moved if moved.value < self.value else None

    def _quartic(self, p: Array, bp: Array) -> Floats:
        """Coefficients of f(X + tP), constant first.

        G(t) = G0 + tG1 + t²G2 with G1 = PAXᵀ + XAPᵀ, G2 = PAPᵀ; all inner products of these are
        traces of k×k products of S = XᵀX, R = XᵀP and Q = PᵀP.
        """
        xp, n = namespace(p), self.gram.n
        pt, xt = xp.matrix_transpose(p), xp.matrix_transpose(self.x)
        s, r, q = (to_numpy(block) for block in (self.inner, xt @ p, pt @ p))
        a = to_numpy(self.signs)
        aa = np.outer(a, a)
        b_x_p, b_p_p = (float(a @ to_numpy(xp.sum(p * image, axis=0))) for image in (self.bx, bp))
        e0 = to_numpy(self.diagonal_error)
        e1 = -2 * to_numpy((self.x * p) @ self.signs)
        e2 = -to_numpy((p * p) @ self.signs)
        # ⟨B, G1⟩ and so on, in the order of the powers of t
        g00, g01, g02 = np.sum(aa * s * s), 2 * np.sum(aa * s * r), np.sum(aa * r * r)
        g11 = 2 * np.sum(aa * q * s) + 2 * np.sum(aa * r * r.T)
        g12, g22 = 2 * np.sum(aa * r * q), np.sum(aa * q * q)
        gram_part = np.array(
            [
                self.gram.frobenius_sq - 2 * self.overlap + g00,
                -4 * b_x_p + 2 * g01,
                g11 - 2 * b_p_p + 2 * g02,
                2 * g12,
                g22,
            ]
        )
        e_part = np.zeros(5)
        for i, left in enumerate((e0, e1, e2)):
            for j, right in enumerate((e0, e1, e2)):
                e_part[i + j] += 2 * n * (left @ right) + 2 * left.sum() * right.sum()
        return np.asarray(4 * gram_part + e_part)


def canonical(x: Array, signs: Floats) -> tuple[Array, Floats]:
    """Rotate coordinates, form unchanged, so that columns are orthogonal and ordered by weight."""
    q, r = namespace(x).linalg.qr(x)
    small = to_numpy(r)
    mu, v = np.linalg.eigh((small * signs) @ small.T)
    order = np.argsort(-np.abs(mu), kind="stable")
    mu, v = mu[order], v[:, order]
    return q @ asarray_like(v * np.sqrt(np.abs(mu)), x), mu
