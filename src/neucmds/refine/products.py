"""Products with B: the true STRESS of all pairs, minimised over coordinates of a fixed signature.

    f(X) = 4‖B − XAXᵀ‖² + 2n‖e‖² + 2(Σe)²,   e = diag(B) − (X∘X)a,   A = Diag(a),   a the signs

Value and gradient come from BX alone, f is an exact quartic along any direction, and BX is updated
instead of computed: one product with B an iteration, on any `Gram`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from neucmds.backend.arrays import (
    Array,
    Floats,
    asarray_like,
    centered,
    namespace,
    to_numpy,
)
from neucmds.form import Form
from neucmds.refine.descent import (
    EXACT,
    Configuration,
    Descent,
    descend,
    lowest_point,
)
from neucmds.refine.losses import SQUARED, PairLoss
from neucmds.spectrum.exact import MAX_DENSE
from neucmds.spectrum.geometry import (
    ROUNDING,
    StressTerms,
    canonical,
    stress_from_errors,
)
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.operators.single_precision import Multiply

# Single precision has two digits of a STRESS above this share of ‖B‖².
RESOLVED = 4e-5


def refine(
    gram: Gram, start: Configuration, descent: Descent = descend
) -> Configuration:
    """Lower the STRESS from a start, whose signs stay; the value is computed in float64."""
    x = centered(asarray_like(start.coordinates, gram.diagonal()))
    end = _descended(gram, replace(start, coordinates=x), descent)
    # Centered again: the descent does so to 1e-12 only.
    x, form = canonical(centered(end.coordinates), start.form)
    quadratic = gram.quadratic(x)
    terms, _ = exact_terms(gram, x, form, quadratic)
    return replace(
        end,
        coordinates=x,
        form=form,
        value=sum(terms),
        quadratic=quadratic,
    )


def _descended(
    gram: Gram, start: Configuration, descent: Descent
) -> Configuration:
    """Descend, of many objects by products in single precision if these have enough digits."""
    x = start.coordinates
    single = None
    if gram.n > MAX_DENSE:
        # None if the operator has no such products.
        single = gram.single()
    if single is not None:
        with single as multiply:
            objective = FreeCoordinates.at(
                gram, x, multiply(x), start.form, multiply
            )
            if objective.value > RESOLVED * gram.frobenius_sq:
                return descent(objective)
    objective = FreeCoordinates.at(
        gram, x, gram.matmat(x), start.form, gram.matmat
    )
    return descent(objective)


def exact_terms(
    gram: Gram, x: Array, form: Form, quadratic: Array
) -> tuple[StressTerms, float]:
    """Return C1, C2 and C3 in float64, and a bound on the rounding error of ‖B − XAXᵀ‖².

    Columns of `x` are orthogonal, and `quadratic` is cᵀBc of each column c.
    """
    xp = namespace(x)
    signs = asarray_like(form.signs, x)
    fitted_sq = float(xp.sum(xp.sum(x * x, axis=0) ** 2))
    overlap = float(xp.vecdot(quadratic, signs))
    gram_error_sq = max(0.0, gram.frobenius_sq - 2 * overlap + fitted_sq)
    terms = stress_from_errors(gram_error_sq, gram.diagonal() - x**2 @ signs)
    return terms, ROUNDING * (gram.frobenius_sq + fitted_sq)


@dataclass(frozen=True, eq=False)
class FreeCoordinates:
    """X, BX and all that f and its gradient are made of: an objective for `descend`.

    `signs` is a, on the device of B; `inner` is XᵀX, `diagonal_error` e and `overlap` ⟨B, XAXᵀ⟩:
    along a line all three are quadratics, so that a step computes none of them from X.
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
    loss: ClassVar[PairLoss] = SQUARED
    unit: ClassVar[float] = 1.0

    @classmethod
    def at(
        cls, gram: Gram, x: Array, bx: Array, form: Form, multiply: Multiply
    ) -> FreeCoordinates:
        """Make the objective of x, where BX is known."""
        signs = asarray_like(form.signs, gram.diagonal())
        inner, fitted_diagonal, overlap = _sums(signs, x, x, bx)
        error = gram.diagonal() - fitted_diagonal
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
        """∇f = −2C[8(BX − XAS) + (4n·e + 4Σe)∘X]A with S = XᵀX; C centers, as X is centered."""
        x = self.coordinates
        a = self.signs
        e = self.diagonal_error
        xp = namespace(x)
        mix = 16 * a[:, None] * self.inner * a[None, :]
        pull = (8 * (self.gram.n * e + xp.sum(e)))[:, None]
        gradient = self.bx * -16.0
        gradient -= x * pull
        gradient *= a[None, :]
        gradient += x @ mix
        # Centered here and again after preconditioning: with the second alone the descent stalls.
        gradient -= xp.mean(gradient, axis=0, keepdims=True)
        return gradient

    @cached_property
    def step(self) -> Array:
        """The gradient, solved with the Gauss–Newton block 16·ASA + 16n(Ax_i)(Ax_i)ᵀ of each i."""
        x = self.coordinates
        gradient = self.gradient
        xp = namespace(x)
        n = self.gram.n
        s = to_numpy(self.inner)
        a = to_numpy(self.signs)
        # A column that has all but vanished must not blow up its own step.
        s = s + np.eye(a.size) * 1e-12 * (np.trace(s) or 1.0)
        inverse = asarray_like(np.linalg.inv(s) * np.outer(a, a) / 16, x)
        ax = x * self.signs[None, :]
        # By the formula of Sherman and Morrison for the second term, of rank one.
        step = gradient @ inverse
        solved_ax = ax @ inverse
        along = 16 * n * xp.sum(ax * step, axis=1)
        along /= 1 + 16 * n * xp.sum(ax * solved_ax, axis=1)
        step -= solved_ax * along[:, None]
        step -= xp.mean(step, axis=0, keepdims=True)
        return step

    def minimize_along(self, direction: Array) -> FreeCoordinates | None:
        """Return the objective at the lowest point of the quartic f(X + tP), P the direction.

        None if no gain exceeds rounding.
        """
        x = self.coordinates
        bp = self.multiply(direction)
        xp_inner, xp_diagonal, xp_overlap = _sums(
            self.signs, x, direction, self.bx
        )
        pp_inner, pp_diagonal, pp_overlap = _sums(
            self.signs, direction, direction, bp
        )
        # Coefficients of quadratics in t, constant first.
        inner = [self.inner, xp_inner + xp_inner.T, pp_inner]
        errors = [self.diagonal_error, -2 * xp_diagonal, -pp_diagonal]
        overlaps = [self.overlap, 2 * xp_overlap, pp_overlap]
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
        """Return coefficients of f(X + tP), constant first, from those of S, e and ⟨B, XAXᵀ⟩."""
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
    """Return coefficients of Σ w v², where the entries of v are quadratics; constant first."""
    square = np.zeros(5)
    for i, left in enumerate(coefficients):
        for j, right in enumerate(coefficients):
            square[i + j] += (weights * left) @ right
    return square


def _sums(signs: Array, u: Array, v: Array, bu: Array) -> tuple[Any, ...]:
    """Return UᵀV, (U∘V)a and ⟨V, BU·A⟩."""
    xp = namespace(signs)
    overlap = xp.vecdot(xp.sum(v * bu, axis=0), signs)
    return u.T @ v, (u * v) @ signs, float(overlap)
