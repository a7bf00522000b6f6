"""`exact` is never worse than a published closed form, `refined` never worse than `exact`."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neucmds import FewerComponentsWarning, neuc_mds

PUBLISHED = ["classical", "lower", "neuc", "neuc+"]


def random_hollow(seed, n):
    entries = np.random.default_rng(seed).normal(size=(n, n)) ** 3
    D = entries + entries.T
    np.fill_diagonal(D, 0)
    return D


def fit(D, k, method, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewerComponentsWarning)
        return neuc_mds(D, k, method, squared=True, **kwargs)


matrices = st.builds(random_hollow, st.integers(0, 10**6), st.integers(3, 16))


@pytest.mark.slow
@given(matrices, st.integers(1, 8))
@settings(max_examples=12, deadline=None)
def test_exact_is_never_worse_than_a_published_method_nor_refined_than_exact(
    D, k
):
    k = min(k, D.shape[0] - 1)
    best_published = min(fit(D, k, method).stress for method in PUBLISHED)
    exact, refined = fit(D, k, "exact"), fit(D, k, "refined")
    slack = 1e-10 * np.sum(D**2)
    assert exact.stress <= best_published * (1 + 1e-9) + slack
    assert refined.stress <= exact.stress * (1 + 1e-9) + slack
    assert all(np.diff(refined.info.history) <= 0)


@pytest.mark.slow
@given(
    st.integers(0, 10**6),
    st.sampled_from([(3, 0), (2, 3), (1, 3), (0, 2)]),
    st.sampled_from(["exact", "refined"]),
)
@settings(max_examples=12, deadline=None)
def test_a_fixed_signature_is_never_broken(seed, signature, method):
    D = random_hollow(seed, 12)
    embedding = fit(D, signature, method)
    # A weight of the wrong sign becomes zero, which is no coordinate.
    assert np.all(np.array(embedding.signature) <= signature)
    if method == "refined" and embedding.signature != signature:
        # A coordinate is missing only where one more does not lower the STRESS.
        contained = fit(D, embedding.signature, method)
        assert embedding.stress <= contained.stress * (1 + 1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", [*PUBLISHED, "exact", "refined"])
def test_what_has_no_eigenvalue_gets_no_coordinate(method, dtype):
    rng = np.random.default_rng(0)
    points, new = rng.normal(size=(60, 2)), rng.normal(size=(40, 2))
    D = np.sum((points[:, None] - points[None]) ** 2, axis=-1).astype(dtype)
    to_new = np.sum((new[:, None] - points[None]) ** 2, axis=-1)
    noisy = (to_new * (1 + 1e-3 * rng.normal(size=to_new.shape))).astype(dtype)
    embedding = fit(D, 5, method)
    assert embedding.signature == (2, 0)
    assert (
        np.max(np.abs(embedding.transform(noisy)))
        < 1.1 * np.max(np.abs(new)) + 1
    )
