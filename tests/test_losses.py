"""`loss=` through the public functions: fit, estimators, placement, files, warm starts."""

import re
import sys
from contextlib import redirect_stdout

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import (
    FewerComponentsWarning,
    InputError,
    LandmarkNeucMDS,
    NeucMDS,
    evaluate,
    neuc_mds,
)

LOSSES = ("squared", "distance", "relative", "absolute")


@pytest.fixture(scope="module")
def D():
    return squareform(
        pdist(np.random.default_rng(0).normal(size=(60, 6)), "cityblock")
    )


@pytest.fixture(scope="module")
def fits(D):
    return {loss: neuc_mds(D, 4, loss=loss, random_state=0) for loss in LOSSES}


def loss_of(emb, D, loss):
    d_hat, d = emb.dissimilarities(squared=True), D
    off = ~np.eye(len(D), dtype=bool)
    if loss == "squared":
        return np.sum((d_hat - d**2)[off] ** 2)
    error = (np.sqrt(np.maximum(d_hat, 0)) - d)[off]
    if loss == "distance":
        return np.sum(error**2)
    floor = 0.5 * np.quantile(d[off], 0.01, method="lower")
    share = error / np.maximum(d[off], floor)
    if loss == "relative":
        return np.sum(share**2)
    return np.sum(np.abs(share))


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_is_lowest_where_it_was_minimised_and_stress_is_reported(
    fits, D, loss
):
    values, found = (
        {name: loss_of(emb, D, loss) for name, emb in fits.items()},
        fits[loss],
    )
    assert min(values, key=values.get) == loss == found.loss
    assert 2 * found.loss_value == pytest.approx(values[loss], rel=1e-4)
    assert found.stress == pytest.approx(
        loss_of(found, D, "squared"), rel=1e-9
    )
    measured = evaluate(found, D)
    assert found.r2 == pytest.approx(measured.r2)
    if loss == "relative":
        assert (
            measured.neighbors_kept
            >= evaluate(fits["squared"], D).neighbors_kept
        )


def test_without_a_random_state_the_seed_is_fixed(D):
    before = np.random.get_state()[1].copy()
    first, second = (
        neuc_mds(D[:20, :20], 3, loss="distance") for _ in range(2)
    )
    np.testing.assert_array_equal(first.coordinates, second.coordinates)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    drawn, again = (LandmarkNeucMDS(2, 20).fit(D).landmarks_ for _ in range(2))
    np.testing.assert_array_equal(drawn, again)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_warm_start_goes_on_from_where_it_is_put(fits, D, loss):
    emb = fits[loss]
    for init in (emb, (emb.coordinates, emb.signs)):
        again = neuc_mds(D, init=init, loss=loss)
        assert again.signature == emb.signature
        assert again.loss_value <= emb.loss_value * (1 + 1e-6)
    warm = placed_by(D, loss=loss, init=emb).landmark_result_
    assert (warm.signature, warm.n) == (emb.signature, 40)
    again = placed_by(D, loss=loss, init=warm).landmark_result_
    assert again.signature == warm.signature
    assert again.loss_value <= warm.loss_value * (1 + 1e-6)


def test_an_init_of_other_objects_is_refused(D):
    other = neuc_mds(D[:50, :50], 4, "neuc")
    for fit in (
        lambda: neuc_mds(D, init=other),
        lambda: placed_by(D, init=other),
    ):
        with pytest.raises(InputError, match="50 objects"):
            fit()


@pytest.mark.parametrize("loss", ["squared", "relative"])
@pytest.mark.parametrize(
    ("estimator", "n"), [(NeucMDS, 60), (LandmarkNeucMDS, 40)]
)
def test_verbose_shows_the_iterations_and_leaves_the_callback_alone(
    D, loss, estimator, n, capsys
):
    """The fit of the landmarks is heard, and that of folds is not."""
    heard, most = [], {"n_landmarks": 40, "random_state": 0} if n == 40 else {}
    with redirect_stdout(sys.stderr):
        est = estimator(
            3,
            loss=loss,
            verbose=1,
            callback=lambda *a: heard.append(a),
            **most,
        ).fit(D)
    err = capsys.readouterr().err
    steps = [step for step, _, loss in heard if not isinstance(loss, str)]
    assert steps == list(range(1, est.n_iter_ + 1))
    assert re.search(
        rf"refined: .* {est.n_iter_}(\.0+)?/.*\n(.*\n)*<Embedding of {n} objects",
        err,
    )


# The same of landmarks


def placed_by(D, **settings):
    return LandmarkNeucMDS(4, n_landmarks=40, random_state=0, **settings).fit(
        D
    )


def skewed(n, seed=0):
    return np.random.default_rng(seed).gamma(1.0, size=(n, 6))


def test_a_floor_below_the_least_dissimilarity_does_not_matter():
    D = squareform(pdist(skewed(60), "cityblock"))
    least = D[D > 0].min()
    usual = neuc_mds(D, 3, loss="relative", floor=0.9 * least, random_state=0)
    placed = usual.transform(D[:3] + 0.1)
    for floor in (1e-6, 1e-12, 1e-200):
        emb = neuc_mds(D, 3, loss="relative", floor=floor, random_state=0)
        np.testing.assert_array_equal(emb.coordinates, usual.coordinates)
        np.testing.assert_array_equal(emb.transform(D[:3] + 0.1), placed)
        relative = emb.dissimilarities()[D > 0] / D[D > 0] - 1
        both_orders = np.sum(relative**2)
        assert 2 * emb.loss_value == pytest.approx(both_orders, rel=1e-8)


@pytest.mark.parametrize("n", [100, 310])
def test_near_duplicates_end_as_low_as_beside_their_originals(n):
    points = skewed(n)
    noise = 1e-5 * np.random.default_rng(1).normal(size=points.shape)
    D = squareform(pdist(np.r_[points, points + noise], "cityblock"))
    emb = neuc_mds(D, 3, loss="relative", random_state=0)
    alone = neuc_mds(D[:n, :n], 3, loss="relative", random_state=0)
    twice = np.r_[alone.coordinates, alone.coordinates + 1e-9]
    beside = neuc_mds(
        D, 3, loss="relative", init=(twice, alone.signs), random_state=0
    )
    assert emb.loss_value <= 1.02 * beside.loss_value


@pytest.mark.parametrize("curvature", [-1.0, 0.3])
def test_a_pair_of_weight_zero_is_left_out_of_a_curved_fit(D, curvature):
    weights = np.ones_like(D)
    weights[3, 5] = weights[5, 3] = 0.0
    far = D.copy()
    far[3, 5] = far[5, 3] = 1e9
    near, left_out = (
        neuc_mds(
            values,
            3,
            loss="relative",
            curvature=curvature,
            weights=weights,
            random_state=0,
        )
        for values in (D, far)
    )
    np.testing.assert_array_equal(left_out.coordinates, near.coordinates)


@pytest.mark.parametrize("loss", ["distance", "relative"])
def test_coordinates_that_lower_no_loss_are_left_out(loss):
    x = np.random.default_rng(0).normal(size=(20, 2))
    D = np.linalg.norm(x[:, None] - x, axis=2)
    with pytest.warns(FewerComponentsWarning, match="^0 of 2 coordinates"):
        emb = neuc_mds(D, (0, 2), loss=loss, n_init=1)
    assert np.shape(emb.coordinates) == (20, 0)
    assert not np.any(emb.dissimilarities())
