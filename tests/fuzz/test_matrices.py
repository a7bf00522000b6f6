"""A few hundred fits of hostile matrices; `make fuzz` runs as many as there is time for."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .matrices import CHECKS, DAMAGES, GENERIC, KINDS, Case, examine_case, ways

# What was found once: a D of zeros by "distance", float32 squares and weights outside the bound
# that was stated, singular blocks, own rows refused in float32.
FOUND = (
    Case("zeros", 17, 4, seed=14),
    Case("sparse", 2, 1, seed=65),
    Case("clusters", 9, 3, seed=17, squared=True, dtype="float32"),
    Case("hops", 5, 1, seed=22, dtype="float32", decades=-14),
    Case("city_blocks", 9, 4, seed=31, dtype="float32"),
    Case("wide", 13, 5, seed=56, dtype="float32"),
    Case("wide", 6, 2, seed=67, dtype="float32", check="file"),
    Case("sparse", 4, 1, seed=2013, decades=10, check="rows"),
    # Weights of which one is all but everything, by the rule of the relative loss.
    Case("clusters", 3, 2, seed=3469, check="rows"),
    Case("wide", 7, 2, seed=3966, check="rows"),
    Case("wide", 8, 3, seed=5136, check="rows"),
    Case("zeros", 9, 1, seed=5280, check="rows"),
    Case("outlier", 4, 2, seed=15760, decades=-80, check="power of two"),
    Case("random", 9, 4, seed=3219, dtype="float32", check="rows"),
)
EXAMPLES = 24


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n = draw(st.integers(2, 9))
    single = draw(st.booleans())
    decades = st.integers(-30, 30) if single else st.integers(-80, 80)
    return Case(
        kind=draw(st.sampled_from(list(KINDS))),
        n=n,
        k=draw(st.integers(1, max(1, min(n - 1, 4)))),
        seed=draw(st.integers(0, 10**6)) * 60 + 1,  # without what takes longest
        squared=draw(st.booleans()),
        dtype="float32" if single else "float64",
        decades=draw(st.just(0) | decades),
        damage=draw(st.sampled_from((None, None, None, *DAMAGES))),
        check=draw(st.sampled_from(CHECKS)),
    )


@given(case=cases())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_matrix_is_embedded_as_stated_or_refused_by_one_line(case):
    assert examine_case(case)["findings"] == []


@pytest.mark.parametrize("case", FOUND, ids=lambda case: f"{case.kind}-{case.seed}")
def test_what_was_found_once(case):
    assert examine_case(case)["findings"] == []


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("squared", [False, True])
def test_invariance(check, squared):
    case = Case(GENERIC[squared], 9, 3, seed=11, squared=squared, check=check)
    assert examine_case(case)["findings"] == []


def test_every_method_loss_and_kind_of_input_is_tried():
    names = set(ways(Case("points", 6, 2, seed=480)))
    assert {"classical", "lower", "neuc", "neuc+", "exact", "refined"} <= names
    assert {"distance", "relative", "weights", "gaps", "signature", "goal", "krylov"} <= names
