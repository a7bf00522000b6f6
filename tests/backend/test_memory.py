"""How much memory may be used: what people write, and what kernel, containers and limits say."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from neucmds.backend import memory
from neucmds.backend.memory import available_memory

SRC = Path(__file__).resolve().parents[2] / "src"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (7, "7 bytes"),
        (1000, "1 kB"),
        (2.5e6, "2.5 MB"),
        (7.21e9, "7.21 GB"),
        (5e15, "5e+03 TB"),
    ],
)
def test_amounts_have_three_digits_and_a_unit(amount, text):
    assert memory.format_bytes(amount) == text


def test_no_more_is_available_than_there_is():
    psutil = pytest.importorskip("psutil")
    assert 0 < (available_memory() or 0) < psutil.virtual_memory().total


def group(folder, limit, used, inactive=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    text = "" if inactive is None else f"anon 5\ninactive_file {inactive}\n"
    (folder / "memory.stat").write_text(text)


def test_groups_and_those_above_leave_their_limit_less_what_is_used(tmp_path):
    own = tmp_path / "own"
    assert memory._left_in_groups(tmp_path, own) == []
    group(tmp_path, 1000, 700, inactive=200)  # idle caches can be dropped
    assert memory._left_in_groups(tmp_path, own) == [500]
    # A batch system limits the job, not the step; only the root of the tree used to be read.
    group(tmp_path / "slurm" / "job" / "step", "max", 10)
    group(tmp_path / "slurm" / "job", 1000, 400)
    own.write_text("0::/slurm/job/step\n")
    assert memory._left_in_groups(tmp_path, own) == [600, 500]


LITTLE = """
import json, resource
import numpy as np
from pathlib import Path
from neucmds import InputError, neuc_mds

n = 3000
x = np.random.default_rng(0).normal(size=n)
D = np.abs(x[:, None] - x)
triangle = np.ones(n * (n - 1) // 2)
ways = [
    (80, lambda: neuc_mds(D, 2, "neuc+")),
    (80, lambda: neuc_mds(triangle, 2, "neuc+")),
    (300, lambda: neuc_mds(D, 400, "neuc+", squared=True)),
    (600, lambda: neuc_mds(D, 2, squared=True, weights=D)),
    (200, lambda: neuc_mds(D, 2, squared=True, loss="distance")),
]
said = []
for room, way in ways:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + room * 10**6
    resource.setrlimit(resource.RLIMIT_AS, (most, -1))
    try:
        way()
    except InputError as error:
        said.append(str(error))
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
print(json.dumps(said))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_too_much_is_refused_before_the_work():
    environment = os.environ | {
        "PYTHONPATH": str(SRC),
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", LITTLE]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    needed = (
        "a squared copy of D of 3000 objects needs 72 MB",
        "spread from its condensed triangle, needs 72 MB",
        "the whole spectrum of 3000 objects needs 360 MB",
        "with weights or missing entries needs 1.01 GB",
        "loss='distance' of 3000 objects needs 216 MB",
    )
    assert len(said) == len(needed), said
    for message, figure in zip(said, needed, strict=True):
        assert figure in message
        assert "are free; " in message
