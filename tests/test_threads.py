from __future__ import annotations

import threading

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from neucmds.threads import at_work, spread, team


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


def test_blas_gets_its_threads_back():
    before = [library["num_threads"] for library in ThreadpoolController().info()]
    with pytest.raises(RuntimeError, match="no"), team():
        raise RuntimeError("no")
    assert [library["num_threads"] for library in ThreadpoolController().info()] == before
