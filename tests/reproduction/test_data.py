from __future__ import annotations

import numpy as np
import pytest

from neucmds.errors import FileFormatError, InputError
from reproduction.data import (
    IMAGE_SETS,
    DataNotFoundError,
    images,
    list_dissimilarities,
    load_dissimilarity,
    load_genomics,
    load_images,
)


@pytest.fixture(autouse=True)
def _no_ambient_data(monkeypatch):
    monkeypatch.delenv("NEUCMDS_DATA", raising=False)


@pytest.mark.parametrize("below", ["", "images"])
def test_npz_is_found_in_the_folder_and_below_it(tmp_path, below, monkeypatch):
    x, y = np.arange(80, dtype=np.uint8).reshape(5, 4, 4), np.arange(5, dtype=np.uint8)
    (tmp_path / below).mkdir(exist_ok=True)
    np.savez(tmp_path / below / "mnist.npz", x=x, y=y)
    found = load_images("mnist", data_home=tmp_path, n=3)
    np.testing.assert_array_equal(found.images, x[:3])
    np.testing.assert_array_equal(found.labels, y[:3])
    monkeypatch.setenv("NEUCMDS_DATA", str(tmp_path))
    np.testing.assert_array_equal(load_images("mnist", n=3).images, x[:3])


@pytest.mark.parametrize("name", IMAGE_SETS)
def test_absent_set_without_network_says_where_to_put_what(tmp_path, monkeypatch, name):
    def unreachable(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", unreachable)
    with pytest.raises(DataNotFoundError, match=rf"{name}\.npz.*NEUCMDS_DATA") as caught:
        load_images(name, data_home=tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", IMAGE_SETS)
def test_openml_answer_has_the_shape_of_the_files(monkeypatch, name):
    dim = 3072 if name == "cifar10" else 784
    x = np.random.default_rng(0).integers(0, 256, (4, dim)).astype(float)

    def answer(dataset, **kwargs):
        assert dataset == images._OPENML[name]
        return x, np.array(["1", "2", "3", "4"])

    monkeypatch.setattr("sklearn.datasets.fetch_openml", answer)
    found = load_images(name, n=4)
    if name == "cifar10":
        np.testing.assert_array_equal(found.images[2, 5, 7], x[2].reshape(3, 32, 32)[:, 5, 7])
    else:
        np.testing.assert_array_equal(found.images[2, 5, 7], x[2].reshape(28, 28)[5, 7])
    assert found.labels.tolist() == [1, 2, 3, 4]


def test_bad_requests_and_files_are_named(tmp_path):
    with pytest.raises(InputError, match="mnist, fashion_mnist, cifar10"):
        load_images("svhn")
    np.savez(tmp_path / "mnist.npz", x=np.zeros((2, 4, 4), np.uint8), y=np.zeros(2, np.uint8))
    with pytest.raises(InputError, match="holds 2 images"):
        load_images("mnist", data_home=tmp_path, n=3)
    np.savez(tmp_path / "mnist.npz", images=np.zeros(3))
    with pytest.raises(FileFormatError, match="lacks x, y"):
        load_images("mnist", data_home=tmp_path)
    (tmp_path / "mnist.npz").write_bytes(b"not an archive")
    with pytest.raises(FileFormatError, match="cannot be read"):
        load_images("mnist", data_home=tmp_path)


def test_cumida_csv_is_read(tmp_path):
    path = tmp_path / "Renal_GSE53757.csv"
    path.write_text("samples,type,1007_s_at,1053_at\n88,ccRCC,9.5,-1.25\n89,normal,8,7e0\n")
    for request in (path, "Renal_GSE53757"):
        table = load_genomics(request, data_home=tmp_path)
        np.testing.assert_array_equal(table.values, [[9.5, -1.25], [8, 7]])
        assert table.labels.tolist() == ["ccRCC", "normal"]
        assert table.samples.tolist() == ["88", "89"]
        assert table.probes.tolist() == ["1007_s_at", "1053_at"]
    logged = load_genomics(path, log=True)
    np.testing.assert_allclose(logged.values, [[np.log2(10.5), 0.0], [np.log2(9), 3.0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gene,type,a\n1,x,2\n", "starts with 'gene,type'"),
        ("samples,type,a,b\n1,x,2\n", "a number for each"),
        ("samples,type,a\n1,x,high\n", "a number for each"),
        ("samples,type,a\n", "needs samples"),
        ("", "cannot be read"),
    ],
)
def test_a_broken_csv_is_refused(tmp_path, text, message):
    path = tmp_path / "set.csv"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        load_genomics(path)


def test_absent_tables_and_matrices_are_named(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"'brain' not found.*NEUCMDS_DATA"):
        load_genomics("brain", data_home=tmp_path)
    np.savez(tmp_path / "here.npz", D=np.zeros((2, 2)))
    with pytest.raises(DataNotFoundError, match=r"'wish' not found \(there: here\)"):
        load_dissimilarity("wish", data_home=tmp_path)
    np.savez(tmp_path / "flat.npz", D=np.zeros(3))
    with pytest.raises(FileFormatError, match="must be square"):
        load_dissimilarity("flat", data_home=tmp_path)


def test_listing_holds_archives_with_a_matrix_only(tmp_path):
    np.savez(tmp_path / "matrix.npz", D=np.zeros((2, 2)))
    np.savez(tmp_path / "other.npz", X=np.zeros((2, 2)))
    (tmp_path / "broken.npz").write_bytes(b"no")
    assert list_dissimilarities(tmp_path) == ["matrix"]
    assert list_dissimilarities() == []


def test_every_stored_dissimilarity_loads_on_the_unsquared_scale(data_home):
    names = list_dissimilarities(data_home)
    assert "wish12" in names
    for name in names:
        stored = load_dissimilarity(name, data_home=data_home)
        d = stored.dissimilarity
        assert np.isfinite(d).all()
        assert (d >= 0).all()
        assert stored.source
        assert stored.names is None or len(stored.names) == len(d)
        if not name.endswith("_asym"):
            np.testing.assert_allclose(d, d.T)


def test_stored_expression_tables_come_on_a_log_scale(data_home):
    for path in sorted((data_home / "genomics").glob("*.npz")):
        table = load_genomics(path.stem, data_home=data_home)
        assert len(table.labels) == len(table.values)
        assert table.values.max() < 25  # raw intensities reach tens of thousands
        assert table.values.min() >= 0
