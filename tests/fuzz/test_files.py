"""A few hundred mutated files; `make fuzz` reads as many as there is time for."""

from __future__ import annotations

import warnings

import pytest

from .mutations import KINDS, content, mutated, problems

# Seeds that once found something, kept for good.
FOUND = {"pairs.csv": (259,), "pairs.txt": (61, 607, 2389, 2651)}
EXAMPLES = 40


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_mutated_file_is_read_or_refused_by_one_line(kind, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tokenizer, on headers of npy files
        found = [
            finding
            for seed in (*FOUND.get(kind.name, ()), *range(EXAMPLES))
            for finding in problems(kind, seed, tmp_path)[1]
        ]
    assert found == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_file_itself_is_read(kind, tmp_path):
    path = tmp_path / kind.name
    path.write_bytes(content(kind))
    kind.readers[0](path)


def test_a_seed_gives_the_same_bytes():
    assert mutated(b"abcdefgh" * 20, 7) == mutated(b"abcdefgh" * 20, 7)
    assert len({mutated(b"abcdefgh" * 20, seed) for seed in range(50)}) > 40
