"""Entries far beyond all others are named, as slips of data entry are."""

import array_api_strict
import numpy as np
import pytest

from neucmds import diagnose


def ordinary(n: int = 60, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, 3))
    return ((x[:, None] - x[None]) ** 2).sum(axis=-1)


@pytest.mark.parametrize("library", [np, array_api_strict])
def test_a_sentinel_is_named_with_its_value(library):
    D = ordinary()
    D[3, 40] = D[40, 3] = 99999.0**2
    D[5, 6] = D[6, 5] = -1e12
    outliers = diagnose(library.asarray(D), squared=True).outliers
    assert outliers.entries == ((5, 6, -1e12), (3, 40, 99999.0**2))
    assert outliers.typical == pytest.approx(
        6.0, rel=0.3
    )  # E|x − y|² in three dimensions


def test_ordinary_and_heavy_tailed_data_have_none():
    rng = np.random.default_rng(1)
    heavy = rng.lognormal(sigma=1.5, size=(80, 80)) ** 2
    heavy = heavy + heavy.T
    np.fill_diagonal(heavy, 0.0)
    for D in (ordinary(), heavy, np.zeros((5, 5)), 1.0 - np.eye(9)):
        assert diagnose(D, squared=True).outliers.entries == ()


def test_one_object_far_from_all_others_is_no_slip():
    # Every entry of its row is large, and it is the largest entry of every other row.
    D = ordinary()
    D[7, :] = D[:, 7] = 1e9
    D[7, 7] = 0.0
    entries = diagnose(D, squared=True).outliers.entries
    assert all(7 in pair[:2] for pair in entries)
