from __future__ import annotations

import pytest

from neucmds._operator import DenseGram
from neucmds._spectrum import solve
from neucmds._spectrum.solve import check_tolerance
from neucmds.errors import InputError


def test_auto_takes_lapack_for_few_objects_or_many_pairs(rule, noise):
    keep = rule("neuc", 5)
    assert solve(DenseGram(noise(300)), keep, 5).solver == "full"
    assert solve(DenseGram(noise(300)), keep, 5, solver="krylov").solver == "krylov"
    assert solve(DenseGram(noise(640)), keep, 5).solver == "krylov"
    assert solve(DenseGram(noise(640)), rule("neuc", 80), 80).solver == "full"
    with pytest.raises(InputError, match="arpack"):
        solve(DenseGram(noise(10)), keep, 5, solver="arpack")


@pytest.mark.parametrize("tol", [0, 1, -1e-3, float("nan"), "small"])
def test_a_tolerance_that_is_none_is_refused(tol):
    with pytest.raises(InputError, match="between 0 and 1"):
        check_tolerance(tol)
