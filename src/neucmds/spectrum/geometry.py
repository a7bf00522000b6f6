"""The STRESS of coordinates as C1 + C2 + C3, and their canonical form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from neucmds.backend.arrays import (
    EPS,
    Array,
    Floats,
    asarray_like,
    eps,
    index_like,
    namespace,
    to_numpy,
)
from neucmds.form import Form
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.selection import Selection
from neucmds.spectrum.spectrum import Spectrum

StressTerms = tuple[float, float, float]

# Relative error of a sum of n² terms, or of products of vectors: below 16 ε of the sum of the
# absolute values in every comparison with extended precision (n up to 2000).
ROUNDING = 16 * EPS


def canonical(x: Array, form: Form) -> tuple[Array, Form]:
    """Return coordinates of the same D̂ with orthogonal columns, the longest first, and their form.

    Columns without a sign, the heights, stay as they are, behind the others.
    """
    xp = namespace(x)
    k = sum(form.signature)
    basis, triangle = xp.linalg.qr(x[:, :k])
    r = to_numpy(triangle)
    # x S xᵀ = Q (R S Rᵀ) Qᵀ = Q V μ Vᵀ Qᵀ with x = QR.
    mu, v = np.linalg.eigh((r * form.signs[:k]) @ r.T)
    order = np.argsort(-np.abs(mu), kind="stable")
    mu = mu[order]
    mix = v[:, order] * np.sqrt(np.abs(mu))
    signs = np.concatenate([np.where(mu < 0, -1.0, 1.0), form.signs[k:]])
    columns = xp.concat([basis @ asarray_like(mix, x), x[:, k:]], axis=1)
    return columns, replace(form, signs=signs)


def signed_lengths(x: Array, form: Form) -> Floats:
    """Squared length of every column, with its sign: the weights λ̃ of orthogonal coordinates."""
    lengths: Floats = to_numpy(namespace(x).sum(x * x, axis=0)) * form.signs
    return lengths


def diagonalize(core: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues μ ≠ 0 of M, largest magnitude first, and their vectors V.

    A `core` of one dimension is the diagonal of M.
    """
    if core.ndim == 1:
        mu = core
        vectors = np.eye(core.size)
    else:
        mu, vectors = np.linalg.eigh((core + core.T) / 2)
    order = np.argsort(-np.abs(mu), kind="stable")
    largest = float(np.max(np.abs(mu), initial=0.0))
    rounding = largest * max(64, mu.size) * EPS
    order = order[np.abs(mu[order]) > rounding]
    return mu[order], vectors[:, order]


def column_signs(columns: Array) -> Array:
    """Return the sign of each column that makes its first largest entry positive.

    Entries within 1e-6 of the largest count as largest, so that rounding does not decide.
    """
    xp = namespace(columns)
    sizes = xp.abs(columns)
    is_largest = sizes >= (1 - 1e-6) * xp.max(sizes, axis=0)
    first = xp.argmax(xp.astype(is_largest, xp.int8), axis=0)
    numbers = index_like(np.arange(columns.shape[1]), columns)
    leading = columns[first, numbers]
    ones = xp.ones_like(leading)
    return xp.where(leading < 0, -ones, ones)


def selected_coordinates(
    spectrum: Spectrum, selection: Selection
) -> tuple[Array, Floats, Array]:
    """Return coordinates U_W V √|μ| of the core M = V Diag(μ) Vᵀ, their weights μ, and V √|μ|.

    The sign of a coordinate is that of its weight.
    """
    u = spectrum.take(selection.kept)
    weights, rotation = diagonalize(selection.core)
    directions = asarray_like(rotation * np.sqrt(np.abs(weights)), u)
    coordinates = u @ directions
    flips = column_signs(coordinates)
    return coordinates * flips, weights, directions * flips


def stress_from_errors(
    gram_error_sq: float, diagonal_error: Array
) -> StressTerms:
    """Return C1, C2 and C3 from ‖E‖², the error E = B − G of the Gram matrix, and its diagonal e.

    C1 = 4‖E‖², C2 = 4(Σe)², C3 = 2n‖e‖² − C2/2 (docs/maths.md).

    Paper: thm:stress-decomp, thm:general_lower_error.
    """
    xp = namespace(diagonal_error)
    e = diagonal_error
    c2 = 4 * float(xp.sum(e)) ** 2
    c3 = 2 * e.shape[0] * float(xp.vecdot(e, e)) - c2 / 2
    return 4 * gram_error_sq, c2, max(c3, 0.0)


