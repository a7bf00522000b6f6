"""Metrics on abundances that vegan and SciPy define differently, under names of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import neuc_mds
from neucmds.errors import InputError

FIXTURES = Path(__file__).parents[1] / "fixtures"
VEGAN = json.loads((FIXTURES / "vegan_permanova.json").read_text())["vegdist"]


@pytest.fixture(scope="module")
def plants():
    table = pd.read_csv(FIXTURES / "dune_species.csv", index_col=0)
    return table.to_numpy(float)


@pytest.mark.parametrize("name", ["canberra", "jaccard"])
def test_vegan_s_names_give_vegan_s_dissimilarities(plants, name):
    fit = neuc_mds(plants, 19, "neuc", metric=f"vegan_{name}")
    ours = np.sqrt(fit.dissimilarities(squared=True))
    np.testing.assert_allclose(ours, squareform(VEGAN[name]), atol=1e-6)
    scipy = squareform(pdist(plants, name))
    assert np.abs(ours - scipy).max() > 0.1


def test_bray_is_braycurtis(plants):
    bray = neuc_mds(plants, 2, "neuc", metric="bray")
    curtis = neuc_mds(plants, 2, "neuc", metric="braycurtis")
    np.testing.assert_array_equal(bray.coordinates, curtis.coordinates)


def test_an_abundance_is_not_negative(plants):
    with pytest.raises(InputError, match="takes abundances, but the lowest"):
        neuc_mds(plants - 1, 2, metric="vegan_jaccard")
