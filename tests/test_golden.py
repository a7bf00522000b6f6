"""Answers of public calls are those of the record; `benchmarks/golden.py` has many more."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "golden.py"


@pytest.fixture(scope="module")
def golden():
    if not SCRIPT.exists():
        pytest.skip("benchmarks/ is not here, as in a source distribution")
    pytest.importorskip("pandas")
    spec = importlib.util.spec_from_file_location("golden", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules["golden"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["golden"]


def test_quick_rows_are_as_recorded(golden):
    held = golden.record()
    rows = [row for row in golden.all_rows() if row.quick]
    assert len(rows) > 80
    wrong = {}
    for row in rows:
        found, _ = golden.differences(
            row, golden.result_of(row), held[row.name]
        )
        if found:
            wrong[row.name] = found
    assert not wrong


def test_every_row_is_recorded(golden):
    assert {row.name for row in golden.all_rows()} == set(golden.record())


def test_a_difference_is_seen(golden):
    held = {"loss": 1.0, "sq_norm": 10.0, "r2": 0.5}

    def wrong(kind, **changed):
        row = golden.Row("one", kind, dict)
        return golden.differences(row, held | changed, held)

    assert wrong("closed", r2=0.5 + 1e-12) == ([], [])
    assert wrong("closed", r2=0.5 + 1e-9)[0]
    assert wrong("closed", loss=1.0 + 1e-8)[0]
    assert wrong("loss", loss=1.0005) == ([], [])
    assert wrong("loss", loss=1.002)[0]
    assert wrong("loss", loss=0.99)[1]
    assert wrong("refined", r2=0.4)[1]
    assert wrong("same", r2=0.5 + 1e-12)[0]
