import numpy as np
import pytest
from scipy.spatial.distance import squareform
from sklearn.utils import check_random_state

from neucmds import neuc_mds
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._operator import DenseGram
from neucmds._placement.dimension import fewest, scan_dimensions
from neucmds._spectrum import full_spectrum
from neucmds.errors import NeucmdsWarning


def planted(n, signature, noise, kind, seed):
    """Squared dissimilarities of a known signature, with noise that adds or multiplies."""
    rng = np.random.default_rng(seed)
    p, q = signature
    x = rng.normal(size=(n, p + q)) * np.r_[np.ones(p), 0.7 * np.ones(q)]
    d = sq_dissimilarities(x, x, np.r_[np.ones(p), -np.ones(q)])
    e = np.triu(rng.normal(size=(n, n)), 1)
    e = e + e.T
    d = d + noise * d.std() * e if kind == "additive" else d * (1 + noise * e)
    np.fill_diagonal(d, 0)
    return d


def scanned(gram, seed):
    return scan_dimensions(gram, lambda g, k: full_spectrum(g), check_random_state(seed))


@pytest.mark.parametrize(
    ("n", "signature", "kind"), [(80, (3, 2), "additive"), (100, (6, 2), "multiplicative")]
)
def test_a_planted_signature_is_found_within_one(n, signature, kind):
    scan = scanned(DenseGram(planted(n, signature, 0.1, kind, 0)), 0)
    assert abs(scan.k - sum(signature)) <= 1


def test_the_choice_is_the_fewest_within_one_standard_error():
    gram = DenseGram(planted(80, (3, 1), 0.2, "additive", 0))
    scan = scanned(gram, 0)
    at = scan.ks.index(scan.best)
    limit = scan.errors[at] + scan.standard_errors[at]
    assert scan.errors[scan.ks.index(scan.k)] <= limit
    assert all(e > limit for k, e in zip(scan.ks, scan.errors, strict=True) if k < scan.k)


def test_objects_that_have_nothing_in_common_are_predicted_by_no_number_of_coordinates():
    rng = np.random.default_rng(0)
    d = 1 + 0.05 * squareform(rng.normal(size=16 * 15 // 2))
    np.fill_diagonal(d, 0)
    with pytest.warns(NeucmdsWarning, match="no number of coordinates predicts"):
        neuc_mds(d, "auto", squared=True)


def test_the_fewest_that_reach_a_goal_are_found_from_any_guess():
    for goal in range(1, 20):
        for start in (0, 1, 5, 30):
            found = fewest(lambda k, goal=goal: k >= goal, start, 16)
            assert found == (goal if goal <= 16 else None)
