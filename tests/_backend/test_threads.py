from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from neucmds import neuc_mds
from neucmds._backend.threads import at_work, spread, team
from neucmds.datasets import synthetic


@pytest.fixture(params=[1, 2, 5])
def n_threads(request):
    with threadpool_limits(request.param):
        yield request.param


def test_results_come_in_order(n_threads):
    assert spread(lambda i: i * i, range(50)) == [i * i for i in range(50)]
    with team():
        assert spread(lambda i: i * i, range(50)) == [i * i for i in range(50)]
    assert spread(str, []) == []


def test_the_first_failure_in_order_is_raised(n_threads):
    def work(i):
        if i % 7 == 3:
            raise ValueError(f"part {i}")

    with pytest.raises(ValueError, match=r"^part 3$"):
        spread(work, range(100))


def test_more_threads_than_one_are_at_work():
    meeting = threading.Barrier(2, timeout=10)
    with threadpool_limits(2):
        spread(lambda _: meeting.wait(), range(2))


def test_a_team_within_a_team_is_the_same_team(n_threads):
    with team():
        assert at_work()
        with team():
            assert spread(lambda i: -i, range(5)) == [0, -1, -2, -3, -4]
        assert at_work()
    assert not at_work()


def blas_threads():
    found = ThreadpoolController().select(user_api="blas").info()
    return {library["num_threads"] for library in found}


def test_blas_gets_its_threads_back():
    with threadpool_limits(2):
        with team():
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        with pytest.raises(RuntimeError, match="no"), team():
            raise RuntimeError("no")
        assert blas_threads() == {2}


def test_teams_that_overlap_leave_blas_as_it_was():
    first_is_in, second_is_in = threading.Event(), threading.Event()
    seen = []

    def first():
        with team():
            first_is_in.set()
            second_is_in.wait(10)

    def second():
        first_is_in.wait(10)
        with team():
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


@pytest.mark.parametrize(("method", "tol"), [("neuc+", 1e-7), ("neuc+", 1e-6), ("refined", 1e-7)])
def test_results_do_not_depend_on_the_number_of_threads(method, tol):
    D = synthetic.euclidean_ball(1800, random_state=0)
    fits = []
    for limit in (1, 2, 3):
        with threadpool_limits(limit):
            fits.append(neuc_mds(D, 20, method, squared=True, tol=tol, random_state=0))
    for fit in fits[1:]:
        assert fit.solver == "krylov"
        np.testing.assert_allclose(fit.eigenvalues, fits[0].eigenvalues, rtol=1e-10)
        assert fit.stress == pytest.approx(fits[0].stress, rel=1e-10)
        size = np.abs(fits[0].coordinates).max()
        np.testing.assert_allclose(fit.coordinates, fits[0].coordinates, rtol=0, atol=1e-7 * size)
