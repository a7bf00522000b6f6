"""Embedding: what it derives, what it refuses, and that a file brings all of it back."""

import json
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from neucmds import Embedding, FewerComponentsWarning, InputError, NonEuclideanWarning, neuc_mds
from neucmds.errors import FileFormatError

METHODS = ["classical", "lower", "neuc", "neuc+", "exact", "refined"]


def named(D):
    """Return D with a name for each object."""
    names = [f"object {i}" for i in range(len(D))]
    return pd.DataFrame(D, names, names)


@pytest.fixture(scope="module")
def D():
    entries = np.random.default_rng(0).gamma(1.0, size=(30, 30))
    D = entries + entries.T
    np.fill_diagonal(D, 0)
    return D


@pytest.mark.parametrize("method", METHODS)
def test_coordinates_are_centered_and_ordered_by_weight(D, method):
    embedding = neuc_mds(D, 4, method)
    np.testing.assert_allclose(embedding.coordinates.mean(axis=0), 0, atol=1e-12)
    assert np.all(np.diff(np.abs(embedding.weights)) <= 1e-12)
    lengths = np.sum(embedding.coordinates**2, axis=0)
    np.testing.assert_allclose(embedding.signs * lengths, embedding.weights, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_the_largest_entry_of_every_column_is_positive(D, method):
    x = neuc_mds(D, 4, method).coordinates
    assert np.all(x[np.argmax(np.abs(x), axis=0), np.arange(x.shape[1])] > 0)


@pytest.mark.parametrize("method", METHODS)
def test_complex_coordinates_give_dissimilarities_as_plain_dot_products(D, method):
    embedding = neuc_mds(D, 4, method)
    z = embedding.complex_coordinates
    difference = z[:, None, :] - z[None, :, :]
    plain = np.sum(difference * difference, axis=-1)
    np.testing.assert_allclose(plain.imag, 0, atol=1e-12)
    np.testing.assert_allclose(plain.real, embedding.dissimilarities(), atol=1e-10)


def test_it_introduces_itself_in_one_line(D):
    said = repr(neuc_mds(D, (2, 1), "neuc"))
    assert "30 objects by neuc: 2 positive and 1 negative" in said
    assert "\n" not in said


def test_parts_of_the_dissimilarities_equal_the_whole(D):
    embedding = neuc_mds(D, 4)
    whole = embedding.dissimilarities()
    assert np.all(np.diag(whole) == 0)
    np.testing.assert_allclose(embedding.dissimilarities([3, 7], slice(5, 9)), whole[[3, 7], 5:9])
    assert embedding.dissimilarities([5], [5])[0, 0] == 0


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_embedding_comes_back_whole(D, method, tmp_path):
    embedding = neuc_mds(named(D), 4, method)
    embedding.save(tmp_path / "e.npz")
    back = Embedding.load(tmp_path / "e.npz")
    assert back.labels == embedding.labels
    assert back.method == method
    assert back.stress_terms == embedding.stress_terms
    assert back.history == embedding.history
    assert back.signature == embedding.signature
    np.testing.assert_array_equal(back.coordinates, embedding.coordinates)
    np.testing.assert_array_equal(back.transform(D[:3]), embedding.transform(D[:3]))
    assert [p.name for p in tmp_path.iterdir()] == ["e.npz"]


def test_a_failed_save_leaves_the_old_file_alone(D, tmp_path, monkeypatch):
    path = tmp_path / "e.npz"
    neuc_mds(D, 2).save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        neuc_mds(D, 3).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["e.npz"]


def test_foreign_and_damaged_files_are_refused(D, tmp_path):
    good = tmp_path / "good.npz"
    neuc_mds(D, 2).save(good)
    foreign, text, cut, gone = (tmp_path / name for name in ("f.npz", "t.npz", "c.npz", "g.npz"))
    np.savez(foreign, D=D)
    text.write_text("no archive")
    cut.write_bytes(good.read_bytes()[:500])
    for path in (foreign, text, cut, gone):
        with pytest.raises(FileFormatError, match=path.name) as caught:
            Embedding.load(path)
        assert "\n" not in str(caught.value)


def test_a_newer_format_is_refused(D, tmp_path, monkeypatch):
    monkeypatch.setattr("neucmds.embedding.saved.FORMAT_VERSION", 99)
    neuc_mds(D, 2).save(tmp_path / "new.npz")
    monkeypatch.undo()
    with pytest.raises(FileFormatError, match="update neucmds"):
        Embedding.load(tmp_path / "new.npz")


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (np.ones((2, 29)), "expected \\(m, 30\\)"),
        (np.ones(30), "expected \\(m, 30\\)"),
        (np.full((1, 30), np.nan), "NaN"),
        (-np.ones((1, 30)), "negative entry"),
    ],
)
def test_bad_new_dissimilarities_are_refused(D, new, message):
    with pytest.raises(InputError, match=message):
        neuc_mds(D, 3).transform(new)


