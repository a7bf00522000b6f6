"""Starts of the squared loss, and their signature, which decides where the descent ends.

A requested signature never ends above one that it contains, with fewer coordinates. Eigenvectors of
a sign that the spectrum hardly has are a bad start. So a signature is also reached from ends with
one coordinate fewer, by the column v of sign a that lowers the objective fastest. At XAXᵀ + t·a·vvᵀ
the objective falls by t·a·vᵀHv to first order, with H of `with_steepest_column`, so v is the
eigenvector of the largest eigenvalue of aH. If that is not positive, no column of sign a helps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from neucmds.backend.arrays import (
    Array,
    Floats,
    Indices,
    asarray_like,
    namespace,
    taken,
    to_numpy,
)
from neucmds.errors import InputError, option
from neucmds.form import Form
from neucmds.problem.components import Size
from neucmds.problem.containers import as_real
from neucmds.problem.names import Labels, order_of
from neucmds.problem.validation import refuse_range
from neucmds.refine.descent import EXACT, Configuration, Descent, descend
from neucmds.refine.products import refine
from neucmds.spectrum.exact import MAX_DENSE, exact_selection, exact_weights
from neucmds.spectrum.geometry import (
    canonical,
    selected_coordinates,
    signed_lengths,
    stress_terms,
)
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.selection import neuc, neuc_plus
from neucmds.spectrum.spectrum import Spectrum

Signature = tuple[int, int]

# Up to this many objects the signature (k, 0) is tried as well.
VERY_FEW_OBJECTS = 100
# Starts of losses but the squared one of that few objects: less time than eight of SMACOF.
MORE_STARTS = 32
# Up to this many contained signatures are all tried; of more, only those with one coordinate fewer
# of either sign.
MOST_TRIED = 25
# A column must lower the objective by this share to be worth a coordinate.
WORTH = 1e-4


def as_start(init: Any) -> Configuration:
    """Return a user's start, an embedding or (coordinates, signs), as a `Configuration`."""
    if isinstance(init, Configuration):
        return init
    labels = None
    if hasattr(init, "coordinates") and hasattr(init, "signs"):
        coordinates = init.coordinates
        signs = init.signs
        labels = getattr(init, "labels", None)
        if getattr(init, "arrivals", None) is not None:
            # Labels name the departures alone.
            labels = None
            stacked = [coordinates, init.arrivals]
            coordinates = namespace(coordinates).concat(stacked)
    elif isinstance(init, (tuple, list)) and len(init) == 2:
        what = f"coordinates or signs of {option('init')}"
        coordinates, signs = (as_real(part, what) for part in init)
    else:
        raise InputError(
            f"{option('init')} is {type(init).__name__}; pass an Embedding, or (coordinates, "
            "signs)."
        )
    x = to_numpy(coordinates)
    a = to_numpy(signs)
    # The last sign may be 0, that of heights.
    without_height = a
    if not a[-1:].any():
        without_height = a[:-1]
    fits = x.ndim == 2 and a.shape == x.shape[1:]
    if not fits or not np.all(np.abs(without_height) == 1):
        raise InputError(
            f"{option('init')} has coordinates of shape {x.shape} and signs of shape {a.shape}; "
            "pass (n, k) and k signs of ±1."
        )
    if not np.all(np.isfinite(x)):
        raise InputError(
            f"{option('init')} has coordinates that are not finite."
        )
    if x.size and not np.any(x - x[:1]):
        raise InputError(
            f"{option('init')} has all {x.shape[0]} objects in one place; spread them."
        )
    largest = float(np.max(np.abs(x), initial=0.0))
    refuse_range(largest, squared=False, what=f"{option('init')} is")
    form = Form(a.astype(np.float64))
    return Configuration(coordinates, form, labels=labels)


def ordered_start(
    start: Configuration | None, labels: Labels
) -> Configuration | None:
    """Return a start with its objects in the order of `labels`, if both have names."""
    if start is None or start.labels is None or labels is None:
        return start
    # A start of landmarks alone; any other number of objects is refused by the fit.
    if len(start.labels) != len(labels):
        return start
    order = order_of(start.labels, labels, f"objects of {option('init')}")
    return replace(start, coordinates=taken(start.coordinates, order))


def in_form(start: Configuration, form: Form) -> Configuration:
    """Return a start with the columns that the form of the fit has besides, of zeros."""
    x, extended_form = form.extended(start.coordinates, start.form)
    return replace(start, coordinates=x, form=extended_form)


