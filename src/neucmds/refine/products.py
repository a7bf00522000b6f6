"""Products with B: the true STRESS of all pairs, minimised over coordinates of a fixed signature.

    f(X) = 4‖B − XAXᵀ‖² + 2n‖e‖² + 2(Σe)²,   e = diag(B) − (X∘X)a,   A = Diag(a) the signature

Value and gradient come from BX alone, f is an exact quartic along any direction, and BX is updated
instead of computed: one product with B an iteration, on any `Gram`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import Array, asarray_like, centered, eps, namespace, to_numpy
from neucmds.backend.threads import over_rows
from neucmds.refine.descent import EXACT, Limits, Refined, Start, descend, lowest_point
from neucmds.refine.losses import PairLoss
from neucmds.refine.tiles import Tiles, minimize
from neucmds.spectrum.geometry import (
    Orthogonal,
    StressTerms,
    canonical,
    stress_from_errors,
    stress_rounding,
)
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.operators.single_precision import Multiply

Floats = npt.NDArray[np.float64]

# Up to here float64 products cost next to nothing.
SMALL = 1500
# Share of the STRESS that rounding may make up before it is computed from residuals.
UNRESOLVED = 1e-3
# Up to here a D outside memory is read as a whole for that.
MAX_GATHERED = 5000


def refine(gram: Gram, start: Start, limits: Limits) -> Refined:
    """Lower the STRESS of coordinates with a fixed signature."""
    signs, keep = start.signs, limits.keep
    on_step = None if keep is None else lambda end: keep(end.x, signs)
    x = centered(asarray_like(start.coordinates, gram.diagonal()))
    rounded, found = gram.rounded() if gram.n > SMALL else None, None
    with nullcontext(gram.matmat) if rounded is None else rounded.products() as multiply:
        here = FreeCoordinates.at(gram, x, multiply(x), signs, multiply)
        # STRESS is ‖B‖² less what fits: at a share of 1e-5 single precision has two digits left.
        if rounded is None or here.value > 4e-5 * gram.frobenius_sq:
            found = descend(here, limits, on_step)
    if found is None:
        here = FreeCoordinates.at(gram, x, gram.matmat(x), signs, gram.matmat)
        found = descend(here, limits, on_step)
    # Centered again: the descent does so to 1e-12 only.
    place = Orthogonal(gram, *canonical(centered(found.state.x), signs))
    terms, rounding = _exact_terms(place)
    if rounding > UNRESOLVED * sum(terms) and (d := in_memory(gram)) is not None:
        return _refine_by_residuals(gram, d, (x, found.state.x), signs, limits)
    return Refined(
        found.state.x,
        signs,
        PairLoss("squared", 0.0),
        sum(terms),
        found.history,
        found.converged,
        found.relative_gradient,
        terms,
        rounding,
        place,
    )


def _exact_terms(place: Orthogonal) -> tuple[StressTerms, float]:
    """C1, C2 and C3 in float64, and a bound on the error of ‖B − XAXᵀ‖² in them."""
    gram, x, lengths = place.gram, place.coordinates, place.lengths
    signs, own = np.sign(lengths), float(np.sum(lengths**2))
    overlap = float(to_numpy(place.quadratic) @ signs)
    gram_error_sq = max(0.0, gram.frobenius_sq - 2 * overlap + own)
    terms = stress_from_errors(gram_error_sq, gram.diagonal() - x**2 @ asarray_like(signs, x))
    return terms, 16 * eps(np.float64) * (gram.frobenius_sq + own)


def _refine_by_residuals(
    gram: Gram, sq_dissimilarity: Array, places: tuple[Array, ...], signs: Floats, limits: Limits
) -> Refined:
    """Descend on Σ(D̂ − D)² entry by entry, where 4‖B − XAXᵀ‖² from BX has no digits left."""
    tiles = Tiles.of(sq_dissimilarity, "squared", exact=True)
    x = min(places, key=lambda place: tiles.value_of(place, signs))
    # A perfect fit has nothing to gain.
    perfect = tiles.value_of(x, signs) <= stress_rounding(gram, x, (0.0, 0.0, 0.0), 0.0)
    found = minimize(tiles, Start(x, signs), limits.at_most(0) if perfect else limits)
    terms = _split_terms(gram, found.coordinates, signs, found.value)
    return replace(found, stress_terms=terms, converged=perfect or found.converged)


def _split_terms(gram: Gram, x: Array, signs: Floats, value: float) -> StressTerms:
    """Split a STRESS from residuals into C1, C2 and C3."""
    e = gram.diagonal() - (x * x) @ asarray_like(signs, x)
    _, c2, c3 = stress_from_errors(0.0, e)
    return (value - c2 - c3, c2, c3) if c2 + c3 < value else (value, 0.0, 0.0)


def in_memory(gram: Gram) -> Array | None:
    """Return D as one array, if it is or may be one: always that of few objects."""
    if isinstance(gram, DenseGram):
        return gram.sq_dissimilarity
    if gram.n > MAX_GATHERED:
        return None
    return gram.xp.concat([gram.rows(rows) for rows in gram.row_slices()], axis=0)


def stress_terms_at(place: Orthogonal) -> tuple[StressTerms, float]:
    """C1, C2 and C3 of the STRESS, and a bound on its error.

    By a pass over the pairs where products leave no digits.
    """
    gram, x = place.gram, place.coordinates
    terms, rounding = _exact_terms(place)
    if rounding > UNRESOLVED * sum(terms) and (d := in_memory(gram)) is not None:
        signs, rounding = np.sign(place.lengths), 0.0
        value = Tiles.of(d, "squared", exact=True).value_of(x, signs)
        terms = _split_terms(gram, x, signs, value)
    return terms, stress_rounding(gram, x, terms, rounding)


@dataclass(frozen=True)
class FreeCoordinates:
    """X, BX and all that f and its gradient are made of: an objective for `descend`.

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
    ) -> FreeCoordinates:
        xp, a = gram.xp, asarray_like(signs, gram.diagonal())
        sums = over_rows(
            lambda rows: (
                xp.matrix_transpose(x[rows, :]) @ x[rows, :],
                x[rows, :] ** 2 @ a,
                xp.sum(x[rows, :] * bx[rows, :], axis=0),
            ),
            *x.shape,
        )
        inner, fitted, overlaps = zip(*sums, strict=True)
        error = gram.diagonal() - xp.concat(list(fitted))
        overlap = float(xp.vecdot(sum(overlaps), a))
        return cls(gram, x, bx, a, multiply, sum(inner), error, overlap)

    @cached_property
    def value(self) -> float:
        return sum(self.stress_terms())

    @property
    def rounding(self) -> float:
        return EXACT * self.gram.moments.sq_norm

    def sharper(self) -> FreeCoordinates | None:
        return None

    def measured(self) -> FreeCoordinates:
        return self

    def stress_terms(self) -> StressTerms:
        xp, a, s = namespace(self.x), self.signs, self.inner
        own = float(xp.sum(a[:, None] * (s * s) * a[None, :]))
        gram_error_sq = max(0.0, self.gram.frobenius_sq - 2 * self.overlap + own)
        return stress_from_errors(gram_error_sq, self.diagonal_error)

    @cached_property
    def gradient(self) -> Array:
        """∇f = −2C[8(BX − XAS) + (4n·e + 4Σe)∘X]A, within the centered X that f is written for."""
        xp, x, a, e = namespace(self.x), self.x, self.signs, self.diagonal_error
        mix = 16 * a[:, None] * self.inner * a[None, :]
        pull = (8 * (self.gram.n * e + xp.sum(e)))[:, None]
        gradient = xp.empty_like(x)

        def fill(rows: slice) -> None:
            some = self.bx[rows, :] * -16.0
            some -= x[rows, :] * pull[rows, :]
            some *= a[None, :]
            some += x[rows, :] @ mix
            gradient[rows, :] = some

        over_rows(fill, *x.shape)
        # Centered here and again after preconditioning: with the second alone the descent stalls.
        gradient -= xp.mean(gradient, axis=0, keepdims=True)
        return gradient

    @cached_property
    def step(self) -> Array:
        """The gradient by the inverse Gauss–Newton block 16·ASA + 16n(Ax_i)(Ax_i)ᵀ per object i."""
        xp, n, gradient = namespace(self.x), self.gram.n, self.gradient
        s, a = to_numpy(self.inner), to_numpy(self.signs)
        # A column that has all but vanished must not blow up its own step.
        s = s + np.eye(a.size) * 1e-12 * (np.trace(s) or 1.0)
        inverse = asarray_like(np.linalg.inv(s) * np.outer(a, a) / 16, self.x)
        step = xp.empty_like(self.x)

        def solve(rows: slice) -> None:
            ax = self.x[rows, :] * self.signs[None, :]
            z, u = gradient[rows, :] @ inverse, ax @ inverse
            share = 16 * n * xp.sum(ax * z, axis=1) / (1 + 16 * n * xp.sum(ax * u, axis=1))
            u *= share[:, None]
            step[rows, :] = z - u

        over_rows(solve, *step.shape)
        step -= xp.mean(step, axis=0, keepdims=True)
        return step

    def minimize_along(self, direction: Array) -> FreeCoordinates | None:
        """Move to the lowest point of the quartic f(X + tP); None if rounding hides a gain."""
        bx = self.multiply(direction)
        line = _Line.of(self, direction, bx)
        t = lowest_point(line.quartic)
        if t is None:
            return None
        bx *= t
        bx += self.bx
        moved = replace(
            self,
            x=self.x + t * direction,
            bx=bx,
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

    start: FreeCoordinates
    r: Array
    q: Array
    e1: Array
    e2: Array
    b_x_p: float
    b_p_p: float

    @classmethod
    def of(cls, start: FreeCoordinates, p: Array, bp: Array) -> _Line:
        xp, x, bx, a = namespace(p), start.x, start.bx, start.signs
        sums = over_rows(
            lambda rows: (
                xp.matrix_transpose(x[rows, :]) @ p[rows, :],
                xp.matrix_transpose(p[rows, :]) @ p[rows, :],
                (x[rows, :] * p[rows, :]) @ a,
                p[rows, :] ** 2 @ a,
                xp.sum(p[rows, :] * bx[rows, :], axis=0),
                xp.sum(p[rows, :] * bp[rows, :], axis=0),
            ),
            *p.shape,
        )
        r, q, e1, e2, b_x_p, b_p_p = zip(*sums, strict=True)
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
