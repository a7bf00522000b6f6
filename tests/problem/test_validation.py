"""One policy: a D in memory, in blocks of rows and in dask chunks is refused in the same words."""

import re
from unittest.mock import patch

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import InputError, neuc_mds

da = pytest.importorskip("dask.array")

N = 60
LABELS = [f"o{i}" for i in range(N)]


def distances() -> np.ndarray:
    return squareform(
        pdist(np.random.default_rng(0).normal(size=(N, 4)), "cityblock")
    )


def in_memory(D, **rules):
    return neuc_mds(D, N - 1, "neuc", **rules)


def in_chunks(D, **rules):
    chunks = ((25, 0, 35), (40, 20))  # uneven, and one without entries
    return neuc_mds(
        da.from_array(D, chunks=60).rechunk(chunks), N - 1, "neuc", **rules
    )


def on_gpu(D, **rules):
    """As with the kernel, which tells the ends of a matrix without gaps and how symmetric it is."""

    def kernel(array):
        d = np.asarray(array)
        return (
            None
            if np.isnan(d).any()
            else (d.min(), d.max(), np.abs(d - d.T).max())
        )

    with (
        patch("neucmds.problem.dense.mirrored_extremes", kernel),
        np.errstate(invalid="ignore"),
    ):
        return in_memory(array_api_strict.asarray(D), **rules)


WALKS = (in_memory, on_gpu, in_chunks)


def spoiled(*changes):
    D = distances()
    for i, j, value in changes:
        D[i, j] = value
    return D


NAN, SQUARED = np.nan, {"squared": True}
BAD = {
    "negative": (spoiled((3, 50, -0.25), (50, 3, -0.25)), {}, "-0.25 at (3, 50)"),
    "asymmetric": (spoiled((3, 50, 99.0), (7, 2, 9.0)), {}, "at (3, 50)"),
    "diagonal": (spoiled((41, 41, -1.0)), {}, "not zero: -1 at (41, 41)"),
    "infinite": (spoiled((41, 3, np.inf), (5, 7, -np.inf)), {}, "2 infinite entries, the first at"),
    "triangle": (np.tril(distances()), {}, "D is a triangle: .*; pass D"),
    "triangle of NaN": (
        np.where(np.tri(N, dtype=bool), NAN, 0) + distances(), {}, "one of two mirrored"
    ),
    "similarity": (np.exp(-distances()), {}, "similarities; convert it"),
    "too large": (distances() * 1e75, {}, "too large: .* divide by 1e.76"),
    "too small, squared": (distances() * 1e-152, SQUARED, "too small: .* divide by 1e-151"),
    "missing": (
        spoiled((41, 3, NAN), (3, 41, NAN)), {}, "2 missing (NaN) entries, the first"
    ),
    "missing diagonal": (spoiled((41, 41, NAN)), {}, "nan at (41, 41); set it to 0"),
}  # fmt: skip


def refusal(walk, D, **rules) -> str:
    with pytest.raises(InputError) as caught:
        walk(D, **rules)
    return str(caught.value)


@pytest.mark.parametrize("case", BAD)
def test_every_walk_refuses_in_the_same_words(case):
    D, rules, said = BAD[case]
    walks = WALKS
    # Chunks are not compared with mirrored ones where entries are missing.
    if case.startswith("triangle"):
        walks = (in_memory, on_gpu)
    messages = {refusal(walk, D, **rules) for walk in walks}
    # Only D in memory tells by how much its directions differ on average.
    messages = {re.sub("its directions .* mean, ", "", m) for m in messages}
    assert len(messages) == 1, messages
    assert re.search(said.replace("(", r"\(").replace(")", r"\)"), *messages)


def test_objects_with_names_are_named():
    named = pd.DataFrame(spoiled((3, 50, 99.0), (7, 2, 9.0)), LABELS, LABELS)
    assert "at (3, 50), 'o3' and 'o50'" in refusal(in_memory, named)


@pytest.mark.filterwarnings("ignore::neucmds.FewerComponentsWarning")
@pytest.mark.parametrize("walk", WALKS)
def test_rounding_is_relative_to_all_of_D(walk):
    """A diagonal entry is small against the largest entry of D, not against those near it."""
    D = distances()
    D[:25, :25] *= 1e-9
    D[4, 4] = 1e-10
    # All coordinates give D back.
    found = np.asarray(walk(D).dissimilarities(squared=True))
    np.testing.assert_allclose(
        found, np.where(np.eye(N) > 0, 0, D) ** 2, atol=1e-12 * D.max() ** 2
    )


def test_float32_outside_memory_is_squared_in_float64_where_its_squares_are_lost():
    D = (distances() * 1e-25).astype(np.float32)
    found = np.asarray(in_chunks(D).dissimilarities())
    np.testing.assert_allclose(found, D, rtol=1e-3)
