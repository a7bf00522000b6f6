"""Embedding: what it derives, what it refuses, and that a file brings all of it back."""

import json
import os
import re
from dataclasses import fields, replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist, squareform

import neucmds
from neucmds import (
    Embedding,
    FewerComponentsWarning,
    InputError,
    NonEuclideanWarning,
    neuc_mds,
)

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


def every_kind_of_fit(D):
    """Yield embeddings and how much each pair counts."""
    all_pairs = 1 - np.eye(len(D))
    weights = np.random.default_rng(1).gamma(1.0, size=D.shape)
    weights = (weights + weights.T) * all_pairs
    known = (weights > 1) * 1.0
    yield from ((neuc_mds(D, 4, method), all_pairs) for method in METHODS)
    yield neuc_mds(D, 4, loss="distance", n_init=1), all_pairs
    yield neuc_mds(D, 4, weights=weights), weights
    yield neuc_mds(sparse.csr_array(D * known), 4), known


@pytest.mark.slow
def test_figures_are_those_of_the_pairs_that_count(D):
    for embedding, w in every_kind_of_fit(D):
        x = embedding.coordinates.astype(np.longdouble)
        sq = (x[:, None] - x) ** 2 * embedding.signs
        missed = sq.sum(axis=-1) - D**2
        stress = np.sum(w * missed**2)
        assert (
            abs(embedding.stress - stress)
            <= embedding.info.stress_error
            < 1e-10 * stress
        )
        mean = np.average(D**2, weights=w)
        total = np.sum(w * (D**2 - mean) ** 2)
        assert embedding.info.sq_norm == pytest.approx(np.sum(w * D**4))
        assert embedding.info.trace == pytest.approx(0.5 * (len(D) - 1) * mean)
        assert embedding.r2 == pytest.approx(float(1 - stress / total))
        rises = [
            np.sum(w * (missed - sq[..., a]) ** 2) - stress for a in range(4)
        ]
        lost = np.array(rises, dtype=float) / float(total)
        np.testing.assert_allclose(embedding.explained, lost, rtol=1e-8)


@pytest.mark.parametrize("curvature", [0.0, -0.3])
@pytest.mark.parametrize("kind", ["all", "weighted", "listed"])
def test_stress1_is_that_of_the_distances_that_were_fitted(D, kind, curvature):
    weights = 1 - np.eye(len(D))
    how = {}
    data = D
    if kind == "weighted":
        weights *= 1 + np.add.outer(np.arange(30), np.arange(30))
        how["weights"] = weights
    if kind == "listed":
        weights *= D > 1
        data = sparse.csr_array(D * weights)
    embedding = neuc_mds(
        data, (2, 1), loss="distance", curvature=curvature, n_init=1, **how
    )
    sq_errors = weights * (embedding.dissimilarities() - D) ** 2
    expected = np.sqrt(sq_errors.sum() / np.sum(weights * D**2))
    assert embedding.stress1 == pytest.approx(expected)
    assert f", stress-1 {embedding.stress1:.4g}>" in repr(embedding)
    assert np.isnan(neuc_mds(D, 2).stress1)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_curved_fit_reports_the_stress_of_d_itself(D, weighted):
    weights = 1 - np.eye(len(D))
    if weighted:
        weights *= 1 + np.add.outer(np.arange(30), np.arange(30))
    embedding = neuc_mds(
        D,
        (2, 1),
        loss="relative",
        curvature=-0.3,
        n_init=1,
        weights=weights if weighted else None,
    )

    def stress(kept):
        x = embedding.coordinates[:, kept]
        sq = np.sum((x[:, None] - x) ** 2 * embedding.signs[kept], axis=-1)
        c = np.sqrt(-embedding.kappa)
        d_hat = (
            np.sign(sq)
            * (2 * np.arcsinh(c * np.sqrt(np.abs(sq)) / 2) / c) ** 2
        )
        return np.sum(weights * (d_hat - D**2) ** 2)

    assert embedding.stress == pytest.approx(stress([0, 1, 2]))
    rises = (
        np.array([stress(kept) for kept in ([1, 2], [0, 2], [0, 1])])
        - embedding.stress
    )
    total = embedding.info.total_sum_of_squares
    np.testing.assert_allclose(embedding.explained, rises / total)


