"""Matrices with a prescribed spectrum, and of independent entries."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def with_spectrum():
    """Return D whose B has these nonzero eigenvalues, on random centered orthonormal vectors."""

    def build(values, n: int, seed: int = 0) -> np.ndarray:
        values = np.asarray(values, dtype=np.float64)
        start = np.random.default_rng(seed).standard_normal((n, values.size))
        vectors, _ = np.linalg.qr(start - start.mean(axis=0))
        b = (vectors * values) @ vectors.T
        b = 0.5 * (b + b.T)
        d = np.diag(b)[:, None] + np.diag(b)[None, :] - 2 * b
        np.fill_diagonal(d, 0.0)
        return d

    return build


@pytest.fixture(scope="session")
def noise():
    """Return D of independent entries."""

    def build(n: int, seed: int = 0) -> np.ndarray:
        d = np.random.default_rng(seed).standard_normal((n, n))
        d = d + d.T
        np.fill_diagonal(d, 0.0)
        return d

    return build
