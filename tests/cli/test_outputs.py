"""A folder of results under two commands at once, signals, and what is in the way."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from neucmds import InputError
from neucmds.cli.outputs import Outputs, as_csv

SRC = Path(__file__).resolve().parents[2] / "src"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(SRC), "OPENBLAS_NUM_THREADS": "1"}


def test_a_table_holds_no_cell_that_a_spreadsheet_runs():
    cells = ["=1+1", "+a", "-2+3", "@x", "\t=1", "a=1", "-0.5", "+1", "-1e-05", "", "-inf"]
    header, *rows = csv.reader(io.StringIO(as_csv(pd.DataFrame({"=x": cells, "y": 0.1}))))
    assert header == ["'=x", "y"]
    assert [row[0] for row in rows] == [f"'{cell}" for cell in cells[:5]] + cells[5:]


def test_digits_are_enough_to_read_the_same_numbers_back():
    for dtype in (np.float32, np.float64):
        x = np.random.default_rng(0).normal(size=50).astype(dtype)
        texts = as_csv(pd.DataFrame({"x": x})).split()[1:]
        assert np.array_equal(np.array(texts, dtype=dtype), x)
        assert max(map(len, texts)) < (14 if dtype is np.float32 else 24)


def test_of_two_commands_into_one_folder_one_wins(tmp_path):
    # Both used to end well, and one overwrote the other.
    first, second = (Outputs(tmp_path / "out", ["a"], force=False) for _ in range(2))
    first.files["a"] = lambda file: file.write(b"first")
    second.files["a"] = lambda file: file.write(b"second")
    first.commit()
    with pytest.raises(InputError, match="exists already; pass --force"):
        second.commit()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "a"]
    assert (tmp_path / "out" / "a").read_bytes() == b"first"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a process cannot catch SIGTERM there")
def test_sigterm_while_writing_leaves_nothing(tmp_path):
    code = """
import os, signal, sys, time
from neucmds.cli import main, outputs
outputs.save_figure = lambda *_: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(10))
sys.exit(main())
"""
    np.save(tmp_path / "d.npy", 1 - np.eye(5))
    words = [sys.executable, "-c", code, "curve", "d.npy"]
    done = subprocess.run(words, cwd=tmp_path, env=ENVIRONMENT, check=False, timeout=60)
    assert done.returncode == 128 + signal.SIGTERM
    assert os.listdir(tmp_path) == ["d.npy"]
