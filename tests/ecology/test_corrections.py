"""The corrections equal vegan's, and do what they promise."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist, squareform

from neucmds import InputError, compare, ecology, neuc_mds

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


def points(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 4))


@pytest.mark.parametrize("n", [40, 160, 300])
@pytest.mark.parametrize("scale", [1.0, 1e-30])
def test_a_euclidean_matrix_needs_no_constant(n, scale):
    D = scale * cdist(points(n), points(n))
    corrected = ecology.cailliez(D)
    assert corrected.constant <= 1e-6 * D.max()
    np.testing.assert_allclose(
        np.sqrt(corrected.sq_dissimilarity), D, atol=1e-6 * D.max()
    )


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e30])
def test_the_constant_scales_with_the_matrix(scale):
    D = cdist(points(200), points(200), "cityblock")
    constant = ecology.cailliez(D).constant
    assert constant > 1
    assert ecology.cailliez(scale * D).constant == pytest.approx(
        scale * constant, rel=1e-8
    )


def test_many_euclidean_objects_are_compared_with_cailliez():
    D = cdist(points(300), points(300))
    row = compare(D, 2, ["classical", "cailliez"])["cailliez"]
    classical = neuc_mds(D, 2, "classical")
    assert row.embedding.stress == pytest.approx(classical.stress, rel=1e-6)


def lowest_eigenvalue(d):
    centered = d**2 - (d**2).mean(axis=0)
    gram = -0.5 * (centered - centered.mean(axis=1, keepdims=True))
    return np.linalg.eigvalsh(gram)[0]


@pytest.mark.parametrize("n", [30, 50, 100])
@pytest.mark.parametrize("rounded", ["six decimals", "float32"])
def test_rounded_distances_get_the_least_constant(n, rounded):
    x = np.random.default_rng(0).normal(size=(n, 2))
    D = cdist(x, x)
    D = np.round(D, 6) if rounded == "six decimals" else D.astype(np.float32)
    corrected = ecology.cailliez(D)
    assert 0 < corrected.constant < 1e-3
    enough = np.sqrt(corrected.sq_dissimilarity)
    assert lowest_eigenvalue(enough) > -1e-12
    less = enough - 0.1 * corrected.constant * (1 - np.eye(n))
    assert lowest_eigenvalue(less) < -1e-9


def test_negative_squares_have_no_root_to_add_to():
    D = np.array([[0.0, 1.0, -1.0], [1.0, 0.0, 4.0], [-1.0, 4.0, 0.0]])
    with pytest.raises(InputError, match="use lingoes"):
        ecology.cailliez(D, squared=True)
    assert ecology.lingoes(D, squared=True).constant > 0
