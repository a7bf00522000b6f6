"""Both ends of the spectrum by mixed-precision block Lanczos, until what is kept is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds._backend.arrays import Array, asarray_like, eps
from neucmds._operator import Gram
from neucmds._operator.single_precision import Multiply
from neucmds._spectrum.full import full_spectrum
from neucmds._spectrum.lanczos import KrylovBasis
from neucmds._spectrum.orthogonal import orthonormal_rows, project_out
from neucmds._spectrum.polish import Pairs, null_level, refined, sampled_residuals
from neucmds._spectrum.search import Check, Rule, Search, Sizes, outermost, split_of
from neucmds._spectrum.spectrum import Spectrum

__all__ = ["krylov_spectrum"]

Indices = npt.NDArray[np.intp]

# A pair that was not kept is handed on if its residual is below this, relative to the kept scale.
EXTRA_TOL = 3e-4
# Up to this size a float64 eigh is affordable, and better than no answer.
FULL_FALLBACK = 5000


def krylov_spectrum(
    gram: Gram,
    rule: Rule,
    n_wanted: int,
    *,
    tol: float = 1e-7,
    random_state: Any = None,
    max_products: int | None = None,
    single: bool = True,
    spare: bool = True,
    callback: Callable[[int, float], None] | None = None,
) -> Spectrum:
    """Compute the eigenpairs that a selection rule keeps, and what else has converged by then.

    Parameters
    ----------
    gram : Gram
    rule : callable
        Selects from the ends of a spectrum; it is asked at every check, with the Ritz values and
        the exact trace and Frobenius norm.
    n_wanted : int
        Number of pairs that the rule will keep at the most.
    tol : float
        Largest ‖Bu − λu‖ of a kept pair, relative to the largest kept |λ|.
    random_state : int, RandomState, Generator or None
        Draws the first block. None is the seed 0: the start decides nothing but rounding.
    max_products : int or None
        Columns multiplied with B before giving up on a precision; None is ``40 (n_wanted + 50)``.
    single : bool
        Allow float32 products, and for a float64 D in memory the float32 copy they need.
    spare : bool
        Hand on the further pairs that are known by then; without them it is a little quicker.
    callback : callable or None
        Called at every check with the number of products and the worst relative residual.

    Returns
    -------
    Spectrum
        The kept pairs with residuals in float64, of all rows of B or of a sample, then more pairs
        from both ends with the recurrence's estimate. ``rule(spectrum.ends)`` keeps the same pairs.
    """
    if gram.frobenius_sq == 0.0:
        return _empty(gram)
    sizes = Sizes.of(gram, n_wanted)
    if sizes.capacity < 2 * n_wanted + 5 * sizes.block:
        return full_spectrum(gram)
    limit = 40 * (n_wanted + 50) if max_products is None else max_products
    spent = 0
    for products, precision in _operators(gram, single, tol):
        search = Search(gram, rule, n_wanted, tol, limit, callback, sizes, spare)
        with products as multiply:
            basis = KrylovBasis(
                gram.xp.empty((sizes.capacity, gram.n), dtype=gram.xp.float64, device=gram.device),
                multiply,
                _generator(random_state),
                precision,
            )
            basis.inject(sizes.block)
            check, converged = search.run(basis)
        # The float32 copy goes before the finish: the peak fell from 0.70 to 0.61 of D.
        del multiply
        basis.multiply = gram.matmat
        found = _as_found(search, basis, check) if converged else None
        spectrum = found or _finished(search, basis, check, converged)
        spent += spectrum.n_products
        if spectrum.converged:
            break
    if not spectrum.converged and gram.n <= FULL_FALLBACK:
        spectrum = full_spectrum(gram)
    return replace(spectrum, n_products=spent)


def _operators(
    gram: Gram, single: bool, tol: float
) -> Iterator[tuple[AbstractContextManager[Multiply], float]]:
    """Go through the products to try, cheapest first, each with its relative error."""
    # At n = 3000 the float64 steps brought float32 pairs to 1e-8 on all of four families, but to
    # 1e-9 on one only.
    if single and tol >= 1e-8:
        # Popped, so that nothing here keeps a copy alive after its last product.
        cheaper = [rounded for rounded in (gram.rounded(),) if rounded is not None]
        if cheaper:
            precision = cheaper[0].precision
            yield cheaper.pop().products(), precision
    yield nullcontext(gram.matmat), 1e-14


def _generator(random_state: Any) -> np.random.Generator:
    """Make a Generator of whatever scikit-learn takes for a seed; it draws faster."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    seed = check_random_state(0 if random_state is None else random_state)
    return np.random.default_rng(seed.randint(2**31))


