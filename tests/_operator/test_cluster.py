"""A D in chunks gives what a D in memory gives, on threads and on a cluster of real processes."""

import os
import signal
import threading
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from neucmds import InputError, LandmarkNeucMDS, NeucMDS, api, neuc_mds
from neucmds._operator import DenseGram, chunked_rows
from neucmds._operator.cluster import DaskGram

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

LARGE, CHUNK, K = 12_000, 1000, 6


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


@pytest.mark.parametrize("chunks", [900, 300, ((500, 250, 150), (500, 250, 150))])
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


@pytest.mark.parametrize("method", ["neuc", "neuc+", "exact", "refined"])
def test_every_method_gives_the_same_on_threads(dissimilarity, method):
    lazy = NeucMDS(4, method=method).fit(da.from_array(dissimilarity, chunks=200))
    memory = NeucMDS(4, method=method).fit(dissimilarity)
    # "refined" only starts from eigenpairs, and says how well it knows them.
    atol = max(memory.result_.residuals) if method == "refined" else 0.0
    np.testing.assert_allclose(lazy.eigenvalues_, memory.eigenvalues_, rtol=1e-8, atol=atol)
    np.testing.assert_allclose(lazy.stress_, memory.stress_, rtol=1e-6)
    np.testing.assert_allclose(
        lazy.transform(dissimilarity[:5]), memory.transform(dissimilarity[:5]), atol=1e-4
    )


def test_squared_input_labels_and_symmetrize_mean_what_they_mean_in_memory(dissimilarity):
    skewed = dissimilarity**2 + np.triu(np.ones_like(dissimilarity), 1)
    names = [f"object {i}" for i in range(900)]
    settings = {"squared": True, "symmetrize": True, "labels": names}
    lazy, memory = (
        api.fit(api.prepare(D, **settings), api.Options(3, "neuc+")).embedding
        for D in (da.from_array(skewed, chunks=300), skewed)
    )
    np.testing.assert_allclose(lazy.eigenvalues, memory.eigenvalues, rtol=1e-8)
    assert lazy.labels == memory.labels


def set_entry(matrix, i, j, value):
    changed = matrix.copy()
    changed[i, j] = value
    return changed


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: d[:, :899], "not square: 900 × 899"),
        (lambda d: set_entry(d, 4, 700, np.nan), r"holds 1 missing \(NaN\) entry, at \(4, 700\)"),
        (lambda d: set_entry(d, 4, 700, -2.0), r"Negative values .* is -2 at \(4, 700\)"),
        (lambda d: set_entry(d, 4, 700, 9.0), r"not symmetric: largest gap .* at \(4, 700\)"),
        (lambda d: set_entry(d, 400, 400, 1.0), r"diagonal that is not zero: 1 at \(400, 400\)"),
    ],
)
def test_bad_entries_are_named_without_gathering(dissimilarity, spoil, message):
    with pytest.raises(InputError, match=message):
        neuc_mds(da.from_array(spoil(dissimilarity), chunks=300), 2)


def test_chunks_that_cannot_be_multiplied_or_gathered_are_refused(dissimilarity):
    with pytest.raises(InputError, match=r"not square in chunks: rows are cut into 3 × 300"):
        neuc_mds(da.from_array(dissimilarity, chunks=(300, 450)), 2)
    lazy = da.from_array(dissimilarity, chunks=300)
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


@contextmanager
def growth_of_the_client():
    """Give a list whose last entry is the highest resident size above that of the start."""

    def now():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    start, grown, done = now(), [0], threading.Event()

    def watch():
        while not done.wait(0.005):
            grown.append(max(grown[-1], now() - start))

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield grown
    done.set()
    watcher.join()


def fit(D):
    # At the default of 1e-7 eigenvalues agree to 1e-13, but STRESS, which is of first order in the
    # vectors, to 1.5e-8 only.
    return neuc_mds(D, K, "neuc+", tol=1e-9)


