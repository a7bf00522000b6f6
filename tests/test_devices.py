"""What runs on a GPU, run with torch on the CPU: the same numbers as NumPy gives."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from neucmds import InputError, LandmarkNeucMDS, NeucMDS, neuc_mds
from neucmds.backend import arrays
from neucmds.form import Form
from neucmds.problem.neighbor_search import nearest_rows
from neucmds.problem.pairs import make_pairs
from neucmds.problem.sampled_pairs import feature_pairs
from neucmds.refine import losses
from neucmds.refine.descent import Configuration, descend
from neucmds.refine.listed_pairs import refine_pairs

torch: Any = None


@pytest.fixture(autouse=True, scope="module")
def _torch() -> None:
    """Imported by the first test: that takes two seconds."""
    global torch
    torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def features() -> np.ndarray:
    return np.random.default_rng(0).random((220, 6))


@pytest.mark.parametrize(
    ("metric", "loss"),
    [
        ("euclidean", "relative"),
        ("cityblock", "squared"),
        ("braycurtis", "relative"),
    ],
)
def test_landmarks_place_where_the_arrays_are(
    features, metric, loss, monkeypatch, tmp_path
):
    settings = {"metric": metric, "loss": loss, "random_state": 0}
    expected = LandmarkNeucMDS(3, 24, **settings).fit_transform(features)
    # The only thing that keeps tensors in main memory from being taken for those of a device.
    monkeypatch.setattr(
        "neucmds.estimators.landmark.on_cpu", lambda array: False
    )
    X = torch.as_tensor(features)
    estimator = LandmarkNeucMDS(3, 24, **settings)
    placed = estimator.fit_transform(X)
    assert isinstance(placed, torch.Tensor)
    np.testing.assert_allclose(placed.numpy(), expected, atol=1e-6)
    written = estimator.transform(X, out=tmp_path / "placed.npy")
    np.testing.assert_array_equal(written, estimator.transform(X).numpy())


@pytest.mark.parametrize("loss", ["squared", "distance", "relative"])
def test_pairs_descend_to_the_same_loss_in_any_library(loss):
    rng = np.random.default_rng(1)
    x, signs = rng.standard_normal((120, 3)), np.array([1.0, 1.0, -1.0])
    i, j = np.triu_indices(120, 1)
    d = np.sqrt(np.abs((x[i] - x[j]) ** 2 @ signs)) * np.exp(
        0.02 * rng.standard_normal(i.size)
    )
    weight = 0.5 + rng.random(i.size)
    pairs = replace(make_pairs(120, i, j, d), weight=weight)
    start = x + 0.05 * rng.standard_normal(x.shape)
    ours, theirs = (
        refine_pairs(
            pairs,
            Configuration(x, Form(signs)),
            partial(descend, max_iter=300, tol=1e-6),
            loss,
        )
        for x in (start, torch.as_tensor(start))
    )
    assert isinstance(theirs.coordinates, torch.Tensor)
    assert theirs.value == pytest.approx(ours.value, rel=1e-2)
    assert all(
        b <= a
        for a, b in zip(theirs.history, theirs.history[1:], strict=False)
    )


def test_sampled_features_find_the_nearest_on_a_device(features):
    ours, theirs = (
        nearest_rows(features, "cityblock"),
        nearest_rows(torch.as_tensor(features), "cityblock"),
    )
    for found in (ours, theirs):
        i, _, length = found(5, np.array([7, 200]))
        assert i.tolist() == [7] * 6 + [200] * 6
        expected = np.sort(
            cdist(features[[7, 200]], features, "cityblock"), axis=1
        )[:, :6]
        np.testing.assert_allclose(
            np.sort(length.reshape(2, 6), axis=1), expected, atol=1e-12
        )
    how = {"n_landmarks": 20, "random_state": 0}
    sample = feature_pairs(
        torch.as_tensor(features), "cityblock", 60, "relative", **how
    )
    lengths = cdist(features, features, "cityblock")[
        sample.pairs.i, sample.pairs.j
    ]
    np.testing.assert_allclose(
        np.sqrt(sample.pairs.sq_dissimilarity), lengths, rtol=1e-6
    )
    expected = feature_pairs(
        features, "cityblock", 60, "relative", **how
    ).pairs
    for name in ("i", "j", "weight"):
        np.testing.assert_array_equal(
            getattr(sample.pairs, name), getattr(expected, name)
        )


def test_a_floor_is_the_same_wherever_it_is_found():
    rng = np.random.default_rng(6)
    d = rng.random((70, 70)).astype(np.float32) * (rng.random((70, 70)) < 0.9)
    weights = (rng.random((70, 70)) < 0.5).astype(np.float32)
    form = Form(np.zeros(0))
    expected = losses.floor_of(form, d), losses.floor_of(form, d, weights)
    d, weights = torch.as_tensor(d), torch.as_tensor(weights)
    assert (
        losses.floor_of(form, d),
        losses.floor_of(form, d, weights),
    ) == expected


def test_a_stack_of_matrices_is_solved_in_parts(monkeypatch):
    rng = np.random.default_rng(4)
    stack = rng.standard_normal((7, 3, 3))
    stack = torch.as_tensor(stack + stack.swapaxes(1, 2))
    expected = torch.linalg.eigvalsh(stack)
    monkeypatch.setattr(arrays, "on_cpu", lambda array: False)
    monkeypatch.setattr(arrays, "_MOST_STACKED", 3)
    values, vectors = arrays.stacked_eigh(stack)
    assert torch.allclose(values, expected)
    assert torch.allclose(vectors * values[:, None, :] @ vectors.mT, stack)


@pytest.mark.parametrize("method", ["classical", "neuc+", "refined"])
def test_a_tensor_that_requires_gradients_is_refused_in_one_line(method):
    x = np.random.default_rng(2).random((12, 3))
    D = torch.as_tensor(cdist(x, x)).requires_grad_()
    points = torch.as_tensor(x).requires_grad_()
    fits = [
        lambda: neuc_mds(D, 2, method=method),
        lambda: NeucMDS(2, method=method).fit(D),
        lambda: neuc_mds(points, 2, method=method, metric="euclidean"),
        lambda: LandmarkNeucMDS(2, 6, metric="euclidean").fit(points),
        lambda: neuc_mds(D.detach(), 2).transform(D),
    ]
    for fit in fits:
        with pytest.raises(InputError, match=r"pass its detach\(\)\.$"):
            fit()
    assert not neuc_mds(D.detach(), 2, method=method).coordinates.requires_grad
