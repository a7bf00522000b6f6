"""One test, every array library: the whole pipeline stays in the library it was given."""

from dataclasses import replace

import numpy as np
import pytest

from neucmds import LandmarkNeucMDS, NeucMDS, neuc_mds
from neucmds.backend.arrays import smallest_of_groups
from neucmds.datasets import euclidean_ball
from neucmds.explore import evaluate

D = euclidean_ball(90, random_state=0)
LARGE = euclidean_ball(700, random_state=0)


def read_only(values):
    values = np.array(values)
    values.flags.writeable = False
    return values


def strict(values):
    return pytest.importorskip("array_api_strict").asarray(values)


def torch(values):
    return pytest.importorskip(
        "torch", reason="torch is not installed"
    ).asarray(values)


BACKENDS = [read_only, strict, torch]


METHODS = ("classical", "lower", "neuc", "neuc+", "exact", "refined")
# By LAPACK, and by Lanczos, whose eigenpairs have residuals of 1e-7: coordinates and D̂
# then agree to 1e-6 of the largest, STRESS to 1e-7.
SOLVED = [
    *((D, method) for method in METHODS),
    (LARGE, "neuc+"),
    (LARGE, "refined"),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("D", "method"),
    SOLVED,
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)
def test_every_backend_agrees_with_numpy(backend, D, method):
    ours = backend(D)
    expected = neuc_mds(D, 5, method, squared=True, random_state=0)
    embedding = neuc_mds(ours, 5, method, squared=True, random_state=0)
    assert embedding.info.solver == expected.info.solver
    for part in (embedding.coordinates, embedding.signs, embedding.weights):
        assert type(part) is type(ours)
    np.testing.assert_array_equal(np.asarray(embedding.signs), expected.signs)
    by_lanczos = expected.info.solver == "krylov"
    assert embedding.stress == pytest.approx(
        expected.stress, rel=1e-7 if by_lanczos else 1e-9
    )
    placed = embedding.transform(backend(D[:4]))
    compared = (
        (embedding.coordinates, expected.coordinates, 1e-7),
        (placed, expected.transform(D[:4]), 1e-6),
        (
            embedding.dissimilarities(squared=True),
            expected.dissimilarities(squared=True),
            1e-5,
        ),
    )
    for values, wanted, error in compared:
        if by_lanczos:
            error = 1e-6 * np.max(np.abs(wanted))
        np.testing.assert_allclose(
            np.asarray(values), wanted, rtol=1e-7, atol=error
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_estimator_measures_and_files_stay_with_the_library(
    backend, tmp_path
):
    ours = backend(np.sqrt(D))
    estimator, expected = NeucMDS(4).fit(ours), NeucMDS(4).fit(np.sqrt(D))
    np.testing.assert_array_equal(np.asarray(ours), np.sqrt(D))
    assert type(estimator.embedding_) is type(ours)
    placed = np.asarray(estimator.transform(backend(np.sqrt(D[:3]))))
    np.testing.assert_allclose(
        placed, expected.transform(np.sqrt(D[:3])), atol=1e-6
    )
    embedding = estimator.result_
    measured = evaluate(embedding, ours).as_dict()
    x = np.asarray(embedding.coordinates)
    on_cpu = replace(embedding, coordinates=x, form=embedding.form.in_numpy())
    assert measured == pytest.approx(
        evaluate(on_cpu, np.sqrt(D)).as_dict(), rel=1e-10
    )
    embedding.save(tmp_path / "e.npz")
    np.testing.assert_array_equal(
        type(embedding).load(tmp_path / "e.npz").coordinates, x
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_landmarks_weights_and_gaps_work(backend):
    settings = {
        "n_components": 3,
        "n_landmarks": 20,
        "squared": True,
        "random_state": 0,
    }
    placed = LandmarkNeucMDS(**settings).fit_transform(backend(D))
    assert type(placed) is type(backend(D))
    expected = LandmarkNeucMDS(**settings).fit_transform(D)
    np.testing.assert_allclose(np.asarray(placed), expected, atol=1e-9)
    upper = np.triu(np.random.default_rng(0).random(D.shape) < 0.2, 1)
    holed = np.where(upper | upper.T, np.nan, D)
    options = {
        "squared": True,
        "missing": "ignore",
        "weights": 1 + D / D.max(),
        "random_state": 0,
    }
    embedding = neuc_mds(backend(holed), 5, **options)
    expected = neuc_mds(holed, 5, **options)
    assert type(embedding.coordinates) is type(backend(D))
    assert embedding.stress == pytest.approx(expected.stress, rel=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["neuc", "exact", "refined"])
def test_single_precision_stays_single_and_close(backend, method):
    single = backend(D.astype(np.float32))
    embedding = neuc_mds(single, 5, method, squared=True, random_state=0)
    assert embedding.coordinates.dtype == single.dtype
    expected = neuc_mds(D, 5, method, squared=True, random_state=0)
    assert embedding.stress == pytest.approx(expected.stress, rel=1e-4)


def test_gaps_and_a_signature_do_not_need_columns_to_start_with():
    D = np.abs(np.subtract.outer(np.arange(8.0), np.arange(8.0))) ** 0.5
    D[0, 1] = D[1, 0] = np.nan
    there = neuc_mds(strict(D), (1, 1), missing="ignore")
    assert there.stress == pytest.approx(
        neuc_mds(D, (1, 1), missing="ignore").stress
    )


def test_losses_of_torch_on_the_cpu_are_those_of_numpy():
    ours = torch(D)
    for loss in ("distance", "relative"):
        expected = neuc_mds(D, 2, loss=loss, n_init=1)
        emb = neuc_mds(ours, 2, loss=loss, n_init=1)
        assert type(emb.coordinates) is type(ours)
        np.testing.assert_allclose(
            np.asarray(emb.coordinates), expected.coordinates, rtol=1e-9
        )


@pytest.mark.parametrize(("n", "k"), [(7, 7), (100, 3), (1003, 16), (64, 1)])
def test_the_smallest_of_every_row_are_found_among_groups(n, k):
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 50, size=(20, n)).astype(float)
    matrix[rng.random(matrix.shape) < 0.1] = np.inf
    values, columns = smallest_of_groups(matrix, k)
    np.testing.assert_array_equal(
        np.sort(values, axis=1), np.sort(matrix, axis=1)[:, :k]
    )
    assert all(len(set(row)) == k for row in columns.tolist())
