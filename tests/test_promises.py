"""A hundred of the draws of `make fuzz`: names, scales, orders, agreement and losses."""

import pytest

pytest.importorskip("networkx")
pytest.importorskip("pandas")
from benchmarks import promises


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_every_promise_holds_for_random_choices(first, tmp_path):
    for seed in range(first, first + 10):
        assert promises.trial(seed, tmp_path) == []