def test_eigenvalues_of_a_descent_are_those_of_its_signs(D):
    everything = np.sort(neuc_mds(D, 29, "neuc").info.eigenvalues)
    expected = sorted([everything[0], *everything[-2:]], key=abs, reverse=True)
    info = neuc_mds(D, (2, 1)).info
    np.testing.assert_allclose(info.eigenvalues, expected)
    assert info.residuals.shape == (3,)


def test_fits_are_told_apart_by_what_they_are(D):
    info = neuc_mds(D, 2).info
    assert info in {info}
    assert info != neuc_mds(D, 2).info


@pytest.mark.parametrize("method", METHODS)
def test_coordinates_are_centered_ordered_by_weight_and_of_one_sign(D, method):
    embedding = neuc_mds(D, 4, method)
    x = embedding.coordinates
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-12)
    assert np.all(np.diff(np.abs(embedding.weights)) <= 1e-12)
    np.testing.assert_allclose(
        embedding.signs * np.sum(x**2, axis=0), embedding.weights, rtol=1e-9
    )
    assert np.all(x[np.argmax(np.abs(x), axis=0), np.arange(x.shape[1])] > 0)
    z = embedding.complex_coordinates
    plain = np.sum((z[:, None, :] - z[None, :, :]) ** 2, axis=-1)
    np.testing.assert_allclose(
        plain, embedding.dissimilarities(squared=True), atol=1e-10
    )
    for factor in (1e-40, 1e40):
        scaled = neuc_mds(D * factor, 4, method)
        assert scaled.normalized_stress == pytest.approx(
            embedding.normalized_stress
        )


@pytest.mark.parametrize("method", ["classical", "lower"])
def test_more_coordinates_than_positive_eigenvalues_are_fewer_columns_and_a_warning(
    method,
):
    x, signs = (
        np.random.default_rng(1).normal(size=(20, 12)),
        np.where(np.arange(12) < 3, 1, -1),
    )
    D = np.sum(signs * (x[:, None] - x[None]) ** 2, axis=-1)
    with pytest.warns(NonEuclideanWarning, match="'neuc\\+'"):
        embedding = neuc_mds(D, 8, method, squared=True)
    assert embedding.k <= 3
    assert embedding.requested == 8
    assert re.fullmatch(
        f"<Embedding of 20 objects by {method}: .*", repr(embedding)
    )
    assert np.all(np.isfinite(embedding.coordinates))


@pytest.mark.parametrize("method", METHODS)
def test_zeros_equal_dissimilarities_and_two_objects_work(method):
    with pytest.warns(FewerComponentsWarning) as caught:
        embedding = neuc_mds(np.zeros((5, 5)), 2, method)
    assert caught[0].filename == __file__  # of the caller
    assert embedding.coordinates.shape == (5, 0)
    assert embedding.stress == 0
    np.testing.assert_array_equal(
        embedding.dissimilarities(squared=True), np.zeros((5, 5))
    )
    assert (
        neuc_mds(
            3 * (np.ones((6, 6)) - np.eye(6)), 5, method
        ).normalized_stress
        < 1e-25
    )
    two = neuc_mds([[0, 2], [2, 0]], 1, method)
    np.testing.assert_allclose(np.abs(two.coordinates[:, 0]), 1)


# Files


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_embedding_comes_back_whole(D, method, tmp_path):
    embedding = neuc_mds(named(D), 4, method)
    embedding.save(tmp_path / "e.npz")
    back = Embedding.load(tmp_path / "e.npz")
    for part in (lambda emb: emb, lambda emb: emb.info, lambda emb: emb.form):
        after, before = part(back), part(embedding)
        for field in fields(after):
            if field.name not in ("placement", "info", "form"):
                value, expected = (
                    getattr(after, field.name),
                    getattr(before, field.name),
                )
                np.testing.assert_array_equal(
                    value, expected, err_msg=field.name
                )
    np.testing.assert_array_equal(
        back.transform(D[:3]), embedding.transform(D[:3])
    )
    assert [p.name for p in tmp_path.iterdir()] == ["e.npz"]


