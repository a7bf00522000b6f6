"""Rows in chunks are compared as rows in memory are: the same neighbours, pairs and weights."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from neucmds import InputError, NeucMDS
from neucmds.backend import memory
from neucmds.problem.chunked_rows import ChunkedRows
from neucmds.problem.sampled_pairs import feature_pairs

da = pytest.importorskip("dask.array")


def largest_gap(x, y):
    """A metric as scikit-learn takes it: a function of two rows."""
    return float(np.abs(x - y).max())


@pytest.fixture(scope="module")
def features():
    # More features than trees are used for.
    return np.random.default_rng(0).normal(size=(4200, 16)) * np.geomspace(
        3, 0.3, 16
    )


@pytest.mark.parametrize(
    "metric",
    [
        "cityblock",
        "cosine",
        "seuclidean",
        "mahalanobis",
        "angular",
        "rbf",
        largest_gap,
    ],
)
def test_the_sample_is_that_of_rows_in_memory(features, metric):
    x = features[:150] if callable(metric) else features
    settings = {
        "metric": metric,
        "n_pairs": 60,
        "loss": "relative",
        "n_landmarks": 20,
        "random_state": 0,
    }
    lazy = feature_pairs(
        da.from_array(x, chunks=((x.shape[0] - 40, 40), 10)), **settings
    )
    memory = feature_pairs(x, **settings)
    np.testing.assert_array_equal(lazy.landmarks, memory.landmarks)
    np.testing.assert_allclose(
        lazy.to_landmarks, memory.to_landmarks, atol=1e-7
    )
    for name in ("i", "j", "weight"):
        np.testing.assert_array_equal(
            getattr(lazy.pairs, name), getattr(memory.pairs, name)
        )
    found, expected = (
        np.sqrt(one.pairs.sq_dissimilarity) for one in (lazy, memory)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_of_equally_near_rows_some_are_found():
    x = np.repeat(np.eye(4), 1100, axis=0)
    rows = ChunkedRows.of(
        da.from_array(x, chunks=(1500, -1)), "cityblock"
    ).persisted()
    i, j, length = rows.nearest(30, np.array([7, 4300]))
    np.testing.assert_array_equal(i, np.repeat([7, 4300], 31))
    np.testing.assert_array_equal(length, 0.0)
    np.testing.assert_array_equal(x[i], x[j])
    assert len(set(zip(i.tolist(), j.tolist(), strict=True))) == 62
    i, j, length = rows.nearest(9999, np.array([7]))  # more than there are
    assert i.size == 4400
    np.testing.assert_allclose(length, cdist(x[:8], x, "cityblock")[i, j])


def with_gaps(x):
    x = x.copy()
    x[[17, 400], 3] = np.nan
    return da.from_array(x, chunks=(300, -1))


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            with_gaps,
            {},
            "NaN or infinity in 2 of 4200 rows, the first is row 17",
        ),
        (lambda x: da.from_array(x[:1]), {}, "X has 1 rows and 16 columns"),
        (
            da.from_array,
            {"metric": "nonsense"},
            "metric='nonsense' has no nearest neighbours",
        ),
        (da.from_array, {"n_components": "auto"}, "needs every pair"),
    ],
)
def test_rows_that_cannot_be_fitted_are_refused(
    features, change, options, message
):
    settings = {
        "n_components": 3,
        "metric": "cityblock",
        "n_pairs": 40,
        "loss": "relative",
    }
    with pytest.raises(InputError, match=message):
        NeucMDS(**(settings | options)).fit(change(features))


def test_pairs_beyond_the_limit_of_memory_are_refused(features, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1_000_000)
    monkeypatch.setattr(memory, "_ALWAYS_THERE", 0)
    for rows in (features, da.from_array(features)):
        with pytest.raises(
            InputError,
            match=r"84000 pairs of 4200 objects .* lower n_pairs=40",
        ):
            NeucMDS(3, metric="cityblock", n_pairs=40).fit(rows)
