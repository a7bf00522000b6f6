"""Where descents on a loss begin and end: at low stationary points, of the right signature."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.manifold import smacof

from neucmds import datasets, neuc_mds
from neucmds.refine import scouting
from neucmds.refine.loss_starts import usual_starts
from neucmds.refine.scouting import mean_distance
from neucmds.refine.signatures import best_negatives

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
        return np.sum(rule.loss.terms(found.form, D[row] ** 2, d_hat)[0] ** 2)

    for row, (here, placed) in enumerate(
        zip(found.coordinates, rule.place(D**2), strict=True)
    ):
        moved = minimize(own, here, args=(row,)).x
        assert min(own(moved, row), own(placed, row)) >= 0.998 * own(here, row)


def test_distance_ends_no_higher_than_eight_starts_of_smacof():
    """With 24 starts, none by way of a smoothed loss, it ended 0.3 % above."""
    D = np.triu(np.random.default_rng(3).uniform(0.3, 1, (24, 24)), 1)
    D = D + D.T
    found = neuc_mds(D, (3, 0), loss="distance", random_state=0)
    settings = {
        "n_init": 8,
        "max_iter": 300,
        "eps": 1e-7,
        "normalized_stress": False,
    }
    raw_stress = smacof(D, n_components=3, random_state=0, **settings)[1]
    assert found.loss_value <= 1.0005 * raw_stress


@pytest.mark.parametrize("loss", ["relative", "absolute"])
def test_many_objects_start_among_few_and_end_no_higher(loss):
    """With a signature that is passed, none is tried on some: the squared solution is the start."""
    data = load_digits().data[:900]
    D = datasets.hop_distances(data, n_neighbors=5, connect=True)
    among_few = neuc_mds(D, 8, loss=loss, random_state=0)
    from_all = neuc_mds(D, among_few.signature, loss=loss, random_state=0)
    assert among_few.info.converged
    assert among_few.loss_value <= 1.01 * from_all.loss_value


def test_a_start_among_few_is_of_the_library_of_d():
    array_api_strict = pytest.importorskip("array_api_strict")
    D = city_blocks(620)
    expected = neuc_mds(D, 3, loss="relative", random_state=0)
    strict = array_api_strict.asarray(D)
    emb = neuc_mds(strict, 3, loss="relative", random_state=0)
    assert emb.signature == expected.signature
    np.testing.assert_allclose(emb.loss_value, expected.loss_value, rtol=1e-4)


def test_a_single_start_by_distance_goes_by_way_of_a_smoothed_loss():
    """From the squared solution alone, hops in this tree end 1.1 % higher."""
    n = 650
    rng = np.random.default_rng(1)
    nodes = np.arange(1, n)
    parents = (rng.uniform(size=n - 1) * nodes).astype(int)
    tree = csr_array((np.ones(n - 1), (nodes, parents)), shape=(n, n))
    D = shortest_path(tree, directed=False)
    end = neuc_mds(D, (2, 0), loss="distance")
    squared = neuc_mds(D, (2, 0))
    direct = neuc_mds(D, (2, 0), loss="distance", init=squared)
    assert end.loss_value < 0.995 * direct.loss_value


@pytest.mark.parametrize("loss", LOSSES)
def test_an_exact_fit_is_found_also_with_gaps_and_signs_it_lacks(loss):
    x = np.random.default_rng(0).normal(size=(24, 2))
    D = cdist(x, x)
    upper = np.triu(np.random.default_rng(1).random(D.shape) < 0.2, 1)
    holed = np.where(upper | upper.T, np.nan, D)
    for d, given in ((D, {}), (holed, {"missing": "ignore"})):
        found = neuc_mds(d, 2, loss=loss, n_init=2, random_state=0, **given)
        assert found.info.converged
        assert 2 * found.loss_value <= 1e-9 * D.size
        np.testing.assert_allclose(
            found.dissimilarities(squared=True), D**2, atol=1e-3
        )
    padded = neuc_mds(D, (3, 2), loss=loss, n_init=1)
    assert padded.signature == (3, 2)
    assert 2 * padded.loss_value <= 1e-3 * D.size


def test_equal_dissimilarities_do_not_end_where_symmetry_holds_the_descent():
    D = 1 - np.eye(20)
    assert (
        neuc_mds(D, 6).stress < 38
    )  # 180 from eigenvectors as LAPACK returns them
    assert neuc_mds(D, 2, weights=np.ones((20, 20))).stress < 120  # 288
    assert neuc_mds(D, 2, loss="distance").loss_value < 27  # 57 with (1, 1)


@pytest.mark.parametrize(
    ("own", "values", "reached"),
    [
        (1, (5, 4, 3, 2, 9), 3),
        (2, (1, 2, 3, 4, 5), 0),
        (2, (0, 2, 3, 2, 1), 4),
        (1, (5, 4, 5), 1),
        (0, (9, 8, 7, 6, 5, 4, 3, 2), 7),
        (0, (9, 8, 7, 6, 5, 6, 7, 8), 4),
    ],
)
def test_more_negatives_are_tried_before_fewer_while_the_loss_falls(
    own, values, reached
):
    assert best_negatives(values.__getitem__, own, len(values) - 1) == reached


def test_few_objects_in_few_coordinates_have_many_starts():
    found = [
        usual_starts(n, k)
        for n, k in ((100, 10), (101, 10), (600, 10), (601, 2), (9, 11))
    ]
    assert found == [32, 12, 12, 1, 1]


def hops(edges, n):
    i, j = np.array(edges).T
    return shortest_path(
        csr_array((np.ones(i.size), (i, j)), shape=(n, n)), directed=False
    )


def test_other_signatures_and_more_starts_end_lower():
    """From one start (3, 1), that of the squared solution, ends at 16.05, and (4, 0) at 5.52."""
    tree = hops([((a - 1) // 2, a) for a in range(1, 15)], 15)
    once, other, few, more = (
        neuc_mds(tree, k, loss="distance", n_init=init, random_state=0)
        for k, init in ((4, 1), ((4, 0), 1), (4, 4), (4, 8))
    )
    assert once.signature == (3, 1)
    assert few.signature == (4, 0)
    assert few.loss_value <= 1.0001 * other.loss_value < 0.5 * once.loss_value
    assert more.loss_value < 3.55  # (3, 1) from another start


D = np.random.default_rng(0).uniform(1, 4, (30, 30))
D = np.triu(D, 1) + np.triu(D, 1).T


def searched(cost, unit=0.8):
    """Return the root that is chosen where κ costs this much, and which ones were tried."""
    seen = set()

    def error(root):
        seen.add(float(round(root, 6)))
        return cost(root)

    return scouting._best_root(error, unit), seen


@pytest.mark.parametrize("bottom", [-4.2, -7.5])
def test_the_lowest_point_is_found_between_the_steps(bottom):
    found, _ = searched(lambda root: 1 + (root - bottom) ** 2)
    assert found == pytest.approx(bottom, rel=0.01)


def test_what_gains_little_or_nothing_is_flat():
    for cost in (
        lambda root: 1 + abs(root),
        lambda root: 1 - 0.019 * (root == -6),
        lambda _: 0.0,
    ):
        assert searched(cost)[0] == 0
    assert searched(lambda root: 1 - 0.021 * (root == -6))[0] == -6
    assert searched(lambda root: 1e-21 / (1 + abs(root)))[1] == {
        0.0
    }  # perfect as it is


def test_no_step_is_beyond_the_sphere_of_the_longest_or_fifteen_of_it():
    for unit in (0.1, 0.8):
        found, seen = searched(
            lambda root: 1 / (1 + abs(root)), unit
        )  # the farther the better
        assert found == pytest.approx(-15 * unit)
        assert min(seen) == pytest.approx(-15 * unit, abs=1e-6)
    found, seen = searched(
        lambda root: 2 + abs(root) if root < 0 else 1 / (1 + root), unit
    )
    assert found == pytest.approx(np.pi * unit)
    assert {
        float(round(share * np.pi * unit, 6)) for share in (0.5, 0.97, 1)
    } <= seen


def test_the_unit_is_the_mean_distance_of_what_counts():
    off = ~np.eye(30, dtype=bool)
    assert mean_distance(D) == pytest.approx(np.sqrt(D[off]).mean())
    w = np.random.default_rng(1).uniform(0, 1, D.shape) * off
    assert mean_distance(D, w) == pytest.approx(
        np.sum(w * np.sqrt(D)) / w.sum()
    )