def assert_same(found, expected):
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-8)
    np.testing.assert_allclose(found.stress, expected.stress, rtol=1e-8)
    assert found.signature == expected.signature


def test_a_cluster_finds_what_one_machine_finds(cluster):
    x = features(3000)
    assert_same(fit(lazy_cityblock(3000, 500)), fit(cityblock(x, x)))


@pytest.mark.parametrize("loss", ["relative", "distance"])
def test_landmarks_place_by_a_loss_on_the_workers(cluster, loss):
    x = features(2000)
    settings = {"n_landmarks": 60, "metric": "cityblock", "loss": loss, "random_state": 0}
    lazy = da.from_array(x, chunks=(500, -1))
    est = LandmarkNeucMDS(3, **settings).fit(lazy)
    placed = est.transform(lazy)
    assert isinstance(placed, da.Array)
    memory = LandmarkNeucMDS(3, **settings).fit(x)
    # Rows are placed in blocks of other sizes, and BLAS adds up in another order.
    np.testing.assert_allclose(placed.compute(), memory.transform(x), atol=1e-6)


def test_pairs_of_features_on_a_cluster_are_those_of_features_in_memory(cluster, monkeypatch):
    monkeypatch.setattr(chunked_rows, "MOST_ROWS", 500)
    x = features(1500)
    settings = {"metric": "cityblock", "loss": "relative", "n_pairs": 80, "max_iter": 20}
    found = NeucMDS(3, random_state=0, **settings).fit(da.from_array(x, chunks=(400, -1)))
    expected = NeucMDS(3, random_state=0, **settings).fit(x)
    np.testing.assert_array_equal(found.embedding_, expected.embedding_)
    np.testing.assert_allclose(found.transform(x[:9]), expected.transform(x[:9]))


def drawn_there(block_info=None):
    """A chunk of 500 rows with 5000 features, made by whoever is to compare it."""
    chunk = block_info[None]["chunk-location"][0]
    inner = np.random.default_rng(chunk).normal(size=(500, 5))
    return inner @ np.random.default_rng(9).normal(size=(5, 5000))


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's /proc")
def test_features_whose_pairs_are_sampled_never_come_to_the_client(cluster, monkeypatch):
    monkeypatch.setattr(chunked_rows, "MOST_ROWS", 500)
    x = da.map_blocks(drawn_there, chunks=((500,) * 4, (5000,)), dtype=float, meta=np.empty((0, 0)))
    settings = {"metric": "euclidean", "loss": "relative", "random_state": 0, "max_iter": 5}
    with growth_of_the_client() as grown:
        found = NeucMDS(5, n_pairs=60, **settings).fit(x)
        placed = found.transform(x[:3].compute())
    assert grown[-1] < x.nbytes / 2  # 80 MB in all; 20 were measured
    np.testing.assert_allclose(placed, found.embedding_[:3], atol=1e-3)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's /proc")
def test_12000_objects_with_a_worker_killed_in_the_middle(cluster, monkeypatch):
    """Same result, D never on the client. One test, as each part needs the same half minute."""
    victim = next(iter(cluster.run(os.getpid).values()))
    plain, calls = DaskGram.product, []

    def product(self, block):
        calls.append(block.shape)
        if len(calls) == 4:
            threading.Timer(0.05, os.kill, (victim, signal.SIGKILL)).start()
        return plain(self, block)

    monkeypatch.setattr(DaskGram, "product", product)
    with growth_of_the_client() as grown:
        found = fit(lazy_cityblock(LARGE, CHUNK))
    assert len(calls) > 4
    assert victim not in cluster.run(os.getpid).values()

    one_block = LARGE * 2 * K * 8
    constant = 128e6  # the solver's basis, messages, a graph; D would be 1152e6
    assert grown[-1] < 1.5 * one_block + constant

    x = features(LARGE)
    assert_same(found, fit(cityblock(x, x)))