def best_refined(
    gram: Gram,
    spectrum: Spectrum,
    components: Size,
    descent: Descent = descend,
) -> Configuration:
    """Refine from eigenvector coordinates, with the signature of `neuc+` or the requested one.

    Up to `MAX_DENSE` objects the result is never above `exact`, and a requested signature never
    above one that it contains (`lowest_end`). Up to `VERY_FEW_OBJECTS` (k, 0) is tried as well.
    """
    start_of = partial(eigenvector_start, spectrum, gram.diagonal())
    if gram.n > MAX_DENSE:
        return refine(gram, start_of(components), descent)
    if isinstance(components, int):
        result = refine(gram, start_of(components), descent)
    else:
        result = lowest_end(
            components,
            start_of,
            partial(with_steepest_column, gram.rows(slice(None))),
            partial(refine, gram, descent=descent),
        )
    closed_form = exact_selection(spectrum, gram.diagonal(), components)
    exact_stress = sum(stress_terms(spectrum, gram.diagonal(), closed_form))
    # The simpler start stays unless the other is lower by more than this.
    rounding = min(1e-12 * gram.sq_norm, 1e-3 * result.value)
    if exact_stress < result.value - rounding:
        coordinates, weights, _ = selected_coordinates(spectrum, closed_form)
        start = Configuration(coordinates, Form(np.sign(weights)))
        result = refine(gram, start, descent)
    if isinstance(components, int) and gram.n <= VERY_FEW_OBJECTS:
        euclidean = (components, 0)
        quiet = partial(descent, callback=None)
        other = best_refined(gram, spectrum, euclidean, quiet)
        if other.value < (1 - WORTH) * result.value:
            return other
    return result


def eigenvector_start(
    spectrum: Spectrum, diagonal: Array, components: Size
) -> Configuration:
    """Return the eigenvectors that `neuc+`, or `neuc` of a signature, keeps, times their lengths.

    Squared lengths are the weights of `exact`, but at least a thousandth of their median, so that
    no weight changes its sign. Eigenvectors without length are left out.
    """
    if isinstance(components, int):
        chosen = neuc_plus(spectrum, components)
    else:
        chosen = neuc(spectrum, components)
    signs = np.sign(chosen.core)
    weights = exact_weights(spectrum, diagonal, chosen.kept).core
    least = 0.0
    if weights.size:
        least = 1e-3 * float(np.median(np.abs(weights)))
    lengths = np.sqrt(np.maximum(signs * weights, least))
    largest = float(np.max(np.abs(spectrum.values), initial=0.0))
    has_length = lengths**2 > 1e-14 * largest
    vectors = _untied(spectrum, chosen.kept[has_length])
    columns = asarray_like(lengths[has_length], vectors)
    return Configuration(vectors * columns[None, :], Form(signs[has_length]))


def _untied(spectrum: Spectrum, kept: Indices) -> Array:
    """Return the kept eigenvectors, or random ones of their eigenspaces if these have more.

    A solver's choice in an eigenspace may be symmetric, and the descent cannot leave a symmetry.
    """
    lam = spectrum.values
    same = np.abs(lam[:, None] - lam[None, kept]) <= spectrum.null_level
    # An eigenvalue of which not all eigenvectors are kept leaves a choice.
    has_choice = np.any(np.sum(same, axis=0) > np.sum(same[kept], axis=0))
    if not has_choice or not spectrum.complete:
        return spectrum.take(kept)
    mixing = same * np.random.default_rng(0).standard_normal(same.shape)
    return spectrum.vectors @ asarray_like(
        np.linalg.qr(mixing)[0], spectrum.vectors
    )


