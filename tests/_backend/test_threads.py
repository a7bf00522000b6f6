from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from neucmds import InputError, neuc_mds
from neucmds._backend import threads
from neucmds._backend.threads import (
    fill_rows,
    open_pool,
    parallel_map,
    thread_count,
    worker_pool,
)
from neucmds.datasets import synthetic


@pytest.fixture(params=[1, 2, 5])
def n_threads(request):
    with threadpool_limits(request.param):
        yield request.param


def test_results_come_in_order(n_threads):
    assert parallel_map(lambda i: i * i, range(50)) == [i * i for i in range(50)]
    with worker_pool():
        assert parallel_map(lambda i: i * i, range(50)) == [i * i for i in range(50)]
    assert parallel_map(str, []) == []
    meeting = threading.Barrier(min(2, n_threads), timeout=10)
    parallel_map(lambda _: meeting.wait(), range(2))


def test_the_first_failure_in_order_is_raised(n_threads):
    def work(i):
        if i % 7 == 3:
            raise ValueError(f"part {i}")

    with pytest.raises(ValueError, match=r"^part 3$"):
        parallel_map(work, range(100))


def blas_threads():
    found = ThreadpoolController().select(user_api="blas").info()
    return {library["num_threads"] for library in found}


def test_blas_gets_its_threads_back():
    with threadpool_limits(2):
        with worker_pool():
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        with pytest.raises(RuntimeError, match="no"), worker_pool():
            raise RuntimeError("no")
        assert blas_threads() == {2}


def test_pools_that_overlap_leave_blas_as_it_was():
    first_is_in, second_is_in = threading.Event(), threading.Event()
    seen = []

    def first():
        with worker_pool():
            first_is_in.set()
            second_is_in.wait(10)

    def second():
        first_is_in.wait(10)
        with worker_pool():
            second_is_in.set()
            one.join(10)
            seen.append(blas_threads())

    before = blas_threads()
    if before == {1}:
        pytest.skip("BLAS has but one thread here")
    one, two = threading.Thread(target=first), threading.Thread(target=second)
    one.start()
    two.start()
    two.join(20)
    assert seen == [{1}]  # the first has left, the second is still at work
    assert blas_threads() == before


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_few_results_wait_for_a_slow_reader(n_jobs):
    begun, written = [], []

    class Slow:
        shape = (100, 1)

        def __setitem__(self, rows, values):
            time.sleep(0.001)
            assert len(begun) <= len(written) + 2 * n_jobs
            assert values == rows.start
            written.append(rows.start)

    fill_rows(Slow(), lambda rows: begun.append(rows) or rows.start, 2**21, n_jobs)
    assert written == list(range(100))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_failure_while_rows_are_filled_gives_blas_back_at_once(n_jobs):
    def work(rows):
        if rows.start > 0:
            raise ValueError("no")
        return np.zeros((rows.stop - rows.start, 1))

    with threadpool_limits(2):
        # The traceback is still alive when BLAS is asked.
        with pytest.raises(ValueError, match="no") as caught:
            fill_rows(np.empty((100, 1)), work, 2**20, n_jobs)
        assert caught.tb is not None
        assert blas_threads() == {2}


def test_numbers_of_jobs():
    every = thread_count(None)
    assert thread_count(-1) == every >= 1
    assert thread_count(7) == 7
    assert thread_count(np.int64(3)) == 3
    assert thread_count(-every - 5) == 1
    assert thread_count(-2) == max(1, every - 1)
    for wrong in (0, 1.5, True, "all"):
        with pytest.raises(InputError, match="n_jobs="):
            thread_count(wrong)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_forked_during_a_fit_has_its_own_threads():
    with threadpool_limits(2), worker_pool():
        child = os.fork()
        if child == 0:
            seen = []
            try:
                with threads.single_blas_thread() as allowed:
                    seen.append(allowed)
                seen.append(blas_threads())
                seen.append(open_pool.get() is None)
                seen.append(parallel_map(lambda i: i, range(4)))
            finally:
                os._exit(0 if seen == [2, {2}, True, [0, 1, 2, 3]] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert blas_threads() == {1}


@pytest.mark.parametrize(("method", "tol"), [("neuc+", 1e-7), ("neuc+", 1e-6), ("refined", 1e-7)])
def test_threads_change_results_by_the_rounding_of_single_precision(method, tol):
    """Where BLAS spreads products over threads, it adds up in another order."""
    D = synthetic.euclidean_ball(1800, random_state=0)
    fits = []
    for limit in (1, 2, 3):
        with threadpool_limits(limit):
            fits.append(neuc_mds(D, 20, method, squared=True, tol=tol, random_state=0))
    for fit in fits[1:]:
        assert fit.solver == "krylov"
        np.testing.assert_allclose(fit.eigenvalues, fits[0].eigenvalues, rtol=1e-6)
        assert fit.stress == pytest.approx(fits[0].stress, rel=1e-6)
        size = np.abs(fits[0].coordinates).max()
        np.testing.assert_allclose(fit.coordinates, fits[0].coordinates, rtol=0, atol=1e-5 * size)
