"""Decide when to check a Krylov basis and when it has converged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import eps, on_cpu
from neucmds.spectrum.lanczos import KrylovBasis, Ritz
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.spectrum import Ends

if TYPE_CHECKING:
    from neucmds.spectrum.selection import Selection

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Rule = Callable[[Ends], "Selection"]

# Relative residual of the kept pairs at which random vectors are injected, and blocks to wait after
# that: otherwise a multiplicity above the block's width is missed.
INJECTION_TOL = 1e-3
BLOCKS_AFTER_INJECTION = 3
# Columns multiplied with B for every pair wanted, and for 50 more, before a precision is given up.
PRODUCTS = 40


@dataclass(frozen=True)
class Check:
    """The Ritz pairs at one check, and which of them the selection rule keeps."""

    ritz: Ritz
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
        now, then = self.ritz.values, earlier.ritz.values
        step = np.r_[now[:top] - then[:top], now[::-1][:bottom] - then[::-1][:bottom]]
        share = np.r_[self.allowed[:top], self.allowed[::-1][:bottom]]
        allowed = share * (2 * earlier.worst * earlier.scale + 1e-6 * self.scale)
        return bool(np.any(np.abs(step) > allowed))


@dataclass(frozen=True)
class Search:
    """Search of a Krylov basis for the pairs that a rule keeps.

    `gram`, `rule`, `n_wanted`, `tol` and `spare` are those of `solve`; `block` is the number of
    vectors of the first block, `injected` of those added later, `capacity` of all in the basis.
    """

    gram: Gram
    rule: Rule
    n_wanted: int
    tol: float
    spare: bool
    block: int
    injected: int
    capacity: int

    @classmethod
    def of(cls, gram: Gram, rule: Rule, n_wanted: int, tol: float, spare: bool) -> Search:
        """Choose the sizes by the cost of a product."""
        # On an H200 a product costs the same up to 32 columns, and 1.7 times that beyond.
        narrow = on_cpu(gram.moments.row_means) and not gram.costly_pass
        block, injected, share = (16, 4, 6) if narrow else (28, 4, 7)
        # Below 160 rows restarts cost.
        wanted = max(share * n_wanted, 160) + 2 * (block + injected)
        capacity = min(wanted, int(0.6 * gram.n))
        return cls(gram, rule, n_wanted, tol, spare, block, injected, capacity)

    def run(self, basis: KrylovBasis) -> tuple[Check, bool]:
        """Grow the basis until the kept pairs have converged, or the products are used up."""
        capacity, step, ready = self.capacity, 0, 0
        due, last, injected = self.n_wanted + max(self.n_wanted, 6 * self.block), None, None
        while True:
            basis.expand()
            step += 1
            full = basis.size + 2 * basis.width > capacity
            if not full and (basis.size < due if last is None else step < due):
                continue
            check = self._check(basis, step)
            settled = check.settled and last is not None and check.split == last.split
            if check.worst < INJECTION_TOL and (injected is None or check.moved_since(injected)):
                space = (capacity - self.block - 2 * self.n_wanted) // 2 - basis.width
                basis.inject(min(self.injected, space))
                injected, ready = check, step + BLOCKS_AFTER_INJECTION
            elif injected and step >= ready and settled and check.worst < 0.7 * self.tol:
                return check, True
            if basis.n_products >= PRODUCTS * (self.n_wanted + 50):
                return check, False
            if basis.size + 2 * basis.width > capacity:
                basis.restart(check.ritz, self._worth_keeping(check, capacity - 2 * basis.width))
            due = max(step + self._blocks_to_wait(basis, check, last), ready)
            last = check

    def _blocks_to_wait(self, basis: KrylovBasis, check: Check, last: Check | None) -> int:
        """Predict how many blocks are missing, by the mean rate or by that since the last check."""
        if check.worst >= 1 or (last is not None and check.split != last.split):
            return 3
        level = math.log(max(check.worst, 1e-300))
        rate = -level / check.step
        if last is not None and check.worst < last.worst:
            rate = max(rate, (math.log(last.worst) - level) / (check.step - last.step))
        missing = (level - math.log(0.7 * self.tol)) / rate
        n, m, b = self.gram.n, basis.size, basis.width
        # On a GPU, or in a large basis, a check costs more than an expansion or two.
        if not on_cpu(self.gram.moments.row_means) or 5 * m**3 > b * n * (n + 4 * m):
            return max(1, min(12, math.ceil(missing)))
        # Convergence accelerates: the last rate predicts too many blocks.
        return max(1, min(4, round(0.6 * missing)))

    def _check(self, basis: KrylovBasis, step: int) -> Check:
        """Apply the rule to the Ritz values, and again with the other values pushed outwards."""
        ritz, gram = basis.ritz(), self.gram
        lam, left, m = ritz.values, ritz.residuals, ritz.values.size
        precision = eps(gram.dtype, gram.xp)

        def keep(values: Floats) -> Indices:
            ends = Ends(values, gram.trace, gram.frobenius_sq, m, m, precision)
            return np.sort(self.rule(ends).kept)

        kept = keep(lam)
        # Values within the rounding of the products need not converge.
        noise = basis.precision * float(np.max(np.abs(lam)))
        clear = kept[np.abs(lam[kept]) > noise]
        # |λ − θ| ≤ ρ always, and about ρ²/gap; a tenth of |θ| stands for the gap.
        error = np.minimum(left, 10 * left**2 / np.maximum(np.abs(lam), np.finfo(float).tiny))
        error[m - m // 2 :] *= -1
        error[kept] = 0.0
        pushed = np.sort(lam + error)[::-1]
        again = keep(pushed)
        again, split = again[np.abs(pushed[again]) > noise], split_of(clear)
        scale = float(np.max(np.abs(lam[clear if clear.size else slice(None)])))
        dropped = np.delete(lam, kept)
        limit = allowed_residuals(
            gram, lam, tol=self.tol, scale=scale, dropped_sq=float(dropped @ dropped)
        )
        allowed = limit / (self.tol * scale)
        worst = float(np.max(left[clear] / allowed[clear], initial=0.0)) / scale
        settled = split_of(again) == split
        return Check(ritz, kept, split, settled, step, scale, allowed, worst, noise)

    def _worth_keeping(self, check: Check, capacity: int) -> Indices:
        """Choose pairs for a restart: the kept ones, their neighbours, a few at each end."""
        m, (top, bottom) = check.ritz.values.size, split_of(check.kept)
        few = min(self.block // 2, (capacity - top - bottom) // 2)
        space, share = (capacity - top - bottom - 2 * few) // 3, top / max(1, top + bottom)
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
    own = share * np.maximum(np.abs(values), math.sqrt(dropped_sq))
    return np.minimum(tol * scale, np.maximum(own, null_level(gram, values)))


def null_level(gram: Gram, values: Floats) -> float:
    """Magnitude that rounding alone gives a zero eigenvalue in float64."""
    # A product with B goes through D, which may have a much larger norm.
    by_product = 4 * math.sqrt(gram.n * gram.moments.sq_norm)
    return eps(np.float64) * max(gram.n * float(np.max(np.abs(values), initial=0.0)), by_product)


def split_of(kept: Indices) -> tuple[int, int]:
    """Count sorted kept indices from the top and from the bottom; they are contiguous in both."""
    top = int(np.sum(kept == np.arange(kept.size)))
    return top, int(kept.size) - top
