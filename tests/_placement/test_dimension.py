import numpy as np
import pytest
from sklearn.utils import check_random_state

from neucmds._methods.geometry import sq_dissimilarities
from neucmds._operator import DenseGram
from neucmds._placement.dimension import scan_dimensions
from neucmds._spectrum import full_spectrum


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


@pytest.mark.parametrize("kind", ["additive", "multiplicative"])
@pytest.mark.parametrize(("n", "signature"), [(60, (3, 2)), (120, (6, 2)), (200, (10, 3))])
def test_a_planted_signature_is_found_within_one(n, signature, kind):
    for seed in range(3):
        gram = DenseGram(planted(n, signature, 0.1, kind, seed))
        scan = scan_dimensions(
            gram, lambda g, k: full_spectrum(g), random_state=check_random_state(seed)
        )
        assert abs(scan.k - sum(signature)) <= 1


def test_the_choice_is_the_fewest_within_one_standard_error():
    gram = DenseGram(planted(80, (3, 1), 0.2, "additive", 0))
    scan = scan_dimensions(gram, lambda g, k: full_spectrum(g), random_state=check_random_state(0))
    at = scan.ks.index(scan.best)
    limit = scan.errors[at] + scan.standard_errors[at]
    assert scan.errors[scan.ks.index(scan.k)] <= limit
    assert all(e > limit for k, e in zip(scan.ks, scan.errors, strict=True) if k < scan.k)