def test_foreign_and_damaged_files_are_refused(D, tmp_path):
    good = tmp_path / "good.npz"
    neuc_mds(D, 2).save(good)
    foreign, text, cut, gone = (
        tmp_path / name for name in ("f.npz", "t.npz", "c.npz", "g.npz")
    )
    np.savez(foreign, D=D)
    text.write_text("no archive")
    cut.write_bytes(good.read_bytes()[:500])
    devices = [
        Path(name) for name in ("/dev/zero", "/dev/null") if os.name == "posix"
    ]
    for path in (foreign, text, cut, gone, *devices):
        with pytest.raises(InputError, match=path.name) as caught:
            Embedding.load(path)
        assert not re.search("\n|pickle", str(caught.value))


@pytest.fixture
def saved(D, tmp_path):
    """Return a function that saves an embedding with some members or header fields changed."""
    path = tmp_path / "e.npz"
    replace(neuc_mds(named(D), 3), landmarks=np.arange(30)).save(path)
    with np.load(path) as archive:
        good = {name: archive[name] for name in archive.files}

    def save(said=None, drop=(), **arrays):
        fields = json.loads(good["header"].tobytes()) | (said or {})
        members = good | {"header": as_bytes(json.dumps(fields))} | arrays
        np.savez(
            path,
            **{name: members[name] for name in members if name not in drop},
        )
        return path

    return save


def as_bytes(text):
    return np.frombuffer(text.encode(), dtype=np.uint8)


WRONG_FIELDS = [
    ("format", "neucmds.Embedding 5", "not an embedding"),
    ("sq_norm", None, "not an embedding"),
    ("requested", "three", "not an embedding"),
    ("loss", "other", "loss is unknown"),
    ("labels", ["a"] * 30, "labels are not unique"),
    ("labels", ["a", "b"], "30 objects but 2 labels"),
]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"coordinates": np.full((30, 3), np.nan)}, "coordinates has NaN"),
        (
            {"coordinates": np.ones((30, 3), dtype=int)},
            "coordinates has dtype",
        ),
        ({"eigenvalues": np.asarray(["1"])}, "eigenvalues has dtype"),
        ({"signs": np.ones(4)}, "signs has shape"),
        ({"stress_terms": np.ones(2)}, "stress_terms has shape"),
        ({"offsets": np.ones(29)}, "offsets has shape"),
        ({"landmarks": np.ones(30)}, "damaged"),
        ({"landmarks": np.arange(1, 31)}, "damaged"),
        *[
            ({"header": as_bytes(text)}, r"e\.npz: not an embedding saved by")
            for text in ("[" * 100_000, "{", "null", '{"format": 1}')
        ],
        *[
            ({"said": {name: value}}, message)
            for name, value, message in WRONG_FIELDS
        ],
        *[
            ({"drop": (name,)}, f"damaged .'{name}'")
            for name in ("coordinates", "signs", "history")
        ],
        ({"drop": ("header",)}, "not an embedding"),
    ],
)
def test_wrong_members_and_fields_are_refused(saved, arrays, message):
    with pytest.raises(InputError, match=message):
        Embedding.load(saved(**arrays))


def test_the_types_of_numpy_are_saved(D, tmp_path):
    embedding = neuc_mds(D, 2, squared=np.True_)
    with (tmp_path / "e.npz").open("wb") as file:  # an open file is written to
        replace(embedding, requested=np.int64(2)).save(file)
    back = Embedding.load(tmp_path / "e.npz")
    assert back.squared is True
    assert back.requested == 2


def test_labels_come_back_to_the_last_character(D, tmp_path):
    labels = tuple(
        f"{i}{end}"
        for i, end in enumerate(["\0", "\0\0", "é\n", "\ud800", "", " "] * 5)
    )
    neuc_mds(pd.DataFrame(D, labels, labels), 2).save(tmp_path / "e.npz")
    assert Embedding.load(tmp_path / "e.npz").labels == labels