def _as_found(search: Search, basis: KrylovBasis, check: Check) -> Spectrum | None:
    """Take the pairs as the search has them, if its products are exact enough for that.

    A float64 step takes as long as nine expansions of the basis (n = 8000, k = 100).
    """
    # Errors that are no noise (of features in float32, say) move values by as much as residuals.
    if search.tol < 10 * basis.precision:
        return None
    gram, ritz, (top, bottom) = search.gram, check.ritz, split_of(check.kept)
    # Ritz values lie within the spectrum, so a sign is in doubt only within the noise of zero.
    noise = basis.precision * float(np.max(np.abs(ritz.values)))
    kept = outermost(ritz.values.size, top, bottom)
    values, rows = ritz.values[kept], basis.vectors(ritz, kept)
    # What is dropped is ‖B‖² less the kept squares: of little, single precision leaves no digit.
    dropped = gram.frobenius_sq - float(values @ values)
    if basis.precision > 1e-12 and dropped < 1e-6 * gram.frobenius_sq:
        return None
    sampled = sampled_residuals(gram, values, rows)
    if sampled is None:
        return None
    residuals = np.maximum(ritz.residuals[kept], sampled)
    doubtful = np.abs(values) <= max(10 * noise, null_level(gram, values))
    if np.any(doubtful) or np.any(residuals > search.tol * check.scale):
        return None
    more = above = below = np.arange(0)
    if search.spare:
        above, below = _further(search, check, (top, bottom), noise)
        more = np.r_[above, below]
        rows = gram.xp.concat([rows[:top, :], basis.vectors(ritz, more), rows[top:, :]], axis=0)
    estimates = np.hypot(ritz.residuals[more], noise)
    which = np.r_[kept[:top], more, kept[top:]]
    return Spectrum(
        values=asarray_like(ritz.values[which], rows),
        vectors=rows.T,
        residuals=asarray_like(np.r_[residuals[:top], estimates, residuals[top:]], rows),
        trace=gram.trace,
        frobenius_sq=gram.frobenius_sq,
        n_top=top + int(above.size),
        n_bottom=bottom + int(below.size),
        n_products=basis.n_products,
        solver="krylov",
        precision=eps(gram.dtype, gram.xp),
        remainder=basis.remainder(ritz, which),
    )


def _finished(search: Search, basis: KrylovBasis, check: Check, converged: bool) -> Spectrum:
    """Refine what was kept in float64, add what else is known, and ask the rule once more."""
    top, bottom = split_of(check.kept)
    n_products = basis.n_products
    for _ in range(4):
        tolerance = search.tol * check.scale
        which = outermost(check.ritz.values.size, top, bottom)
        rows = basis.vectors(check.ritz, which)
        pairs, spent, noise = refined(search.gram, rows, top, tolerance)
        n_products += spent
        spectrum = _assembled(search, basis, check, pairs, (top, bottom), noise)
        kept = np.sort(search.rule(spectrum.ends).kept)
        r, s = split_of(kept)
        if r <= top and s <= bottom:
            break
        top, bottom = max(r, top), max(s, bottom)
    real = pairs.real(search.gram)
    scale = float(np.max(np.abs(pairs.values[real]), initial=0.0))
    good = bool(np.all(pairs.residuals[real] <= search.tol * scale))
    return replace(spectrum, converged=converged and good, n_products=n_products)


def _assembled(
    search: Search,
    basis: KrylovBasis,
    check: Check,
    pairs: Pairs,
    split: tuple[int, int],
    noise: float,
) -> Spectrum:
    """Put the refined pairs around the further ones: from the top down to the bottom."""
    gram, ritz, xp = search.gram, check.ritz, search.gram.xp
    real = pairs.real(gram)
    # What was not refined is known to the rounding of the products at best.
    noise = max(noise, basis.precision * float(np.max(np.abs(ritz.values))))
    top, bottom = int(np.sum(real[: split[0]])), int(np.sum(real[split[0] :]))
    above, below = _further(search, check, split, noise)
    # Where a kept value is zero, all further in are too.
    above, below = (
        above[: above.size * (top == split[0])],
        below[: below.size * (bottom == split[1])],
    )
    more = np.r_[above, below]
    kept = xp.take(
        pairs.rows, asarray_like(np.flatnonzero(real), pairs.rows, dtype=xp.int64), axis=0
    )
    further = _apart(kept, basis.vectors(ritz, more))
    rows = xp.concat([kept[:top, :], further, kept[top:, :]], axis=0)
    lam, left = pairs.values[real], pairs.residuals[real]
    # Of equal values the refined one stays outside, where the rule finds it.
    inner = np.clip(
        ritz.values[more],
        lam[top] if bottom else -np.inf,
        lam[top - 1] if top else np.inf,
    )
    estimates = np.hypot(ritz.residuals[more], noise)
    return Spectrum(
        values=asarray_like(np.r_[lam[:top], inner, lam[top:]], rows),
        vectors=rows.T,
        residuals=asarray_like(np.r_[left[:top], estimates, left[top:]], rows),
        trace=gram.trace,
        frobenius_sq=gram.frobenius_sq,
        n_top=top + int(above.size),
        n_bottom=bottom + int(below.size),
        solver="krylov",
        precision=eps(gram.dtype, xp),
    )


def _apart(kept: Array, rows: Array) -> Array:
    """Take out of further rows what the kept ones moved into when they were refined."""
    rows, moved = project_out(kept, rows)
    # At gaps near the noise the kept rows turned visibly, and the further ones no longer fit
    # together (5e-8 off with gaps of 1e-5).
    if np.max(np.abs(moved), initial=0.0) > 1e-7:
        rows, _ = orthonormal_rows(rows, 0.0)
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
    above = _run(known[split[0] : limit] & (ritz.values[split[0] : limit] > 0))
    below = _run(known[::-1][split[1] : limit] & (ritz.values[::-1][split[1] : limit] < 0))
    return (
        np.arange(split[0], split[0] + above, dtype=np.intp),
        np.arange(m - split[1] - below, m - split[1], dtype=np.intp),
    )


def _run(flags: npt.NDArray[np.bool_]) -> int:
    """Count the leading True values."""
    return int(np.argmin(flags)) if not np.all(flags) else int(flags.size)


def _empty(gram: Gram) -> Spectrum:
    """B = 0: there is nothing to embed."""
    xp = gram.xp
    none = xp.zeros((0,), dtype=xp.float64, device=gram.device)
    vectors = xp.zeros((gram.n, 0), dtype=xp.float64, device=gram.device)
    return Spectrum(none, vectors, none, 0.0, 0.0, 0, 0, solver="krylov")
