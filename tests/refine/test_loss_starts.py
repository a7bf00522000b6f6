"""Where descents on a loss begin and end: at low stationary points, of the right signature."""

from unittest.mock import patch

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.manifold import smacof

from neucmds import neuc_mds
from neucmds.problem.components import Components
from neucmds.refine.descent import Limits, Refined, Start
from neucmds.refine.loss_starts import (
    Scout,
    Search,
    Source,
    _padded,
    _Tried,
    approach,
    mean_distance,
    usual_starts,
)
from neucmds.refine.tiles import Tiles, lowered
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.spectrum import full_spectrum

LOSSES = ("distance", "relative")


def city_blocks(n=80, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 6))
    return cdist(x, x, "cityblock")


@pytest.mark.parametrize("loss", LOSSES)
def test_where_it_ends_no_object_can_be_moved_to_gain(loss):
    """Moved alone by SciPy, or placed anew, none gains more than 0.2 % of its own loss."""
    D = city_blocks(12)
    found = neuc_mds(D, 3, loss=loss, n_init=6, random_state=0)
    rule = found.placement

    def own(x, row):
        d_hat = np.sum(found.signs * (x - found.coordinates) ** 2, axis=1)
        return np.sum(rule.loss.terms(D[row] ** 2, d_hat).residual ** 2)

    for row, (here, placed) in enumerate(zip(found.coordinates, rule.place(D**2), strict=True)):
        moved = minimize(own, here, args=(row,)).x
        assert min(own(moved, row), own(placed, row)) >= 0.998 * own(here, row)


def test_distance_ends_no_higher_than_eight_starts_of_smacof():
    """With 24 starts, none by way of a smoothed loss, it ended 0.3 % above."""
    D = np.triu(np.random.default_rng(3).uniform(0.3, 1, (24, 24)), 1)
    D = D + D.T
    found = neuc_mds(D, (3, 0), loss="distance", random_state=0)
    settings = {"n_init": 8, "max_iter": 300, "eps": 1e-7, "normalized_stress": False}
    raw_stress = smacof(D, n_components=3, random_state=0, **settings)[1]
    assert found.loss_value / 2 <= 1.0005 * raw_stress


@pytest.mark.parametrize("loss", LOSSES)
def test_an_exact_fit_is_found_also_with_gaps_and_signs_it_lacks(loss):
    x = np.random.default_rng(0).normal(size=(24, 2))
    D = cdist(x, x)
    upper = np.triu(np.random.default_rng(1).random(D.shape) < 0.2, 1)
    holed = np.where(upper | upper.T, np.nan, D)
    for d, given in ((D, {}), (holed, {"missing": "ignore"})):
        found = neuc_mds(d, 2, loss=loss, n_init=2, random_state=0, **given)
        assert found.info.converged
        assert found.loss_value <= 1e-9 * D.size
        np.testing.assert_allclose(found.dissimilarities(squared=True), D**2, atol=1e-3)
    padded = neuc_mds(D, (3, 2), loss=loss, n_init=1)
    assert padded.signature == (3, 2)
    assert padded.loss_value <= 1e-3 * D.size


def test_equal_dissimilarities_do_not_end_where_symmetry_holds_the_descent():
    D = 1 - np.eye(20)
    assert neuc_mds(D, 6).stress < 38  # 180 from eigenvectors as LAPACK returns them
    assert neuc_mds(D, 2, weights=np.ones((20, 20))).stress < 120  # 288
    assert neuc_mds(D, 2, loss="distance").loss_value < 54  # 114 with (1, 1)


@pytest.mark.parametrize("loss", LOSSES)
def test_only_a_start_that_says_nothing_of_near_pairs_comes_by_way_of_high_floors(loss):
    x, signs, limits = np.random.default_rng(0).normal(size=(20, 2)), np.ones(2), Limits(200, 1e-4)
    tiles = Tiles.of(cdist(x, x) ** 2, loss)
    near = Start(1.05 * x, signs)
    (found, left), (plain, rest) = (way(tiles, near, limits) for way in (approach, lowered))
    np.testing.assert_array_equal(found.coordinates, plain.coordinates)
    assert left == rest
    far, left = approach(tiles, Start(100 * x[::-1], signs), limits)
    assert tiles.value_of(far.coordinates, signs) < tiles.size * tiles.unit
    assert left.max_iter < 200
    poor = Start(1.4 * x, signs)
    one, two = (approach(tiles, poor, limits, alone=alone)[1] for alone in (False, True))
    assert (one != two) == (loss == "distance")


