"""Products with B: the true STRESS of all pairs, minimised over coordinates of a fixed signature.

    f(X) = 4‖B − XAXᵀ‖² + 2n‖e‖² + 2(Σe)²,   e = diag(B) − (X∘X)a,   A = Diag(a) the signature

Value and gradient come from BX alone, f is an exact quartic along any direction, and BX is updated
instead of computed: one product with B an iteration, on any `Gram`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    centered,
    namespace,
    to_numpy,
)
from neucmds.backend.threads import over_rows
from neucmds.form import Form
from neucmds.refine.descent import (
    EXACT,
    Limits,
    Refined,
    Start,
    descend,
    lowest_point,
)
from neucmds.refine.losses import PairLoss
from neucmds.refine.pairwise import minimize
from neucmds.refine.tiles import Tiles
from neucmds.spectrum.exact import MAX_DENSE
from neucmds.spectrum.geometry import (
    ROUNDING,
    StressTerms,
    canonical,
    stress_from_errors,
    stress_rounding,
)
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.operators.single_precision import Multiply

Floats = npt.NDArray[np.float64]

# Share of ‖B‖² that the STRESS must be for single precision to have two digits of it.
RESOLVED = 4e-5
# Share of the STRESS that rounding may make up before it is computed from residuals.
UNRESOLVED = 1e-3


def refine(gram: Gram, start: Start, limits: Limits) -> Refined:
    """Lower the STRESS of coordinates with a fixed signature."""
    x = centered(asarray_like(start.coordinates, gram.diagonal()))
    end = _descended(gram, replace(start, coordinates=x), limits)
    # Centered again: the descent does so to 1e-12 only.
    x, form = canonical(centered(end.coordinates), start.form)
    quadratic = gram.quadratic(x)
    terms, rounding = _exact_terms(gram, x, form, quadratic)
    if rounding > UNRESOLVED * sum(terms):
        d = in_memory(gram)
        if d is not None:
            return _refine_by_residuals(gram, d, [start, end], limits)
    return replace(
        end,
        coordinates=x,
        form=form,
        value=sum(terms),
        stress_terms=terms,
        gram_rounding=rounding,
        quadratic=quadratic,
    )


def _descended(gram: Gram, start: Start, limits: Limits) -> Refined:
    """Descend by products in single precision where these are worth it and have enough digits."""
    x = start.coordinates
    single = None
    if gram.n > MAX_DENSE:
        single = gram.single()
    if single is not None:
        with single as multiply:
            objective = FreeCoordinates.at(
                gram, x, multiply(x), start.form, multiply
            )
            if objective.value > RESOLVED * gram.frobenius_sq:
                return descend(objective, limits)
    objective = FreeCoordinates.at(
        gram, x, gram.matmat(x), start.form, gram.matmat
    )
    return descend(objective, limits)


def _exact_terms(
    gram: Gram, x: Array, form: Form, quadratic: Array
) -> tuple[StressTerms, float]:
    """C1, C2 and C3 in float64, and a bound on the error of ‖B − XAXᵀ‖² in them.

    Columns of x are orthogonal, and `quadratic` is xᵀBx of each.
    """
    xp = namespace(x)
    signs = asarray_like(form.signs, x)
    fitted_sq = float(xp.sum(xp.sum(x * x, axis=0) ** 2))
    overlap = float(xp.vecdot(quadratic, signs))
    gram_error_sq = max(0.0, gram.frobenius_sq - 2 * overlap + fitted_sq)
    terms = stress_from_errors(gram_error_sq, gram.diagonal() - x**2 @ signs)
    return terms, ROUNDING * (gram.frobenius_sq + fitted_sq)


def _refine_by_residuals(
    gram: Gram, sq_dissimilarity: Array, starts: list[Start], limits: Limits
) -> Refined:
    """Descend on Σ(D̂ − D)² entry by entry, where 4‖B − XAXᵀ‖² from BX has no digits left."""
    tiles = Tiles.of(sq_dissimilarity, "squared", exact=True)
    start = min(starts, key=tiles.value_of)
    # A perfect fit has nothing to gain.
    rounding = stress_rounding(gram, start.coordinates, (0.0, 0.0, 0.0), 0.0)
    perfect = tiles.value_of(start) <= rounding
    if perfect:
        limits = limits.at_most(0)
    end = minimize(tiles, start, limits)
    terms = _split_terms(gram, end, end.value)
    return replace(end, stress_terms=terms, converged=perfect or end.converged)


def _split_terms(gram: Gram, start: Start, value: float) -> StressTerms:
    """Split a STRESS from residuals into C1, C2 and C3."""
    x = start.coordinates
    e = gram.diagonal() - (x * x) @ asarray_like(start.signs, x)
    _, c2, c3 = stress_from_errors(0.0, e)
    if c2 + c3 < value:
        return value - c2 - c3, c2, c3
    return value, 0.0, 0.0


def in_memory(gram: Gram) -> Array | None:
    """Return D as one array, if it is or may be one: always that of few objects."""
    if isinstance(gram, DenseGram):
        return gram.sq_dissimilarity
    if gram.n > MAX_DENSE:
        return None
    return gram.xp.concat(
        [gram.rows(rows) for rows in gram.row_slices()], axis=0
    )


def stress_terms_at(
    gram: Gram, start: Start, quadratic: Array
) -> tuple[StressTerms, float]:
    """C1, C2 and C3 of the STRESS of `canonical` coordinates, and a bound on its error.

    By a pass over the pairs where products leave no digits; `quadratic` is xᵀBx of each column.
    """
    terms, rounding = _exact_terms(
        gram, start.coordinates, start.form, quadratic
    )
    if rounding > UNRESOLVED * sum(terms):
        d = in_memory(gram)
        if d is not None:
            value = Tiles.of(d, "squared", exact=True).value_of(start)
            terms = _split_terms(gram, start, value)
            rounding = 0.0
    return terms, stress_rounding(gram, start.coordinates, terms, rounding)


@dataclass(frozen=True, eq=False)
class FreeCoordinates:
    """X, BX and all that f and its gradient are made of: an objective for `descend`.

    S = XᵀX, e = diag(B) − (X∘X)a and ⟨B, XAXᵀ⟩ follow X along a line without a pass over it.
    """

    gram: Gram
    coordinates: Array
    bx: Array
    form: Form
    signs: Array
    multiply: Multiply
    inner: Array
    diagonal_error: Array
    overlap: float
    loss: ClassVar[PairLoss] = PairLoss("squared")
    unit: ClassVar[float] = 1.0

    @classmethod
    def at(
        cls, gram: Gram, x: Array, bx: Array, form: Form, multiply: Multiply
    ) -> FreeCoordinates:
        """Make the objective of x, where BX is known."""
        signs = asarray_like(form.signs, gram.diagonal())
        inner, fitted, overlap = _sums(signs, (x, x, bx))
        error = gram.diagonal() - fitted
        return cls(gram, x, bx, form, signs, multiply, inner, error, overlap)

    @cached_property
    def value(self) -> float:
        """The STRESS."""
        a = self.signs
        fitted_sq = float(
            namespace(a).sum(a[:, None] * self.inner**2 * a[None, :])
        )
        gram_error_sq = max(
            0.0, self.gram.frobenius_sq - 2 * self.overlap + fitted_sq
        )
        return sum(stress_from_errors(gram_error_sq, self.diagonal_error))

    @property
    def rounding(self) -> float:
        """The STRESS at which a fit is exact for all purposes."""
        return EXACT * self.gram.sq_norm

    def sharper(self) -> FreeCoordinates | None:
        """Return None: the preconditioner is always that of this point."""
        return None

    def measured(self) -> FreeCoordinates:
        """Return the same point."""
        return self

    @cached_property
    def gradient(self) -> Array:
        """∇f = −2C[8(BX − XAS) + (4n·e + 4Σe)∘X]A, within the centered X that f is written for."""
        x = self.coordinates
        a = self.signs
        e = self.diagonal_error
        xp = namespace(x)
        mix = 16 * a[:, None] * self.inner * a[None, :]
        pull = (8 * (self.gram.n * e + xp.sum(e)))[:, None]
        gradient = xp.empty_like(x)

        def fill(rows: slice) -> None:
            part = self.bx[rows, :] * -16.0
            part -= x[rows, :] * pull[rows, :]
            part *= a[None, :]
            part += x[rows, :] @ mix
            gradient[rows, :] = part

        over_rows(fill, *x.shape)
        # Centered here and again after preconditioning: with the second alone the descent stalls.
        gradient -= xp.mean(gradient, axis=0, keepdims=True)
        return gradient

    @cached_property
    def step(self) -> Array:
        """The gradient by the inverse Gauss–Newton block 16·ASA + 16n(Ax_i)(Ax_i)ᵀ per object i."""
        x = self.coordinates
        gradient = self.gradient
        xp = namespace(x)
        n = self.gram.n
        s = to_numpy(self.inner)
        a = to_numpy(self.signs)
        # A column that has all but vanished must not blow up its own step.
        s = s + np.eye(a.size) * 1e-12 * (np.trace(s) or 1.0)
        inverse = asarray_like(np.linalg.inv(s) * np.outer(a, a) / 16, x)
        step = xp.empty_like(x)

        def solve(rows: slice) -> None:
            ax = x[rows, :] * self.signs[None, :]
            z = gradient[rows, :] @ inverse
            u = ax @ inverse
            share = (
                16
                * n
                * xp.sum(ax * z, axis=1)
                / (1 + 16 * n * xp.sum(ax * u, axis=1))
            )
            u *= share[:, None]
            step[rows, :] = z - u

        over_rows(solve, *step.shape)
        step -= xp.mean(step, axis=0, keepdims=True)
        return step

    def minimize_along(self, direction: Array) -> FreeCoordinates | None:
        """Move to the lowest point of the quartic f(X + tP); None if rounding hides a gain.

        S, e and ⟨B, XAXᵀ⟩ are quadratics in t, of which the coefficients come from one pass.
        """
        x = self.coordinates
        bp = self.multiply(direction)
        r, e1, b_x_p, q, e2, b_p_p = _sums(
            self.signs, (x, direction, self.bx), (direction, direction, bp)
        )
        inner = [self.inner, r + r.T, q]
        errors = [self.diagonal_error, -2 * e1, -e2]
        overlaps = [self.overlap, 2 * b_x_p, b_p_p]
        t = lowest_point(self._quartic(inner, errors, overlaps))
        if t is None:
            return None
        bp *= t
        bp += self.bx
        moved = replace(
            self,
            coordinates=x + t * direction,
            bx=bp,
            inner=inner[0] + t * inner[1] + t**2 * inner[2],
            diagonal_error=errors[0] + t * errors[1] + t**2 * errors[2],
            overlap=overlaps[0] + t * overlaps[1] + t**2 * overlaps[2],
        )
        if moved.value < self.value:
            return moved
        return None

    def _quartic(
        self, inner: list[Array], errors: list[Array], overlaps: list[float]
    ) -> Floats:
        """Coefficients of f(X + tP), constant first, from those of S, e and ⟨B, XAXᵀ⟩."""
        a = to_numpy(self.signs)
        s = [to_numpy(part).ravel() for part in inner]
        e = [to_numpy(part) for part in errors]
        n = self.gram.n
        quartic = 4 * _square_of(s, np.outer(a, a).ravel())
        quartic[:3] -= 8 * np.array(overlaps)
        quartic[0] += 4 * self.gram.frobenius_sq
        quartic += 2 * n * _square_of(e, 1.0)
        quartic += 2 * _square_of([part.sum(keepdims=True) for part in e], 1.0)
        return quartic


def _square_of(coefficients: list[Floats], weights: Floats | float) -> Floats:
    """Return the weighted square of a vector whose entries are quadratics, constant first."""
    square = np.zeros(5)
    for i, left in enumerate(coefficients):
        for j, right in enumerate(coefficients):
            square[i + j] += (weights * left) @ right
    return square


def _sums(signs: Array, *triples: tuple[Array, Array, Array]) -> list[Any]:
    """Return UᵀV, (U∘V)a and ⟨V, BU·A⟩ of every U, V and BU, from one pass over them."""
    xp = namespace(signs)

    def walk(rows: slice) -> list[Array]:
        parts = []
        for u, v, bu in triples:
            left = u[rows, :]
            right = v[rows, :]
            parts.append(xp.matrix_transpose(left) @ right)
            parts.append((left * right) @ signs)
            parts.append(xp.sum(right * bu[rows, :], axis=0))
        return parts

    columns = list(zip(*over_rows(walk, *triples[0][0].shape), strict=True))
    sums: list[Any] = []
    for inner, products, overlaps in zip(
        columns[::3], columns[1::3], columns[2::3], strict=True
    ):
        sums += [
            sum(inner),
            xp.concat(list(products)),
            float(xp.vecdot(sum(overlaps), signs)),
        ]
    return sums
