"""New objects with weights, and columns in another order than the landmarks."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from neucmds import InputError, LandmarkNeucMDS, NeucMDS, neuc_mds
from neucmds.form import Form


@pytest.fixture
def features():
    return np.random.default_rng(0).normal(size=(60, 6))


def test_columns_of_later_arrivals_are_matched_by_name(features):
    pd = pytest.importorskip("pandas")
    names = [f"object {i}" for i in range(60)]
    d = pd.DataFrame(
        cdist(features, features, "cityblock"), index=names, columns=names
    )
    est = LandmarkNeucMDS(3, 30, random_state=0).fit(d)
    to_landmarks = d.iloc[:9, est.landmarks_]
    expected = est.transform(to_landmarks.to_numpy())
    np.testing.assert_allclose(
        est.transform(to_landmarks.iloc[:, ::-1]), expected, atol=1e-10
    )
    np.testing.assert_allclose(
        est.transform(d.iloc[:9, ::-1]), est.transform(d.iloc[:9]), atol=1e-10
    )
    ids = np.arange(0, 60, 3)
    with pytest.raises(InputError, match="are the columns in another order"):
        LandmarkNeucMDS(3, landmarks=ids).fit(d.to_numpy()[:, ids[::-1]])


@pytest.mark.parametrize("loss", ["squared", "distance", "relative"])
def test_dissimilarities_of_weight_zero_do_not_count(features, loss):
    d = cdist(features, features, "cityblock")
    est = LandmarkNeucMDS(3, 20, loss=loss, random_state=0).fit(d)
    new = d[:20, est.landmarks_]
    spoiled, weights = new.copy(), np.ones_like(new)
    spoiled[:, 7], weights[:, 7] = 1e-3, 0.0
    hubs = est.landmark_result_
    found = hubs.transform(spoiled, weights=1e-200 * weights)
    np.testing.assert_allclose(
        found, hubs.transform(new, weights=weights), atol=1e-5
    )
    assert np.abs(found - est.transform(spoiled)).max() > 0.1


def test_bad_weights_are_refused(features):
    d = cdist(features, features, "cityblock")
    est = LandmarkNeucMDS(3, 30, random_state=0).fit(d)
    new, weights = (
        d[:1, est.landmarks_],
        np.random.default_rng(2).uniform(0, 1, (1, 30)),
    )
    linear = LandmarkNeucMDS(
        3, 30, method="neuc+", placement="linear", random_state=0
    ).fit(d)
    for rule, bad, message in (
        (est, weights[:, :5], "shape"),
        (est, -weights, "are negative, NaN or infinite"),
        (est, weights * (np.arange(30) < 3), "row 0 .* has 3 positive"),
        (linear, weights, "does not go with triangulation"),
    ):
        with pytest.raises(InputError, match=message):
            rule.landmark_result_.transform(new, weights=bad)


def test_weights_of_what_is_not_known_do_not_count(features):
    d = cdist(features, features, "cityblock")[:40, :40]
    embedding = neuc_mds(d, 3, missing="ignore")
    new, weights = d[:2].copy(), np.ones((2, 40))
    new[1, :20] = np.nan
    weights[1, 23:] = 0.0
    with pytest.raises(
        InputError, match=r"row 1 .* 3 positive weights of known .* need 4"
    ):
        embedding.transform(new, weights=weights)
    weights[1, 23:27] = 1.0
    expected = embedding.transform(new, weights=weights)
    weights[1, :20] = 1e300
    np.testing.assert_allclose(
        embedding.transform(new, weights=weights), expected, atol=1e-10
    )


@pytest.mark.parametrize(
    ("loss", "landmarks"), [("distance", False), ("relative", True)]
)
def test_negative_new_dissimilarities_are_refused_as_by_the_fit(
    features, loss, landmarks
):
    d = cdist(features, features, "sqeuclidean")[:40, :40] / 20
    if landmarks:
        est = LandmarkNeucMDS(
            3, landmarks=range(40), loss=loss, squared=True
        ).fit(d)
    else:
        est = NeucMDS(3, loss=loss, squared=True, n_init=1).fit(d)
    new, weights = d[:3].copy(), np.ones((3, 40))
    new[1, 5], new[2, 7] = -2.5, -1.0
    message = rf"loss='{loss}' needs D ≥ 0, and .* new object 1 to fitted object 5 is -2\.5;"
    with pytest.raises(InputError, match=message):
        est.transform(new)
    weights[1, 5] = 0
    model = est.landmark_result_ if landmarks else est
    with pytest.raises(
        InputError, match=r"new object 2 to fitted object 7 is -1;"
    ):
        model.transform(new, weights=weights)
    weights[2, 7] = 0
    expected = model.transform(np.abs(new), weights=weights)
    np.testing.assert_allclose(
        model.transform(new, weights=weights), expected, atol=1e-4
    )
    new = d[:3].copy()
    new[0, 0] = -1e-15 * new.max()
    np.testing.assert_array_equal(est.transform(new), est.transform(d[:3]))
    fit = neuc_mds(d - 0.5 * (1 - np.eye(40)), 3, squared=True)
    assert np.isfinite(fit.transform(d[:3] - 0.5)).all()


def signed(p, q):
    """Squared dissimilarities of points with a signature, all positive."""
    x = np.random.default_rng(0).normal(size=(25, p + q))
    d = np.abs(Form(np.r_[np.ones(p), -np.ones(q)]).sq(x, x)) + 0.01
    np.fill_diagonal(d, 0)
    return d


@pytest.mark.filterwarnings("ignore::neucmds.errors.FewerComponentsWarning")
@pytest.mark.parametrize(
    ("loss", "signature"),
    [("squared", (1, 3)), ("distance", (4, 0)), ("relative", (2, 1))],
)
def test_objects_far_from_all_fitted_ones_are_placed_as_far_or_refused(
    loss, signature
):
    rng, init = np.random.default_rng(0), None if loss == "squared" else 1
    D = signed(*signature)
    single = neuc_mds(
        (D * 1e-24).astype(np.float32), 2, loss=loss, squared=True, n_init=init
    )
    assert np.isfinite(single.transform((D * 1e18).astype(np.float32))).all()
    embedding = neuc_mds(D, signature, loss=loss, squared=True, n_init=init)
    for fit, sign in (
        (embedding, 1),
        (neuc_mds(D, 3, "neuc+", squared=True), -1),
    ):
        for factor in (sign * 1e60, 1e200):
            with pytest.raises(
                InputError, match="too large to be placed: the largest is"
            ):
                fit.transform(D[:2] * factor)
    tiny = neuc_mds(D * 1e-70, signature, loss=loss, squared=True, n_init=init)
    with pytest.raises(InputError, match="too large to be placed"):
        tiny.transform(D[:2])
    for noise in (0.0, 0.1):
        for times in (1e2, 1e5, 1e8):
            new = times**2 * (1 + noise * rng.uniform(-1, 1, size=(5, 25)))
            d_hat = embedding.between(
                embedding.transform(new), embedding.coordinates, squared=True
            )
            np.testing.assert_allclose(
                np.median(d_hat / new, axis=1), 1.0, atol=0.1
            )
