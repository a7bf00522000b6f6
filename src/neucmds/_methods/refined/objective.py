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

from neucmds._backend.arrays import Array, asarray_like, eps, namespace, to_numpy
from neucmds._backend.threads import over_rows
from neucmds._methods.geometry import canonical
from neucmds._methods.refined.descent import (
    Callback,
    Descent,
    Keep,
    centered,
    descend,
    lowest_point,
    point_blocks,
)
from neucmds._methods.refined.weighted import WeightedStress
from neucmds._methods.stress import StressTerms, stress_from_errors, stress_rounding
from neucmds._operator import DenseGram, Gram
from neucmds._operator.single_precision import Multiply

Floats = npt.NDArray[np.float64]

# Up to here float64 products cost next to nothing.
SMALL = 1500
# Share of the STRESS that rounding may make up before it is computed from residuals.
UNRESOLVED = 1e-3
# Up to here a D outside memory is read as a whole for that.
MAX_GATHERED = 5000


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
    stress_error : float
        Bound on the error of their sum.
    history : tuple of floats
        STRESS at the start and after every iteration; it never rises.
    converged : bool
        Whether a stationary point was reached before `max_iter`.
    relative_gradient : float
        How steep it is there, see `neucmds._methods.refined.descent.Descent`.
    """

    coordinates: Array
    weights: Floats
    stress_terms: StressTerms
    stress_error: float
    history: tuple[float, ...]
    converged: bool
    relative_gradient: float

    @property
    def stress(self) -> float:
        """The STRESS reached."""
        return sum(self.stress_terms)


def refine(
    gram: Gram,
    coordinates: Array,
    signs: Floats,
    *,
    images: Array | None = None,
    max_iter: int = 100,
    tol: float = 2e-3,
    callback: Callback | None = None,
    keep: Keep | None = None,
) -> Refined:
    """Lower the STRESS of coordinates with a fixed signature until it hardly moves.

    Parameters
    ----------
    gram : Gram
    coordinates : array of shape (n, k)
        Where to start; centered eigenvector coordinates are best.
    signs : ndarray of shape (k,)
        ±1.0 each; the number of each sign does not change.
    images : array of shape (n, k), optional
        B @ coordinates where that is known, as exactly as `gram` multiplies: it saves a product.
    max_iter : int, default=100
    tol : float, default=2e-3
        Stop when three iterations together gain less than this share of the STRESS.
    callback : callable, optional
        Called with the iteration and the STRESS after every step.
    keep : callable, optional
        Called with the coordinates and their signs after every step.
    """
    x = gram.center(asarray_like(coordinates, gram.diagonal()))

    def descent(multiply: Multiply) -> Descent[_FreeCoordinates] | None:
        bx = multiply(x) if images is None else images
        start = _FreeCoordinates.at(gram, x, bx, signs, multiply)
        # STRESS is ‖B‖² less what fits: at a share of 1e-5 single precision has two digits left.
        if multiply != gram.matmat and start.value <= 4e-5 * gram.frobenius_sq:
            return None
        return descend(
            start,
            max_iter=max_iter,
            tol=tol,
            callback=callback,
            rounding=1e-14 * gram.moments.sq_norm,
            on_turn=None if keep is None else lambda state, _: keep(state.x, signs),
        )

    with _cheapest_product(gram) as multiply:
        found = descent(multiply)
    if found is None:
        images = None
        found = descent(gram.matmat)
    assert found is not None
    end = found.state.exact()
    if end.gram_rounding > UNRESOLVED * end.value and (d := _in_memory(gram)) is not None:
        return _refine_by_residuals(gram, d, (x, end.x), signs, max_iter, tol, callback)
    x, weights = canonical(end.x, signs)
    terms = end.stress_terms()
    error = stress_rounding(gram, x, terms, end.gram_rounding)
    return Refined(
        x,
        weights,
        terms,
        error,
        found.history,
        # Where the STRESS is less than its rounding error, no gradient says anything.
        found.converged or sum(terms) <= error,
        found.relative_gradient,
    )


def _refine_by_residuals(
    gram: Gram,
    sq_dissimilarity: Array,
    starts: tuple[Array, ...],
    signs: Floats,
    max_iter: int,
    tol: float,
    callback: Callback | None,
) -> Refined:
    """Descend on Σ(D̂ − D)² itself, entry by entry: some four times the work of an iteration.

    Where ‖B‖² holds more than 1e12 times what is not explained, 4‖B − XAXᵀ‖² from BX has no digits.
    """
    here = [_residuals(gram, sq_dissimilarity, x, signs) for x in starts]
    state = min(here, key=lambda start: start.value)
    found = Descent(state, (state.value,), converged=True)
    # A perfect fit has nothing to gain.
    if state.value > stress_rounding(gram, state.x, (0.0, 0.0, 0.0), 0.0):
        found = descend(state, max_iter=max_iter, tol=tol, callback=callback)
    x, weights = canonical(found.state.x, signs)
    terms, error = _split_terms(gram, x, np.sign(weights), found.state.value)
    return Refined(
        x,
        weights,
        terms,
        error,
        found.history,
        # Where the STRESS is less than its rounding error, no gradient says anything.
        found.converged or sum(terms) <= error,
        found.relative_gradient,
    )


def _residuals(gram: Gram, sq_dissimilarity: Array, x: Array, signs: Floats) -> WeightedStress:
    """Return the STRESS as a sum over pairs; a single column of weights counts all alike."""
    alike = gram.xp.ones((gram.n, 1), dtype=gram.xp.float64, device=gram.device)
    return WeightedStress(sq_dissimilarity, alike, x, asarray_like(signs, gram.diagonal()))


def _split_terms(gram: Gram, x: Array, signs: Floats, value: float) -> tuple[StressTerms, float]:
    """Split a STRESS from residuals into C1, C2 and C3, and bound its error."""
    e = gram.diagonal() - (x * x) @ asarray_like(signs, x)
    _, c2, c3 = stress_from_errors(0.0, e)
    # Of C1 only what C2 and C3 leave is known, and that only if it is more than rounding.
    terms = (value - c2 - c3, c2, c3) if c2 + c3 < value else (value, 0.0, 0.0)
    return terms, stress_rounding(gram, x, terms, 0.0)


def _in_memory(gram: Gram) -> Array | None:
    """Return D as one array, if it is or may be one."""
    if isinstance(gram, DenseGram):
        return gram.sq_dissimilarity
    if gram.n > MAX_GATHERED:
        return None
    return gram.xp.concat([gram.rows(rows) for rows in gram.row_slices()], axis=0)


def stress_terms_at(gram: Gram, coordinates: Array, signs: Floats) -> tuple[StressTerms, float]:
    """C1, C2 and C3 of the STRESS of any centered coordinates, and a bound on its error.

    One product; a pass over the pairs where that leaves no digits.
    """
    x = asarray_like(coordinates, gram.diagonal())
    here = _FreeCoordinates.at(gram, x, gram.matmat(x), signs, gram.matmat)
    if here.gram_rounding > UNRESOLVED * here.value and (d := _in_memory(gram)) is not None:
        return _split_terms(gram, x, signs, _residuals(gram, d, x, signs).value)
    terms = here.stress_terms()
    return terms, stress_rounding(gram, x, terms, here.gram_rounding)


def _cheapest_product(gram: Gram) -> AbstractContextManager[Multiply]:
    """Choose single precision where it pays."""
    rounded = gram.rounded() if gram.n > SMALL else None
    return nullcontext(gram.matmat) if rounded is None else rounded.products()


@dataclass(frozen=True)
class _FreeCoordinates:
    """X, BX and all that f and its gradient are made of.

    S = XᵀX, e = diag(B) − (X∘X)a and ⟨B, XAXᵀ⟩ follow X along a line without a pass over it.
    """

    gram: Gram
    x: Array
    bx: Array
    signs: Array
    multiply: Multiply
    inner: Array
    diagonal_error: Array
    overlap: float

    @classmethod
    def at(
        cls, gram: Gram, x: Array, bx: Array, signs: Floats, multiply: Multiply
    ) -> _FreeCoordinates:
        xp, a = gram.xp, asarray_like(signs, gram.diagonal())

        def look(rows: slice) -> tuple[Array, Array, Array]:
            some = x[rows, :]
            return (
                xp.matrix_transpose(some) @ some,
                (some * some) @ a,
                xp.sum(some * bx[rows, :], axis=0),
            )

        inner, fitted, overlaps = zip(*over_rows(look, *x.shape), strict=True)
        error = gram.diagonal() - xp.concat(list(fitted))
        overlap = float(xp.vecdot(sum(overlaps), a))
        return cls(gram, x, bx, a, multiply, sum(inner), error, overlap)

    def exact(self) -> _FreeCoordinates:
        """Return the same with all in float64: what is reported owes nothing to float32."""
        here = self.at(self.gram, self.x, self.bx, to_numpy(self.signs), self.multiply)
        return replace(here, overlap=self.gram.quadratic(self.x, self.signs))

    @cached_property
    def value(self) -> float:
        return sum(self.stress_terms())

    def stress_terms(self) -> StressTerms:
        xp, a, s = namespace(self.x), self.signs, self.inner
        own = float(xp.sum(a[:, None] * (s * s) * a[None, :]))
        gram_error_sq = max(0.0, self.gram.frobenius_sq - 2 * self.overlap + own)
        return stress_from_errors(gram_error_sq, self.diagonal_error)

    @property
    def gram_rounding(self) -> float:
        """Bound on the error of ‖B − XAXᵀ‖² in float64."""
        xp = namespace(self.x)
        return 16 * eps(np.float64) * (self.gram.frobenius_sq + float(xp.sum(self.inner**2)))

    def gradient(self) -> Array:
        """∇f = −2C[8(BX − XAS) + (4n·e + 4Σe)∘X]A, within the centered X that f is written for."""
        xp, a, e = namespace(self.x), self.signs, self.diagonal_error
        mix = 16 * a[:, None] * self.inner * a[None, :]
        pull = (8 * (self.gram.n * e + xp.sum(e)))[:, None]
        gradient = xp.empty_like(self.x)

        def fill(rows: slice) -> None:
            some = self.bx[rows, :] * -16.0
            some -= self.x[rows, :] * pull[rows, :]
            some *= a[None, :]
            some += self.x[rows, :] @ mix
            gradient[rows, :] = some

        over_rows(fill, *self.x.shape)
        # Centered here and again after preconditioning: with the second alone, directions that the
        # preconditioner turns into translations stall the descent far from a stationary point.
        return centered(gradient)

    def precondition(self, gradient: Array) -> Array:
        return centered(point_blocks(self.x, self.inner, self.signs, gradient))

    def minimize_along(self, direction: Array) -> _FreeCoordinates | None:
        """Go to the lowest point of the quartic f(X + tP); None if rounding leaves no way down."""
        b_direction = self.multiply(direction)
        line = _Line.of(self, direction, b_direction)
        t = lowest_point(line.quartic)
        if t is None:
            return None
        x = namespace(self.x).empty_like(self.x)

        def move(rows: slice) -> None:
            b_direction[rows, :] *= t
            b_direction[rows, :] += self.bx[rows, :]
            x[rows, :] = self.x[rows, :] + t * direction[rows, :]

        over_rows(move, *x.shape)
        moved = replace(
            self,
            x=x,
            bx=b_direction,
            inner=self.inner + t * (line.r + line.r.T) + t**2 * line.q,
            diagonal_error=self.diagonal_error + t * line.e1 + t**2 * line.e2,
            overlap=self.overlap + 2 * t * line.b_x_p + t**2 * line.b_p_p,
        )
        return moved if moved.value < self.value else None


@dataclass(frozen=True)
class _Line:
    """What f(X + tP) is made of, from one pass over X, BX, P and BP.

    G(t) = G0 + tG1 + t²G2 with G1 = PAXᵀ + XAPᵀ, G2 = PAPᵀ; all inner products of these are traces
    of k×k products of S = XᵀX, R = XᵀP and Q = PᵀP; e(t) = e0 + t·e1 + t²·e2.
    """

    start: _FreeCoordinates
    r: Array
    q: Array
    e1: Array
    e2: Array
    b_x_p: float
    b_p_p: float

    @classmethod
    def of(cls, start: _FreeCoordinates, p: Array, bp: Array) -> _Line:
        xp, x, bx, a = namespace(p), start.x, start.bx, start.signs

        def look(rows: slice) -> tuple[Array, ...]:
            here, way = x[rows, :], p[rows, :]
            return (
                xp.matrix_transpose(here) @ way,
                xp.matrix_transpose(way) @ way,
                (here * way) @ a,
                (way * way) @ a,
                xp.sum(way * bx[rows, :], axis=0),
                xp.sum(way * bp[rows, :], axis=0),
            )

        r, q, e1, e2, b_x_p, b_p_p = zip(*over_rows(look, *p.shape), strict=True)
        return cls(
            start,
            sum(r),
            sum(q),
            -2 * xp.concat(list(e1)),
            -xp.concat(list(e2)),
            float(xp.vecdot(sum(b_x_p), a)),
            float(xp.vecdot(sum(b_p_p), a)),
        )

    @property
    def quartic(self) -> Floats:
        """Coefficients of f(X + tP), constant first."""
        gram, here = self.start.gram, self.start
        s, r, q = (to_numpy(block) for block in (here.inner, self.r, self.q))
        a = to_numpy(here.signs)
        aa = np.outer(a, a)
        # ⟨G0, G0⟩ and so on, in the order of the powers of t
        g00, g01, g02 = np.sum(aa * s * s), 2 * np.sum(aa * s * r), np.sum(aa * r * r)
        g11 = 2 * np.sum(aa * q * s) + 2 * np.sum(aa * r * r.T)
        g12, g22 = 2 * np.sum(aa * r * q), np.sum(aa * q * q)
        gram_part = np.array(
            [
                gram.frobenius_sq - 2 * here.overlap + g00,
                -4 * self.b_x_p + 2 * g01,
                g11 - 2 * self.b_p_p + 2 * g02,
                2 * g12,
                g22,
            ]
        )
        errors = [to_numpy(e) for e in (here.diagonal_error, self.e1, self.e2)]
        e_part = np.zeros(5)
        for i, left in enumerate(errors):
            for j, right in enumerate(errors):
                e_part[i + j] += 2 * gram.n * (left @ right) + 2 * left.sum() * right.sum()
        return np.asarray(4 * gram_part + e_part)
