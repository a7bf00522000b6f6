"""Objects of any kind with a function of two of them, as a user calls it, and how often that is."""

from __future__ import annotations

import os
import time

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from neucmds import InputError, LandmarkNeucMDS, NeucMDS, neuc_mds

RNG = np.random.default_rng(0)
WORDS = list(
    dict.fromkeys(
        "".join(RNG.choice(list("abcd"), size)) for size in [4, 5, 6, 7] * 60
    )
)


class Edits:
    """Edit distance that counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, a, b, cost=1):
        self.calls += 1
        row = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            above, row = row, [i]
            for j, y in enumerate(b, 1):
                row.append(
                    min(
                        above[j] + 1,
                        row[-1] + 1,
                        above[j - 1] + (x != y) * cost,
                    )
                )
        return row[-1]


def by_rows(a, b):
    return abs(a - b).sum()


def test_all_pairs_of_strings_take_one_call_each():
    edits, n = Edits(), len(WORDS)
    emb = neuc_mds(WORDS, 4, "neuc+", metric=edits)
    assert n * (n - 1) // 2 <= edits.calls <= n * (n - 1) // 2 + n
    D = np.array(
        [[Edits()(a, b) for b in WORDS[:40]] for a in WORDS[:40]], dtype=float
    )
    expected = neuc_mds(D, 4, "neuc+")
    few = neuc_mds(WORDS[:40], 4, "neuc+", metric=edits)
    np.testing.assert_allclose(few.coordinates, expected.coordinates)
    assert emb.labels == tuple(WORDS)
    assert emb.distance(WORDS[0], WORDS[1]) == emb.distance(0, 1)


@pytest.mark.parametrize("loss", ["squared", "relative"])
def test_sampled_pairs_take_as_many_calls_as_are_asked_for(loss):
    edits, n = Edits(), len(WORDS)
    emb = neuc_mds(
        WORDS, 2, metric=edits, n_pairs=60, loss=loss, random_state=0
    )
    assert edits.calls <= 1.15 * n * 60 / 2
    assert emb.info.held_out_pairs > 0
    assert emb.labels == tuple(WORDS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: NeucMDS(3),
        lambda: LandmarkNeucMDS(3, 80),
        lambda: LandmarkNeucMDS(2, n_near=6),
    ],
)
def test_estimators_place_and_search_new_strings(make):
    fitted, new = WORDS[:200], WORDS[200:210]
    edits = Edits()
    est = make().set_params(
        metric=edits, metric_params={"cost": 2}, random_state=0
    )
    x = est.fit_transform(fitted)
    assert x.shape[0] == 200
    edits.calls = 0
    placed = est.transform(new)
    compared = getattr(est, "landmarks_", fitted)
    assert edits.calls <= len(new) * len(compared)
    ids = est.kneighbors(new, 3, return_distance=False)
    np.testing.assert_array_equal(ids, est.result_.neighbors(3, placed)[0])
    assert est.result_.labels == tuple(fitted)
    with pytest.raises(InputError, match="rows of numbers were fitted"):
        clone(est).set_params(metric=by_rows, metric_params=None).fit(
            np.eye(90)
        ).transform(new)


def test_sequences_sets_and_series_are_objects():
    series = pd.Series(
        [np.arange(n) for n in range(2, 12)], index=list("abcdefghij")
    )
    by_sum = neuc_mds(series, 1, metric=lambda a, b: abs(a.sum() - b.sum()))
    assert by_sum.labels == tuple("abcdefghij")
    sets = [{1, 2}, {2}, {3, 4}, {1}, {5}]
    assert neuc_mds(sets, 2, metric=lambda a, b: len(a ^ b)).n == 5


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [2, None])
def test_processes_call_alike(tmp_path, n_jobs):
    words = WORDS[:12]

    def slow_lengths(a, b):
        (tmp_path / str(os.getpid())).touch()
        time.sleep(0.06)
        return abs(len(a) - len(b))

    one = NeucMDS(2, method="neuc+", metric=slow_lengths).fit(words)
    assert len(list(tmp_path.iterdir())) == 1
    two = NeucMDS(2, method="neuc+", metric=slow_lengths, n_jobs=n_jobs)
    with joblib.parallel_config(n_jobs=2):
        two.fit(words)
    assert len(list(tmp_path.iterdir())) == 3
    np.testing.assert_array_equal(one.embedding_, two.embedding_)


def test_progress_is_heard_in_calls(capsys):
    heard = []
    neuc_mds(
        WORDS[:60],
        2,
        "neuc+",
        metric=Edits(),
        callback=lambda *step: heard.append(step),
    )
    steps = [
        step
        for step in heard
        if step[2] == "calls of the metric" and step[1] == 60 * 59 // 2
    ]
    assert len(steps) > 2
    assert steps[-1][0] == steps[-1][1]
    NeucMDS(2, metric=Edits(), verbose=1).fit(WORDS[:60])
    assert "1.77k/1.77k" in capsys.readouterr().err
