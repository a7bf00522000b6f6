"""thm:stress-decomp and thm:general_lower_error: C1 + C2 + C3 is the STRESS, for every method."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neucmds import FewerComponentsWarning, neuc_mds

PAPER_METHODS = ["classical", "lower", "neuc", "neuc+"]


@st.composite
def dissimilarity_matrices(draw, max_n=9):
    """Symmetric, hollow, squared scale: with ties, zeros, duplicates and negatives."""
    n = draw(st.integers(2, max_n))
    entry = draw(
        st.sampled_from(
            [st.integers(-3, 3).map(float), st.floats(-10, 10, width=32)]
        )
    )
    upper = draw(
        st.lists(entry, min_size=n * (n - 1) // 2, max_size=n * (n - 1) // 2)
    )
    D = np.zeros((n, n))
    D[np.triu_indices(n, 1)] = upper
    return D + D.T


@st.composite
def euclidean_matrices(draw, max_n=9):
    n, dim = draw(st.integers(3, max_n)), draw(st.integers(1, 4))
    x = np.asarray(
        draw(st.lists(st.integers(-5, 5), min_size=n * dim, max_size=n * dim))
    )
    x = x.reshape(n, dim).astype(float)
    return np.sum((x[:, None] - x[None]) ** 2, axis=-1)


def fit(D, k, method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewerComponentsWarning)
        return neuc_mds(D, k, method, squared=True)


@pytest.mark.parametrize(
    "method",
    [*PAPER_METHODS, "exact", pytest.param("refined", marks=pytest.mark.slow)],
)
@given(dissimilarity_matrices(max_n=10), st.integers(1, 8))
@settings(max_examples=20, deadline=None)
def test_the_three_terms_sum_to_brute_force_stress(method, D, k):
    embedding = fit(D, min(k, D.shape[0] - 1), method)
    x, s = embedding.coordinates, embedding.signs
    brute = np.sum(s * (x[:, None, :] - x[None, :, :]) ** 2, axis=-1)
    scale = 1 + np.sum(D**2)
    assert embedding.stress == pytest.approx(
        np.sum((brute - D) ** 2), abs=1e-11 * scale
    )
    assert min(embedding.stress_terms) >= 0
    np.testing.assert_allclose(
        embedding.dissimilarities(squared=True), brute, atol=1e-12 * scale
    )


@given(euclidean_matrices(), st.integers(1, 8))
@settings(max_examples=20, deadline=None)
def test_euclidean_input_makes_neuc_equal_classical(D, k):
    k = min(k, D.shape[0] - 1)
    neuc, classical = fit(D, k, "neuc"), fit(D, k, "classical")
    assert neuc.signature == classical.signature
    assert neuc.signature[1] == 0
    np.testing.assert_array_equal(neuc.coordinates, classical.coordinates)


@given(dissimilarity_matrices())
@settings(max_examples=20, deadline=None)
def test_all_coordinates_rebuild_any_hollow_matrix(D):
    """prop:bilinear: every hollow symmetric matrix is the squared form of some vectors."""
    embedding = fit(D, D.shape[0] - 1, "neuc")
    np.testing.assert_allclose(
        embedding.dissimilarities(squared=True),
        D,
        atol=1e-12 * (1 + np.sum(np.abs(D))),
    )


@pytest.mark.parametrize("method", PAPER_METHODS)
@given(dissimilarity_matrices(), st.integers(1, 8))
@settings(max_examples=20, deadline=None)
def test_transform_of_the_fitted_rows_returns_their_coordinates(method, D, k):
    embedding = fit(D, min(k, D.shape[0] - 1), method)
    if embedding.k == 0:
        return
    # Triangulation divides by λ: rounding grows with the spread of the kept eigenvalues.
    spread = np.max(np.abs(embedding.info.eigenvalues)) / np.min(
        np.abs(embedding.info.eigenvalues)
    )
    tolerance = 1e-13 * spread * (1 + np.max(np.abs(embedding.coordinates)))
    np.testing.assert_allclose(
        embedding.transform(D), embedding.coordinates, atol=tolerance
    )
