"""Starts of the squared loss, and their signature, which decides where the descent ends.

A given signature never ends above a smaller one that it contains. Eigenvectors of a sign that the
spectrum hardly has are a bad start. So a signature is also reached from those with one coordinate
fewer, by the column that lowers the objective fastest. At G + t·a·vvᵀ the objective falls at the
rate t·a·vᵀHv for a matrix H that each objective knows, so v is the eigenvector of the largest
eigenvalue of aH. If that is not positive, no column of that sign helps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

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

# Up to this many objects the signature (k, 0) is tried as well,
VERY_FEW_OBJECTS = 100
# and there are so many starts of other losses: less time than eight of SMACOF.
MORE_STARTS = 32
# Most contained signatures that are all tried; beyond, only those with one coordinate fewer of
# either sign.
MOST_TRIED = 25
# A column must lower the objective by this share of it to be worth a coordinate.
WORTH = 1e-4


def as_start(init: Any) -> Configuration:
    """Take a warm start: an embedding, or coordinates and signs."""
    if isinstance(init, Configuration):
        return init
    labels = None
    if hasattr(init, "coordinates") and hasattr(init, "signs"):
        coordinates = init.coordinates
        signs = init.signs
        labels = getattr(init, "labels", None)
        if getattr(init, "arrivals", None) is not None:
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
    # The last sign may be zero.
    plain = a[:-1] if a[-1:].any() == 0 else a
    if x.ndim != 2 or a.shape != x.shape[1:] or not np.all(np.abs(plain) == 1):
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
    size = float(np.max(np.abs(x), initial=0.0))
    refuse_range(size, squared=False, what=f"{option('init')} is")
    form = Form(a.astype(np.float64))
    return Configuration(coordinates, form, labels=labels)


def ordered_start(
    start: Configuration | None, labels: Labels
) -> Configuration | None:
    """Order the objects of a start as those of a fit, if both have names."""
    if start is None or start.labels is None or labels is None:
        return start
    # Another number of objects is refused where it is used, or is that of landmarks.
    if len(start.labels) != len(labels):
        return start
    order = order_of(start.labels, labels, f"objects of {option('init')}")
    return replace(start, coordinates=taken(start.coordinates, order))


def in_form(start: Configuration, form: Form) -> Configuration:
    """Give a start the further columns, zero each, that the form of the fit has."""
    x, own = form.extended(start.coordinates, start.form)
    return replace(start, coordinates=x, form=own)


def best_refined(
    gram: Gram,
    spectrum: Spectrum,
    components: Size,
    descent: Descent = descend,
) -> Configuration:
    """Refine from eigenvector coordinates, with the signature of `neuc+` or the requested one.

    Up to 2000 objects the result is never above `exact`, and a requested signature never above one
    that it contains (`lowest_end`). Up to 100 objects (k, 0) is tried as well.
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
    reached = sum(stress_terms(spectrum, gram.diagonal(), closed_form))
    # Less by more than rounding: otherwise the simpler start stays.
    if reached < result.value - min(1e-12 * gram.sq_norm, 1e-3 * result.value):
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
    """Kept eigenvectors with exact weights, clamped so that no sign flips; no null columns."""
    if isinstance(components, int):
        chosen = neuc_plus(spectrum, components)
    else:
        chosen = neuc(spectrum, components)
    signs = np.sign(chosen.core)
    weights = exact_weights(spectrum, diagonal, chosen.kept).core
    floor = 0.0
    if weights.size:
        floor = 1e-3 * float(np.median(np.abs(weights)))
    lengths = np.sqrt(np.maximum(signs * weights, floor))
    largest = float(np.max(np.abs(spectrum.values), initial=0.0))
    real = lengths**2 > 1e-14 * largest
    u = _untied(spectrum, chosen.kept[real])
    return Configuration(
        u * asarray_like(lengths[real], u)[None, :], Form(signs[real])
    )


