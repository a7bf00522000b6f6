"""A folder of results under two commands at once, signals, and what is in the way."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from neucmds import InputError
from neucmds.cli.outputs import Outputs, write_csv, write_file

SRC = Path(__file__).resolve().parents[2] / "src"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(SRC), "OPENBLAS_NUM_THREADS": "1"}


def test_a_table_holds_no_cell_that_a_spreadsheet_runs():
    cells = ["=1+1", "+a", "-2+3", "@x", "\t=1", "a=1", "-0.5", "+1", "-1e-05", "", "-inf"]
    file = io.BytesIO()
    write_csv(file, ["=x", "y"], [cells])
    header, row = csv.reader(io.StringIO(file.getvalue().decode()))
    assert header == ["'=x", "y"]
    assert row == [f"'{cell}" for cell in cells[:5]] + cells[5:]


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
import os, signal, time
from pathlib import Path
from neucmds.cli.outputs import Outputs
outputs = Outputs(Path("out"), ["a", "b"], force=False)
outputs.files["a"] = lambda file: file.write(b"all of a")
outputs.files["b"] = lambda file: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(10))
outputs.commit()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT, check=False, timeout=60
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert os.listdir(tmp_path) == []


def test_the_handler_of_sigterm_is_as_before(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    write_file(tmp_path / "a", lambda file: file.write(b"x"), force=False)
    assert signal.getsignal(signal.SIGTERM) is before
