"""`compare` is each method by itself, side by side."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from neucmds import compare, evaluate, neuc_mds, stress_curve
from neucmds.ecology import lingoes
from neucmds.errors import InputError
from neucmds.explore import COMPARED


@pytest.mark.slow
def test_compare_from_both_ends_equals_each_method_by_itself(no_metric):
    D = no_metric(520)
    table = compare(D, 10)
    for one in table.methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone = neuc_mds(D, 10, one.method)
        rel = 1e-3 if one.method == "refined" else 1e-6
        assert one.quality.stress == pytest.approx(alone.stress, rel=rel), (
            one.method
        )
    assert table.best.method == "refined"
    assert table.as_dict()["methods"][0]["method"] == "classical"


@pytest.mark.slow
def test_compare_puts_corrections_losses_and_smacof_beside_the_methods(
    no_metric,
):
    D = no_metric(15)
    table = compare(D, 3, methods=COMPARED)
    assert not table.left_out
    d2 = lingoes(D).sq_dissimilarity
    by_hand = evaluate(
        neuc_mds(d2, 3, "classical", squared=True), D**2, squared=True
    )
    assert table["lingoes"].quality.stress == pytest.approx(
        by_hand.stress, rel=1e-9
    )
    least = {
        "stress": ("refined", "refined"),
        "raw_stress": ("refined/distance", "smacof"),
        "relative_error_mean": ("refined/relative", "classical"),
    }
    for measure, (best, other) in least.items():
        values = {
            one.method: getattr(one.quality, measure) for one in table.methods
        }
        assert values[best] <= values[other] * (1 + 1e-9), measure
    assert table["smacof"].embedding.signature == (3, 0)
    assert table["smacof"].embedding.stress == pytest.approx(
        table["smacof"].quality.stress
    )


def test_compare_leaves_out_what_takes_too_long(no_metric):
    table = compare(no_metric(1001), 3, methods=["neuc+", "smacof"])
    assert [row.method for row in table.methods] == ["neuc+"]
    assert "at most 1,000" in table.left_out["smacof"]
    with pytest.raises(InputError, match="magic"):
        compare(no_metric(), 3, methods=["magic"])


def test_weights_count_in_the_stress_of_every_method(no_metric):
    D = no_metric(12)
    weights = 1.0 + np.add.outer(np.arange(12), np.arange(12)) % 3
    methods = ["classical", "neuc+", "exact", "refined", "refined/distance"]
    for row in compare(D, 3, methods, weights=weights).methods:
        embedding = row.embedding
        assert embedding.stress == pytest.approx(row.quality.stress)
        assert embedding.normalized_stress == pytest.approx(
            row.quality.normalized_stress
        )


def test_methods_may_be_a_generator_and_one_name_or_number_is_no_list(
    no_metric,
):
    D = no_metric(12)
    names = ["classical", "exact"]
    table = compare(D, 2, (name for name in names))
    assert [row.method for row in table.methods] == names
    assert [*stress_curve(D, [2], (name for name in names)).stress] == names
    for call, words in (
        (lambda: compare(D, 2, "exact"), r"as in methods=\['exact'\]"),
        (lambda: stress_curve(D, [2], "exact"), r"as in methods=\['exact'\]"),
        (lambda: stress_curve(D, 3), r"ks=3 must be a list, as in ks=\[3\]"),
    ):
        with pytest.raises(InputError, match=words):
            call()


@pytest.mark.parametrize("curvature", [-1.0, "auto"])
def test_curvature_without_a_method_that_takes_it_is_refused(
    no_metric, curvature
):
    with pytest.raises(InputError, match="is for refined/distance and"):
        compare(no_metric(12), 2, ["classical"], curvature=curvature)
