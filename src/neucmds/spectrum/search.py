"""Decide when to check a Krylov basis and when it has converged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neucmds.backend.arrays import EPS, TINY, Floats, Indices, eps, on_cpu
from neucmds.spectrum.lanczos import KrylovBasis
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.spectrum import Spectrum

if TYPE_CHECKING:
    from neucmds.spectrum.selection import Selection

Rule = Callable[[Spectrum], "Selection"]

# Relative residual of the kept pairs at which random vectors are injected; also the largest
# residual of a further pair that is returned.
ROUGH_TOL = 1e-3
# Random vectors that are injected once, without which an eigenvalue that is repeated more often
# than a block is wide is found too few times.
INJECTED = 4
# Blocks before the search may end after that.
BLOCKS_AFTER_INJECTION = 3
# Columns multiplied with B for every pair wanted, and for 50 more, before a precision is given up.
PRODUCTS = 40


class KeptPairs(NamedTuple):
    """The pairs that the rule keeps at a step, and those of them that are more than rounding."""

    step: int = 0
    # Numbers of the kept pairs, ascending.
    kept: Indices = np.empty(0, np.intp)
    # Values of those that are more than rounding, and how far each may still move.
    values: Floats = np.empty(0)
    reach: Floats = np.empty(0)
    # How many of these are largest values, and how many smallest; None before the first check.
    split: tuple[int, int] | None = None
    # The largest of their residuals, in units of the allowed one, times the tolerance.
    worst: float = 1.0


def basis_sizes(gram: Gram, n_wanted: int) -> tuple[int, int]:
    """Choose the vectors of the first block and of the whole basis by the cost of a product."""
    # On an H200 a product costs the same up to 32 columns: a block, and the injected ones.
    block = 28
    rows_per_pair = 7
    if on_cpu(gram.row_means) and not gram.costly_pass:
        block = 16
        rows_per_pair = 6
    # With fewer than 160 rows, restarts take time. Two blocks more are the next one and the one
    # after it.
    rows = max(rows_per_pair * n_wanted, 160) + 2 * (block + INJECTED)
    return block, min(rows, int(0.6 * gram.n))


def search(
    gram: Gram, basis: KrylovBasis, rule: Rule, n_wanted: int, tol: float
) -> bool:
    """Grow a basis until the pairs that a rule keeps have converged, or the products are used up.

    Parameters are those of `solve`; the basis has its first block alone, and ends with its Ritz
    pairs. Return whether the kept ones have converged.
    """
    block = basis.width
    capacity = basis.rows.shape[0]
    step = 0
    # A first look: the pairs wanted and as many again, or six blocks if that is more.
    next_check = math.ceil((n_wanted + max(n_wanted, 6 * block)) / block)
    # The first step at which the search may end; zero before vectors are injected.
    ready = 0
    last = KeptPairs()
    injected: KeptPairs | None = None
    while True:
        basis.expand()
        step += 1
        if step < next_check and basis.has_room:
            continue
        check = kept_pairs(gram, basis, rule, tol, step)
        if check.worst < ROUGH_TOL and (
            injected is None or has_moved(check, injected)
        ):
            space = (capacity - block - 2 * n_wanted) // 2 - basis.width
            basis.inject(min(INJECTED, space))
            injected = check
            ready = step + BLOCKS_AFTER_INJECTION
        elif (
            step >= ready > 0
            and check.worst < tol
            and check.split == last.split
            and is_settled(gram, basis, rule, check)
        ):
            return True
        if basis.n_products >= PRODUCTS * (n_wanted + 50):
            return False
        if not basis.has_room:
            space = capacity - 2 * basis.width
            basis.restart(
                worth_keeping(check.kept, basis.size, space, block // 2)
            )
        # Without a rate to go by, the next check comes after three blocks.
        wait = 3
        if check.worst < 1 and last.split in (None, check.split):
            wait = blocks_to_wait(check, last, tol)
        next_check = max(step + wait, ready)
        last = check


def kept_pairs(
    gram: Gram, basis: KrylovBasis, rule: Rule, tol: float, step: int
) -> KeptPairs:
    """Solve the projected problem, and look at the pairs that the rule keeps."""
    basis.solve()
    kept = kept_by(gram, rule, basis.values)
    # Values within the rounding of the products need not converge.
    clear = kept[np.abs(basis.values[kept]) > basis.noise]
    limits = allowed_residuals(gram, basis.values, kept, tol)
    shares = basis.residuals[clear] / limits[clear]
    return KeptPairs(
        step,
        kept,
        basis.values[clear],
        2 * (basis.residuals[clear] + basis.noise),
        split_of(clear),
        tol * float(np.max(shares, initial=TINY)),
    )


def blocks_to_wait(check: KeptPairs, last: KeptPairs, tol: float) -> int:
    """Predict how many blocks are missing, by the mean rate or by that since the last check."""
    level = math.log(check.worst)
    mean_rate = -level / check.step
    last_rate = (math.log(last.worst) - level) / (check.step - last.step)
    missing = (level - math.log(tol)) / max(mean_rate, last_rate)
    return max(1, min(12, math.ceil(missing)))


def has_moved(check: KeptPairs, earlier: KeptPairs) -> bool:
    """Tell whether a kept value moved further than its residual allowed: a copy was missing."""
    if check.values.size != earlier.values.size:
        return True
    moves = np.abs(check.values - earlier.values)
    return bool(np.any(moves > earlier.reach))


def is_settled(
    gram: Gram, basis: KrylovBasis, rule: Rule, check: KeptPairs
) -> bool:
    """Tell whether as many are kept if the other values are as far out as residuals allow."""
    values = basis.values
    residuals = basis.residuals
    # With θ the Ritz value, ρ its residual and λ the eigenvalue: |λ − θ| ≤ ρ, and |λ − θ| ≈ ρ²/gap.
    # A tenth of |θ| stands for the gap to the other eigenvalues.
    size = np.maximum(np.abs(values), TINY)
    outwards = np.minimum(residuals, 10 * residuals**2 / size)
    # The upper half goes up, the lower half down.
    outwards[values.size - values.size // 2 :] *= -1
    outwards[check.kept] = 0.0
    pushed = np.sort(values + outwards)[::-1]
    kept = kept_by(gram, rule, pushed)
    return split_of(kept[np.abs(pushed[kept]) > basis.noise]) == check.split


def kept_by(gram: Gram, rule: Rule, values: Floats) -> Indices:
    """Apply the rule to eigenvalues that stand for both ends of the spectrum."""
    both_ends = Spectrum(
        values,
        gram.trace,
        gram.frobenius_sq,
        n_top=values.size,
        n_bottom=values.size,
        precision=eps(gram.dtype, gram.xp),
    )
    return np.sort(rule(both_ends).kept)


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
    # The share decides only where a pair and the dropped part are below 1e-5 of the scale.
    share = min(1.0, max(1e-2, 1e3 * tol))
    by_size = share * np.maximum(size, dropped)
    by_size = np.maximum(by_size, null_level(gram, values))
    return np.minimum(tol * scale, by_size)


def null_level(gram: Gram, values: Floats) -> float:
    """Magnitude that rounding alone gives a zero eigenvalue in float64."""
    # A product with B goes through D, which may have a much larger norm.
    by_product = 4 * math.sqrt(gram.n * gram.sq_norm)
    return EPS * max(
        gram.n * float(np.max(np.abs(values), initial=0.0)), by_product
    )


def split_of(kept: Indices) -> tuple[int, int]:
    """Count the kept pairs of each end; `kept` is sorted, 0, 1, … and then …, m − 2, m − 1."""
    top = int(np.sum(kept == np.arange(kept.size)))
    return top, int(kept.size) - top
