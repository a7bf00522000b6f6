"""Some of the draws of `make fuzz`: names, scales, orders, agreement and losses."""

from itertools import combinations

import pytest

pytest.importorskip("networkx")
pytest.importorskip("pandas")
from benchmarks import promises


def traits(case):
    """Return what a draw is of: input, names, loss and method, curvature, and the other ways."""
    options = case.options
    return (
        case.kind,
        f"{case.index.dtype}, named: {case.labels is not None}",
        options["loss"] + options.get("method", ""),
        f"curvature {options.get('curvature')}",
        ("landmarks" in options, "missing" in options, case.weights is None),
    )


def covering(seeds):
    """Choose seeds so that every two traits that occur together do so in a chosen draw."""
    pairs = {
        seed: set(combinations(enumerate(traits(promises.draw(seed))), 2))
        for seed in seeds
    }
    left = set.union(*pairs.values())
    while left:
        best = max(pairs, key=lambda seed: len(pairs[seed] & left))
        left -= pairs[best]
        yield best


@pytest.mark.parametrize("seed", [*covering(range(100))])
def test_every_promise_holds_for_random_choices(seed, tmp_path):
    assert promises.trial(seed, tmp_path) == []