@pytest.mark.parametrize("k", [0, 30, 31, -1, 1.5, "3", (1, 2, 3), (0, 0), (15, 15), True])
def test_bad_numbers_of_components_are_refused(D, k):
    with pytest.raises(InputError, match="n_components"):
        neuc_mds(D, k)


def test_unknown_names_are_refused(D):
    with pytest.raises(InputError, match="refined"):
        neuc_mds(D, 2, "nuec")


def strongly_non_euclidean(n=20, positive=3):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 12))
    signs = np.where(np.arange(12) < positive, 1.0, -1.0)
    return np.sum(signs * (x[:, None] - x[None]) ** 2, axis=-1)


@pytest.mark.parametrize("method", ["classical", "lower"])
def test_more_coordinates_than_positive_eigenvalues_are_fewer_columns_and_a_warning(method):
    with pytest.warns(NonEuclideanWarning, match="'neuc\\+'"):
        embedding = neuc_mds(strongly_non_euclidean(), 8, method, squared=True)
    assert embedding.k <= 3
    assert embedding.requested == 8
    assert np.all(np.isfinite(embedding.coordinates))


@pytest.mark.parametrize("method", METHODS)
def test_a_matrix_of_zeros_has_no_coordinates(method):
    with pytest.warns(FewerComponentsWarning):
        embedding = neuc_mds(np.zeros((5, 5)), 2, method)
    assert embedding.coordinates.shape == (5, 0)
    assert embedding.stress == 0
    np.testing.assert_array_equal(embedding.dissimilarities(), np.zeros((5, 5)))


@pytest.mark.parametrize("method", METHODS)
def test_equal_dissimilarities_and_two_objects_work(method):
    equal = 3 * (np.ones((6, 6)) - np.eye(6))
    assert neuc_mds(equal, 5, method).normalized_stress < 1e-25
    two = neuc_mds([[0, 2], [2, 0]], 1, method)
    np.testing.assert_allclose(np.abs(two.coordinates[:, 0]), 1)


@pytest.mark.parametrize(("factor", "message"), [(1e120, "too large"), (1e-120, "too small")])
def test_what_doubles_cannot_hold_is_refused(D, factor, message):
    with pytest.raises(InputError, match=message):
        neuc_mds(D * factor, 2)


@pytest.mark.parametrize(
    "settings", [{"max_iter": 0}, {"max_iter": 2.5}, {"tol": -1}, {"tol": "x"}]
)
def test_settings_out_of_range_are_refused(D, settings):
    with pytest.raises(InputError, match=f"{next(iter(settings))}="):
        neuc_mds(D, 2, **settings)


