"""The default fit ends no higher than fits it includes, on small D of the kinds that have traps."""

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

from neucmds import neuc_mds

# The power of d that a loss grows with.
POWERS = {"squared": 4, "distance": 2, "relative": 0}


def hops(n, rng):
    """A random tree and some more edges."""
    edges = np.zeros((n, n))
    edges[np.arange(1, n), [rng.integers(0, a) for a in range(1, n)]] = 1
    edges[tuple(rng.integers(0, n, size=(2, int(rng.integers(0, n)))))] = 1
    return shortest_path(edges, directed=False, unweighted=True)


def constant(n, rng):
    return rng.uniform(0.5, 2) * (1 - np.eye(n))


def ties(n, rng):
    upper = np.triu(rng.integers(1, 5, size=(n, n)), 1).astype(float)
    return upper + upper.T


def noise(n, rng):
    upper = np.triu(rng.uniform(rng.choice([0.0, 0.8]), 1, size=(n, n)), 1)
    return upper + upper.T


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", POWERS)
@pytest.mark.parametrize("family", [hops, constant, ties, noise])
def test_the_default_is_above_no_fit_it_includes(family, loss):
    # Of 32 starts a quarter takes the same way in a quarter of the time.
    starts = {} if loss == "squared" else {"loss": loss, "n_init": 8}
    for seed in range(3 if loss == "squared" else 1):
        rng = np.random.default_rng(seed)
        D, k = family(int(rng.integers(5, 15)), rng), 2
        plain = (
            {"method": "exact"}
            if loss == "squared"
            else {"loss": loss, "n_init": 1}
        )
        others = [neuc_mds(D, (k, 0), **starts), neuc_mds(D, k, **plain)]
        # Below the rounding of the sums every fit is perfect.
        rounding = 1e-9 * np.sum(D ** POWERS[loss])
        least = min(one.loss_value for one in others)
        assert (
            neuc_mds(D, k, **starts).loss_value <= 1.01 * least + rounding
        ), seed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", ["distance", "relative", "absolute"])
@pytest.mark.parametrize("family", [hops, noise])
def test_more_coordinates_end_no_higher(family, loss):
    D = family(14, np.random.default_rng(0))
    values = [
        neuc_mds(D, k, loss=loss, n_init=4).loss_value for k in (1, 2, 3)
    ]
    rounding = 1e-9 * np.sum(D ** POWERS.get(loss, 0))
    assert values[1] <= 1.0001 * values[0] + rounding
    assert values[2] <= 1.0001 * values[1] + rounding
