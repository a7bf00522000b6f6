"""Both ends of the spectrum by mixed-precision block Lanczos, or by LAPACK where faster.

The search is in single precision where it can be; `polish` finishes in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    BLOCK_ELEMENTS,
    Array,
    asarray_like,
    center_rows,
    eps,
    namespace,
    on_cpu,
    row_blocks,
    to_numpy,
)
from neucmds.errors import InputError
from neucmds.spectrum.lanczos import KrylovBasis, orthonormal_rows, project_out
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.operators.single_precision import Multiply
from neucmds.spectrum.search import Check, Rule, Search, allowed_residuals, null_level, split_of
from neucmds.spectrum.spectrum import Spectrum, full_spectrum

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

# Largest residual of a further pair that is returned, relative to the kept scale.
EXTRA_TOL = 3e-4
# Up to this size a float64 eigh is affordable, and better than no answer.
FULL_FALLBACK = 5000
# Share of ‖B‖² below which the dropped part is measured in a pass over D.
MEASURED_SHARE = 1e-10
# Error of a value from float64 products, relative to the largest.
DOUBLE_ERROR = 1e-15
# The same of single precision, relative to the error of a product.
SINGLE_ERROR = 0.1
# Rows in a sample of residuals, and the largest rows, which are all computed.
_SAMPLE, _LARGEST = 256, 32
# Entries of D that are sampled at a time on a GPU: 0.5 GB in float64.
_DEVICE_ELEMENTS = 2**26
# The first step removes most of the float32 noise, the next ones little.
_STEPS = 3


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
        empty = np.empty(0)
        return Spectrum(
            values=empty,
            vectors=gram.xp.zeros((gram.n, 0), dtype=gram.xp.float64, device=gram.device),
            residuals=empty,
            value_errors=empty,
            trace=0.0,
            frobenius_sq=0.0,
            n_top=0,
            n_bottom=0,
            solver="krylov",
        )
    search = Search.of(gram, rule, n_wanted, tol, spare)
    if search.capacity < 2 * n_wanted + 5 * search.block:
        return full_spectrum(gram)
    seed = check_random_state(0 if random_state is None else random_state)
    # A generator draws faster.
    spectrum = _searched(search, np.random.default_rng(seed.randint(2**31)))
    if not spectrum.converged and gram.n <= FULL_FALLBACK:
        return full_spectrum(gram)
    if spectrum.dropped_sq(rule(spectrum).kept) < MEASURED_SHARE * gram.frobenius_sq:
        left = unexplained_sq(gram, spectrum.values, spectrum.vectors.T)
        spectrum = replace(spectrum, unknown_sq=left)
    return spectrum


def _searched(search: Search, rng: np.random.Generator) -> Spectrum:
    """Search with the cheapest products first."""
    gram = search.gram
    # The float64 steps bring float32 pairs to 1e-8, but not to 1e-9.
    rounded = gram.rounded() if search.tol >= 1e-8 else None
    left: list[tuple[AbstractContextManager[Multiply], float]]
    left = [] if rounded is None else [(rounded.products(), rounded.precision)]
    left.append((nullcontext(gram.matmat), 1e-14))
    del rounded
    while left:
        products, precision = left.pop(0)
        with products as multiply:
            shape, float64 = (search.capacity, gram.n), gram.xp.float64
            rows = gram.xp.empty(shape, dtype=float64, device=gram.device)
            basis = KrylovBasis(rows, multiply, rng, precision)
            basis.inject(search.block)
            check, converged = search.run(basis)
        # The float32 copy is freed before the finish.
        del products, multiply
        basis.multiply = gram.matmat
        found = _unpolished(search, basis, check) if converged else None
        spectrum = found or _finished(search, basis, check, converged)
        if spectrum.converged:
            break
    return spectrum


def _unpolished(search: Search, basis: KrylovBasis, check: Check) -> Spectrum | None:
    """Return the pairs of the search without a float64 step, if its products are exact enough."""
    # Errors that are no noise, as of features in float32, move values by as much as residuals.
    if search.tol < 10 * basis.precision:
        return None
    gram, ritz, m = search.gram, check.ritz, check.ritz.values.size
    top, bottom = split_of(check.kept)
    kept = np.r_[:top, m - bottom : m]
    values, rows = ritz.values[kept], basis.vectors(ritz, kept)
    # Of a small dropped part, ‖B‖² less the kept squares, single precision leaves no digit.
    dropped = gram.frobenius_sq - float(values @ values)
    if basis.precision > 1e-12 and dropped < 1e-6 * gram.frobenius_sq:
        return None
    sampled = sampled_residuals(gram, values, rows)
    if sampled is None:
        return None
    residuals = np.maximum(ritz.residuals[kept], sampled)
    doubtful = np.abs(values) <= max(10 * check.noise, null_level(gram, values))
    limit = check.allowed[kept] * search.tol * check.scale
    if np.any(doubtful) or np.any(residuals > limit):
        return None
    above, below = _further(search, check, (top, bottom), check.noise)
    if not search.spare:
        above, below = above[:0], below[:0]
    found = _Found(values, rows, residuals, top, as_found=True)
    return _assembled(search, basis, check, found, (above, below), check.noise)


def _finished(search: Search, basis: KrylovBasis, check: Check, converged: bool) -> Spectrum:
    """Improve the kept pairs in float64, add further pairs, and apply the rule again."""
    gram, (top, bottom) = search.gram, split_of(check.kept)
    inner = np.delete(check.ritz.values, check.kept)

    def allowed(values: Floats, scale: float = check.scale) -> Floats:
        return allowed_residuals(
            gram, values, tol=search.tol, scale=scale, dropped_sq=float(inner @ inner)
        )

    m = check.ritz.values.size
    for _ in range(4):
        rows = basis.vectors(check.ritz, np.r_[:top, m - bottom : m])
        pairs, noise = polish(gram, rows, top, allowed)
        noise = max(noise, check.noise)
        real = np.flatnonzero(pairs.real(gram))
        n_top = int(np.sum(real < top))
        rows = gram.xp.take(pairs.rows, asarray_like(real, rows, dtype=gram.xp.int64), axis=0)
        found = _Found(pairs.values[real], rows, pairs.residuals[real], n_top, as_found=False)
        above, below = _further(search, check, (top, bottom), noise)
        # If a kept value is zero, all further in are, too.
        above = above[: above.size * (n_top == top)]
        below = below[: below.size * (real.size - n_top == bottom)]
        spectrum = _assembled(search, basis, check, found, (above, below), noise)
        r, s = split_of(np.sort(search.rule(spectrum).kept))
        if r <= top and s <= bottom:
            break
        top, bottom = max(r, top), max(s, bottom)
    scale = float(np.max(np.abs(found.values), initial=0.0))
    good = bool(np.all(pairs.known(gram, allowed(pairs.values, scale))))
    # Pairs below the rounding of the search were found by chance: others of their size were not.
    good = good and bool(np.all(np.abs(found.values) > check.noise))
    return replace(spectrum, converged=converged and good)


@dataclass(frozen=True)
class _Found:
    """The pairs that the rule keeps: `top` of the largest values, then those of the smallest.

    Those that are not `as_found` by the search were improved in float64, and turned by it.
    """

    values: Floats
    rows: Array
    residuals: Floats
    top: int
    as_found: bool


def _assembled(
    search: Search,
    basis: KrylovBasis,
    check: Check,
    found: _Found,
    further: tuple[Indices, Indices],
    noise: float,
) -> Spectrum:
    """Put the kept pairs around the further Ritz pairs, largest first."""
    gram, ritz, xp = search.gram, check.ritz, search.gram.xp
    top, lam, left, rows = found.top, found.values, found.residuals, found.rows
    bottom = int(lam.size) - top
    more = np.r_[further]
    if more.size:
        inner = basis.vectors(ritz, more)
        inner = inner if found.as_found else _apart(rows, inner)
        rows = xp.concat([rows[:top, :], inner, rows[top:, :]], axis=0)
    # Of equal values the kept one stays outside.
    values = np.clip(
        ritz.values[more], lam[top] if bottom else -np.inf, lam[top - 1] if top else np.inf
    )
    estimates = np.hypot(ritz.residuals[more], noise)
    of_search = check.noise * (SINGLE_ERROR if basis.precision > 1e-12 else 1.0)
    of_finish = DOUBLE_ERROR * float(np.max(np.abs(lam), initial=0.0))
    errors = np.full(lam.size, of_search if found.as_found else of_finish)
    further_errors = np.full(more.size, of_search)
    return Spectrum(
        values=np.r_[lam[:top], values, lam[top:]],
        vectors=rows.T,
        residuals=np.r_[left[:top], estimates, left[top:]],
        trace=gram.trace,
        frobenius_sq=gram.frobenius_sq,
        n_top=top + int(further[0].size),
        n_bottom=bottom + int(further[1].size),
        solver="krylov",
        precision=eps(gram.dtype, xp),
        value_errors=np.r_[errors[:top], further_errors, errors[top:]],
    )


def _apart(kept: Array, rows: Array) -> Array:
    """Make further rows orthogonal to the kept ones, which have changed."""
    rows, moved = project_out(kept, rows)
    if np.max(np.abs(to_numpy(moved)), initial=0.0) > 1e-7:
        rows, _, _ = orthonormal_rows(rows, 0.0)
    return rows


def _further(
    search: Search, check: Check, split: tuple[int, int], noise: float
) -> tuple[Indices, Indices]:
    """Find the Ritz pairs next to the kept ones that are known too, up to 2k from either end."""
    ritz, m = check.ritz, check.ritz.values.size
    left = np.hypot(ritz.residuals, noise)
    clear = np.abs(ritz.values) > np.maximum(10 * left, null_level(search.gram, ritz.values))
    known = clear & (left <= EXTRA_TOL * check.scale)
    limit = min(2 * search.n_wanted, m // 2)
    top, bottom = split
    # The first unknown pair ends a run.
    above = np.argmin(np.append(known[top:limit] & (ritz.values[top:limit] > 0), False))
    below = np.argmin(
        np.append(known[::-1][bottom:limit] & (ritz.values[::-1][bottom:limit] < 0), False)
    )
    return np.r_[top : top + above], np.r_[m - bottom - below : m - bottom]


def sampled_residuals(gram: Gram, values: Floats, rows: Array) -> Floats | None:
    """Estimate ‖Bu − λu‖ in float64 from a few rows of B: 256 tell it to 5 % where it is noise.

    The vectors are centered, one per row. None if single rows of D are expensive.
    """
    xp, columns = gram.xp, rows.T
    sizes = np.abs(to_numpy(gram.diagonal()))
    largest = np.argpartition(sizes, max(0, gram.n - _LARGEST))[-_LARGEST:]
    others = np.delete(np.arange(gram.n), largest)
    spaced = np.linspace(0, max(0, others.size - 1), min(_SAMPLE, others.size)).astype(np.intp)
    # D is symmetric: the mean of D u is that of its row means with u, and B = −½CDC.
    means = gram.moments.row_means @ columns
    lam = asarray_like(values, rows)
    total = np.zeros(values.size)
    # On a GPU every block is waited for.
    elements = BLOCK_ELEMENTS if on_cpu(rows) else _DEVICE_ELEMENTS
    for chosen, stand_for in ((largest, largest.size), (others[spaced], others.size)):
        for part in row_blocks(chosen.size, gram.n, elements):
            some = chosen[part]
            picked = gram.pick(some)
            if picked is None:
                return None
            own = xp.take(columns, asarray_like(some, columns, dtype=xp.int64), axis=0)
            left = -0.5 * (xp.astype(picked, xp.float64, copy=False) @ columns - means) - own * lam
            squares = to_numpy(xp.sum(left * left, axis=0))
            total += squares * (stand_for / chosen.size)
    return np.asarray(np.sqrt(total))


@dataclass(frozen=True)
class RitzPairs:
    """Ritz pairs with their images B u: some from the top, the rest from the bottom."""

    values: Floats
    rows: Array
    images: Array
    residual_rows: Array
    residuals: Floats

    @classmethod
    def of(cls, rows: Array, images: Array, n_top: int, n_bottom: int) -> RitzPairs:
        """Rayleigh–Ritz on orthonormal rows and their images."""
        projected = to_numpy(rows @ images.T)
        lam, vectors = np.linalg.eigh(0.5 * (projected + projected.T))
        ends = np.r_[np.arange(lam.size)[::-1][:n_top], np.arange(n_bottom)[::-1]]
        lam, turn = lam[ends], asarray_like(np.ascontiguousarray(vectors[:, ends].T), rows)
        rows, images = turn @ rows, turn @ images
        left = asarray_like(-lam[:, None], rows) * rows
        left += images
        xp = namespace(rows)
        lengths = to_numpy(xp.sqrt(xp.vecdot(left, left)))
        return cls(lam, rows, images, left, lengths)

    def real(self, gram: Gram) -> npt.NDArray[np.bool_]:
        """Tell which values differ from zero."""
        return np.abs(self.values) > np.maximum(self.residuals, null_level(gram, self.values))

    def known(self, gram: Gram, allowed: Floats) -> npt.NDArray[np.bool_]:
        """Tell which pairs have the residual allowed and a certain sign, or are zero."""
        size = np.abs(self.values)
        small = self.residuals <= np.minimum(allowed, size)
        return small | (size <= null_level(gram, self.values))


def polish(
    gram: Gram, rows: Array, n_top: int, allowed: Callable[[Floats], Floats]
) -> tuple[RitzPairs, float]:
    """Improve Ritz vectors in float64 until their residuals are as allowed, in at most three steps.

    The first `n_top` rows belong to the largest values, the others to the smallest; `allowed` gives
    the largest residual of each pair from their values. Return the pairs, and the largest residual
    that the first float64 product found.
    """
    xp, n_bottom = gram.xp, int(rows.shape[0]) - n_top
    pairs = RitzPairs.of(rows, gram.matmat(rows.T).T, n_top, n_bottom)
    noise = float(np.max(pairs.residuals, initial=0.0))
    for _ in range(_STEPS):
        size = np.abs(pairs.values)
        # Neither clearly zero nor known to have the sign they show.
        undecided = (size > null_level(gram, size)) & (size < pairs.residuals)
        bad = np.flatnonzero((pairs.residuals > allowed(pairs.values)) | undecided)
        if not bad.size:
            break
        # The residual of a pair points along its error. Its image must be exact: float32 turns
        # null vectors into values of 1e-8.
        left = xp.take(pairs.residual_rows, asarray_like(bad, rows, dtype=xp.int64), axis=0)
        steps, _, _ = orthonormal_rows(left, 0.0)
        for _ in range(2):
            center_rows(steps)
            steps, _ = project_out(pairs.rows, steps)
            steps, _, _ = orthonormal_rows(steps, 1e-8)
        images = xp.concat([pairs.images, gram.matmat(steps.T).T], axis=0)
        pairs = RitzPairs.of(xp.concat([pairs.rows, steps], axis=0), images, n_top, n_bottom)
    return pairs, noise


def unexplained_sq(gram: Gram, values: Floats, rows: Array) -> float | None:
    """‖B − UΛUᵀ‖²_F from its entries, in one pass over D.

    Its error is some ε‖B‖ times its root, that of ‖B‖² less the squared values some ε‖B‖². None if
    D cannot be read row by row.
    """
    xp, means = gram.xp, gram.moments.row_means
    offsets, weighted = means - gram.moments.mean, rows * asarray_like(values[:, None], rows)

    def part_sq(whole: slice, part: Array) -> float:
        total = 0.0
        for some in row_blocks(int(part.shape[0]), gram.n):
            here = slice(whole.start + some.start, whole.start + some.stop)
            left = xp.astype(part[some, :], xp.float64, copy=False) - means[here, None]
            left = -0.5 * (left - offsets[None, :]) - weighted[:, here].T @ rows
            total += float(xp.sum(left * left))
        return total

    try:
        return sum(gram.on_each(part_sq))
    except InputError:  # chunks on the workers of a cluster, too many to be gathered
        return None
