"""The tables on losses say what the record says."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def losses():
    if not (BENCHMARKS / "losses.py").exists():
        pytest.skip("benchmarks are not part of an installed package")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("losses", BENCHMARKS / "losses.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["losses"] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in ("losses", "measure", "quality"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def record(losses):
    return json.loads(losses.RECORD.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", ["README.md", "docs/guide/losses.md"])
def test_a_page_has_the_figures_of_the_record(losses, record, page):
    text = (BENCHMARKS.parent / page).read_text(encoding="utf-8")
    assert "<!-- losses: " in text
    assert losses.filled(text, losses.page_tables(record)) == text


def test_each_loss_is_lowest_by_its_own_measure_on_all_data(record):
    """What decides "Which loss?": far pairs squared, SMACOF's loss distance."""
    values = {(r["data"], r["k"], r["method"]): r for r in record["rows"]}
    for data, k in {(r["data"], r["k"]) for r in record["rows"]}:
        for loss, measure in (("squared", "stress"), ("distance", "raw_stress")):
            others = [values[data, k, other][measure] for other in ("squared", "distance")]
            assert values[data, k, loss][measure] == min(others), (data, k)


@pytest.mark.parametrize("data", ["digits 5-NN hops", "Helsinki streets"])
def test_neighbours_are_kept_best_by_the_relative_loss(record, data):
    rows = [r for r in record["rows"] if r["data"] == data]
    for k in {r["k"] for r in rows}:
        kept = {r["method"]: r["recall_10"] for r in rows if r["k"] == k}
        assert max(kept, key=kept.get) == "relative"
