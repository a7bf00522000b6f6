"""D outside memory gives the numbers of D in memory, and is checked while it is read."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import InputError, NeucMDS, neuc_mds
from neucmds.backend import checkpoint
from neucmds.spectrum.operators import choose
from neucmds.spectrum.operators.blocked import BlockedGram
from neucmds.spectrum.operators.choose import lazy_operator
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.features import FeatureGram

N = 700


@pytest.fixture(scope="module")
def distances():
    points = np.random.default_rng(0).normal(size=(N, 6)) * np.linspace(3, 1, 6)
    return squareform(pdist(points, "cityblock"))


def as_npy(D, folder):
    np.save(folder / "D.npy", D)
    return folder / "D.npy"


def as_zarr(D, folder):
    zarr = pytest.importorskip("zarr")
    store = zarr.open(
        str(folder / "D.zarr"), mode="w", shape=D.shape, dtype=D.dtype, chunks=(64, 90)
    )
    store[:] = D
    return store


def as_hdf5(D, folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "D.h5", "w") as file:
        file.create_dataset("D", data=D, chunks=(50, len(D)), compression="gzip")
    return h5py.File(folder / "D.h5", "r")["D"]


STORES = {
    "npy": as_npy,
    "map": lambda D, folder: np.load(as_npy(D, folder), mmap_mode="r"),
    "copy on write": lambda D, folder: np.load(as_npy(D, folder), mmap_mode="c"),
    "fortran": lambda D, folder: as_npy(np.asfortranarray(D), folder),
    "zarr": as_zarr,
    "hdf5": as_hdf5,
    "array": lambda D, folder: D,
    "function": lambda D, folder: lambda start, stop: D[start:stop],
}


def blocked(store, D, folder, **settings):
    settings.setdefault("max_memory", 40 * 32 * len(D))
    return BlockedGram(store(D, folder), n=len(D), **settings)


@pytest.mark.parametrize("store", STORES)
def test_every_store_agrees_with_memory(store, distances, tmp_path):
    squared = store in ("npy", "zarr")
    held = distances**2 if squared else distances
    gram = blocked(STORES[store], held, tmp_path, squared=squared)
    dense = DenseGram(distances**2)
    block = np.random.default_rng(1).normal(size=(N, 5))
    np.testing.assert_allclose(gram.product(block), dense.product(block), rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(gram.matmat(block), dense.matmat(block), rtol=1e-9, atol=1e-8)
    np.testing.assert_array_equal(gram.rows(slice(90, 140)), dense.rows(slice(90, 140)))
    np.testing.assert_allclose(gram.moments.row_means, dense.moments.row_means, rtol=1e-13)
    assert gram.moments.sq_norm == pytest.approx(dense.moments.sq_norm, rel=1e-13)
    assert len(gram.row_slices()) > 10


@pytest.mark.parametrize(
    ("store", "method"), [(as_npy, "refined"), (as_zarr, "exact"), (as_hdf5, "neuc+")]
)
def test_the_embedding_is_that_of_memory(store, method, distances, tmp_path, monkeypatch):
    expected, stored = neuc_mds(distances, 8, method), store(distances, tmp_path)
    assert lazy_operator(stored, 8) is None
    monkeypatch.setattr(choose, "available_memory", lambda: 4_000_000)
    assert isinstance(lazy_operator(stored, 8), BlockedGram)
    assert lazy_operator(distances, 8) is None
    found = NeucMDS(8, method=method).fit(stored).result_
    assert found.signature == expected.signature
    np.testing.assert_allclose(found.info.eigenvalues, expected.info.eigenvalues, rtol=1e-7)
    assert found.stress == pytest.approx(expected.stress, rel=1e-6)
    np.testing.assert_allclose(
        found.transform(distances[:4]), expected.transform(distances[:4]), rtol=1e-4, atol=1e-4
    )


def as_dask(D, folder):
    return pytest.importorskip("dask.array").from_array(D, chunks=(180, 180))


def as_features(D, folder):
    return FeatureGram(D[:, :9], "euclidean", params={"power": 1.5})


@pytest.mark.parametrize("store", [as_npy, as_dask, as_features])
def test_an_interrupted_descent_goes_on_from_coordinates(store, distances, tmp_path, monkeypatch):
    monkeypatch.setattr(choose, "available_memory", lambda: 4_000_000)
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    kept, iterations = tmp_path / "fit.part", []

    def interrupt(step, total, what):
        if isinstance(what, float) and kept.exists() and step > 3:
            raise KeyboardInterrupt

    def fit(D, **more):
        return neuc_mds(store(D, tmp_path), 5, tol=1e-4, **more)

    with pytest.raises(KeyboardInterrupt):
        fit(distances, checkpoint=kept, callback=interrupt)
    for other in ({"max_iter": 7}, {"D": 2 * distances}):
        with pytest.raises(InputError, match="of another D or other parameters"):
            fit(**{"D": distances, "checkpoint": kept, **other})
    found = fit(distances, checkpoint=kept, callback=lambda *heard: iterations.append(heard[2]))
    assert not kept.exists()
    assert [one for one in iterations if "spectrum" in str(one)] == []
    whole = fit(distances)
    assert found.signature == whole.signature
    assert found.stress == pytest.approx(whole.stress, rel=1e-3)


def test_a_checkpoint_that_would_keep_nothing_is_refused(distances, tmp_path, monkeypatch):
    path, kept = as_npy(distances, tmp_path), tmp_path / "fit.part"
    with pytest.raises(InputError, match="this D is: leave it out"):
        neuc_mds(path, 5, checkpoint=kept)
    monkeypatch.setattr(choose, "available_memory", lambda: 4_000_000)
    for wanted in (0.9, "auto", (3, 2)):
        with pytest.raises(InputError, match="keeps the coordinates of"):
            neuc_mds(path, wanted, checkpoint=kept)
    assert not kept.exists()


def test_the_working_copy_is_made_only_if_it_fits(distances, tmp_path):
    path = as_npy(distances, tmp_path)
    assert BlockedGram(path, max_memory=N * N * 4).rounded() is None
    gram = BlockedGram(path, max_memory="1GB")
    block = np.random.default_rng(1).normal(size=(N, 3))
    exact = gram.matmat(block)
    with gram.rounded().products() as multiply:
        np.testing.assert_allclose(multiply(block), exact, atol=1e-5 * np.abs(exact).max())
    assert DenseGram(distances, working_copy=False).rounded() is None


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, ">f8"])
def test_what_is_stored_otherwise_is_converted_as_it_is_read(dtype, distances, tmp_path):
    held = np.round(distances * 4).astype(dtype)
    gram = blocked(as_npy, held, tmp_path)
    assert gram.dtype == (np.float32 if dtype in (np.float32, np.float16) else np.float64)
    block = np.random.default_rng(1).normal(size=(N, 3))
    expected = held.astype(np.float64) ** 2 @ block
    np.testing.assert_allclose(gram.product(block), expected, rtol=1e-9, atol=1e-6)


def test_progress_is_told_after_every_block(distances, tmp_path):
    told = []
    gram = blocked(as_npy, distances, tmp_path, progress=lambda *where: told.append(where))
    gram.product(np.ones((N, 1)))
    gram.product(np.ones((N, 1)))
    assert told[0] == (1, gram.block_rows, N)
    assert told[-1] == (2, N, N)
    assert gram.n_passes == 2


def five(start, stop):
    return np.zeros((stop - start, 5))


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        (np.zeros((4, 7)), {}, "not square: 4 × 7"),
        (np.zeros(6), {}, "not square: 6; in blocks"),
        (five, {}, "pass n="),
        (five, {"n": 7}, r"\(1, 7\) is expected"),
        (np.zeros((4, 4), dtype=complex), {}, "complex"),
        (np.zeros((1, 1)), {}, "at least 2"),
        (five, {"n": 5, "max_memory": "100"}, r"100 bytes.*need 160 bytes; pass at least that"),
    ],
)
def test_what_cannot_be_read_in_blocks_is_refused(source, settings, message):
    with pytest.raises(InputError, match=message):
        BlockedGram(source, **settings)


def test_a_file_cut_off_after_it_was_opened_is_refused(distances, tmp_path):
    gram = blocked(as_npy, distances, tmp_path)
    with gram.source.path.open("r+b") as file:
        file.truncate(N * N * 4)
    with pytest.raises(InputError, match=r"D\.npy ends before its last row"):
        gram.product(np.ones((N, 1)))
