"""What is refused leaves D as it was, also where D may be overwritten."""

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
