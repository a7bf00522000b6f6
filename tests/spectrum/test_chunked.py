"""A D in chunks gives what a D in memory gives: of a file, on threads, on a cluster."""

import os
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from neucmds import InputError, NeucMDS, neuc_mds

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

LARGE, CHUNK, K = 3000, 600, 6


def cityblock(rows, cols):
    return cdist(rows, cols, "cityblock")


def features(n):
    return np.random.default_rng(0).normal(size=(n, 6)) * np.geomspace(3, 1, 6)


def lazy_cityblock(n, chunk):
    """D as a graph: computed by whichever worker is to hold it, and again if that one is lost."""
    x = da.from_array(features(n), chunks=(chunk, -1))
    with (
        warnings.catch_warnings()
    ):  # that n × 6 features make n × n chunks is the point
        warnings.simplefilter("ignore", da.PerformanceWarning)
        return da.blockwise(
            cityblock,
            "ij",
            x,
            "ik",
            x,
            "jk",
            concatenate=True,
            dtype=float,
            meta=np.empty((0, 0)),
        )


@pytest.fixture(scope="module")
def dissimilarity():
    return cityblock(features(700), features(700))


@pytest.fixture
def little_memory():
    """D of 700 objects takes 2 MB in float32."""
    with patch(
        "neucmds.backend.memory.available_memory", return_value=1_950_000
    ):
        yield


def as_npy(D, folder):
    np.save(folder / "D.npy", D)
    return folder / "D.npy"


def as_zarr(D, folder):
    zarr = pytest.importorskip("zarr")
    store = zarr.open(
        str(folder / "D.zarr"),
        mode="w",
        shape=D.shape,
        dtype=D.dtype,
        chunks=(64, 90),
    )
    store[:] = D
    return store


def as_hdf5(D, folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "D.h5", "w") as file:
        file.create_dataset(
            "D", data=D, chunks=(50, len(D)), compression="gzip"
        )
    return h5py.File(folder / "D.h5", "r")["D"]


STORES = {
    "npy": as_npy,
    "map": lambda D, folder: np.load(as_npy(D, folder), mmap_mode="r"),
    "copy on write": lambda D, folder: np.load(
        as_npy(D, folder), mmap_mode="c"
    ),
    "fortran": lambda D, folder: as_npy(np.asfortranarray(D), folder),
    "float32": lambda D, folder: as_npy(D.astype(np.float32), folder),
    "integers": lambda D, folder: as_npy(
        np.round(1000 * D).astype(">u4"), folder
    ),
    "zarr": as_zarr,
    "hdf5": as_hdf5,
    "dask": lambda D, folder: da.from_array(D, chunks=(180, 110)),
}


@pytest.mark.parametrize("store", STORES)
def test_every_store_is_embedded_as_in_memory(
    store, dissimilarity, tmp_path, little_memory
):
    scale = 1000 if store == "integers" else 1
    told = []
    stored = STORES[store](dissimilarity, tmp_path)
    chunked = neuc_mds(
        stored, 8, "neuc+", callback=lambda *step: told.append(step)
    )
    memory = neuc_mds(dissimilarity, 8, "neuc+")
    rtol = 1e-3 if store == "integers" else 1e-6
    assert chunked.signature == memory.signature
    np.testing.assert_allclose(
        chunked.info.eigenvalues, scale**2 * memory.info.eigenvalues, rtol=rtol
    )
    assert (700, 700, "pass 2 over D") in told


@pytest.mark.parametrize("method", ["neuc+", "exact", "refined"])
def test_every_method_gives_the_same(
    dissimilarity, method, tmp_path, little_memory
):
    lazy = NeucMDS(4, method=method).fit(as_npy(dissimilarity, tmp_path))
    memory = NeucMDS(4, method=method).fit(dissimilarity)
    # "refined" only starts from eigenpairs, and says how well it knows them.
    atol = max(memory.result_.info.residuals) if method == "refined" else 0.0
    np.testing.assert_allclose(
        lazy.eigenvalues_, memory.eigenvalues_, rtol=1e-7, atol=atol
    )
    np.testing.assert_allclose(lazy.stress_, memory.stress_, rtol=1e-6)
    np.testing.assert_allclose(
        lazy.transform(dissimilarity[:5]),
        memory.transform(dissimilarity[:5]),
        atol=1e-4,
    )


@contextmanager
def without_dask():
    """Let no import find dask, as where it is not installed."""

    class Absent:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name.partition(".")[0] == "dask":
                raise ModuleNotFoundError(f"No module named {name!r}")

    others = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] != "dask"
    }
    with (
        patch.dict(sys.modules, others, clear=True),
        patch.object(sys, "meta_path", [Absent, *sys.meta_path]),
    ):
        yield


def test_a_file_that_fits_needs_no_dask(
    dissimilarity, tmp_path, little_memory
):
    path = as_npy(dissimilarity, tmp_path)
    with without_dask():
        with pytest.raises(
            ImportError, match=r"pip install 'neucmds\[dask\]'"
        ):
            neuc_mds(path, 2, "neuc+")
        with patch(
            "neucmds.backend.memory.available_memory", return_value=10**9
        ):
            assert neuc_mds(path, 2, "neuc+").n == 700


def test_chunks_that_cannot_be_read_are_refused(dissimilarity):
    lazy = da.from_array(dissimilarity, chunks=300)
    bad = dissimilarity.copy()
    bad[4, 600] = np.nan
    with pytest.raises(
        InputError, match=r"1 missing \(NaN\) entries, the first at \(4, 600\)"
    ):
        neuc_mds(da.from_array(bad, chunks=300), 2)
    with pytest.raises(
        InputError, match=r"unknown chunk sizes; call D\.compute_chunk_sizes"
    ):
        neuc_mds(lazy[lazy[:, 0] >= 0], 2)
    for shape, said in (((6, 5), "D is 6 × 5"), ((1, 1), "D is 1 × 1")):
        with pytest.raises(InputError, match=said):
            neuc_mds(da.zeros(shape), 1)


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_worker_killed_in_the_middle_changes_nothing(cluster):
    victim = next(iter(cluster.run(os.getpid).values()))
    passes = []

    def kill(step, total, what):
        passes.append(what)
        if len(passes) == 4:
            threading.Timer(0.05, os.kill, (victim, signal.SIGKILL)).start()

    found = neuc_mds(
        lazy_cityblock(LARGE, CHUNK), K, "neuc+", tol=1e-9, callback=kill
    )
    assert len(passes) > 5
    assert victim not in cluster.run(os.getpid).values()

    x = features(LARGE)
    expected = neuc_mds(cityblock(x, x), K, "neuc+", tol=1e-9)
    np.testing.assert_allclose(
        found.info.eigenvalues, expected.info.eigenvalues, rtol=1e-8
    )
    np.testing.assert_allclose(found.stress, expected.stress, rtol=1e-8)
    assert found.signature == expected.signature
    with pytest.raises(
        InputError, match=r"would gather D of 5500 objects \(0.2 GB\)"
    ):
        neuc_mds(lazy_cityblock(5500, CHUNK), 700, "neuc+")
