"""Landmarks compare the rows of D with its columns, and average both where that is asked for."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import InputError, LandmarkNeucMDS, neuc_mds


@pytest.fixture
def one_row_doubled():
    """D, and a D in which all dissimilarities from object 7, which is no landmark, are doubled."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    symmetric = squareform(pdist(x, "cityblock"))
    doubled = symmetric.copy()
    doubled[7] *= 2
    return symmetric, doubled


LANDMARKS = np.arange(15) + 20


@pytest.mark.parametrize(
    "options", [{}, {"n_near": 3, "landmarks": np.arange(39) + 1}]
)
def test_landmarks_refuse_or_average_what_differs_outside_of_them(
    one_row_doubled, options
):
    symmetric, doubled = one_row_doubled
    options = {"landmarks": LANDMARKS} | options
    with pytest.raises(InputError, match=r"not symmetric.*7"):
        LandmarkNeucMDS(2, **options).fit(doubled)
    est = LandmarkNeucMDS(2, **options, symmetrize=True).fit(doubled)
    mean = (doubled + doubled.T) / 2
    same = LandmarkNeucMDS(2, **options).fit(mean)
    np.testing.assert_array_equal(est.embedding_, same.embedding_)
    other = LandmarkNeucMDS(2, **options).fit(symmetric)
    assert np.abs(est.embedding_[7] - other.embedding_[7]).max() > 0.1


def test_a_function_call_with_landmarks_does_the_same(one_row_doubled):
    _, doubled = one_row_doubled
    with pytest.raises(InputError, match="not symmetric"):
        neuc_mds(doubled, 2, landmarks=LANDMARKS)
    emb = neuc_mds(doubled, 2, landmarks=LANDMARKS, symmetrize=True)
    mean = (doubled + doubled.T) / 2
    same = neuc_mds(mean, 2, landmarks=LANDMARKS)
    np.testing.assert_array_equal(emb.coordinates, same.coordinates)


def test_dissimilarities_of_chunks_are_compared_too(one_row_doubled):
    dask_array = pytest.importorskip("dask.array")
    symmetric, doubled = one_row_doubled
    chunks = dask_array.from_array(doubled, chunks=20)
    with pytest.raises(InputError, match="not symmetric"):
        neuc_mds(chunks, 2, landmarks=LANDMARKS)
    chunks = dask_array.from_array(symmetric, chunks=20)
    assert neuc_mds(chunks, 2, landmarks=LANDMARKS).n == 40