def test_a_folder_that_is_not_there_is_named(D, tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        neuc_mds(D, 2).save(tmp_path / "nowhere" / "e.npz")


@pytest.mark.parametrize("method", METHODS)
def test_scaling_the_input_scales_the_result(D, method):
    for factor in (1e-40, 1e40):
        scaled = neuc_mds(D * factor, 4, method)
        assert scaled.normalized_stress == pytest.approx(neuc_mds(D, 4, method).normalized_stress)


def test_labels_of_a_frame_are_kept(D):
    pd = pytest.importorskip("pandas")
    names = [f"site {i}" for i in range(30)]
    assert neuc_mds(pd.DataFrame(D, names, names), 2).labels == tuple(names)


def test_too_little_free_memory_is_told_before_the_work(D, monkeypatch):
    monkeypatch.setattr("neucmds._operator.choose.available_memory", lambda: 1000)
    with pytest.raises(InputError, match="are free; ask for fewer"):
        neuc_mds(D, 2)


# Files that hold something else than `save` writes


@pytest.fixture
def saved(D, tmp_path):
    """Return a function that saves an embedding with some members or header fields changed."""
    path = tmp_path / "e.npz"
    neuc_mds(named(D), 3).save(path)
    with np.load(path) as archive:
        good = {name: archive[name] for name in archive.files}

    def save(header=None, drop=(), **arrays):
        fields = json.loads(str(good["header"])) | (header or {})
        members = good | {"header": np.asarray(json.dumps(fields))} | arrays
        np.savez(path, **{name: members[name] for name in members if name not in drop})
        return path

    save.good = good
    return save


def as_labels(names):
    return np.frombuffer(json.dumps(names).encode(), dtype=np.uint8)


def test_an_unchanged_file_is_read(saved):
    assert Embedding.load(saved()).k == 3


@pytest.mark.parametrize("name", ["coordinates", "signs", "eigenvalues", "weights", "residuals"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: np.where(np.arange(a.size).reshape(a.shape) == 1, np.nan, a), "NaN"),
        (lambda a: np.full(a.shape, np.inf), "infinite"),
        (lambda a: a.astype(str), "dtype"),
        (lambda a: a.astype(complex), "dtype"),
        (lambda a: np.zeros(a.shape, dtype=int), "dtype"),
        (lambda a: a[None], "shape"),
        (lambda a: a.sum(), "shape"),
    ],
)
def test_wrong_arrays_are_refused(saved, name, change, message):
    path = saved(**{name: change(saved.good[name])})
    with pytest.raises(FileFormatError, match=rf"e\.npz: damaged, {name} .*{message}") as caught:
        Embedding.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"signs": np.asarray([1.0, 0.0, -1.0])}, "signs are not all 1 or -1"),
        ({"signs": np.asarray([1.0, 5.0, -1.0])}, "signs are not all 1 or -1"),
        ({"signs": np.ones(4)}, "signs has shape"),
        ({"weights": np.ones(2)}, "weights has shape"),
        ({"stress_terms": np.ones(2)}, "stress_terms has shape"),
        ({"history": np.asarray([np.nan])}, "history has NaN"),
        ({"placement_offsets": np.ones(29)}, "placement_offsets has shape"),
        ({"placement_ridge": -np.ones(3)}, "placement_ridge is negative"),
        ({"placement_shrinkage": np.asarray(-1.0)}, "placement_shrinkage is negative"),
        ({"placement_shrinkage": np.ones(3)}, "placement_shrinkage has shape"),
        ({"labels": as_labels(["a"] * 30)}, "1 different labels for 30 objects"),
        ({"labels": as_labels([f"{i}" for i in range(29)])}, "29 different labels"),
        ({"labels": as_labels(list(range(30)))}, "not all strings"),
        ({"labels": as_labels({"a": 1})}, "not all strings"),
        ({"labels": np.arange(30.0)}, "labels have dtype"),
        ({"labels": np.frombuffer(b"[" * 100_000, dtype=np.uint8)}, "damaged"),
        ({"labels": np.frombuffer(b"\xff\xfe", dtype=np.uint8)}, "damaged"),
    ],
)
def test_wrong_members_are_refused(saved, arrays, message):
    with pytest.raises(FileFormatError, match=message):
        Embedding.load(saved(**arrays))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("version", v) for v in (np.inf, -1, 0, True, "1", None, [1])],
        *[("format", v) for v in ("other", None, 1)],
        *[("squared", v) for v in ("no", 1, 0.0, None, [])],
        *[("converged", v) for v in ("yes", 1)],
        *[("sq_norm", v) for v in (-1.0, np.nan, np.inf, "1", True, 10**400)],
        *[("requested", v) for v in (0, -3, 2.5, True, "3")],
        *[("method", v) for v in (1, None, ["neuc"])],
        *[("placement", v) for v in ("os.system", None, 3)],
        *[("loss", v) for v in ("other", None, 1, [])],
        *[("trace", v) for v in ("0", np.nan, None)],
    ],
)
def test_wrong_header_fields_are_refused(saved, field, value):
    with pytest.raises(FileFormatError, match=r"e\.npz"):
        Embedding.load(saved(header={field: value}))


