"""A folder of results under two commands at once, signals, and what is in the way."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from neucmds import Embedding, InputError
from neucmds.cli.outputs import Outputs, check_file, write_csv, write_file

from .conftest import squared_gaps

SRC = Path(__file__).resolve().parents[2] / "src"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(SRC), "OPENBLAS_NUM_THREADS": "1"}


def test_a_table_holds_no_cell_that_a_spreadsheet_runs():
    cells = ["=1+1", "+a", "-2+3", "@x", "\t=1", "a=1", "-0.5", "+1", "-1e-05", "", "-inf"]
    file = io.BytesIO()
    write_csv(file, ["=x", "y"], [cells])
    header, row = csv.reader(io.StringIO(file.getvalue().decode()))
    assert header == ["'=x", "y"]
    assert row == [f"'{cell}" for cell in cells[:5]] + cells[5:]


@pytest.mark.slow
def test_two_commands_into_one_folder_one_of_which_wins(tmp_path):
    # Both used to end well, and one overwrote the other.
    np.save(tmp_path / "gaps.npy", squared_gaps())
    code = """
import sys, time
from neucmds.cli.app import app
from neucmds.cli import outputs
checked, start = outputs.Outputs.__init__, float(sys.argv.pop(1))
def checked_then_meet(self, *args, **options):
    checked(self, *args, **options)
    time.sleep(max(0, start - time.time()))
outputs.Outputs.__init__ = checked_then_meet
app()
"""
    at = time.time() + 8
    arguments = ["embed", "gaps.npy", "--plots", "none", "-o", "out", "-k"]
    commands = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(at), *arguments, str(k)],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for k in (3, 5)
    ]
    said = [command.communicate(timeout=60)[1] for command in commands]
    codes = [command.returncode for command in commands]
    assert sorted(codes) == [0, 2], said
    loser = said[codes.index(2)]
    assert "exists already; pass --force" in loser
    assert loser.count("\n") == 1
    assert Embedding.load(tmp_path / "out" / "embedding.npz").requested == (3, 5)[codes.index(0)]
    assert sorted(os.listdir(tmp_path)) == ["gaps.npy", "out"]


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


def test_what_is_in_the_way_is_named_before_the_work(tmp_path):
    (tmp_path / "a").write_text("x")
    with pytest.raises(InputError, match=r"a exists already; pass --force"):
        check_file(tmp_path / "a", force=False)
    with pytest.raises(InputError, match=r"a exists already; pass --force"):
        write_file(tmp_path / "a", lambda file: file.write(b"y"), force=False)
    with pytest.raises(InputError, match=r"a exists already; pass --force"):
        Outputs(tmp_path, ["a"], force=False)
    with pytest.raises(InputError, match="is a file; pass another folder"):
        Outputs(tmp_path / "a", ["b"], force=True)
    with pytest.raises(InputError, match="device"):
        check_file(Path(os.devnull), force=True)
    assert (tmp_path / "a").read_text() == "x"
