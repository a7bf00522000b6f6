"""Decide when to check a Krylov basis and when it has converged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from neucmds.backend.arrays import eps, on_cpu
from neucmds.spectrum.lanczos import KrylovBasis
from neucmds.spectrum.operators.gram import Floats, Gram, Indices
from neucmds.spectrum.spectrum import Spectrum

if TYPE_CHECKING:
    from neucmds.spectrum.selection import Selection

Rule = Callable[[Spectrum], "Selection"]

# Relative residual of the kept pairs at which random vectors are injected, and the largest of a
# further pair that is returned.
ROUGH_TOL = 1e-3
# Vectors that are injected, and blocks to wait after that: otherwise a multiplicity above the
# block's width is missed.
INJECTED = 4
BLOCKS_AFTER_INJECTION = 3
# Columns multiplied with B for every pair wanted, and for 50 more, before a precision is given up.
PRODUCTS = 40


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
) -> bool:
    """Grow a basis until the pairs that a rule keeps have converged, or the products are used up.

    Parameters are those of `solve`; the basis has its first block alone, and ends with its Ritz
    pairs. Return whether the kept ones have converged.
    """
    block = basis.width
    capacity = int(basis.rows.shape[0])
    step = 0
    next_check = math.ceil((n_wanted + max(n_wanted, 6 * block)) / block)
    # The first step at which the search may end; zero before vectors are injected.
    ready = 0
    last_step = 0
    last_split = None
    last_worst = 1.0
    # Kept values when vectors were injected, and how far they may move after that.
    injected_at: Floats | None = None
    reach: Floats = np.empty(0)
    while True:
        basis.expand()
        step += 1
        if step < next_check and basis.size + 2 * basis.width <= capacity:
            continue
        basis.solve()
        kept = kept_by(gram, rule, basis.values)
        # Values within the rounding of the products need not converge.
        clear = kept[np.abs(basis.values[kept]) > basis.noise]
        split = split_of(clear)
        limits = allowed_residuals(gram, basis.values, kept, tol)
        shares = basis.residuals[clear] / limits[clear]
        worst = tol * float(np.max(shares, initial=np.finfo(float).tiny))
        values = basis.values[clear]
        if worst < ROUGH_TOL and (
            injected_at is None or has_moved(values, injected_at, reach)
        ):
            space = (capacity - block - 2 * n_wanted) // 2 - basis.width
            basis.inject(min(INJECTED, space))
            injected_at = values
            reach = 2 * (basis.residuals[clear] + basis.noise)
            ready = step + BLOCKS_AFTER_INJECTION
        elif (
            step >= ready > 0
            and worst < tol
            and split == last_split
            and is_settled(gram, basis, rule, kept, split)
        ):
            return True
        if basis.n_products >= PRODUCTS * (n_wanted + 50):
            return False
        if basis.size + 2 * basis.width > capacity:
            space = capacity - 2 * basis.width
            basis.restart(worth_keeping(kept, basis.size, space, block // 2))
        wait = 3
        if worst < 1 and last_split in (None, split):
            missing = missing_blocks(step, worst, last_step, last_worst, tol)
            wait = blocks_to_wait(gram, basis, missing)
        next_check = max(step + wait, ready)
        last_step = step
        last_split = split
        last_worst = worst


def missing_blocks(
    step: int, worst: float, last_step: int, last_worst: float, tol: float
) -> float:
    """Predict how many blocks are missing, by the mean rate or by that since the last check."""
    level = math.log(worst)
    mean_rate = -level / step
    last_rate = (math.log(last_worst) - level) / (step - last_step)
    return (level - math.log(tol)) / max(mean_rate, last_rate)


def blocks_to_wait(gram: Gram, basis: KrylovBasis, missing: float) -> int:
    """Choose the blocks before the next check."""
    n = gram.n
    m = basis.size
    # On a GPU, or in a large basis, a check costs more than an expansion or two.
    costly = 5 * m**3 > basis.width * n * (n + 4 * m)
    if costly or not on_cpu(gram.row_means):
        return max(1, min(12, math.ceil(missing)))
    # Convergence accelerates: the last rate predicts too many blocks.
    return max(1, min(4, round(0.6 * missing)))


def has_moved(values: Floats, earlier: Floats, reach: Floats) -> bool:
    """Tell whether a kept value moved further than its residual allowed: a copy was missing."""
    return values.size != earlier.size or bool(
        np.any(np.abs(values - earlier) > reach)
    )


def is_settled(
    gram: Gram,
    basis: KrylovBasis,
    rule: Rule,
    kept: Indices,
    split: tuple[int, int],
) -> bool:
    """Tell whether as many are kept if the other values are as far out as residuals allow."""
    values = basis.values
    residuals = basis.residuals
    # |λ − θ| ≤ ρ always, and about ρ²/gap; a tenth of |θ| stands for the gap.
    size = np.maximum(np.abs(values), np.finfo(float).tiny)
    error = np.minimum(residuals, 10 * residuals**2 / size)
    # Outwards: the upper half goes up, the lower half down.
    error[values.size - values.size // 2 :] *= -1
    error[kept] = 0.0
    pushed = np.sort(values + error)[::-1]
    again = kept_by(gram, rule, pushed)
    return split_of(again[np.abs(pushed[again]) > basis.noise]) == split


def kept_by(gram: Gram, rule: Rule, values: Floats) -> Indices:
    """Apply the rule to eigenvalues that stand for both ends of the spectrum."""
    m = values.size
    precision = eps(gram.dtype, gram.xp)
    ends = Spectrum(values, gram.trace, gram.frobenius_sq, m, m, precision)
    return np.sort(rule(ends).kept)


def worth_keeping(
    kept: Indices, size: int, capacity: int, margin: int
) -> Indices:
    """Choose pairs for a restart: the kept ones and their neighbours, of either end.

    Each end has `margin` neighbours, and its share of a third of the space that is left.
    """
    top, bottom = split_of(kept)
    margin = min(margin, (capacity - kept.size) // 2)
    space = (capacity - kept.size - 2 * margin) // 3
    share = top / max(1, kept.size)
    top += margin + int(space * share)
    bottom += margin + int(space * (1 - share))
    return np.asarray(np.r_[:top, size - bottom : size], dtype=np.intp)


def allowed_residuals(
    gram: Gram, values: Floats, kept: Indices, tol: float
) -> Floats:
    """Return the largest residual that each pair may have.

    That is `tol` times the largest kept magnitude, but at most a share of the pair's own size or of
    the dropped part, if that is larger: next to an eigenvalue of 5e9 a residual of 500 is too much
    for pairs of size 1.
    """
    size = np.abs(values)
    dropped = float(np.linalg.norm(np.delete(values, kept)))
    scale = float(np.max(size[kept], initial=0.0)) or float(np.max(size))
    # The share matters only if a pair and the dropped part are below 1e-5 of the scale.
    share = min(1.0, max(1e-2, 1e3 * tol))
    by_size = share * np.maximum(size, dropped)
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
    """Count the kept pairs of each end; `kept` is sorted, 0, 1, … and then …, m − 2, m − 1."""
    top = int(np.sum(kept == np.arange(kept.size)))
    return top, int(kept.size) - top
