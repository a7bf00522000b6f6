"""Both ends of the spectrum by mixed-precision block Lanczos, or all of it by LAPACK.

Lanczos searches in single precision where it can; `polish` improves its pairs in float64.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    Floats,
    Indices,
    Marks,
    asarray_like,
    eps,
    in_double,
    namespace,
    on_cpu,
    taken,
    to_numpy,
)
from neucmds.spectrum.lanczos import (
    KrylovBasis,
    new_directions,
    orthonormal_rows,
    project_out,
)
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import MOST_GATHERED, Gram
from neucmds.spectrum.search import (
    ROUGH_TOL,
    Rule,
    allowed_residuals,
    basis_sizes,
    kept_by,
    null_level,
    search,
    split_of,
)
from neucmds.spectrum.spectrum import Spectrum, full_spectrum

# Relative error of a product in float64, and in float32, where up to 6.3e-7 was measured.
DOUBLE_ERROR = 1e-14
SINGLE_ERROR = 1e-6
# Error of a Ritz value, relative to that of the products.
VALUE_ERROR = 0.1
# Most steps of `polish`: three to five take out the float32 noise where the spectrum is flat.
STEPS = 8


def solve(
    gram: Gram,
    rule: Rule,
    n_wanted: int,
    *,
    solver: str = "auto",
    tol: float = 1e-7,
    is_start: bool = False,
    random_state: Any = 0,
) -> Spectrum:
    """Compute the eigenpairs that a selection rule keeps, and others next to them.

    Parameters
    ----------
    gram : Gram
    rule : callable
        Selects from a `Spectrum`. It is called at every check, with the Ritz values in place of the
        eigenvalues at both ends, and the exact trace and Frobenius norm.
    n_wanted : int
        Largest number of pairs that the rule keeps.
    solver : {"auto", "full", "krylov"}
        "full" is LAPACK, which ignores the other parameters. "auto" takes it for at most 600
        objects, or if an eighth of all pairs is wanted; both "auto" and "krylov" take it if D is
        zero, if there are too few objects for a search, or after searches that fail, of up to
        `MOST_GATHERED` objects. `Spectrum.solver` says which it was.
    tol : float
        Largest ‖Bu − λu‖ of a kept pair, relative to the largest kept |λ|; of much smaller pairs,
        see `search.allowed_residuals`.
    is_start : bool
        Whether a descent follows: then the rounding of float32 products is taken for its usual
        bound, and not measured.
    random_state : int or RandomState
        Draws the first block.

    Returns
    -------
    Spectrum
        The kept pairs with their residuals, and between them further pairs from both ends, with
        bounds. ``rule(spectrum)`` keeps the same pairs, if the spectrum has converged.
    """
    lapack_is_faster = gram.n <= 600 or 8 * n_wanted >= gram.n
    block, capacity = basis_sizes(gram, n_wanted)
    # `search` needs room for twice the pairs wanted and 3.5 blocks at most: one, and two that
    # injected vectors widen. The rest is room to grow.
    has_room = capacity >= 2 * n_wanted + 5 * block
    if (
        solver == "full"
        or (solver == "auto" and lapack_is_faster)
        or not has_room
        # D is zero: there is nothing to search for.
        or gram.frobenius_sq == 0.0
    ):
        return full_spectrum(gram)
    seed = check_random_state(random_state).randint(2**31)
    # A Generator draws faster than a RandomState.
    rng = np.random.default_rng(seed)
    # A context manager of the product with B, and the relative error of that product.
    attempts: list[tuple[Any, float]] = []
    # `polish` brings pairs of a float32 search to 1e-8, but not to 1e-9.
    single = gram.single() if tol >= 1e-8 else None
    if single is not None:
        attempts.append((single, SINGLE_ERROR))
    attempts.append((nullcontext(gram.matmat), DOUBLE_ERROR))
    for products, product_error in attempts:
        with products as multiply:
            rows = gram.xp.empty(
                (capacity, gram.n), dtype=gram.xp.float64, device=gram.device
            )
            basis = KrylovBasis(rows, multiply, rng, product_error)
            basis.inject(block)
            converged = search(gram, basis, rule, n_wanted, tol)
        spectrum = _as_spectrum(gram, basis, rule, n_wanted, tol, is_start)
        if converged and spectrum.converged:
            return spectrum
    if gram.n <= MOST_GATHERED:
        return full_spectrum(gram)
    return replace(spectrum, converged=False)


def _as_spectrum(
    gram: Gram,
    basis: KrylovBasis,
    rule: Rule,
    n_wanted: int,
    tol: float,
    is_start: bool,
) -> Spectrum:
    """Return the kept Ritz pairs, improved in float64 if they must be, and further ones."""
    kept = kept_by(gram, rule, basis.values)
    # The first `top` of the kept pairs have the largest values, the others the smallest.
    top, _ = split_of(kept)
    limits = allowed_residuals(gram, basis.values, kept, tol)[kept]
    rows = basis.vectors(kept)
    above, below = further_pairs(gram, basis, n_wanted, kept)
    values = basis.values[kept]
    residuals = basis.residuals[kept] + basis.noise
    if not is_start:
        residuals += rounding_of(gram, basis, kept, rows)
    is_known = are_known(gram, values, residuals, limits)
    product_error = basis.precision
    if not np.all(is_known):
        values, rows, residuals = polish(gram, rows, top, limits)
        is_known = are_known(gram, values, residuals, limits)
        product_error = DOUBLE_ERROR
    size = np.abs(values)
    is_nonzero = size > np.maximum(residuals, null_level(gram, values))
    # Of pairs smaller than the rounding of the search it finds some by chance, and misses others.
    converged = np.all(is_known) and np.all(size[is_nonzero] > basis.noise)
    # If a kept value at one end is zero, so are those farther in: no further pairs at that end.
    if not np.all(is_nonzero[:top]):
        above = above[:0]
    if not np.all(is_nonzero[top:]):
        below = below[:0]
    spectrum = Spectrum(
        values=values[is_nonzero],
        trace=gram.trace,
        frobenius_sq=gram.frobenius_sq,
        n_top=int(np.sum(is_nonzero[:top])),
        n_bottom=int(np.sum(is_nonzero[top:])),
        precision=eps(gram.dtype, gram.xp),
        vectors=taken(rows, np.flatnonzero(is_nonzero)).T,
        residuals=residuals[is_nonzero],
        value_errors=np.full(
            int(np.sum(is_nonzero)),
            VALUE_ERROR * product_error * float(np.max(size, initial=0.0)),
        ),
        solver="krylov",
    )
    # Further pairs stand between the kept ones at the top and at the bottom.
    positions = spectrum.n_top + np.arange(above.size + below.size)
    spectrum = _with_further(spectrum, basis, above, below)
    # The rule must not keep a further pair now that values have improved.
    changed = np.isin(positions, rule(spectrum).kept).any()
    return replace(spectrum, converged=bool(converged and not changed))


def _with_further(
    kept: Spectrum, basis: KrylovBasis, above: Indices, below: Indices
) -> Spectrum:
    """Add further Ritz pairs between the kept ones: `above` next to the largest, then `below`."""
    further = np.r_[above, below]
    top = kept.n_top
    inner = basis.values[further]
    # So that values stay sorted: rounding may put a further value beyond the kept one next to it.
    if top:
        inner = np.minimum(inner, kept.values[top - 1])
    if kept.n_bottom:
        inner = np.maximum(inner, kept.values[top])
    # Further rows were orthogonal to the kept ones, which `polish` may have changed.
    rows = kept.vectors.T
    inner_rows, _ = project_out(rows, basis.vectors(further))
    inner_rows, _, _ = orthonormal_rows(inner_rows, 0.0)
    all_rows = [rows[:top, :], inner_rows, rows[top:, :]]
    inner_residuals = basis.residuals[further] + basis.noise
    inner_errors = np.full(further.size, VALUE_ERROR * basis.noise)
    return replace(
        kept,
        values=np.insert(kept.values, top, inner),
        n_top=top + above.size,
        n_bottom=kept.n_bottom + below.size,
        vectors=namespace(rows).concat(all_rows, axis=0).T,
        residuals=np.insert(kept.residuals, top, inner_residuals),
        value_errors=np.insert(kept.value_errors, top, inner_errors),
    )


def rounding_of(
    gram: Gram, basis: KrylovBasis, kept: Indices, rows: Array
) -> Floats:
    """Bound the rounding in B u − θ u of kept Ritz pairs (θ, u), with the vectors u as `rows`.

    After a search in float64 the bound is zero. After one in float32 it is measured on some rows of
    D on a GPU; elsewhere it is infinite, so that `polish` follows.
    """
    if basis.precision == DOUBLE_ERROR or not kept.size:
        return np.zeros(kept.size)
    if on_cpu(rows) or not isinstance(gram, DenseGram):
        return np.full(kept.size, np.inf)
    xp = gram.xp
    values = basis.values[kept]
    theta = asarray_like(values, rows)
    # Rounding is largest where u is large: half of the rows are drawn by u², the others evenly. As
    # many are drawn, with replacement, as the basis holds rows: some 200.
    squares = to_numpy(xp.sum(rows * rows, axis=0))
    chances = 0.5 / gram.n + 0.5 * squares / squares.sum()
    sample = basis.rng.choice(gram.n, basis.rows.shape[0], p=chances)
    # Entry i of B u is −½(D_i·u − m·u), with m the row means of D, since u is centered.
    drawn_rows = taken(gram.sq_dissimilarity, sample)
    errors = in_double(drawn_rows) @ rows.T
    errors -= gram.row_means @ rows.T
    errors *= -0.5
    # By the recurrence of Lanczos, B u is θ u and a part in the next block.
    outside = basis.remainder[kept]
    block = basis.rows[basis.size : basis.size + outside.shape[1], :]
    scaled_u = taken(rows.T, sample) * theta
    errors -= scaled_u
    errors -= taken(block.T, sample) @ asarray_like(outside.T, rows)
    # A sum over all rows is estimated by the mean of term / chance over the rows drawn.
    inverse = asarray_like(1 / chances[sample], rows)[:, None]
    # The dropped part, ‖B‖² − Σ θ², is a difference. Errors e of B u move Σ θ² by Σ 2θ uᵀe: beyond
    # 1 % of the dropped part they are not taken for a bound, and `polish` follows.
    shift = 2 * float(xp.sum(xp.mean(errors * scaled_u * inverse, axis=0)))
    dropped_sq = gram.frobenius_sq - float(values @ values)
    if abs(shift) > 0.01 * dropped_sq:
        return np.full(kept.size, np.inf)
    # A length that is estimated from 200 rows is off by a tenth or so: twice it is a bound.
    lengths = xp.sqrt(xp.mean(errors**2 * inverse, axis=0))
    return 2 * to_numpy(lengths)


def further_pairs(
    gram: Gram, basis: KrylovBasis, n_wanted: int, kept: Indices
) -> tuple[Indices, Indices]:
    """Return the numbers of known Ritz pairs next to the kept ones, at the top and at the bottom.

    Only the first 2·`n_wanted` values from either end are considered.
    """
    values = basis.values
    m = values.size
    top, bottom = split_of(kept)
    size = np.abs(values)
    largest = np.max(size[kept], initial=0.0)
    residuals = basis.residuals + basis.noise
    is_known = residuals <= np.minimum(0.1 * size, ROUGH_TOL * largest)
    is_zero = size <= null_level(gram, values)
    # Zero stands for values that are not known: the first one ends the pairs of its end.
    known_values = np.where(is_known & ~is_zero, values, 0.0)
    limit = min(2 * n_wanted, m // 2)
    # A zero is appended, so that `argmin` finds one: its position is the number of known pairs.
    from_top = np.append(known_values[top:limit], 0.0)
    from_bottom = np.append(known_values[::-1][bottom:limit], 0.0)
    above = int(np.argmin(from_top > 0))
    below = int(np.argmin(from_bottom < 0))
    return np.r_[top : top + above], np.r_[m - bottom - below : m - bottom]


def are_known(
    gram: Gram, values: Floats, residuals: Floats, limits: Floats
) -> Marks:
    """Tell which pairs have a residual within the limit and below |λ|, or are zero."""
    size = np.abs(values)
    return (residuals <= np.minimum(limits, size)) | (
        size <= null_level(gram, values)
    )


def polish(
    gram: Gram, rows: Array, n_top: int, limits: Floats
) -> tuple[Floats, Array, Floats]:
    """Improve Ritz vectors in float64 until their residuals are within limits.

    The first `n_top` rows belong to the largest values, the others to the smallest. Return the
    values, the vectors as rows, and the norms of their residuals.
    """
    xp = gram.xp
    # Products in float64: those of a float32 search would give null vectors values of 1e-8.
    images = gram.matmat(rows.T).T
    for step in range(STEPS + 1):
        values, rows, images = rayleigh_ritz(rows, images, n_top, limits.size)
        errors = images - asarray_like(values[:, None], rows) * rows
        residuals = np.sqrt(to_numpy(xp.vecdot(errors, errors)))
        unknown = np.flatnonzero(~are_known(gram, values, residuals, limits))
        if not unknown.size or step == STEPS:
            break
        # The error of a pair points along its residual, which is added to the space.
        directions = taken(errors, unknown)
        directions, _, _ = orthonormal_rows(directions, 0.0)
        directions = new_directions(rows, directions)
        images = xp.concat([images, gram.matmat(directions.T).T], axis=0)
        rows = xp.concat([rows, directions], axis=0)
    return values, rows, residuals


def rayleigh_ritz(
    rows: Array, images: Array, n_top: int, count: int
) -> tuple[Floats, Array, Array]:
    """Return `count` Ritz values, their vectors and the images of these, as rows.

    The `n_top` largest values come first, then the smallest, in descending order. `rows` are
    orthonormal, and `images` are the products of B with them.
    """
    projected = to_numpy(rows @ images.T)
    ascending, vectors = np.linalg.eigh(0.5 * (projected + projected.T))
    descending = np.arange(ascending.size)[::-1]
    n_bottom = count - n_top
    chosen = np.r_[descending[:n_top], descending[ascending.size - n_bottom :]]
    mix = asarray_like(np.ascontiguousarray(vectors[:, chosen].T), rows)
    return ascending[chosen], mix @ rows, mix @ images