def lowest_end(
    signature: Signature,
    start_of: Callable[[Size], Configuration],
    extended: Callable[[Configuration, float], Configuration | None],
    minimize: Callable[[Configuration], Configuration],
) -> Configuration:
    """Return the lowest end of a descent with a signature, or with one that it contains.

    Each of up to `MOST_TRIED` contained signatures is reached from eigenvectors (`start_of`) and
    from the best ends with one coordinate fewer (`extended` adds a column of a sign, and returns
    None if none helps), in a fixed order.
    """
    whole = start_of(signature)
    no_columns = minimize(
        Configuration(whole.coordinates[:, :0], Form(whole.signs[:0]))
    )
    if _count_contained(signature) > MOST_TRIED:
        # Eigenvectors may have fewer of a sign than requested.
        signature = whole.form.signature
    all_are_tried = _count_contained(signature) <= MOST_TRIED

    @cache
    def end_of(positive: int, negative: int) -> Configuration:
        """Return the lowest end with so many coordinates of each sign, or fewer."""
        smaller = []
        if all_are_tried or (positive, negative) == signature:
            if positive:
                smaller.append((end_of(positive - 1, negative), 1.0))
            if negative:
                smaller.append((end_of(positive, negative - 1), -1.0))
        starts = [extended(end, sign) for end, sign in smaller]
        k = positive + negative
        eigenvectors = start_of((positive, negative))
        if k and eigenvectors.signs.size == k:
            starts.insert(0, eigenvectors)
        ends = [
            without_null_columns(minimize(start)) for start in starts if start
        ]
        by_value = attrgetter("value")
        best_smaller = min(
            (end for end, _ in smaller), key=by_value, default=no_columns
        )
        best = min(ends, key=by_value, default=best_smaller)
        # A gain that is not worth a coordinate, or within rounding, does not count.
        worth = (1 - WORTH) * best_smaller.value - EXACT * no_columns.value
        if best.value < worth:
            return best
        return best_smaller

    return end_of(*signature)


def _count_contained(signature: Signature) -> int:
    """Count the signatures with no more coordinates of either sign, this one included."""
    return (signature[0] + 1) * (signature[1] + 1)


def without_null_columns(
    end: Configuration, least: float = 0.0
) -> Configuration:
    """Return an end without the columns that are zero beside the longest one, and beside `least`.

    The others become `canonical`, the longest first.
    """
    x, form = canonical(end.coordinates, end.form)
    lengths = np.abs(signed_lengths(x, form))
    count = int(np.sum(lengths > 1e-12 * np.max(lengths, initial=least)))
    k = sum(form.signature)
    xp = namespace(x)
    # Heights are the last column, and stay.
    x = xp.concat([x[:, :count], x[:, k:]], axis=1)
    signs = np.concatenate([form.signs[:count], form.signs[k:]])
    form = replace(form, signs=signs)
    return replace(end, coordinates=x, form=form, quadratic=None)


def with_steepest_column(
    sq_dissimilarity: Array,
    end: Configuration,
    sign: float,
    weights: Array | None = None,
) -> Configuration | None:
    """Return `end` with the column of a sign that lowers STRESS fastest, of the best length.

    None if no column of that sign does. At XAXᵀ + t·a·vvᵀ the STRESS is
    f − t·a·vᵀHv + t²Σ w_ij (v_i − v_j)⁴, with H = −4(Diag(R1) − R) and R = w∘(D̂ − D).
    """
    x = end.coordinates
    w: Any = 1.0
    if weights is not None:
        w = to_numpy(weights)
    pull = w * to_numpy(end.form.residuals(x, x, sq_dissimilarity))
    total = pull.sum(axis=1)
    n = total.size

    def product(v: Floats) -> Floats:
        """Return aHv, where v and the result are centered."""
        v = v.ravel() - v.mean()
        av = (-4.0 * sign) * (total * v - pull @ v)
        return np.asarray(av - av.mean())

    v0 = np.random.default_rng(0).standard_normal(n)
    if not np.any(pull):
        return None
    slope, vector = _largest_eigenpair(product, v0)
    v = vector - vector.mean()
    fourth = float(np.sum(w * (v - v.T) ** 4))
    if not slope > EXACT * np.linalg.norm(pull) or not fourth > 0:
        return None
    # The t where the STRESS is lowest; the column is √t·v.
    t = slope / (2 * fourth)
    column = asarray_like(v * np.sqrt(t), x)
    return Configuration(
        namespace(x).concat([x, column], axis=1),
        Form(np.append(end.signs, sign)),
    )


def _largest_eigenpair(
    product: Callable[[Floats], Floats], v0: Floats
) -> tuple[float, Floats]:
    """Return the largest eigenvalue of a symmetric operator, and its eigenvector (n, 1)."""
    n = v0.size
    try:
        # It need not be exact: a descent follows.
        values, vectors = eigsh(
            LinearOperator((n, n), product), 1, which="LA", v0=v0, tol=1e-3
        )
    except ArpackNoConvergence:
        # Heavy-tailed D: the largest is rounding beside the most negative one.
        matrix = np.stack([product(row) for row in np.eye(n)])
        values, vectors = np.linalg.eigh(matrix)
    return float(values[-1]), np.asarray(vectors[:, -1:])
