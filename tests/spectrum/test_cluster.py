"""A D in chunks gives what a D in memory gives, on threads and on a cluster of real processes."""

import os
import signal
import threading
import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from neucmds import InputError, NeucMDS, neuc_mds
from neucmds.spectrum.operators.cluster import DaskGram
from neucmds.spectrum.operators.dense import DenseGram

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

LARGE, CHUNK, K = 5000, 1000, 6


def cityblock(rows, cols):
    return cdist(rows, cols, "cityblock")


def features(n):
    return np.random.default_rng(0).normal(size=(n, 6)) * np.geomspace(3, 1, 6)


def lazy_cityblock(n, chunk):
    """D as a graph: computed by whichever worker is to hold it, and again if that one is lost."""
    x = da.from_array(features(n), chunks=(chunk, -1))
    with warnings.catch_warnings():  # that n × 6 features make n × n chunks is the point
        warnings.simplefilter("ignore", da.PerformanceWarning)
        return da.blockwise(
            cityblock, "ij", x, "ik", x, "jk", concatenate=True, dtype=float, meta=np.empty((0, 0))
        )


@pytest.fixture
def dissimilarity():
    return cityblock(features(900), features(900))


@pytest.mark.parametrize("chunks", [900, ((500, 250, 150), (500, 250, 150))])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_and_moments_are_those_of_the_matrix_in_memory(dissimilarity, chunks, dtype):
    sq = (dissimilarity**2).astype(dtype)
    lazy, dense = DaskGram(da.from_array(sq, chunks=chunks)), DenseGram(sq)
    block = np.random.default_rng(1).normal(size=(900, 5)).astype(dtype)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    scale = np.abs(dense.matmat(block)).max()
    np.testing.assert_allclose(lazy.matmat(block), dense.matmat(block), atol=tolerance * scale)
    assert lazy.matmat(block).dtype == dtype
    np.testing.assert_allclose(lazy.moments.row_means, dense.moments.row_means, rtol=tolerance)
    np.testing.assert_allclose(lazy.frobenius_sq, dense.frobenius_sq, rtol=tolerance)


@pytest.mark.parametrize("method", ["neuc+", "exact", "refined"])
def test_every_method_gives_the_same_on_threads(dissimilarity, method):
    lazy = NeucMDS(4, method=method).fit(da.from_array(dissimilarity, chunks=200))
    memory = NeucMDS(4, method=method).fit(dissimilarity)
    # "refined" only starts from eigenpairs, and says how well it knows them.
    atol = max(memory.result_.info.residuals) if method == "refined" else 0.0
    np.testing.assert_allclose(lazy.eigenvalues_, memory.eigenvalues_, rtol=1e-8, atol=atol)
    np.testing.assert_allclose(lazy.stress_, memory.stress_, rtol=1e-6)
    np.testing.assert_allclose(
        lazy.transform(dissimilarity[:5]), memory.transform(dissimilarity[:5]), atol=1e-4
    )


def test_chunks_that_cannot_be_multiplied_or_gathered_are_refused(dissimilarity):
    lazy = da.from_array(dissimilarity, chunks=300)
    bad = dissimilarity.copy()
    bad[4, 700] = np.nan
    with pytest.raises(InputError, match=r"1 missing \(NaN\) entry, at \(4, 700\)"):
        neuc_mds(da.from_array(bad, chunks=300), 2)
    with pytest.raises(InputError, match=r"unknown chunk sizes; call D\.compute_chunk_sizes"):
        neuc_mds(lazy[lazy[:, 0] >= 0], 2)
    with pytest.raises(InputError, match=r"would gather D of 20000 objects \(3.2 GB\)"):
        DaskGram(da.zeros((20_000, 20_000), chunks=5000)).row_slices()


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_worker_killed_in_the_middle_changes_nothing(cluster, monkeypatch):
    victim = next(iter(cluster.run(os.getpid).values()))
    plain, calls = DaskGram.product, []

    def product(self, block):
        calls.append(block.shape)
        if len(calls) == 4:
            threading.Timer(0.05, os.kill, (victim, signal.SIGKILL)).start()
        return plain(self, block)

    monkeypatch.setattr(DaskGram, "product", product)
    found = neuc_mds(lazy_cityblock(LARGE, CHUNK), K, "neuc+", tol=1e-9)
    assert len(calls) > 4
    assert victim not in cluster.run(os.getpid).values()

    x = features(LARGE)
    expected = neuc_mds(cityblock(x, x), K, "neuc+", tol=1e-9)
    np.testing.assert_allclose(found.info.eigenvalues, expected.info.eigenvalues, rtol=1e-8)
    np.testing.assert_allclose(found.stress, expected.stress, rtol=1e-8)
    assert found.signature == expected.signature
