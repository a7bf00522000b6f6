"""Agreement with systems nobody here wrote: scikit-learn, scikit-bio, R's vegan."""

import json
from pathlib import Path

import numpy as np
import pytest
import sklearn.manifold
from scipy.spatial.distance import pdist, squareform

from neucmds import neuc_mds

VEGAN = json.loads(
    (Path(__file__).parent / "fixtures" / "vegan_wcmdscale.json").read_text()
)


@pytest.fixture(scope="module")
def euclidean():
    points = np.random.default_rng(3).normal(size=(60, 8)) * np.arange(
        8, 0, -1
    )
    return squareform(pdist(points))


def up_to_column_signs(ours, theirs):
    return ours * np.sign(np.sum(ours * theirs, axis=0))


@pytest.mark.skipif(
    not hasattr(sklearn.manifold, "ClassicalMDS"),
    reason="this scikit-learn has no ClassicalMDS",
)
def test_classical_equals_scikit_learn_on_euclidean_input(euclidean):
    theirs = sklearn.manifold.ClassicalMDS(
        n_components=5, metric="precomputed"
    ).fit_transform(euclidean)
    ours = neuc_mds(euclidean, 5, "classical").coordinates
    np.testing.assert_allclose(
        up_to_column_signs(ours, theirs), theirs, atol=1e-10
    )


def test_classical_equals_scikit_bio_on_euclidean_input(euclidean):
    ordination = pytest.importorskip("skbio.stats.ordination")
    pcoa = ordination.pcoa(
        euclidean, dimensions=5, method="eigh", warn_neg_eigval=False
    )
    ours = neuc_mds(euclidean, 5, "classical")
    theirs = np.asarray(pcoa.samples)
    np.testing.assert_allclose(
        up_to_column_signs(ours.coordinates, theirs), theirs, atol=1e-10
    )
    np.testing.assert_allclose(
        ours.info.eigenvalues, np.asarray(pcoa.eigvals), rtol=1e-12
    )
    shares = np.asarray(pcoa.proportion_explained)
    np.testing.assert_allclose(ours.shares["trace"], shares, rtol=1e-9)


@pytest.mark.parametrize("table", ["dune", "varespec"])
def test_all_eigenvalues_equal_those_of_vegan(table):
    theirs = np.asarray(VEGAN[table]["eigenvalues"])
    ours = neuc_mds(np.asarray(VEGAN[table]["condensed"]), theirs.size, "neuc")
    assert np.sum(theirs < 0) > 0
    np.testing.assert_allclose(
        np.sort(ours.info.eigenvalues)[::-1], np.sort(theirs)[::-1], atol=1e-13
    )
