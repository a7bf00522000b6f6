"""Decide when to check a Krylov basis and when it has converged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import eps, on_cpu
from neucmds.spectrum.lanczos import KrylovBasis
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.spectrum import Spectrum

if TYPE_CHECKING:
    from neucmds.spectrum.selection import Selection

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Rule = Callable[[Spectrum], "Selection"]

# Relative residual of the kept pairs at which random vectors are injected.
INJECTION_TOL = 1e-3
# Vectors that are injected, and blocks to wait after that: otherwise a multiplicity above the
# block's width is missed.
INJECTED = 4
BLOCKS_AFTER_INJECTION = 3
# Columns multiplied with B for every pair wanted, and for 50 more, before a precision is given up.
PRODUCTS = 40
# Share of the tolerance that the estimated residuals must reach.
SAFETY = 0.7


@dataclass(frozen=True)
class Check:
    """The Ritz pairs at one check, and which of them the selection rule keeps."""

    values: Floats
    residuals: Floats
    kept: Indices
    # Kept pairs above the noise from the top and from the bottom; and whether these numbers stay if
    # the other values are as far out as their residuals allow.
    split: tuple[int, int]
    settled: bool
    # Number of expansions so far.
    step: int
    # The largest kept magnitude; the allowed residual of every Ritz pair relative to it and to the
    # tolerance; the largest residual of a kept pair relative to both; the rounding of the products.
    scale: float
    allowed: Floats
    worst: float
    noise: float

    def moved_since(self, earlier: Check) -> bool:
        """Tell whether a kept value moved further than its residual allowed: a copy was missing."""
        top = min(self.split[0], earlier.split[0])
        bottom = min(self.split[1], earlier.split[1])
        shift = self.values[:top] - earlier.values[:top]
        shift = np.r_[
            shift, self.values[::-1][:bottom] - earlier.values[::-1][:bottom]
        ]
        share = np.r_[self.allowed[:top], self.allowed[::-1][:bottom]]
        allowed = share * (
            2 * earlier.worst * earlier.scale + 1e-6 * self.scale
        )
        return bool(np.any(np.abs(shift) > allowed))


def basis_sizes(gram: Gram, n_wanted: int) -> tuple[int, int]:
    """Choose the vectors of the first block and of the whole basis by the cost of a product."""
    # On an H200 a product costs the same up to 32 columns.
    block = 28
    share = 7
    if on_cpu(gram.row_means) and not gram.costly_pass:
        block = 16
        share = 6
    # Below 160 rows restarts cost.
    wanted = max(share * n_wanted, 160) + 2 * (block + INJECTED)
    return block, min(wanted, int(0.6 * gram.n))


def search(
    gram: Gram, basis: KrylovBasis, rule: Rule, n_wanted: int, tol: float
) -> tuple[Check, bool]:
    """Grow a basis until the pairs that a rule keeps have converged, or the products are used up.

    Parameters are those of `solve`; the basis has its first block alone.
    """
    block = basis.width
    capacity = int(basis.rows.shape[0])
    step = 0
    # The step of the next check, and the first at which the search may end.
    due = 0
    ready = 0
    last: Check | None = None
    injected: Check | None = None
    first_size = n_wanted + max(n_wanted, 6 * block)
    while True:
        basis.expand()
        step += 1
        full = basis.size + 2 * basis.width > capacity
        early = step < due or (last is None and basis.size < first_size)
        if early and not full:
            continue
        check = checked(gram, basis, rule, tol, step)
        settled = (
            check.settled and last is not None and check.split == last.split
        )
        if check.worst < INJECTION_TOL and (
            injected is None or check.moved_since(injected)
        ):
            space = (capacity - block - 2 * n_wanted) // 2 - basis.width
            basis.inject(min(INJECTED, space))
            injected = check
            ready = step + BLOCKS_AFTER_INJECTION
        elif (
            injected
            and step >= ready
            and settled
            and check.worst < SAFETY * tol
        ):
            return check, True
        if basis.n_products >= PRODUCTS * (n_wanted + 50):
            return check, False
        if basis.size + 2 * basis.width > capacity:
            basis.restart(
                worth_keeping(check, capacity - 2 * basis.width, block // 2)
            )
        due = max(step + blocks_to_wait(gram, basis, tol, check, last), ready)
        last = check


def blocks_to_wait(
    gram: Gram,
    basis: KrylovBasis,
    tol: float,
    check: Check,
    last: Check | None,
) -> int:
    """Predict how many blocks are missing, by the mean rate or by that since the last check."""
    if check.worst >= 1 or (last is not None and check.split != last.split):
        return 3
    level = math.log(max(check.worst, 1e-300))
    rate = -level / check.step
    if last is not None and check.worst < last.worst:
        rate = max(
            rate, (math.log(last.worst) - level) / (check.step - last.step)
        )
    missing = (level - math.log(SAFETY * tol)) / rate
    n = gram.n
    m = basis.size
    # On a GPU, or in a large basis, a check costs more than an expansion or two.
    costly = 5 * m**3 > basis.width * n * (n + 4 * m)
    if costly or not on_cpu(gram.row_means):
        return max(1, min(12, math.ceil(missing)))
    # Convergence accelerates: the last rate predicts too many blocks.
    return max(1, min(4, round(0.6 * missing)))


def checked(
    gram: Gram, basis: KrylovBasis, rule: Rule, tol: float, step: int
) -> Check:
    """Apply the rule to the Ritz values, and again with the other values pushed outwards."""
    basis.solve()
    values = basis.values
    residuals = basis.residuals
    m = values.size
    size = np.abs(values)
    kept = _kept(gram, rule, values)
    # Values within the rounding of the products need not converge.
    noise = basis.precision * float(np.max(size))
    clear = kept[size[kept] > noise]
    split = split_of(clear)
    # |λ − θ| ≤ ρ always, and about ρ²/gap; a tenth of |θ| stands for the gap.
    error = np.minimum(
        residuals, 10 * residuals**2 / np.maximum(size, np.finfo(float).tiny)
    )
    error[m - m // 2 :] *= -1
    error[kept] = 0.0
    pushed = np.sort(values + error)[::-1]
    again = _kept(gram, rule, pushed)
    again = again[np.abs(pushed[again]) > noise]
    scale = float(np.max(size[clear], initial=0.0)) or float(np.max(size))
    dropped = np.delete(values, kept)
    limit = allowed_residuals(
        gram, values, tol=tol, scale=scale, dropped_sq=float(dropped @ dropped)
    )
    allowed = limit / (tol * scale)
    worst = (
        float(np.max(residuals[clear] / allowed[clear], initial=0.0)) / scale
    )
    return Check(
        values=values,
        residuals=residuals,
        kept=kept,
        split=split,
        settled=split_of(again) == split,
        step=step,
        scale=scale,
        allowed=allowed,
        worst=worst,
        noise=noise,
    )


def _kept(gram: Gram, rule: Rule, values: Floats) -> Indices:
    """Apply the rule to eigenvalues that stand for both ends of the spectrum."""
    m = values.size
    precision = eps(gram.dtype, gram.xp)
    ends = Spectrum(values, gram.trace, gram.frobenius_sq, m, m, precision)
    return np.sort(rule(ends).kept)


def worth_keeping(check: Check, capacity: int, few: int) -> Indices:
    """Choose pairs for a restart: the kept ones, their neighbours, a few at each end."""
    m = check.values.size
    top, bottom = split_of(check.kept)
    few = min(few, (capacity - top - bottom) // 2)
    space = (capacity - top - bottom - 2 * few) // 3
    share = top / max(1, top + bottom)
    top += few + int(space * share)
    bottom += few + int(space * (1 - share))
    return np.asarray(np.r_[:top, m - bottom : m], dtype=np.intp)


def allowed_residuals(
    gram: Gram, values: Floats, *, tol: float, scale: float, dropped_sq: float
) -> Floats:
    """Return the largest residual that each pair may have.

    That is ``tol * scale``, but at most a share of the pair's own size or of the dropped part, if
    that is larger: next to an eigenvalue of 5e9 a residual of 500 is too much for pairs of size 1.
    `scale` is the largest kept magnitude, `dropped_sq` the sum of squares of known dropped values.
    """
    # The share matters only if a pair and the dropped part are below 1e-5 of the scale.
    share = min(1.0, max(1e-2, 1e3 * tol))
    by_size = share * np.maximum(np.abs(values), math.sqrt(dropped_sq))
    return np.minimum(
        tol * scale, np.maximum(by_size, null_level(gram, values))
    )


def null_level(gram: Gram, values: Floats) -> float:
    """Magnitude that rounding alone gives a zero eigenvalue in float64."""
    # A product with B goes through D, which may have a much larger norm.
    by_product = 4 * math.sqrt(gram.n * gram.sq_norm)
    return eps(np.float64) * max(
        gram.n * float(np.max(np.abs(values), initial=0.0)), by_product
    )


def split_of(kept: Indices) -> tuple[int, int]:
    """Count sorted kept indices from the top and from the bottom; they are contiguous in both."""
    top = int(np.sum(kept == np.arange(kept.size)))
    return top, int(kept.size) - top
