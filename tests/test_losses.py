"""`loss=` through the public functions: fit, estimators, placement, files, warm starts."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import Embedding, InputError, LandmarkNeucMDS, NeucMDS, evaluate, neuc_mds

LOSSES = ("squared", "distance", "relative")


@pytest.fixture(scope="module")
def D():
    return squareform(pdist(np.random.default_rng(0).normal(size=(120, 6)), "cityblock"))


@pytest.fixture(scope="module")
def fits(D):
    return {loss: neuc_mds(D, 4, loss=loss, random_state=0) for loss in LOSSES}


def loss_of(emb, D, loss):
    d_hat, d = emb.dissimilarities(), D
    off = ~np.eye(len(D), dtype=bool)
    if loss == "squared":
        return np.sum((d_hat - d**2)[off] ** 2)
    if loss == "distance":
        return np.sum((np.sqrt(np.maximum(d_hat, 0)) - d)[off] ** 2)
    floor = 0.5 * np.quantile(d[off], 0.01, method="lower")
    return np.sum(((d_hat - d**2) / np.maximum(d**2, floor**2))[off] ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_is_lowest_where_it_was_minimised(fits, D, loss):
    values = {name: loss_of(emb, D, loss) for name, emb in fits.items()}
    assert min(values, key=values.get) == loss
    assert fits[loss].loss_value == pytest.approx(values[loss], rel=1e-4)
    assert fits[loss].loss == loss


def test_without_a_random_state_the_seed_is_fixed(D):
    before = np.random.get_state()[1].copy()
    first, second = (neuc_mds(D[:40, :40], 3, loss="distance") for _ in range(2))
    np.testing.assert_array_equal(first.coordinates, second.coordinates)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    drawn, again = (LandmarkNeucMDS(2, 20).fit(D).landmarks_ for _ in range(2))
    np.testing.assert_array_equal(drawn, again)


def test_the_loss_is_that_of_the_coordinates_as_returned():
    D = squareform(pdist(np.random.default_rng(0).normal(size=(60, 3)), "cityblock"))
    D[0, 1] = D[1, 0] = 1e5
    emb = neuc_mds(D.astype(np.float32), 3, loss="relative", n_init=1)
    x, off = emb.coordinates.astype(np.float64), ~np.eye(60, dtype=bool)
    d_hat = ((x[:, None] - x) ** 2) @ emb.signs
    q = (d_hat - D**2) / np.maximum(D**2, emb.placement.loss.floor)
    assert emb.loss_value == pytest.approx(np.sum(q[off] ** 2), rel=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_stress_is_reported_whatever_the_loss(fits, D, loss):
    assert fits[loss].stress == pytest.approx(loss_of(fits[loss], D, "squared"), rel=1e-9)
    assert fits[loss].r2 == pytest.approx(evaluate(fits[loss], D).r2)


def test_near_pairs_are_kept_better_by_the_relative_loss(fits, D):
    kept = {loss: evaluate(emb, D).neighbors_kept for loss, emb in fits.items()}
    assert kept["relative"] >= kept["squared"]


@pytest.mark.parametrize("loss", LOSSES)
def test_fitted_objects_are_placed_where_they_are(fits, D, loss):
    emb = fits[loss]
    again = emb.between(emb.transform(D), emb.coordinates)
    expected = emb.dissimilarities()
    spread = np.abs(expected).max()
    # An object that is not compared with itself may fit the others a little better elsewhere.
    assert np.median(np.abs(again - expected)) < 0.02 * spread


@pytest.mark.parametrize("loss", ["distance", "relative"])
def test_new_objects_are_placed_by_the_loss_of_the_fit(D, loss):
    emb = neuc_mds(D[:90, :90], 4, loss=loss, random_state=0)
    new = D[90:, :90]
    placed = emb.transform(new)

    def value(x):
        d_hat = emb.between(x, emb.coordinates)
        if loss == "distance":
            return np.sum((np.sqrt(np.maximum(d_hat, 0)) - new) ** 2, axis=1)
        floor = emb.placement.loss.floor
        return np.sum(((d_hat - new**2) / np.maximum(new**2, floor)) ** 2, axis=1)

    rng = np.random.default_rng(0)
    best = value(placed)
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        moved = placed + scale * emb.coordinates.std(axis=0) * rng.normal(size=placed.shape)
        assert (value(moved) > best - 1e-9).mean() > 0.95
    assert (best <= value(neuc_mds(D[:90, :90], 4).transform(new)[:, :4]) * 10).all()


@pytest.mark.parametrize("loss", ["distance", "relative"])
def test_a_saved_embedding_places_by_its_loss(fits, D, loss, tmp_path):
    fits[loss].save(tmp_path / "a.npz")
    again = Embedding.load(tmp_path / "a.npz")
    assert again.loss == loss
    assert again.loss_value == fits[loss].loss_value
    np.testing.assert_array_equal(again.transform(D[:5]), fits[loss].transform(D[:5]))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_warm_start_goes_on_from_where_it_is_put(fits, D, loss):
    emb = fits[loss]
    again = neuc_mds(D, init=emb, loss=loss)
    assert again.signature == emb.signature
    assert again.loss_value <= emb.loss_value * (1 + 1e-6)
    pair = neuc_mds(D, init=(emb.coordinates, emb.signs), loss=loss)
    assert pair.loss_value == pytest.approx(again.loss_value)


@pytest.mark.slow
def test_weights_and_gaps_multiply_with_a_loss(D):
    gaps = D.copy()
    gaps[3, 7] = gaps[7, 3] = np.nan
    emb = neuc_mds(gaps, 4, loss="relative", missing="ignore", random_state=0)
    assert np.isfinite(emb.coordinates).all()
    w = np.ones_like(D)
    w[3, 7] = w[7, 3] = 0
    spoiled = D.copy()
    spoiled[3, 7] = spoiled[7, 3] = 1e3
    weighted = NeucMDS(4, loss="relative", random_state=0).fit(spoiled, weights=w)
    assert weighted.result_.loss_value < 1.2 * emb.loss_value


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "huber"}, "loss='huber' is unknown"),
        ({"loss": "relative", "method": "neuc+"}, "needs method='refined'"),
        ({"init": "here"}, "pass an Embedding"),
        ({"init": (np.zeros((5, 2)), [1, 2])}, "signs of ±1"),
        ({"init": (np.ones((5, 2)), [1, -1])}, "all 5 objects in one place"),
        ({"n_init": 0, "loss": "relative"}, "n_init=0 must be"),
        ({"n_init": 3}, "losses with several valleys"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(D, settings, message):
    with pytest.raises(InputError, match=message):
        neuc_mds(D, 3, **settings)


def test_an_init_of_other_objects_is_refused(D):
    with pytest.raises(InputError, match="90 objects"):
        neuc_mds(D, init=neuc_mds(D[:90, :90], 3), loss="relative")


def test_landmarks_are_fitted_and_others_placed_by_the_loss():
    X = np.random.default_rng(1).normal(size=(400, 5))
    D = squareform(pdist(X, "cityblock"))
    errors = {}
    for loss in ("squared", "relative"):
        est = LandmarkNeucMDS(4, n_landmarks=80, metric="cityblock", loss=loss, random_state=0)
        x = est.fit_transform(X)
        d_hat = est.result_.between(x, x)
        near = np.quantile(D, 0.1) > D
        np.fill_diagonal(near, False)
        errors[loss] = np.median(np.abs(np.sqrt(np.maximum(d_hat[near], 0)) / D[near] - 1))
    assert errors["relative"] < errors["squared"]


def test_verbose_shows_the_iterations_and_leaves_the_callback_alone(D, capsys):
    heard = []
    est = NeucMDS(3, loss="relative", n_init=1, verbose=1, callback=lambda *a: heard.append(a))
    est.fit(D)
    out, err = capsys.readouterr()
    steps = [step for step, _, loss in heard if not isinstance(loss, str)]
    assert steps == list(range(1, est.n_iter_ + 1))
    assert f"{est.n_iter_} iterations" in err
    assert "loss" in err
    assert out.startswith("120 objects, ")


# The same of landmarks


def placed_by(D, **settings):
    return LandmarkNeucMDS(4, n_landmarks=50, random_state=0, **settings).fit(D)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_a_pair_of_landmarks_without_weight_does_not_matter(D, loss):
    clean = placed_by(D, loss=loss)
    i, j = clean.landmarks_[[3, 7]]
    spoiled, w = D.copy(), np.ones_like(D)
    spoiled[i, j] = spoiled[j, i] = 1e3
    w[i, j] = w[j, i] = 0
    est = LandmarkNeucMDS(4, n_landmarks=50, loss=loss, random_state=0).fit(spoiled, weights=w)
    others = np.setdiff1d(np.arange(len(D)), clean.landmarks_)
    new = D[np.ix_(others, clean.landmarks_)]
    error = {
        name: np.abs(
            one.landmark_result_.between(one.transform(new), one.landmark_result_.coordinates)
            - new**2
        )
        for name, one in (("clean", clean), ("weighted", est))
    }
    assert error["weighted"].mean() < 1.3 * error["clean"].mean()
    among = np.ix_(clean.landmarks_, clean.landmarks_)
    again = LandmarkNeucMDS(4, n_landmarks=50, loss=loss, random_state=0)
    again.fit(spoiled, weights=w[among])
    np.testing.assert_array_equal(
        again.landmark_result_.coordinates, est.landmark_result_.coordinates
    )


def test_weights_that_fit_neither_landmarks_nor_objects_are_refused(D):
    est = LandmarkNeucMDS(4, n_landmarks=50)
    with pytest.raises(InputError, match=r"\(60, 60\); pass \(50, 50\).*or \(120, 120\)"):
        est.fit(D, weights=np.ones((60, 60)))
    with pytest.raises(InputError, match="weights need placement='auto'"):
        est.set_params(placement="linear").fit(D, weights=np.ones((120, 120)))


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_landmarks_start_where_they_are_put(D, loss):
    first = placed_by(D, loss=loss).landmark_result_
    again = placed_by(D, loss=loss, init=first).landmark_result_
    assert again.signature == first.signature
    assert again.loss_value <= first.loss_value * (1 + 1e-6)
    everything = neuc_mds(D, 4, loss=loss, random_state=0)
    warm = placed_by(D, loss=loss, init=everything).landmark_result_
    assert warm.signature == everything.signature
    assert warm.n == 50


def test_an_init_of_other_landmarks_is_refused(D):
    with pytest.raises(InputError, match="60 objects"):
        placed_by(D, init=neuc_mds(D[:60, :60], 4))


@pytest.mark.parametrize("loss", LOSSES)
def test_the_fit_of_the_landmarks_is_heard_and_that_of_folds_is_not(D, loss, capsys):
    heard = []
    est = placed_by(D, loss=loss, verbose=1, callback=lambda *a: heard.append(a))
    assert [step for step, _, loss in heard if not isinstance(loss, str)] == list(
        range(1, est.n_iter_ + 1)
    )
    out, err = capsys.readouterr()
    assert f"{est.n_iter_} iterations" in err
    assert out.startswith("50 objects, ")
