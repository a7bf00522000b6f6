"""One way for every kind of D: the functions agree, whatever holds D."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import squareform

from neucmds import compare, diagnose, evaluate, neuc_mds, stress_curve


def as_path(D, folder):
    np.save(folder / "d.npy", D)
    return folder / "d.npy"


KINDS = {
    "array": lambda D, folder: D,
    "condensed": lambda D, folder: squareform(D, checks=False),
    "list": lambda D, folder: D.tolist(),
    "path": as_path,
    "frame": lambda D, folder: pd.DataFrame(
        D, *[[f"o{i}" for i in range(len(D))]] * 2
    ),
    "dask": lambda D, folder: pytest.importorskip("dask.array").from_array(
        D, chunks=(7, 7)
    ),
    "zarr": lambda D, folder: pytest.importorskip("zarr").array(
        D, chunks=(6, 6)
    ),
}


@pytest.fixture(scope="module")
def expected(no_metric):
    return diagnose(no_metric(11))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_function_takes_what_neuc_mds_takes(
    no_metric, kind, expected, tmp_path
):
    D = no_metric(11)
    held = KINDS[kind](D, tmp_path)
    embedding = neuc_mds(held, 5, "neuc+")
    assert embedding.stress == pytest.approx(neuc_mds(D, 5, "neuc+").stress)
    assert evaluate(embedding, held).stress == pytest.approx(embedding.stress)
    table = compare(held, 5, methods=["classical", "neuc+"])
    assert table["neuc+"].quality.stress == pytest.approx(embedding.stress)
    seen = diagnose(held)
    assert seen.negative_share == pytest.approx(expected.negative_share)
    assert seen.triangles.violated == expected.triangles.violated
    assert seen.suggested_k == expected.suggested_k
    found = stress_curve(held, ks=[2, 5], methods=["neuc+"])
    assert found.stress["neuc+"][1] == pytest.approx(embedding.stress)
