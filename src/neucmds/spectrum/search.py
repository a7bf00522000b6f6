"""Grow a Krylov basis: when to check it, add random vectors, restart it and end."""

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

# Which eigenpairs are kept, from the ends of a spectrum.
Rule = Callable[[Spectrum], "Selection"]

# Relative residual of the kept pairs at which random vectors are injected; also the largest
# residual of a further pair that is returned.
ROUGH_TOL = 1e-3
# Random vectors that are injected. Without them a block finds an eigenvalue that is repeated more
# often than it has rows too few times.
INJECTED = 4
# Blocks after an injection before the search may end.
BLOCKS_AFTER_INJECTION = 3
# The search is given up after so many products with B for each pair wanted, and for 50 more.
PRODUCTS = 40


class KeptPairs(NamedTuple):
    """The Ritz pairs that the rule keeps at a step of the search."""

    step: int = 0
    # Numbers of the kept pairs, ascending.
    kept: Indices = np.empty(0, np.intp)
    # The kept values that are no rounding, and how far each may still move.
    values: Floats = np.empty(0)
    reach: Floats = np.empty(0)
    # How many of `values` are from the top and from the bottom; None before the first check.
    split: tuple[int, int] | None = None
    # Their largest residual over the allowed one, times the tolerance: converged below that.
    worst: float = 1.0


def basis_sizes(gram: Gram, n_wanted: int) -> tuple[int, int]:
    """Return the numbers of vectors in a block and in the basis, by the cost of a product."""
    # On an H200 a product costs the same up to 32 columns: a block, and the injected ones.
    block = 28
    rows_per_pair = 7
    if on_cpu(gram.row_means) and not gram.costly_pass:
        block = 16
        rows_per_pair = 6
    # With fewer than 160 rows, restarts take time. The next block and the one after it come on top.
    rows = max(rows_per_pair * n_wanted, 160) + 2 * (block + INJECTED)
    return block, min(rows, int(0.6 * gram.n))


def search(
    gram: Gram, basis: KrylovBasis, rule: Rule, n_wanted: int, tol: float
) -> bool:
    """Grow a basis until the pairs that a rule keeps have converged; return whether they have.

    Parameters are those of `solve`. The basis begins with its first block alone, and ends solved.
    """
    block = basis.width
    capacity = basis.rows.shape[0]
    step = 0
    # First checked with twice the pairs wanted, or with six blocks more than these if that is more.
    next_check = math.ceil((n_wanted + max(n_wanted, 6 * block)) / block)
    # The first step at which the search may end; zero before vectors are injected.
    ready = 0
    last = KeptPairs()
    # The check after which vectors were injected last.
    at_injection: KeptPairs | None = None
    while True:
        basis.expand()
        step += 1
        if step < next_check and basis.has_room:
            continue
        check = kept_pairs(gram, basis, rule, tol, step)
        if check.worst < ROUGH_TOL and (
            at_injection is None or has_moved(check, at_injection)
        ):
            # The block stays so narrow that two of it fit beside twice the pairs wanted.
            space = (capacity - block - 2 * n_wanted) // 2 - basis.width
            basis.inject(min(INJECTED, space))
            at_injection = check
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
        # The next check comes after three blocks where no rate of convergence is known.
        wait = 3
        if check.worst < 1 and last.split in (None, check.split):
            wait = blocks_to_wait(check, last, tol)
        next_check = max(step + wait, ready)
        last = check


def kept_pairs(
    gram: Gram, basis: KrylovBasis, rule: Rule, tol: float, step: int
) -> KeptPairs:
    """Solve the basis, and return the pairs that the rule keeps."""
    basis.solve()
    kept = kept_by(gram, rule, basis.values)
    # Values within the rounding of the products need not converge.
    nonzero = kept[np.abs(basis.values[kept]) > basis.noise]
    limits = allowed_residuals(gram, basis.values, kept, tol)
    shares = basis.residuals[nonzero] / limits[nonzero]
    return KeptPairs(
        step,
        kept,
        values=basis.values[nonzero],
        reach=2 * (basis.residuals[nonzero] + basis.noise),
        split=split_of(nonzero),
        worst=tol * float(np.max(shares, initial=TINY)),
    )


