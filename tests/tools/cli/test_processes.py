"""The real program in processes of its own: streams, exit codes, the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

pytest.importorskip("typer")

from .conftest import squared_gaps

SRC = Path(__file__).resolve().parents[3] / "src"


def python(*args, cwd, stdin=None, **variables):
    return subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        env=os.environ
        | {"PYTHONPATH": str(SRC), "OPENBLAS_NUM_THREADS": "1"}
        | variables,
        check=False,
        timeout=120,
    )


def program(*args, cwd, prelude, **variables):
    code = f"import sys; {prelude}; from neucmds.tools.cli import main; sys.exit(main())"
    return python("-c", code, *args, cwd=cwd, **variables)


def test_the_module_runs_and_json_alone_is_on_standard_output(tmp_path):
    text = "\n".join(
        " ".join(map(str, row)) for row in squared_gaps()
    ).encode()
    words = "neucmds compare - -k 3 --json --methods classical,refined"
    done = python("-m", *words.split(), cwd=tmp_path, stdin=text)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["methods"]
    assert [row["method"] for row in rows] == ["classical", "refined"]
    assert done.stderr == b""


def test_without_the_extra_it_is_named(tmp_path):
    hide = "sys.modules['typer'] = None"
    done = program("--version", cwd=tmp_path, prelude=hide)
    assert done.returncode == 2
    assert b'pip install "neucmds[cli]"' in done.stderr
    assert done.stderr.count(b"\n") == 1


ENCODED = """
from neucmds.tools.cli.app import app
for encoding in ("ascii", "cp1252"):
    sys.stdout.reconfigure(encoding=encoding)
    for words in ("embed gaps.npy -k 3 --plots none --force", "compare gaps.npy --methods neuc+",
                  "stress-curve gaps.npy --plots none --force", "diagnose gaps.npy", "--help"):
        assert app(words.split(), standalone_mode=False) == 0, words
    print("--", flush=True)
"""


def test_output_in_any_encoding(tmp_path):
    np.save(tmp_path / "gaps.npy", squared_gaps(8))
    done = program("--version", cwd=tmp_path, prelude=f"exec({ENCODED!r})")
    assert done.returncode == 0, done.stderr
    *parts, version = done.stdout.split(b"--\n")
    assert version.startswith(b"neucmds ")
    for part, encoding in zip(parts, ("ascii", "cp1252"), strict=True):
        assert "neucmds demo" in part.decode(encoding)


@pytest.mark.slow
@pytest.mark.skipif(
    os.name != "posix", reason="a process cannot catch SIGTERM there"
)
def test_sigterm_while_writing_leaves_nothing(tmp_path):
    code = """
import os, signal, time
from matplotlib.figure import Figure
Figure.savefig = lambda *_, **__: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(10))
"""
    np.save(tmp_path / "d.npy", 1 - np.eye(5))
    done = program(
        "stress-curve", "d.npy", cwd=tmp_path, prelude=f"exec({code!r})"
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert os.listdir(tmp_path) == ["d.npy"]


def few_digits():
    images = load_digits()
    return Bunch(data=images.data[:300], target=images.target[:300])


def test_demo_runs_the_commands_and_its_folder_is_not_overwritten(
    run, here, monkeypatch
):
    monkeypatch.setattr("neucmds.tools.cli.demo.load_digits", few_digits)
    done = run("demo")
    assert (done.code, "matched by" in done.err) == (0, False), done.err
    told = (
        "300 handwritten digits",
        "classical",
        "neuc+",
        "refined/distance",
        "refined/relative",
        "diagnose ",
    )
    assert all(word in done.out for word in told)
    written = {path.name for path in (here / "demo").iterdir()}
    pictures = {"spectrum.png", "coordinates.png", "shepard.png", "curve.png"}
    assert (
        pictures
        | {"coordinates.csv", "embedding.npz", "quality.json", "digits.npz"}
        <= written
    )
    found = run("diagnose", "demo/digits.npz", "--json").document
    assert not found["euclidean"]
    assert found["triangles"]["violated"] == 0
    assert run("demo").code == 2
