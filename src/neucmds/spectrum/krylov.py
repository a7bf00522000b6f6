"""Both ends of the spectrum by mixed-precision block Lanczos, or by LAPACK where faster.

The search is in single precision where it can be; `polish` finishes in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    center_rows,
    eps,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds.errors import InputError
from neucmds.spectrum.lanczos import KrylovBasis, orthonormal_rows, project_out
from neucmds.spectrum.operators.gram import MOST_GATHERED, Gram
from neucmds.spectrum.operators.single_precision import Multiply
from neucmds.spectrum.search import (
    Check,
    Rule,
    allowed_residuals,
    basis_sizes,
    null_level,
    search,
    split_of,
)
from neucmds.spectrum.spectrum import Spectrum, full_spectrum

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]

# Largest residual of a further pair that is returned, relative to the kept scale.
EXTRA_TOL = 3e-4
# Share of ‖B‖² below which the dropped part is measured in a pass over D.
MEASURED_SHARE = 1e-10
# Error of a value from float64 products, relative to the largest.
DOUBLE_ERROR = 1e-15
# The same of single precision, relative to the error of a product.
SINGLE_ERROR = 0.1
# Rows in a sample of residuals.
_SAMPLE = 256
# Float64 steps: the first removes most of the float32 noise, the next ones little.
_STEPS = 3
# Relative error of a float64 product.
_DOUBLE_PRECISION = 1e-14


def solve(
    gram: Gram,
    rule: Rule,
    n_wanted: int,
    *,
    solver: str = "auto",
    tol: float = 1e-7,
    random_state: Any = None,
    spare: bool = True,
) -> Spectrum:
    """Compute the eigenpairs that a selection rule keeps, and others that have converged.

    Parameters
    ----------
    gram : Gram
    rule : callable
        Selects from the ends of a spectrum; it is called at every check, with the Ritz values and
        the exact trace and Frobenius norm.
    n_wanted : int
        Largest number of pairs that the rule keeps.
    solver : {"auto", "full", "krylov"}
        "auto" takes LAPACK for at most 600 objects, or if an eighth of all pairs is wanted; LAPACK
        ignores the other parameters.
    tol : float
        Largest ‖Bu − λu‖ of a kept pair, relative to the largest kept |λ|; pairs that are tiny
        beside that are known to a share of their own size (`search.allowed_residuals`).
    random_state : int, RandomState or None
        Draws the first block; None is the seed 0.
    spare : bool
        Return further converged pairs as well, which takes a little longer.

    Returns
    -------
    Spectrum
        The kept pairs with residuals in float64, of all rows of B or of a sample, then more pairs
        from both ends with the recurrence's estimate. ``rule(spectrum)`` keeps the same pairs.
    """
    few = solver == "auto" and (gram.n <= 600 or 8 * n_wanted >= gram.n)
    if solver == "full" or few:
        return full_spectrum(gram)
    if gram.frobenius_sq == 0.0:  # there is nothing to embed
        none = gram.xp.zeros(
            (gram.n, 0), dtype=gram.xp.float64, device=gram.device
        )
        return Spectrum(
            np.empty(0), 0.0, 0.0, 0, 0, vectors=none, solver="krylov"
        )
    block, capacity = basis_sizes(gram, n_wanted)
    if capacity < 2 * n_wanted + 5 * block:
        return full_spectrum(gram)
    seed = check_random_state(0 if random_state is None else random_state)
    # A generator draws faster.
    rng = np.random.default_rng(seed.randint(2**31))
    spectrum = _searched(gram, rule, n_wanted, tol, spare, rng)
    if not spectrum.converged and gram.n <= MOST_GATHERED:
        return full_spectrum(gram)
    if (
        spectrum.dropped_sq(rule(spectrum).kept)
        < MEASURED_SHARE * gram.frobenius_sq
    ):
        left = unexplained_sq(gram, spectrum.values, spectrum.vectors.T)
        spectrum = replace(spectrum, unknown_sq=left)
    return spectrum


def _searched(
    gram: Gram,
    rule: Rule,
    n_wanted: int,
    tol: float,
    spare: bool,
    rng: np.random.Generator,
) -> Spectrum:
    """Search with products in single precision where these pay, then in float64 if need be."""
    block, capacity = basis_sizes(gram, n_wanted)
    attempts: list[tuple[AbstractContextManager[Multiply], float]] = [
        (nullcontext(gram.matmat), _DOUBLE_PRECISION)
    ]
    # The float64 steps bring float32 pairs to 1e-8, but not to 1e-9.
    single = gram.single() if tol >= 1e-8 else None
    if single is not None:
        attempts.insert(0, (single, gram.single_error))
    for products, precision in attempts:
        with products as multiply:
            rows = gram.xp.empty(
                (capacity, gram.n), dtype=gram.xp.float64, device=gram.device
            )
            basis = KrylovBasis(rows, multiply, rng, precision)
            basis.inject(block)
            check, converged = search(gram, basis, rule, n_wanted, tol)
        # The float32 copy is freed before the finish.
        del multiply
        basis.multiply = gram.matmat
        unpolished = None
        if converged:
            unpolished = _unpolished(gram, basis, check, n_wanted, tol, spare)
        spectrum = unpolished or _finished(
            gram, basis, check, rule, n_wanted, tol, converged
        )
        if spectrum.converged:
            break
    return spectrum


def _unpolished(
    gram: Gram,
    basis: KrylovBasis,
    check: Check,
    n_wanted: int,
    tol: float,
    spare: bool,
) -> Spectrum | None:
    """Return the pairs of the search without a float64 step, if its products are exact enough."""
    # Errors that are no noise, as of features in float32, move values by as much as residuals.
    if tol < 10 * basis.precision:
        return None
    m = check.values.size
    top, bottom = split_of(check.kept)
    kept = np.r_[:top, m - bottom : m]
    values = check.values[kept]
    # Of a small dropped part, ‖B‖² less the kept squares, single precision leaves no digit.
    dropped = gram.frobenius_sq - float(values @ values)
    if (
        basis.precision > _DOUBLE_PRECISION
        and dropped < 1e-6 * gram.frobenius_sq
    ):
        return None
    rows = basis.vectors(kept)
    sampled = sampled_residuals(gram, values, rows)
    if sampled is None:
        return None
    residuals = np.maximum(check.residuals[kept], sampled)
    doubtful = np.abs(values) <= max(
        10 * check.noise, null_level(gram, values)
    )
    limit = check.allowed[kept] * tol * check.scale
    if np.any(doubtful) or np.any(residuals > limit):
        return None
    kept_pairs = _pairs(
        gram, values, rows, residuals, _search_error(basis, check), top
    )
    if not spare:
        return kept_pairs
    further = _further(gram, check, n_wanted, (top, bottom), check.noise)
    return _around(
        kept_pairs, _further_pairs(gram, basis, check, *further, check.noise)
    )


def _finished(
    gram: Gram,
    basis: KrylovBasis,
    check: Check,
    rule: Rule,
    n_wanted: int,
    tol: float,
    converged: bool,
) -> Spectrum:
    """Improve the kept pairs in float64, add further pairs, and apply the rule again."""
    xp = gram.xp
    m = check.values.size
    top, bottom = split_of(check.kept)
    inner = np.delete(check.values, check.kept)

    def allowed(values: Floats, scale: float = check.scale) -> Floats:
        return allowed_residuals(
            gram, values, tol=tol, scale=scale, dropped_sq=float(inner @ inner)
        )

    for _ in range(4):
        rows = basis.vectors(np.r_[:top, m - bottom : m])
        values, rows, residuals, noise = polish(gram, rows, top, allowed)
        noise = max(noise, check.noise)
        real = np.flatnonzero(are_real(gram, values, residuals))
        n_top = int(np.sum(real < top))
        kept_values = values[real]
        kept_rows = xp.take(
            rows, asarray_like(real, rows, dtype=xp.int64), axis=0
        )
        scale = float(np.max(np.abs(kept_values), initial=0.0))
        above, below = _further(gram, check, n_wanted, (top, bottom), noise)
        # If a kept value is zero, all further in are, too.
        above = above[: above.size * (n_top == top)]
        below = below[: below.size * (real.size - n_top == bottom)]
        error = DOUBLE_ERROR * scale
        spectrum = _pairs(
            gram, kept_values, kept_rows, residuals[real], error, n_top
        )
        further = _further_pairs(gram, basis, check, above, below, noise)
        # The kept rows were turned.
        further = replace(
            further, vectors=_apart(kept_rows, further.vectors.T).T
        )
        spectrum = _around(spectrum, further)
        n_largest, n_smallest = split_of(np.sort(rule(spectrum).kept))
        if n_largest <= top and n_smallest <= bottom:
            break
        top = max(n_largest, top)
        bottom = max(n_smallest, bottom)
    known = are_known(gram, values, residuals, allowed(values, scale))
    # Pairs below the rounding of the search were found by chance: others of their size were not.
    clear = np.abs(kept_values) > check.noise
    good = bool(np.all(known)) and bool(np.all(clear))
    return replace(spectrum, converged=converged and good)


def _pairs(
    gram: Gram,
    values: Floats,
    rows: Array,
    residuals: Floats,
    error: float,
    n_top: int,
) -> Spectrum:
    """Make a spectrum of some pairs, of which `n_top` are from the top."""
    return Spectrum(
        values=values,
        trace=gram.trace,
        frobenius_sq=gram.frobenius_sq,
        n_top=n_top,
        n_bottom=values.size - n_top,
        precision=eps(gram.dtype, gram.xp),
        vectors=rows.T,
        residuals=residuals,
        value_errors=np.full(values.size, error),
        solver="krylov",
    )


def _further_pairs(
    gram: Gram,
    basis: KrylovBasis,
    check: Check,
    above: Indices,
    below: Indices,
    noise: float,
) -> Spectrum:
    """Return Ritz pairs next to the kept ones as the search found them."""
    which = np.r_[above, below]
    residuals = np.hypot(check.residuals[which], noise)
    error = _search_error(basis, check)
    return _pairs(
        gram,
        check.values[which],
        basis.vectors(which),
        residuals,
        error,
        above.size,
    )


def _search_error(basis: KrylovBasis, check: Check) -> float:
    """Bound the error of a value that comes from the products of the search."""
    share = SINGLE_ERROR if basis.precision > _DOUBLE_PRECISION else 1.0
    return check.noise * share


def _around(kept: Spectrum, further: Spectrum) -> Spectrum:
    """Put the kept pairs around the further ones, largest first."""
    if not further.values.size:
        return kept
    top = kept.n_top
    highest = kept.values[top - 1] if top else np.inf
    lowest = kept.values[top] if kept.n_bottom else -np.inf
    # Of equal values the kept one stays outside.
    inner = np.clip(further.values, lowest, highest)
    columns = [kept.vectors[:, :top], further.vectors, kept.vectors[:, top:]]
    return replace(
        kept,
        values=np.r_[kept.values[:top], inner, kept.values[top:]],
        n_top=top + further.n_top,
        n_bottom=kept.n_bottom + further.n_bottom,
        # As rows, which are contiguous.
        vectors=namespace(kept.vectors)
        .concat([part.T for part in columns], axis=0)
        .T,
        residuals=np.r_[
            kept.residuals[:top], further.residuals, kept.residuals[top:]
        ],
        value_errors=np.r_[
            kept.value_errors[:top],
            further.value_errors,
            kept.value_errors[top:],
        ],
    )


def _apart(kept: Array, rows: Array) -> Array:
    """Make further rows orthogonal to the kept ones, which have changed."""
    rows, moved = project_out(kept, rows)
    if np.max(np.abs(to_numpy(moved)), initial=0.0) > 1e-7:
        rows, _, _ = orthonormal_rows(rows, 0.0)
    return rows


def _further(
    gram: Gram,
    check: Check,
    n_wanted: int,
    split: tuple[int, int],
    noise: float,
) -> tuple[Indices, Indices]:
    """Find the Ritz pairs next to the kept ones that are known too, up to 2k from either end."""
    values = check.values
    m = values.size
    top, bottom = split
    residuals = np.hypot(check.residuals, noise)
    clear = np.abs(values) > np.maximum(
        10 * residuals, null_level(gram, values)
    )
    known = clear & (residuals <= EXTRA_TOL * check.scale)
    limit = min(2 * n_wanted, m // 2)
    from_top = known[top:limit] & (values[top:limit] > 0)
    from_bottom = known[::-1][bottom:limit] & (values[::-1][bottom:limit] < 0)
    # The first unknown pair ends a run.
    above = int(np.argmin(np.append(from_top, False)))
    below = int(np.argmin(np.append(from_bottom, False)))
    return np.r_[top : top + above], np.r_[m - bottom - below : m - bottom]


def sampled_residuals(
    gram: Gram, values: Floats, rows: Array
) -> Floats | None:
    """Estimate ‖Bu − λu‖ in float64 from a few rows of B: 256 tell it to 5 % where it is noise.

    The vectors are centered, one per row. None if single rows of D are expensive.
    """
    xp = gram.xp
    columns = rows.T
    sizes = np.abs(to_numpy(gram.diagonal()))
    # Rows with the largest diagonal entries are all computed.
    n_largest = _SAMPLE // 8
    largest = np.argpartition(sizes, max(0, gram.n - n_largest))[-n_largest:]
    others = np.delete(np.arange(gram.n), largest)
    spaced = np.linspace(
        0, max(0, others.size - 1), min(_SAMPLE, others.size)
    ).astype(np.intp)
    # D is symmetric: the mean of D u is that of its row means with u, and B = −½CDC.
    means = gram.row_means @ columns
    lam = asarray_like(values, rows)
    total = np.zeros(values.size)
    for sample, stand_for in (
        (largest, largest.size),
        (others[spaced], others.size),
    ):
        for part in row_blocks(sample.size, gram.n):
            picked = gram.pick(sample[part])
            if picked is None:
                return None
            picked = xp.astype(picked, xp.float64, copy=False)
            entries = xp.take(
                columns,
                asarray_like(sample[part], rows, dtype=xp.int64),
                axis=0,
            )
            residuals = -0.5 * (picked @ columns - means) - entries * lam
            squares = to_numpy(xp.sum(residuals * residuals, axis=0))
            total += squares * (stand_for / sample.size)
    return np.asarray(np.sqrt(total))


def are_real(gram: Gram, values: Floats, residuals: Floats) -> Flags:
    """Tell which values differ from zero."""
    return np.abs(values) > np.maximum(residuals, null_level(gram, values))


def are_known(
    gram: Gram, values: Floats, residuals: Floats, allowed: Floats
) -> Flags:
    """Tell which pairs have the residual allowed and a certain sign, or are zero."""
    size = np.abs(values)
    return (residuals <= np.minimum(allowed, size)) | (
        size <= null_level(gram, values)
    )


def polish(
    gram: Gram, rows: Array, n_top: int, allowed: Callable[[Floats], Floats]
) -> tuple[Floats, Array, Floats, float]:
    """Improve Ritz vectors in float64 until their residuals are as allowed, in at most three steps.

    The first `n_top` rows belong to the largest values, the others to the smallest; `allowed` gives
    the largest residual of each pair from their values. Return the values, the vectors as rows,
    their residuals, and the largest residual that the first float64 product found.
    """
    xp = gram.xp
    n_bottom = int(rows.shape[0]) - n_top
    values, rows, images = rayleigh_ritz(
        rows, gram.matmat(rows.T).T, n_top, n_bottom
    )
    errors, residuals = _residual_rows(values, rows, images)
    noise = float(np.max(residuals, initial=0.0))
    for _ in range(_STEPS):
        size = np.abs(values)
        # Neither clearly zero nor known to have the sign they show.
        undecided = (size > null_level(gram, size)) & (size < residuals)
        bad = np.flatnonzero((residuals > allowed(values)) | undecided)
        if not bad.size:
            break
        # The residual of a pair points along its error. Its image must be exact: float32 turns
        # null vectors into values of 1e-8.
        steps = xp.take(
            errors, asarray_like(bad, rows, dtype=xp.int64), axis=0
        )
        steps, _, _ = orthonormal_rows(steps, 0.0)
        for _ in range(2):
            center_rows(steps)
            steps, _ = project_out(rows, steps)
            steps, _, _ = orthonormal_rows(steps, 1e-8)
        images = xp.concat([images, gram.matmat(steps.T).T], axis=0)
        rows = xp.concat([rows, steps], axis=0)
        values, rows, images = rayleigh_ritz(rows, images, n_top, n_bottom)
        errors, residuals = _residual_rows(values, rows, images)
    return values, rows, residuals, noise


def rayleigh_ritz(
    rows: Array, images: Array, n_top: int, n_bottom: int
) -> tuple[Floats, Array, Array]:
    """Return Ritz values, vectors and their images from orthonormal rows and their images."""
    projected = to_numpy(rows @ images.T)
    lam, vectors = np.linalg.eigh(0.5 * (projected + projected.T))
    ascending = np.arange(lam.size)
    ends = np.r_[ascending[::-1][:n_top], ascending[:n_bottom][::-1]]
    turn = asarray_like(np.ascontiguousarray(vectors[:, ends].T), rows)
    return lam[ends], turn @ rows, turn @ images


def _residual_rows(
    values: Floats, rows: Array, images: Array
) -> tuple[Array, Floats]:
    """Return B u − λ u of every pair, and its length."""
    xp = namespace(rows)
    errors = asarray_like(-values[:, None], rows) * rows
    errors += images
    return errors, to_numpy(xp.sqrt(xp.vecdot(errors, errors)))


def unexplained_sq(gram: Gram, values: Floats, rows: Array) -> float | None:
    """‖B − UΛUᵀ‖²_F from its entries, in one pass over D.

    Its error is some ε‖B‖ times its root, that of ‖B‖² less the squared values some ε‖B‖². None if
    D cannot be read row by row.
    """
    xp = gram.xp
    means = gram.row_means
    offsets = means - gram.mean
    weighted = rows * asarray_like(values[:, None], rows)

    def part_sq(strip: slice, part: Array) -> float:
        total = 0.0
        for piece in row_blocks(int(part.shape[0]), gram.n):
            objects = slice(
                strip.start + piece.start, strip.start + piece.stop
            )
            left = (
                xp.astype(part[piece, :], xp.float64, copy=False)
                - means[objects, None]
            )
            left = (
                -0.5 * (left - offsets[None, :])
                - weighted[:, objects].T @ rows
            )
            total += float(xp.sum(left * left))
        return total

    try:
        return sum(gram.on_each(part_sq))
    except (
        InputError
    ):  # chunks on the workers of a cluster, too many to be gathered
        return None