def test_signs_that_the_spectrum_lacks_begin_as_small_columns():
    x, rng = 3 * np.random.default_rng(0).normal(size=(400, 2)), np.random.RandomState(0)
    place = Start(x, np.array([1.0, -1.0]))
    for components, more in (
        (Components(4, (2, 2)), [1, -1]),
        (Components(3, (1, 2)), [-1]),
        (Components(4), [1, 1]),
    ):
        found = _padded(place, components, rng)
        np.testing.assert_array_equal(found.signs, [1, -1, *more])
        np.testing.assert_array_equal(found.coordinates[:, :2], x)
        sizes = found.coordinates[:, 2:].std(axis=0)
        np.testing.assert_allclose(sizes, 0.05 * x.std(), rtol=0.1)
    assert _padded(place, Components(2), rng) is _padded(place, Components(1, (1, 0)), rng) is place
    none = _padded(Start(x[:, :0], np.zeros(0)), Components(1), rng)
    assert none.coordinates.std() == pytest.approx(1.0, rel=0.1)
    gram = DenseGram(city_blocks(20))
    source = Source(Start(x[:20], place.signs), gram, full_spectrum(gram))
    assert [source.with_negatives(q).signature for q in range(3)] == [(2, 0), (1, 1), (0, 2)]
    assert source.with_negatives(1) is source.place
    d, w = city_blocks(20) ** 2, 1 - np.eye(20)
    w[1, 2] = w[2, 1] = 0
    filled = Source.of(d, w, Components(2), lambda gram, *_: full_spectrum(gram), rng).gram
    np.testing.assert_allclose(filled.sq_dissimilarity[w > 0], d[w > 0])


@pytest.mark.parametrize(
    ("own", "values", "reached"),
    [(1, (5, 4, 3, 2, 9), 3), (2, (1, 2, 3, 4, 5), 0), (2, (0, 2, 3, 2, 1), 4), (1, (5, 4, 5), 1)],
)
def test_more_negatives_are_tried_before_fewer_while_the_loss_falls(own, values, reached):
    place = Start(np.zeros((5, len(values) - 1)), np.repeat([1, -1], [len(values) - 1 - own, own]))
    ends = [Refined(None, None, None, value, (), True, 0.0) for value in values]
    tried = {q: _Tried(None, [end]) for q, end in enumerate(ends)}
    search = Search(None, Source(place, None, ()), Limits(9, 0.0), 1, 0, tried)
    assert search.walked() == reached


def test_few_objects_in_few_coordinates_have_many_starts():
    found = [usual_starts(n, k) for n, k in ((100, 10), (101, 10), (600, 10), (601, 2), (9, 11))]
    assert found == [32, 12, 12, 1, 1]


def test_the_typical_size_is_that_of_the_pairs_that_count():
    d = city_blocks(12) ** 2
    w = np.kron(np.eye(2), np.ones((6, 6))) - np.eye(12)
    for weights, mean in ((None, d.sum() / (12 * 11)), (w, (w * d).sum() / w.sum())):
        tiles = Tiles.of(d, "relative", weights=weights)
        typical = Search(tiles, None, None, 1, 0).typical
        assert typical * tiles.scale == pytest.approx(mean)


def hops(edges, n):
    i, j = np.array(edges).T
    return shortest_path(csr_array((np.ones(i.size), (i, j)), shape=(n, n)), directed=False)


