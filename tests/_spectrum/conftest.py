"""Matrices with a prescribed spectrum, and the one place that says how exact is exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from neucmds._input.components import Components
from neucmds._methods.selection import METHODS
from neucmds._spectrum import Ends


def sq_dissimilarity_with(values, n: int, seed: int = 0) -> np.ndarray:
    """D whose B has these nonzero eigenvalues, on random centered orthonormal vectors."""
    values = np.asarray(values, dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal((n, values.size))
    vectors, _ = np.linalg.qr(start - start.mean(axis=0))
    b = (vectors * values) @ vectors.T
    b = 0.5 * (b + b.T)
    d = np.diag(b)[:, None] + np.diag(b)[None, :] - 2 * b
    np.fill_diagonal(d, 0.0)
    return d


def hollow_noise(n: int, seed: int = 0) -> np.ndarray:
    """D of independent entries."""
    d = np.random.default_rng(seed).standard_normal((n, n))
    d = d + d.T
    np.fill_diagonal(d, 0.0)
    return d


def rule_of(method: str, k) -> Callable:
    """Return the selection rule of a method for k coordinates."""
    components = Components.parse(k, 10**9)
    return lambda ends: METHODS[method](ends, components)


def tolerance(tol: float = 1e-7) -> float:
    """Error of an eigenvalue, relative to the largest kept: never above its residual."""
    return 1.01 * tol


def assert_finds(spectrum, rule, reference: Ends, tol: float = 1e-7) -> None:
    """The rule keeps the same eigenvalues here as of the reference, and the pairs are pairs."""
    kept = rule(spectrum.ends).kept
    values = spectrum.ends.values[kept]
    wanted = reference.values[rule(reference).kept]
    scale = np.max(np.abs(wanted), initial=0.0)
    assert spectrum.converged
    assert values.shape == wanted.shape
    np.testing.assert_allclose(values, wanted, rtol=0, atol=tolerance(tol) * scale)
    vectors = np.asarray(spectrum.vectors)
    eye = np.eye(vectors.shape[1])
    np.testing.assert_allclose(vectors.T @ vectors, eye, rtol=0, atol=1e-10)
    np.testing.assert_allclose(vectors.sum(axis=0), 0, rtol=0, atol=1e-9)


@pytest.fixture(scope="session")
def with_spectrum():
    return sq_dissimilarity_with


@pytest.fixture(scope="session")
def rule():
    return rule_of


@pytest.fixture(scope="session")
def finds():
    return assert_finds


@pytest.fixture(scope="session")
def noise():
    return hollow_noise
