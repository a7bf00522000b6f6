"""The bilinear form that a signature defines: dissimilarities between coordinates."""

from __future__ import annotations

from neucmds.arrays import Array, eps, namespace

__all__ = ["rounding_level", "sq_dissimilarities"]


def sq_dissimilarities(rows: Array, cols: Array, signs: Array) -> Array:
    """D̂_ij = Σ_a s_a (x_ia − y_ja)²: on the squared scale, and possibly negative.

    Paper: eq:embeddingX, with the form applied to differences (errata E5).
    """
    xp = namespace(rows, cols, signs)
    signed = rows * signs[None, :]
    row_norms = xp.sum(signed * rows, axis=1)
    col_norms = xp.sum(cols * cols * signs[None, :], axis=1)
    return row_norms[:, None] + col_norms[None, :] - 2 * (signed @ xp.matrix_transpose(cols))


def rounding_level(rows: Array, cols: Array) -> Array:
    """Magnitude below which an entry of `sq_dissimilarities` is only rounding (errata E14)."""
    xp = namespace(rows, cols)
    level = 64 * eps(rows.dtype, xp)
    return level * (xp.sum(rows * rows, axis=1)[:, None] + xp.sum(cols * cols, axis=1)[None, :])