def test_other_signatures_and_more_starts_end_lower():
    """From one start (3, 1), that of the squared solution, ends at 32.1, and (4, 0) at 11.04."""
    tree = hops([((a - 1) // 2, a) for a in range(1, 15)], 15)
    once, other, few, more = (
        neuc_mds(tree, k, loss="distance", init=init, random_state=0)
        for k, init in ((4, 1), ((4, 0), 1), (4, 4), (4, 8))
    )
    assert once.signature == (3, 1)
    assert few.signature == (4, 0)
    assert few.loss_value <= 1.0001 * other.loss_value < 0.5 * once.loss_value
    assert more.loss_value < 7.1  # (3, 1) from another start


D = np.random.default_rng(0).uniform(1, 4, (30, 30))
D = np.triu(D, 1) + np.triu(D, 1).T


def searched(cost, D=D):
    """Return what a method of a scout finds where κ costs this much, and which roots it tried."""
    seen = []

    def tried(self, curvature):
        root = np.sign(curvature) * np.sqrt(abs(curvature))
        seen.append(float(round(root, 6)))
        return cost(root), (2, 0)

    with patch.object(Scout, "_tried", tried):
        return Scout(D, None, "relative", None).curvature(), set(seen)


@pytest.mark.parametrize("bottom", [-2.9, -6.5])
def test_the_lowest_point_is_found_between_the_steps(bottom):
    found, _ = searched(lambda root: 1 + (root - bottom) ** 2)
    assert found == pytest.approx(-(bottom**2), rel=0.02)


def test_what_gains_little_or_nothing_is_flat():
    for cost in (lambda root: 1 + abs(root), lambda root: 1 - 0.019 * (root == -4), lambda _: 0.0):
        assert searched(cost)[0] == 0
    assert searched(lambda root: 1 - 0.021 * (root == -4))[0] == -16
    assert searched(lambda root: 1e-21 / (1 + abs(root)))[1] == {0.0}  # perfect as it is


def test_no_step_is_beyond_the_sphere_of_the_longest_or_fifteen_of_it():
    for d in (np.where(D.max() > D, D, 100), D):
        unit = mean_distance(d) / np.sqrt(d.max())
        found, seen = searched(lambda root: 1 / (1 + abs(root)), d)  # the farther the better
        assert found == pytest.approx(-((15 * unit) ** 2))
        assert min(seen) == pytest.approx(-15 * unit, abs=1e-6)
    found, seen = searched(lambda root: 2 + abs(root) if root < 0 else 1 / (1 + root))
    assert found == pytest.approx((np.pi * unit) ** 2)
    assert {float(round(share * np.pi * unit, 6)) for share in (0.5, 0.97, 1)} <= seen


def test_the_cost_is_the_square_of_the_mean_error_beside_that_of_one_place():
    x = np.random.default_rng(2).normal(size=(12, 2))
    exact = np.sum((x[:, None] - x) ** 2, axis=-1)
    for k, least, most in ((2, 0, 1e-9), (1, 1e-3, 0.5)):
        how = {"components": Components(k), "loss": "distance"}
        scout = Scout(exact, solve=lambda gram, *_: full_spectrum(gram), **how)
        cost, signature = scout._tried(0.0)
        assert least <= cost < most
        assert sum(signature) == k
        assert scout.signature() is signature
        assert set(scout.seen) == {0.0}


def test_the_unit_is_the_mean_distance_of_what_counts():
    off = ~np.eye(30, dtype=bool)
    assert mean_distance(D) == pytest.approx(np.sqrt(D[off]).mean())
    w = np.random.default_rng(1).uniform(0, 1, D.shape) * off
    with patch("neucmds.refine.loss_starts.SCOUTS", 7):  # in blocks
        assert mean_distance(D, w) == pytest.approx(np.sum(w * np.sqrt(D)) / w.sum())
        some = Scout.among(D, w, 3, components=None, loss="relative", solve=None)
    assert some.sq_dissimilarity.shape == some.weights.shape == (7, 7)
    at = np.sort(np.random.default_rng(3).choice(30, 7, replace=False))
    np.testing.assert_array_equal(some.sq_dissimilarity, D[np.ix_(at, at)])
    np.testing.assert_array_equal(some.weights, w[np.ix_(at, at)])
    whole = Scout.among(D, None, 3, components=None, loss="relative", solve=None)
    assert whole.sq_dissimilarity is D
    assert whole.weights is None