def test_placed_objects_join_and_parts_are_taken():
    names = [f"o{i}" for i in range(12)]
    D = pd.DataFrame(
        squareform(pdist(np.random.default_rng(0).normal(size=(12, 3)))),
        names,
        names,
    )
    fitted = neuc_mds(D.iloc[:9, :9], 3)
    placed = fitted.transform(D.iloc[9:, :9])
    emb = fitted.append(placed, names[9:])
    assert emb.labels == tuple(names)
    assert emb.distance("o0", "o11") == pytest.approx(
        D.loc["o0", "o11"], rel=1e-3
    )
    np.testing.assert_allclose(emb.transform(D.iloc[9:, :9]), placed)
    with pytest.raises(InputError, match="12 objects but 9 labels"):
        fitted.append(placed)
    part = emb[["o3", "o10", "o0"]]
    assert part.labels == ("o3", "o10", "o0")
    D_hat = emb.dissimilarities(squared=True)
    np.testing.assert_allclose(
        part.dissimilarities(squared=True),
        D_hat[np.ix_([3, 10, 0], [3, 10, 0])],
    )
    allowed = [1, 5, 7, 9]
    ids, sq = emb.neighbors(2, among=[names[i] for i in allowed], squared=True)
    twice, _ = emb.neighbors(2, among=[*allowed, *allowed])
    np.testing.assert_array_equal(twice, ids)
    with pytest.raises(InputError, match=f"not unique: '{names[0]}'"):
        emb[[0, 0]]
    with pytest.raises(InputError, match="coordinates hold NaN"):
        emb.append(np.full((1, emb.k), np.nan), ["new"])
    for one in range(12):
        others = sorted((D_hat[one, i], i) for i in allowed if i != one)[:2]
        assert ids[one].tolist() == [i for _, i in others]
        np.testing.assert_allclose(sq[one], [d for d, _ in others], atol=1e-12)


@pytest.mark.slow
def test_mypy_catches_a_misspelt_method(tmp_path, monkeypatch):
    mypy = pytest.importorskip("mypy.api")
    script = tmp_path / "script.py"
    script.write_text(
        "from neucmds import NeucMDS, neuc_mds\n"
        "d: float = neuc_mds([[0, 1], [1, 0]], 1).distance(0, 1)\n"
        'neuc_mds([[0, 1], [1, 0]], 1, "refned")\n'
        'NeucMDS(1, loss="relative_")\n'
    )
    # Signatures are enough: the packages that neucmds imports need not be read.
    quick = ["--no-site-packages", "--follow-imports=silent"]
    quick += ["--disable-error-code=import-not-found"]
    source = Path(neucmds.__file__).parents[1]
    monkeypatch.setenv("MYPYPATH", str(source))
    cache = f"--cache-dir={tmp_path / 'cache'}"
    said = mypy.run(["--strict", *quick, cache, str(script)])[0]
    assert (
        'script.py:3: error: Argument 3 to "neuc_mds" has incompatible type'
        in said
    )
    assert (
        'script.py:4: error: Argument "loss" to "NeucMDS" has incompatible type'
        in said
    )
    assert "Found 2 errors" in said


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"signs": np.array([0.5, 1.0])}, "signs are not all 1 or -1"),
        ({"mean_distance": 0.0}, "curvature has no mean distance"),
        ({"mean_distance": -1.0}, "curvature has no mean distance"),
    ],
)
def test_a_file_with_values_that_no_fit_has_is_refused(
    tmp_path, changed, said
):
    D = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    D += 1 - np.eye(6)
    path = tmp_path / "saved.npz"
    neuc_mds(D, 2, loss="distance", curvature=-0.5).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    for name, value in changed.items():
        if name in arrays:
            arrays[name] = value
        else:
            header[name] = value
    text = json.dumps(header).encode()
    arrays["header"] = np.frombuffer(text, np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=said):
        Embedding.load(path)


def test_an_open_file_is_saved_to_and_loaded_from(D):
    emb = neuc_mds(D, 2)
    file = BytesIO()
    emb.save(file)
    again = Embedding.load(file)
    np.testing.assert_array_equal(again.coordinates, emb.coordinates)
    with pytest.raises(InputError, match="not an embedding"):
        Embedding.load(BytesIO(b"text"))


@pytest.mark.parametrize("unit", [False, True])
def test_objects_without_coordinates_have_an_inner_product(unit):
    with pytest.warns(FewerComponentsWarning):
        emb = neuc_mds(1 - np.eye(10), (0, 2))
    index = emb.to_inner_product(unit=unit)
    scores = index.queries(emb.coordinates) @ index.vectors.T
    sq = index.sq_dissimilarities(scores, emb.coordinates)
    np.testing.assert_array_equal(sq, np.zeros((10, 10)))
