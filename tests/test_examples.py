"""The examples run, and find what they say they find."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from neucmds import neuc_mds

ROOT = Path(__file__).resolve().parents[1]


def load(name):
    path = ROOT / "examples" / f"{name}.py"
    if not path.exists():
        pytest.skip("the examples are not part of this installation")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def fitted():
    """An embedding of 500 objects with negative D̂, and 40 placed ones."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(540, 8)) * np.linspace(2, 1, 8)
    d = ((x[:, None] - x) ** 2) @ np.array([1.0, 1, -1, 1, 1, 1, -1, 1])
    emb = neuc_mds(d[:500, :500], (6, 2), "neuc+", squared=True)
    assert emb.dissimilarities(squared=True).min() < 0
    return emb, emb.transform(d[500:, :500])


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("FAISS flat", 1.0),
        ("FAISS IVF", 0.8),
        ("FAISS HNSW", 0.95),
        ("USearch exact", 1.0),
        ("USearch graph", 0.95),
        ("Qdrant", 1.0),
    ],
)
def test_vector_indexes_find_the_neighbours_of_the_embedding(
    fitted, name, least
):
    package, unit, search = load("vector_index").SEARCHES[name]
    pytest.importorskip(
        package,
        reason=f"{package} is not installed: pip install neucmds[index]",
    )
    emb, placed = fitted
    exact, _ = emb.neighbors(10, placed)
    found = search(emb.to_inner_product(unit=unit), placed, 10)
    same = [
        len(set(a) & set(b)) / 10
        for a, b in zip(found.tolist(), exact.tolist(), strict=True)
    ]
    assert np.mean(same) >= least


@pytest.mark.slow
def test_the_vector_index_example_prints_its_table(capsys):
    pytest.importorskip(
        "faiss", reason="faiss is not installed: pip install neucmds[index]"
    )
    load("vector_index").main()
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 7
    flat = [float(value) for value in rows[1].split()[2:]]
    assert flat[0] > 0.99
    assert flat[2] > 0.99


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::neucmds.errors.NeucmdsWarning")
def test_the_metric_index_example_prints_its_answers(capsys):
    load("metric_index").main()
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].startswith("1500 objects")
    assert len(rows) == 6 + 5