def stress_rises(
    gram: Gram, x: Array, signs: Floats, quadratic: Array
) -> Floats:
    """Return how much the STRESS of centered, orthogonal columns x rises without each of them.

    `quadratic` is xᵀBx. Without the column x of the sign s, E and e become E + s·xxᵀ and
    e + s·x∘x in 4‖E‖² + 2n‖e‖² + 2(Σe)².
    """
    xp = gram.xp
    s = asarray_like(signs, x)
    sq = x * x
    e = gram.diagonal() - sq @ s
    sq_length = xp.sum(sq, axis=0)
    # The terms without s, where s² = 1, and those with it.
    even = 2 * gram.n * xp.sum(sq * sq, axis=0) - 2 * sq_length**2
    odd = 8 * quadratic + 4 * (gram.n * (e @ sq) + xp.sum(e) * sq_length)
    return to_numpy(even + s * odd)


def stress_terms(
    spectrum: Spectrum, diagonal: Array, selection: Selection
) -> StressTerms:
    """C1, C2 and C3 of G = U_W M U_Wᵀ in O(nk²), or O(nk) when M is diagonal.

    Neither D̂ nor the dropped eigenpairs are needed (docs/maths.md); `diagonal` is that of B.

    Paper: thm:stress-decomp, thm:general_lower_error.
    """
    xp = namespace(spectrum.vectors)
    u = spectrum.take(selection.kept)
    core = asarray_like(selection.core, u)
    if selection.core.ndim == 1:
        gram_rows = u * core[None, :]
    else:
        gram_rows = u @ core
    gram_rows *= u
    e = diagonal - xp.astype(
        xp.sum(gram_rows, axis=1), diagonal.dtype, copy=False
    )
    return stress_from_errors(_gram_error_sq(spectrum, selection), e)


def _gram_error_sq(spectrum: Spectrum, selection: Selection) -> float:
    """Return ‖B − U_W M U_Wᵀ‖²_F: the squares of dropped eigenvalues, and ‖Λ_W − M‖²_F."""
    lam = spectrum.values[selection.kept]
    if selection.core.ndim == 2:
        lam = np.diag(lam)
    change = lam - selection.core
    return spectrum.dropped_sq(selection.kept) + float(np.sum(change**2))


def gram_rounding(spectrum: Spectrum, selection: Selection) -> float:
    """Bound the error of ‖B − U_W M U_Wᵀ‖²_F as `stress_terms` computes it."""
    errors = spectrum.value_errors
    if spectrum.unknown_sq is None:
        # It is ‖B‖² − 2⟨B, G⟩ + ‖G‖², with ⟨B, G⟩ from the eigenvalues.
        core_norm = float(np.linalg.norm(selection.core))
        rounding = ROUNDING * (spectrum.frobenius_sq + core_norm**2)
        kept_error = float(np.linalg.norm(errors[selection.kept]))
        return rounding + 2 * core_norm * kept_error
    # ‖B − UΛUᵀ‖² was measured, or is zero up to rounding: only Λ_W − M has errors of eigenvalues.
    largest = float(np.max(np.abs(spectrum.values), initial=0.0))
    error = float(np.linalg.norm(errors)) + ROUNDING * largest
    return error * (
        2 * math.sqrt(max(0.0, _gram_error_sq(spectrum, selection))) + error
    )


def stress_rounding(
    gram: Gram, coordinates: Array, terms: StressTerms, gram_error: float
) -> float:
    """Bound the difference of a reported STRESS from that of the returned coordinates.

    `terms` are C1, C2 and C3 as computed, `gram_error` bounds the error of ‖B − G‖²_F in C1.
    """
    xp = gram.xp
    precision = eps(gram.dtype, xp)
    sq_lengths = xp.vecdot(coordinates, coordinates)
    # C2 + C3 = 2n‖e‖² + 2(Σe)² with e known to some ε of its two parts; and coordinates are
    # returned in the precision of D, which moves D̂_ij by some ε(‖x_i‖² + ‖x_j‖²).
    e_error = (
        ROUNDING * xp.abs(gram.diagonal())
        + (ROUNDING + 4 * precision) * sq_lengths
    )
    sq_shift = (
        2 * gram.n * float(xp.vecdot(e_error, e_error))
        + 2 * float(xp.sum(e_error)) ** 2
    )
    # D itself was rounded when it was squared. The STRESS is the square of a norm, which moves by
    # the sum of both.
    shift = math.sqrt(sq_shift) + precision * math.sqrt(gram.sq_norm)
    norm = math.sqrt(max(0.0, sum(terms)))
    return 4 * gram_error + shift * (2 * norm + shift)
