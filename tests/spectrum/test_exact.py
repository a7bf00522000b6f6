from unittest.mock import patch

import numpy as np
import pytest

from neucmds.spectrum import exact
from neucmds.spectrum.exact import (
    _matching_pursuit,
    exact_selection,
    exact_weights,
)
from neucmds.spectrum.geometry import stress_terms
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.selection import neuc_plus
from neucmds.spectrum.spectrum import full_spectrum


def random_hollow(n, seed=0):
    e = np.random.default_rng(seed).standard_normal((n, n)) ** 3
    D = e + e.T
    np.fill_diagonal(D, 0.0)
    return D


@pytest.mark.parametrize(
    "k", [2, 6]
)  # by conjugate gradients, and as one dense system
def test_the_core_is_that_of_the_least_squares_problem(k):
    """G = U_W M U_Wᵀ of least STRESS, against a dense solve over all symmetric M."""
    D = random_hollow(60)
    gram = DenseGram(D)
    spectrum = full_spectrum(gram)
    found = exact_selection(spectrum, gram.diagonal(), k)
    u = spectrum.vectors[:, found.kept]
    columns = []
    for a in range(k):
        for b in range(a, k):
            g = np.outer(u[:, a], u[:, b])
            g = g + g.T
            d = np.diag(g)
            columns.append((d[:, None] + d[None, :] - 2 * g).ravel())
    fit, *_ = np.linalg.lstsq(np.stack(columns, axis=1), D.ravel(), rcond=None)
    least = np.sum((np.stack(columns, axis=1) @ fit - D.ravel()) ** 2)
    assert sum(
        stress_terms(spectrum, gram.diagonal(), found)
    ) == pytest.approx(least, rel=1e-9)
    own = np.cumsum([0, *range(k, 1, -1)])  # of a diagonal M
    fit, *_ = np.linalg.lstsq(
        np.stack(columns, axis=1)[:, own], D.ravel(), rcond=None
    )
    weights = exact_weights(spectrum, gram.diagonal(), found.kept).core
    np.testing.assert_allclose(weights, 2 * fit, rtol=1e-9)


def test_fixed_signs_are_kept_or_become_zero():
    gram = DenseGram(random_hollow(20, seed=3))
    spectrum = full_spectrum(gram)
    kept = neuc_plus(spectrum, 6).kept
    signs = np.sign(spectrum.values[kept])
    free, fixed = (
        exact_weights(spectrum, gram.diagonal(), kept, s)
        for s in (None, signs)
    )
    assert np.all(fixed.core * signs >= 0)
    totals = [
        sum(stress_terms(spectrum, gram.diagonal(), s)) for s in (free, fixed)
    ]
    assert totals[0] <= totals[1] * (1 + 1e-12)
    supports = [np.arange(3), kept, kept[:0], kept]
    assert (
        len(exact._supports_to_solve(spectrum, gram.diagonal(), supports)) == 2
    )
    with patch.object(
        exact, "MAX_DENSE", 19
    ):  # then only the best one is worth more
        assert exact._supports_to_solve(
            spectrum, gram.diagonal(), supports
        ) == [pytest.approx(kept)]
        assert (
            exact._supports_to_solve(spectrum, gram.diagonal(), [kept[:0]])
            == []
        )


@pytest.mark.parametrize("signature", [(2, 1), (1, 2), (3, 0)])
def test_with_fixed_signs_no_other_weights_on_the_support_are_better(
    signature,
):
    """Against all weights of these signs; and the result has no other sign."""
    for seed in range(4):
        gram = DenseGram(random_hollow(14, seed))
        spectrum = full_spectrum(gram)
        found = exact_selection(spectrum, gram.diagonal(), signature)
        reached = sum(stress_terms(spectrum, gram.diagonal(), found))
        mu = (
            np.linalg.eigvalsh(found.core)
            if found.core.ndim == 2
            else found.core
        )
        assert np.sum(mu > 1e-9) <= signature[0]
        assert np.sum(mu < -1e-9) <= signature[1]
        kept = neuc_plus(spectrum, signature).kept
        signs = np.sign(spectrum.values[kept])
        other = exact_weights(spectrum, gram.diagonal(), kept, signs)
        assert reached <= sum(
            stress_terms(spectrum, gram.diagonal(), other)
        ) * (1 + 1e-9)


def test_the_pursuit_takes_the_vector_that_lowers_the_stress_most_each_time():
    gram = DenseGram(random_hollow(30, 1))
    spectrum, diagonal = full_spectrum(gram), gram.diagonal()
    large, chosen, lowest = (
        np.flatnonzero(np.abs(spectrum.values) >= 1.0),
        [],
        [],
    )
    for _ in range(4):
        left = [i for i in large if i not in chosen]
        supports = [np.sort([*chosen, i]) for i in left]
        each = [exact_weights(spectrum, diagonal, kept) for kept in supports]
        totals = [sum(stress_terms(spectrum, diagonal, one)) for one in each]
        chosen.append(left[int(np.argmin(totals))])
        lowest.append(min(totals))
    # The best one is not the largest, and yet taken.
    one = exact_selection(spectrum, diagonal, 1)
    assert sum(stress_terms(spectrum, diagonal, one)) == pytest.approx(
        lowest[0]
    )
    found = _matching_pursuit(spectrum, diagonal, 4, 30, 1.0)
    np.testing.assert_array_equal(found, np.sort(chosen))
