from __future__ import annotations

import numpy as np
import pytest

from neucmds import compare
from neucmds.datasets import euclidean_ball, random_simplex


@pytest.mark.parametrize("generate", [random_simplex, euclidean_ball])
def test_result_is_symmetric_hollow_and_repeats_with_its_seed(generate):
    first = generate(300, random_state=3)
    assert (first.shape, first.dtype) == ((300, 300), np.float64)
    np.testing.assert_array_equal(first, first.T)
    assert not np.diag(first).any()
    np.testing.assert_array_equal(first, generate(300, random_state=3))
    assert (first != generate(300, random_state=4)).any()


def test_random_simplex_matches_its_definition():
    # the last coordinate alone: the other 999 are bounded by their ranges
    d = random_simplex(60, random_state=1)
    i, j = np.indices(d.shape)
    plain = d + (0.3 * (i - j) / 60) ** 2
    off = ~np.eye(60, dtype=bool)
    slope = np.polyfit(((i - j)[off] / 60.0) ** 2, d[off], 1)[0]
    assert slope == pytest.approx(-0.09, rel=0.2)
    assert plain[off].mean() == pytest.approx(
        100 * 0.01 / 6 - 899 * (0.05 / 899) / 6, rel=0.02
    )


def test_balls_violate_the_triangle_inequality_and_overlap():
    d = np.sqrt(euclidean_ball(150, random_state=0))
    detour = (d[:, :, None] + d[None, :, :]).min(axis=1)
    assert (d > detour + 1e-9).any()
    crowded = euclidean_ball(400, dim=2, random_state=0)
    assert (crowded >= 0).all()
    assert (crowded[np.triu_indices(400, 1)] == 0).any()


# ‖D̂ − D‖_F of classical, lower, neuc and neuc+, and negative eigenvalues kept by the last two
RECOMPUTED = [
    (random_simplex, (28.40, 17.72, 3.47, 1.44), (8, 1)),
    (euclidean_ball, (19.42e5, 13.31e5, 3.35e5, 3.69e5), (90, 87)),
]


@pytest.mark.parametrize(("generate", "norms", "negatives"), RECOMPUTED)
def test_norms_and_signatures_are_the_recomputed_ones(
    generate, norms, negatives
):
    methods = ("classical", "lower", "neuc", "neuc+")
    table = compare(generate(1000, random_state=0), 100, methods, squared=True)
    fits = [table[method].embedding for method in methods]
    np.testing.assert_allclose(
        [np.sqrt(fit.stress) for fit in fits], norms, rtol=0.03
    )
    assert [fit.signature[1] for fit in fits[2:]] == pytest.approx(
        negatives, abs=1
    )
