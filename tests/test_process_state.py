"""Forked processes fit while threads of their parent do, with the same results."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"


# Children are forked while threads of their parent are inside of fits: what those hold locked
# stays locked in the child for good.
CODE = """
import os, signal, sys, threading, time, warnings
import numpy as np
from neucmds import Embedding, LandmarkNeucMDS, neuc_mds

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4))
D = np.abs(X[:, None] - X).sum(axis=2)
few = D[:40, :40]
stop = threading.Event()
expected = neuc_mds(few, 3, random_state=0).coordinates
landmarks = LandmarkNeucMDS(2, 50, metric="euclidean", random_state=0).fit(X)
placed = landmarks.transform(X)

def busy():
    while not stop.is_set():
        neuc_mds(D, 3, "neuc+", random_state=0)
        landmarks.transform(X)

def work(i):
    found = neuc_mds(few, 3, random_state=0)
    assert np.array_equal(found.coordinates, expected)
    found.save("shared.npz")
    found.save(f"{i}.npz")
    assert np.array_equal(Embedding.load(f"{i}.npz").coordinates, expected)
    assert np.array_equal(Embedding.load("shared.npz").transform(few), found.transform(few))
    assert np.array_equal(landmarks.transform(X, out=f"{i}.npy"), placed)

threads = [threading.Thread(target=busy, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
time.sleep(0.2)
children = []
for i in range(4):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(60)  # a child that waits for a lock is ended, and found out
            work(i)
            code = 0
        except BaseException as problem:
            print(type(problem).__name__, problem, file=sys.stderr, flush=True)
        os._exit(code)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
stop.set()
assert codes == [0] * 4, codes
print(*sorted(os.listdir()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_four_processes_forked_during_fits(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    files = sorted(
        [f"{i}.{kind}" for i in range(4) for kind in ("npy", "npz")]
        + ["shared.npz"]
    )
    assert done.stdout.split() == files
