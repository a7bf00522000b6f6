import threading
import time

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from neucmds import InputError, datasets, neuc_mds
from neucmds.backend.threads import (
    fill_rows,
    parallel_map,
    thread_count,
    worker_pool,
)


@pytest.fixture(params=[1, 3])
def n_threads(request):
    with threadpool_limits(request.param):
        yield request.param


def test_results_come_in_order(n_threads):
    assert parallel_map(lambda i: i * i, range(50)) == [
        i * i for i in range(50)
    ]
    with worker_pool():
        assert parallel_map(lambda i: i * i, range(50)) == [
            i * i for i in range(50)
        ]
    assert parallel_map(str, []) == []
    meeting = threading.Barrier(min(2, n_threads), timeout=10)
    parallel_map(lambda _: meeting.wait(), range(2))


def test_a_failure_ends_the_work_of_all_threads_before_it_is_raised(n_threads):
    begun, ended = [], []

    def work(i):
        begun.append(i)
        time.sleep(0.02)
        if threading.current_thread() is threading.main_thread():
            raise ValueError("part")
        time.sleep(0.02)
        ended.append(i)

    with worker_pool():
        with pytest.raises(ValueError, match=r"^part$"):
            parallel_map(work, range(10**6))
        assert n_threads <= len(begun) == len(ended) + 1 < 10**6


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


def test_rows_are_filled_in_order_and_a_failure_is_raised():
    def work(rows):
        if rows.stop > 80:
            raise ValueError("no")
        return np.arange(rows.start, rows.stop)[:, None]

    for n_jobs in (1, 2):
        target = np.zeros((80, 1))
        fill_rows(target, work, 2**20, n_jobs)
        np.testing.assert_array_equal(target[:, 0], np.arange(80))
        with threadpool_limits(2):
            with pytest.raises(ValueError, match="no"):
                fill_rows(np.zeros((100, 1)), work, 2**20, n_jobs)
            assert blas_threads() == {2}


def test_numbers_of_jobs():
    every = thread_count(None)
    assert thread_count(-1) == every >= 1
    found = [
        thread_count(number) for number in (7, np.int64(3), -every - 5, -2)
    ]
    assert found == [7, 3, 1, max(1, every - 1)]
    for wrong in (0, 1.5, True, "all"):
        with pytest.raises(InputError, match="n_jobs="):
            thread_count(wrong)


def test_threads_change_results_by_the_rounding_of_single_precision():
    """Where BLAS spreads products over threads, it adds up in another order."""
    D = datasets.euclidean_ball(900, random_state=0)
    fits = []
    for limit in (1, 3):
        with threadpool_limits(limit):
            fits.append(
                neuc_mds(D, 6, "neuc+", squared=True, tol=1e-6, random_state=0)
            )
    one, other = fits
    assert other.info.solver == "krylov"
    np.testing.assert_allclose(
        other.info.eigenvalues, one.info.eigenvalues, rtol=1e-6
    )
    assert other.stress == pytest.approx(one.stress, rel=1e-6)
    size = np.abs(one.coordinates).max()
    np.testing.assert_allclose(
        other.coordinates, one.coordinates, rtol=0, atol=1e-5 * size
    )