def _untied(spectrum: Spectrum, kept: Indices) -> Array:
    """Return eigenvectors, mixed with all that share their eigenvalues if any is repeated.

    A solver's own choice may be symmetric, and the descent cannot leave that symmetry.
    """
    lam = spectrum.values
    same = np.abs(lam[:, None] - lam[None, kept]) <= spectrum.null_level
    tied = np.any(np.sum(same, axis=0) > np.sum(same[kept], axis=0))
    if not tied or not spectrum.complete:
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
    from the best ends with one coordinate fewer (`extended` adds a column of a sign, if one helps),
    in a fixed order.
    """
    whole = start_of(signature)
    nothing = minimize(
        Configuration(whole.coordinates[:, :0], Form(whole.signs[:0]))
    )
    if _contained(signature) > MOST_TRIED:
        signature = whole.form.signature
    few = _contained(signature) <= MOST_TRIED

    @cache
    def end_of(positive: int, negative: int) -> Configuration:
        fewer = []
        if positive and (few or (positive, negative) == signature):
            fewer.append((end_of(positive - 1, negative), 1.0))
        if negative and (few or (positive, negative) == signature):
            fewer.append((end_of(positive, negative - 1), -1.0))
        starts = [extended(end, sign) for end, sign in fewer]
        size = positive + negative
        eigenvectors = start_of((positive, negative))
        if size and eigenvectors.signs.size == size:
            starts.insert(0, eigenvectors)
        reached = [
            without_null_columns(minimize(start)) for start in starts if start
        ]
        by_value = attrgetter("value")
        best_fewer = min(
            (end for end, _ in fewer), key=by_value, default=nothing
        )
        best = min(reached, key=by_value, default=best_fewer)
        # A gain within rounding does not count.
        least = (1 - WORTH) * best_fewer.value - EXACT * nothing.value
        return best if best.value < least else best_fewer

    return end_of(*signature)


def _contained(signature: Signature) -> int:
    """Count the signatures that one contains, itself included."""
    return (signature[0] + 1) * (signature[1] + 1)


def without_null_columns(
    end: Configuration, least: float = 0.0
) -> Configuration:
    """Leave out columns that the descent has shrunk to zero beside the longest, or `least`."""
    x, form = canonical(end.coordinates, end.form)
    sizes = np.abs(signed_lengths(x, form))
    real = int(np.sum(sizes > 1e-12 * np.max(sizes, initial=least)))
    k = sum(form.signature)
    xp = namespace(x)
    # Columns without a sign are the last.
    x = xp.concat([x[:, :real], x[:, k:]], axis=1)
    signs = np.concatenate([form.signs[:real], form.signs[k:]])
    form = replace(form, signs=signs)
    return replace(end, coordinates=x, form=form, quadratic=None)


def with_steepest_column(
    sq_dissimilarity: Array,
    end: Configuration,
    sign: float,
    weights: Array | None = None,
) -> Configuration | None:
    """Add the column of a sign that lowers STRESS fastest, of the best length; None if none does.

    Along t·a·vvᵀ it is f − t·a·vᵀHv + t²Σ w_ij (v_i − v_j)⁴, with H = −4(Diag(R1) − R) and
    R = w∘(D̂ − D).
    """
    x = end.coordinates
    w: Any = 1.0
    if weights is not None:
        w = to_numpy(weights)
    pull = w * to_numpy(end.form.residuals(x, x, sq_dissimilarity))
    total = pull.sum(axis=1)
    n = total.size

    def rate(v: Floats) -> Floats:
        v = v.ravel() - v.mean()
        change = (-4.0 * sign) * (total * v - pull @ v)
        return np.asarray(change - change.mean())

    v0 = np.random.default_rng(0).standard_normal(n)
    if not np.any(pull):
        return None
    # It need not be exact: a descent follows.
    slopes, vectors = eigsh(
        LinearOperator((n, n), rate), 1, which="LA", v0=v0, tol=1e-3
    )
    v = vectors - vectors.mean()
    fourth = float(np.sum(w * (v - v.T) ** 4))
    if not slopes[0] > EXACT * np.linalg.norm(pull) or not fourth > 0:
        return None
    column = asarray_like(v * np.sqrt(slopes[0] / (2 * fourth)), x)
    return Configuration(
        namespace(x).concat([x, column], axis=1),
        Form(np.append(end.signs, sign)),
    )
