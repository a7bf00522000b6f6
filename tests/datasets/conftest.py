"""The paper's methods in their shortest form, to check data against published rows."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="session")
def norms():
    """Function of D and k: norms of the four methods, negatives kept by the last two."""
    return _norms


@pytest.fixture(scope="session")
def spectrum():
    """Function of D: eigenvalues of −½CDC, ascending, and eigenvectors."""
    return _spectrum


def _spectrum(sq_dissimilarity):
    means = sq_dissimilarity.mean(axis=0)
    gram = -0.5 * (sq_dissimilarity - means - means[:, None] + means.mean())
    return np.linalg.eigh(gram)


def _norms(sq_dissimilarity, k=100):
    """‖D̂ − D‖_F of classical, Lower, Neuc and Neuc⁺, and the negatives kept by the last two."""
    lam, vectors = _spectrum(sq_dissimilarity)
    usable = np.delete(np.arange(lam.size), np.abs(vectors.sum(axis=0)).argmax())  # errata E3
    top = usable[lam[usable] > 0][-k:]
    rows = [(top, lam[top]), _lower(lam, top)]
    rows += [_best_split(lam, usable, k, plus) for plus in (False, True)]
    return (
        [_norm(sq_dissimilarity, vectors[:, kept], weights) for kept, weights in rows],
        [int((weights < 0).sum()) for _, weights in rows[2:]],
    )


def _lower(lam, kept):
    while True:
        shift = (lam.sum() - lam[kept].sum()) / (kept.size + 1)
        if lam[kept[0]] + shift >= 0:
            return kept, lam[kept] + shift
        kept = kept[1:]


def _best_split(lam, usable, k, plus):
    def parts(r):
        kept = np.concatenate([usable[: k - r], usable[usable.size - r :]])
        dropped = lam.sum() - lam[kept].sum()
        rest = (lam**2).sum() - (lam[kept] ** 2).sum()
        return rest + dropped**2 / (k + 1 if plus else 1), kept, dropped

    _, kept, dropped = min((parts(r) for r in range(k + 1)), key=lambda part: part[0])
    return kept, lam[kept] + (dropped / (k + 1) if plus else 0.0)


def _norm(sq_dissimilarity, vectors, weights):
    gram = (vectors * weights) @ vectors.T
    diagonal = np.diag(gram)
    return float(np.linalg.norm(diagonal + diagonal[:, None] - 2 * gram - sq_dissimilarity))
