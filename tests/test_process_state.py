"""Nothing changes the process behind its user's back: not the umask, not the threads of BLAS."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from neucmds import Embedding, InputError, LandmarkNeucMDS, neuc_mds
from neucmds.datasets import synthetic

N_THREADS, ROUNDS = 4, 6


def state():
    umask = os.umask(0o022)
    os.umask(umask)
    blas = ThreadpoolController().select(user_api="blas").info()
    return umask, sorted(library["num_threads"] for library in blas)


@pytest.fixture
def before():
    """The state before; a limit set here would keep other threads from setting any."""
    found = state()
    if max(found[1], default=1) == 1:
        pytest.skip("BLAS has but one thread here")
    return found


def at_once(work):
    """Run work(i) in four threads at once, and raise what it raises."""
    failures = []

    def run(i):
        try:
            for _ in range(ROUNDS):
                work(i)
        except BaseException as problem:
            failures.append(problem)

    running = [threading.Thread(target=run, args=(i,)) for i in range(N_THREADS)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failures:
        raise failures[0]


def test_fits_at_once_leave_the_process_as_it_was(before, tmp_path):
    D = synthetic.euclidean_ball(1200, random_state=0)
    expected = neuc_mds(D, 5, "neuc+", squared=True, random_state=0)

    def work(i):
        found = neuc_mds(D, 5, "neuc+", squared=True, random_state=0)
        found.save(tmp_path / f"{i}.npz")
        again = Embedding.load(tmp_path / f"{i}.npz")
        again.transform(D[:3])
        np.testing.assert_allclose(again.coordinates, expected.coordinates, atol=1e-9)

    at_once(work)
    assert state() == before
    assert len(os.listdir(tmp_path)) == N_THREADS


def test_transforms_at_once_leave_the_process_as_it_was(before, tmp_path):
    # Each restored what it had found, which was one thread if another was at work.
    rows = np.random.default_rng(0).normal(size=(30_000, 4))
    est = LandmarkNeucMDS(2, 200, metric="euclidean", random_state=0, n_jobs=2).fit(rows[:500])
    expected = est.transform(rows)

    def work(i):
        found = est.transform(rows, out=tmp_path / f"{i}.npy")
        np.testing.assert_array_equal(found, expected)

    at_once(work)
    assert state() == before
    assert sorted(os.listdir(tmp_path)) == [f"{i}.npy" for i in range(N_THREADS)]


def test_failures_at_once_leave_the_process_as_it_was(before, tmp_path):
    rows = np.abs(np.random.default_rng(0).normal(size=(20_000, 60)))
    among = np.sqrt(synthetic.euclidean_ball(60, random_state=0))
    est = LandmarkNeucMDS(2, landmarks=np.arange(60)).fit(among)
    bad = rows.copy()
    bad[15_000, 3] = -1
    asymmetric = synthetic.euclidean_ball(1200, random_state=0)
    asymmetric[3, 7] += 1

    def work(i):
        with pytest.raises(InputError, match="negative entry"):
            est.transform(bad, out=tmp_path / f"{i}.npy")
        with pytest.raises(InputError, match="not symmetric"):
            neuc_mds(asymmetric, 3, squared=True)

    at_once(work)
    assert state() == before
    assert os.listdir(tmp_path) == []