@pytest.mark.slow
@pytest.mark.parametrize("floor", [-1.0, "0", None, np.inf])
def test_a_loss_with_a_wrong_floor_is_refused(D, saved, floor):
    path = saved()
    neuc_mds(D, 2, loss="relative").save(path)
    with np.load(path) as archive:
        members = {name: archive[name] for name in archive.files}
    header = json.loads(str(members.pop("header"))) | {"loss_floor": floor}
    np.savez(path, header=np.asarray(json.dumps(header)), **members)
    with pytest.raises(FileFormatError, match="loss_floor"):
        Embedding.load(path)


@pytest.mark.parametrize("name", ["coordinates", "signs", "stress_terms", "header", "history"])
def test_missing_members_are_refused(saved, name):
    with pytest.raises(FileFormatError, match=r"not an embedding|has no"):
        Embedding.load(saved(drop=(name,)))


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "null", "[]", "1e999", '{"format": 1}'])
def test_headers_that_are_no_header_are_refused(saved, text):
    path = saved()
    np.savez(path, **saved.good | {"header": np.asarray(text)})
    with pytest.raises(FileFormatError, match="not an embedding saved by neucmds"):
        Embedding.load(path)


@pytest.mark.skipif(os.name != "posix", reason="devices are no files there")
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_a_device_is_not_read(path):
    with pytest.raises(FileFormatError, match="not a regular file"):
        Embedding.load(path)


def test_the_types_of_numpy_are_saved(D, tmp_path):
    embedding = neuc_mds(D, 2, squared=np.True_)
    replace(embedding, requested=np.int64(2), residuals=None).save(tmp_path / "e.npz")
    back = Embedding.load(tmp_path / "e.npz")
    assert back.squared is True
    assert back.requested == 2
    assert back.residuals is None


def test_labels_come_back_to_the_last_character(D, tmp_path):
    labels = tuple(
        f"{i}{tail}" for i, tail in enumerate(["\0", "\0\0", "é\n", "\ud800", "", " "] * 5)
    )
    neuc_mds(pd.DataFrame(D, labels, labels), 2).save(tmp_path / "e.npz")
    assert Embedding.load(tmp_path / "e.npz").labels == labels


def test_files_of_format_1_are_read(saved):
    labels = [f"object {i}" for i in range(30)]
    path = saved(header={"version": 1}, labels=np.asarray(labels))
    assert Embedding.load(path).labels == tuple(labels)


def test_an_open_file_is_written_to(D, tmp_path):
    with (tmp_path / "e.npz").open("wb") as file:
        neuc_mds(D, 2).save(file)
    assert Embedding.load(tmp_path / "e.npz").k == 2


@pytest.mark.slow
def test_mutated_files_are_refused_or_whole(saved):
    path = saved()
    good, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(good)
        for at in rng.integers(len(good), size=rng.integers(1, 6)):
            data[at] = rng.integers(256)
        path.write_bytes(data)
        try:
            back = Embedding.load(path)
        except FileFormatError:
            continue
        assert np.all(np.isfinite(back.coordinates))
        assert np.all(np.abs(back.signs) == 1)
