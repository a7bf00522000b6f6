"""Some mutated files and hostile matrices; `make fuzz` tries as many as there is time for."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .files import KINDS, content, problems
from .matrices import CHECKS, GENERIC, Case, draw, examine

# Seeds that once found something, kept for good.
FOUND_FILES = {"pairs.csv": (259,), "pairs.txt": (61, 607, 2389, 2651)}
# Zeros by "distance", float32 squares and weights outside the bound that was stated, singular
# blocks, own rows refused, weights of which one is all but everything; the last has all ways.
FOUND_MATRICES = (
    Case("zeros", 17, 4, seed=14),
    Case("sparse", 2, 1, seed=65),
    Case("clusters", 9, 3, seed=17, squared=True, dtype="float32"),
    Case("hops", 5, 1, seed=22, dtype="float32", decades=-14),
    Case("city_blocks", 9, 4, seed=31, dtype="float32"),
    Case("wide", 13, 5, seed=56, dtype="float32"),
    Case("wide", 6, 2, seed=67, dtype="float32", check="file"),
    Case("sparse", 4, 1, seed=2013, decades=10, check="rows"),
    Case("clusters", 3, 2, seed=3469, check="rows"),
    Case("wide", 7, 2, seed=3966, check="rows"),
    Case("wide", 8, 3, seed=5136, check="rows"),
    Case("zeros", 9, 1, seed=5280, check="rows"),
    Case("outlier", 4, 2, seed=15760, decades=-80),
    Case("random", 9, 4, seed=3219, dtype="float32", check="rows"),
    Case("points", 6, 2, seed=480),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_file_is_read_and_a_mutated_one_read_or_refused_by_one_line(
    kind, tmp_path
):
    path = tmp_path / kind.name
    path.write_bytes(content(kind))
    kind.readers[0](path)
    seeds = (*FOUND_FILES.get(kind.name, ()), *range(24))
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of the tokenizer, on headers of npy files
        found = [
            finding
            for seed in seeds
            for finding in problems(kind, seed, tmp_path)[1]
        ]
    assert found == []


@pytest.mark.slow
@given(seed=st.integers(0, 10**6))
@settings(max_examples=6, deadline=None)
def test_a_matrix_is_embedded_as_stated_or_refused_by_one_line(seed):
    assert examine(draw(seed))["findings"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", FOUND_MATRICES, ids=lambda case: f"{case.kind}-{case.seed}"
)
def test_no_finding_comes_back(case):
    assert examine(case)["findings"] == []


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("squared", [False, True])
def test_a_check_changes_nothing(check, squared):
    case = Case(GENERIC[squared], 9, 3, seed=11, squared=squared, check=check)
    assert examine(case)["findings"] == []