def blocks_to_wait(check: KeptPairs, last: KeptPairs, tol: float) -> int:
    """Predict how many blocks are missing, by the faster of two rates of convergence.

    These are the mean rate of all steps and that since the last check.
    """
    level = math.log(check.worst)
    mean_rate = -level / check.step
    last_rate = (math.log(last.worst) - level) / (check.step - last.step)
    missing = (level - math.log(tol)) / max(mean_rate, last_rate)
    return max(1, min(12, math.ceil(missing)))


def has_moved(check: KeptPairs, earlier: KeptPairs) -> bool:
    """Tell whether a kept value moved beyond its reach: a copy of an eigenvalue was missing."""
    if check.values.size != earlier.values.size:
        return True
    moves = np.abs(check.values - earlier.values)
    return bool(np.any(moves > earlier.reach))


def is_settled(
    gram: Gram, basis: KrylovBasis, rule: Rule, check: KeptPairs
) -> bool:
    """Tell whether the rule would keep as many of each end, were dropped values farther out.

    They are moved outwards as far as their residuals allow.
    """
    values = basis.values
    residuals = basis.residuals
    # With θ the Ritz value, ρ its residual and λ the eigenvalue: |λ − θ| ≤ ρ, and |λ − θ| ≈ ρ²/gap.
    # A tenth of |θ| stands for the gap to the other eigenvalues.
    size = np.maximum(np.abs(values), TINY)
    outwards = np.minimum(residuals, 10 * residuals**2 / size)
    # The upper half goes up, the lower half down.
    outwards[values.size - values.size // 2 :] *= -1
    outwards[check.kept] = 0.0
    moved = np.sort(values + outwards)[::-1]
    kept = kept_by(gram, rule, moved)
    return split_of(kept[np.abs(moved[kept]) > basis.noise]) == check.split


def kept_by(gram: Gram, rule: Rule, values: Floats) -> Indices:
    """Return the numbers, ascending, of the values that the rule keeps.

    The values, sorted, stand for both ends of the spectrum.
    """
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
    """Return the pairs to restart with: the kept ones of `size`, and their neighbours at each end.

    Each end has `margin` neighbours, and its share of a third of the `capacity` that is left.
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

    That is `tol` times the largest kept magnitude, but at most a share of the pair's own size, or
    of the norm of all dropped values if that is larger: beside an eigenvalue of 5e9 a residual of
    500 would be too much for pairs of size 1.
    """
    size = np.abs(values)
    dropped = float(np.linalg.norm(np.delete(values, kept)))
    scale = float(np.max(size[kept], initial=0.0)) or float(np.max(size))
    # This decides only where the pair and the dropped values are below 1e-5 of the scale.
    share = min(1.0, max(1e-2, 1e3 * tol))
    by_size = share * np.maximum(size, dropped)
    by_size = np.maximum(by_size, null_level(gram, values))
    return np.minimum(tol * scale, by_size)


def null_level(gram: Gram, values: Floats) -> float:
    """Return the magnitude that rounding in float64 gives an eigenvalue of zero."""
    # A product with B is one with D, whose norm may be much larger.
    by_product = 4 * math.sqrt(gram.n * gram.sq_norm)
    return EPS * max(
        gram.n * float(np.max(np.abs(values), initial=0.0)), by_product
    )


def split_of(kept: Indices) -> tuple[int, int]:
    """Count the kept pairs of each end: `kept` are 0, 1, … from the top, then …, m − 2, m − 1."""
    top = int(np.sum(kept == np.arange(kept.size)))
    return top, int(kept.size) - top
