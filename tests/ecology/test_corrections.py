"""The corrections equal vegan's, and do what they promise."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import squareform

from neucmds import InputError, ecology, neuc_mds

VEGAN = json.loads(
    (
        Path(__file__).parents[1] / "fixtures" / "vegan_wcmdscale.json"
    ).read_text()
)


@pytest.mark.parametrize("table", ["dune", "varespec"])
@pytest.mark.parametrize("name", ["lingoes", "cailliez"])
def test_constants_and_eigenvalues_equal_those_of_vegan(table, name):
    D = squareform(VEGAN[table]["condensed"])
    corrected = getattr(ecology, name)(D)
    assert corrected.constant == pytest.approx(
        VEGAN[table][f"{name}_constant"], rel=1e-6
    )
    theirs = np.asarray(VEGAN[table][f"{name}_eigenvalues"])
    classical = neuc_mds(
        corrected.sq_dissimilarity, theirs.size, "classical", squared=True
    )
    ours = classical.weights
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("name", ["lingoes", "cailliez"])
def test_the_scale_is_that_of_every_other_function(name):
    D = squareform(VEGAN["dune"]["condensed"])
    correct = getattr(ecology, name)
    plain, squared = correct(D), correct(D**2, squared=True)
    assert plain.constant == pytest.approx(squared.constant, rel=1e-9)
    assert plain.constant > 0.01
    np.testing.assert_allclose(
        plain.sq_dissimilarity, squared.sq_dissimilarity, rtol=1e-9
    )


def test_negative_squares_have_no_root_to_add_to():
    D = np.array([[0.0, 1.0, -1.0], [1.0, 0.0, 4.0], [-1.0, 4.0, 0.0]])
    with pytest.raises(InputError, match="use lingoes"):
        ecology.cailliez(D, squared=True)
    assert ecology.lingoes(D, squared=True).constant > 0
