"""What is refused leaves D as it was, also where D may be overwritten."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import InputError, neuc_mds

N = 12
DISTANCES = squareform(pdist(np.random.default_rng(0).normal(size=(N, 3))))


BAD = {
    "method": {"method": "nuec"},
    "method with weights": {"method": "neuc+", "weights": np.ones((N, N))},
    "n_components": {"n_components": N},
    "tol": {"tol": 3.0},
    "max_iter": {"max_iter": 0},
    "missing": {"missing": "drop"},
    "squared": {"squared": "no"},
    "weights": {"weights": np.triu(np.ones((N, N)))},
}


@pytest.mark.parametrize("case", BAD)
def test_a_refused_argument_leaves_D_as_it_was(case):
    options = {"n_components": 2, **BAD[case]}
    for dtype in (np.float64, np.float32):
        D = DISTANCES.astype(dtype)
        with pytest.raises(InputError):
            neuc_mds(D, **options)
        np.testing.assert_array_equal(D, DISTANCES.astype(dtype))


def test_too_little_memory_is_told_before_D_is_squared(monkeypatch):
    from neucmds._operator import choose

    monkeypatch.setattr(choose, "available_memory", lambda: 1000)
    D = DISTANCES.copy()
    with pytest.raises(InputError, match="beyond D, but 1 kB are free"):
        neuc_mds(D, 2)
    np.testing.assert_array_equal(D, DISTANCES)


@pytest.mark.parametrize("factor", [1e-50, 1e50])
def test_weights_count_by_their_ratios(factor):
    W = np.random.default_rng(0).uniform(1, 2, size=(N, N))
    W = W + W.T
    found, known = (neuc_mds(DISTANCES, 2, weights=w, random_state=0) for w in (factor * W, W))
    np.testing.assert_allclose(found.coordinates, known.coordinates, rtol=1e-6)


@pytest.mark.parametrize("method", ["neuc+", "refined"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_new_objects_out_of_range_are_refused_instead_of_placed_at_nan(method, dtype):
    embedding = neuc_mds(DISTANCES.astype(dtype), 2, method)
    far = DISTANCES[:2].astype(dtype) * (1e200 if dtype == np.float64 else 1e25)
    with pytest.raises(InputError, match=r"too large to be placed: the largest is"):
        embedding.transform(far)


@pytest.mark.parametrize("power", [-25, -22, -15, 15, 25])
def test_float32_dissimilarities_give_the_same_coordinates_at_any_scale(power):
    D = DISTANCES.astype(np.float32)
    known = neuc_mds(D, 3, "neuc+")
    found = neuc_mds((DISTANCES * 10.0**power).astype(np.float32), 3, "neuc+")
    assert found.k == known.k
    scaled = np.asarray(found.coordinates, dtype=np.float64) * 10.0**-power
    np.testing.assert_allclose(scaled, known.coordinates, atol=1e-4)
