"""`MetricIndex` finds the nearest by few calls, grows, is saved, and goes on after a kill."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
from fractions import Fraction
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from neucmds import Embedding, InputError, MetricIndex, neuc_mds
from neucmds.errors import NeucmdsWarning
from neucmds.estimators import KNeighborsGraph

pytestmark = pytest.mark.filterwarnings(
    "ignore:a linear scan:neucmds.errors.NeucmdsWarning"
)


class Counted:
    """A distance of points on a curved sheet, not Euclidean, that counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, a, b):
        self.calls += 1
        return float(np.abs(a - b).sum() ** 0.8)


def six_letters():
    letters_of = np.random.default_rng(0).choice(list("abcd"), size=(60, 6))
    return sorted({"".join(row) for row in letters_of})


def points(n, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 3))
    directions = np.random.default_rng(9).normal(size=(3, 6))
    return list(u @ directions)


def true_limits(queries, objects, k=10):
    """Return the true distance of the k-th nearest object of every query."""
    metric = Counted()
    d = np.array([[metric(q, x) for x in objects] for q in queries])
    return np.sort(d, axis=1)[:, k - 1 : k]


def recall(distances, limits):
    return float(np.mean(distances <= limits + 1e-12))


@pytest.fixture(scope="module")
def fitted():
    metric = Counted()
    index = MetricIndex(metric, n_components=8).fit(points(500))
    return index, metric


def test_ten_nearest_take_a_fraction_of_all_calls(fitted):
    index, metric = fitted
    assert metric.calls == index.n_calls_ <= 150 * 500
    queries = points(40, seed=1)
    before = metric.calls
    ids, distances, calls = index.query(queries)
    assert metric.calls - before == calls.sum()
    assert calls.mean() < 150
    assert recall(distances, true_limits(queries, points(500))) >= 0.97
    own = Counted()
    assert distances[3, 4] == own(queries[3], index.objects_[ids[3, 4]])
    assert (np.diff(distances, axis=1) >= 0).all()


def test_higher_recall_takes_more_calls_and_held_out_objects_foretell_both(
    fitted,
):
    index, _ = fitted
    queries = points(40, seed=1)
    limits = true_limits(queries, points(500))
    _, normal, calls = index.query(queries)
    _, high, more = index.query(queries, recall=1.0)
    assert more.sum() >= calls.sum()
    assert recall(high, limits) >= recall(normal, limits)
    promised_calls, promised, _ = index.tradeoff_[-1]
    assert promised_calls >= index.tradeoff_[0, 0]
    assert abs(recall(high, limits) - promised) < 0.03
    assert "recall@10" in index.summary_


def test_a_query_far_from_all_objects_takes_more_calls_and_finds_its_nearest(
    fitted,
):
    index, _ = fitted
    near = points(20, seed=1)
    far = [x + 8 for x in near]
    _, _, calls = index.query(near, recall=1.0)
    _, distances, more = index.query(far, recall=1.0)
    assert more.mean() > 2 * calls.mean()
    assert recall(distances, true_limits(far, points(500))) == 1


@pytest.mark.parametrize("k", [1, 3, 30])
def test_the_promise_is_kept_for_fewer_and_for_more_than_ten(k):
    # In many directions, where the nearest of all is not found first.
    rng = np.random.default_rng(0)
    every = rng.normal(size=(1000, 12)) @ rng.normal(size=(12, 20))
    objects = list(every[:800])
    queries = list(every[800:])

    def metric(a, b):
        return float(np.abs(a - b).sum())

    index = MetricIndex(metric, n_components=8).fit(objects)
    limits = np.sort(cdist(queries, objects, "cityblock"))[:, k - 1 : k]
    _, distances, calls = index.query(queries, k=k)
    promised, error = index.tradeoff_[index._level("normal"), 1:]
    assert distances.shape == (200, k)
    assert recall(distances, limits) >= promised - error
    if k < 10:
        np.testing.assert_array_equal(calls, index.query(queries)[2])


def test_calls_are_limited(fitted):
    index, _ = fitted
    ids, _, calls = index.query(points(5, seed=2), k=3, max_calls=20)
    assert ids.shape == (5, 3)
    assert (calls <= 20).all()
    with pytest.raises(InputError, match="at most 20"):
        index.query(points(1), k=21, max_calls=20)
    with pytest.raises(InputError, match="recall='best'"):
        index.query(points(1), recall="best")
    with pytest.raises(InputError, match=r"one object.*pass \['word'\]"):
        index.query("word")
    for call in (index.query, index.add):
        with pytest.raises(InputError, match="no objects"):
            call([])


def test_more_neighbours_than_a_search_asks_for_are_found_by_more_calls():
    words = six_letters()
    index = MetricIndex(letters, 4).fit(words)
    ids, distances, calls = index.query(["abcdab"], k=len(words))
    assert sorted(ids[0]) == list(range(len(words)))
    assert calls == [len(words)]
    assert (np.diff(distances) >= 0).all()


def test_words_that_mean_nothing_are_refused(fitted):
    index, _ = fitted
    with pytest.raises(InputError, match="mode='length' must be 'distance'"):
        index.kneighbors_graph(mode="length")
    with pytest.raises(InputError, match="recall=None"):
        index.query(points(1), recall=None)
    with pytest.raises(InputError, match=r"one object.*pass \[5\]"):
        index.remove(5)


@pytest.mark.parametrize("kind", [np.asarray, list, tuple])
def test_one_row_of_numbers_is_no_list_of_queries(kind):
    rows = [kind(row) for row in points(40)]

    def city_block(a, b):
        return float(np.abs(np.asarray(a) - np.asarray(b)).sum())

    index = MetricIndex(city_block, 4).fit(rows)
    for call in (index.query, index.add, index.kneighbors_graph):
        with pytest.raises(InputError, match="is one row of numbers"):
            call(rows[3])
    assert index.query(rows[3:4], k=1)[0] == [[3]]


def same_parts(a, b):
    return sum(x != y for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (np.random.default_rng(0).random((60, 9)) < 0.5, "row of numbers"),
        ([list(word) for word in six_letters()], "row of text"),
        ([tuple(word) for word in six_letters()], "row of text"),
        ([pd.Series(x) for x in np.eye(40)], "row of numbers"),
    ],
    ids=["booleans", "lists", "tuples", "series"],
)
def test_one_object_with_parts_is_no_list_of_queries(objects, message):
    index = MetricIndex(same_parts, 4).fit(objects)
    with pytest.raises(
        InputError, match=f"one {message}.*pass it as .row"
    ) as (refusal):
        index.query(objects[3])
    assert "\n" not in str(refusal.value)
    assert index.query([objects[3]], k=1)[1] == [[0]]


def test_a_number_in_an_array_is_no_list_of_objects(fitted):
    index, _ = fitted
    for call in (index.query, index.fit):
        with pytest.raises(InputError, match=r"array\(3.\) is one object"):
            call(np.array(3.0))


def test_ids_are_not_taken_for_targets():
    words = six_letters()
    with pytest.raises(InputError, match="pass ids by name, as ids"):
        MetricIndex(letters, 4).fit(words, words)
    assert MetricIndex(letters, 4).fit(words, None).ids_[-1] == len(words) - 1


def test_ids_stay_whole_up_to_the_largest_of_64_bits():
    words = six_letters()
    start = 2**63 - len(words)
    ids = [start + i for i in range(len(words))]
    index = MetricIndex(letters, 4).fit(words, ids=ids)
    with pytest.raises(InputError, match="beyond 9223372036854775807; pass"):
        index.add(["dddddd"])
    with pytest.raises(InputError, match=f"id {2**63} is above .* pass text"):
        index.add(["dddddd"], ids=[2**63])
    index.add(["dddddd"], ids=[5])
    assert index.ids_.tolist() == [*ids, 5]


@pytest.mark.parametrize("value", ["no", 1, None])
def test_directed_is_true_or_false(value):
    with pytest.raises(InputError, match=r"directed=.* must be True or False"):
        MetricIndex(letters, 4, directed=value).fit(six_letters())


@pytest.mark.parametrize("count", [0, -1, 2.5, None, True])
@pytest.mark.parametrize("is_given", [False, True])
def test_a_number_of_neighbours_is_a_count(fitted, count, is_given):
    index, _ = fitted
    X = points(2) if is_given else None
    with pytest.raises(InputError, match=r"n_neighbors=.* must be a whole"):
        index.kneighbors_graph(X, n_neighbors=count)


@pytest.mark.parametrize("value", [10**400, Fraction(10**400)])
def test_a_distance_beyond_the_range_of_floats_is_refused(value):
    def metric(a, b):
        return value if a != b else 0

    with pytest.raises(
        InputError, match=r"gives a number beyond .* floats, for '.*' and '"
    ):
        MetricIndex(metric, 4).fit(six_letters())


def test_objects_passed_to_load_are_a_list(tmp_path):
    path = tmp_path / "index.npz"
    words = six_letters()
    MetricIndex(letters, 4).fit(words).save(path)
    for objects in (5, "a" * len(words), set(words)):
        with pytest.raises(InputError, match=r"is one object|are of type set"):
            MetricIndex.load(path, letters, objects)


def test_numbers_are_queries_where_objects_are_numbers():
    numbers = np.random.default_rng(0).normal(size=40)
    index = MetricIndex(lambda a, b: abs(a - b), 2).fit(numbers)
    assert index.query(numbers[3:5], k=1)[0].tolist() == [[3], [4]]


@pytest.mark.parametrize(
    "call",
    [
        lambda index: index.query(["a"]),
        lambda index: index.query_vector("a"),
        lambda index: index.coordinates_,
        lambda index: index.signs_,
    ],
)
def test_an_index_that_was_not_fitted_says_so(call):
    with pytest.raises(NotFittedError, match="MetricIndex instance is not fi"):
        call(MetricIndex(letters))


def test_quick_rounds_show_no_progress(capfd):
    index = MetricIndex(letters, 4, verbose=1).fit(six_letters())
    index.query(["abcdab"])
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda i, word: (word, i),
        lambda i, word: [*word, i],
        lambda i, word: tuple(map(ord, word)),
        lambda i, word: [ord(word[0]), float(i)],
        lambda i, word: i + (0.5 if i % 2 else 0),
        lambda i, word: np.array(i, dtype=f"i{2 + 2 * (i % 2)}"),
    ],
    ids=["pair", "list", "ranking", "mixed", "number", "dtypes"],
)
def test_objects_that_an_array_would_change_are_no_part_of_a_file(
    tmp_path, change
):
    objects = [change(i, word) for i, word in enumerate(six_letters())]

    def of_repr(a, b):
        return sum(
            x != y
            for x, y in itertools.zip_longest(repr(a), repr(b), fillvalue="")
        )

    index = MetricIndex(of_repr, 4).fit(objects)
    with pytest.warns(NeucmdsWarning, match="pass objects to load"):
        index.save(tmp_path / "words.npz")
    with pytest.raises(InputError, match="holds no objects"):
        MetricIndex.load(tmp_path / "words.npz", of_repr)


@pytest.mark.parametrize(
    "objects",
    [
        six_letters(),
        [word + "\0" * (i == 7) for i, word in enumerate(six_letters())],
        ["é\ud800" * i for i in range(40)],
        [np.str_(word) for word in six_letters()],
        list(range(40)),
        list(np.arange(40.0)),
        [[float(i), i / 7] for i in range(40)],
        [[[i, i + 1]] for i in range(40)],
        list(np.random.default_rng(0).normal(size=(40, 2, 3))),
        list(np.eye(40, dtype=bool)),
    ],
    ids=[
        "text",
        "zero",
        "other",
        "numpy_text",
        "int",
        "float64",
        "lists",
        "deep",
        "arrays",
        "bool",
    ],
)
def test_objects_come_back_from_a_file_as_they_were(tmp_path, objects):
    def distance(a, b):
        if isinstance(a, str):
            return letters(a.ljust(99), b.ljust(99))
        return float(np.abs(np.subtract(a, b, dtype=float)).sum())

    index = MetricIndex(distance, 2).fit(objects)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.save(tmp_path / "index.npz")
    loaded = MetricIndex.load(tmp_path / "index.npz", distance).objects_
    assert [type(x) for x in loaded] == [type(x) for x in objects]
    assert repr(loaded) == repr(index.objects_)


def test_a_query_does_not_depend_on_the_others(fitted):
    index, _ = fitted
    queries = points(6, seed=3)
    together, _, _ = index.query(queries)
    alone, _, _ = index.query(queries[2:3])
    np.testing.assert_array_equal(together[2], alone[0])


def test_added_objects_are_found_as_if_they_had_been_fitted():
    objects = points(320)
    whole = MetricIndex(Counted(), n_components=8).fit(objects)
    grown = MetricIndex(Counted(), n_components=8).fit(objects[:240])
    grown.add(objects[240:])
    queries = points(60, seed=1)
    limits = true_limits(queries, objects)
    recalls = [
        recall(index.query(queries)[1], limits) for index in (whole, grown)
    ]
    assert recalls[1] >= recalls[0] - 0.01
    np.testing.assert_array_equal(grown.ids_, np.arange(320))
    near = grown.kneighbors_graph(n_neighbors=10).data.reshape(320, 10)
    assert recall(near[240:], true_limits(objects[240:], objects, 11)) >= 0.95


def test_add_says_when_a_refit_is_due():
    index = MetricIndex(Counted(), n_components=4).fit(points(60))
    other = [10 * x + 50 for x in points(61, seed=5)]
    with pytest.warns(NeucmdsWarning, match="refit is due: 61 objects"):
        index.add(other)


def test_removed_objects_do_not_count_as_added():
    index = MetricIndex(Counted(), n_components=4).fit(points(60))
    index.remove(np.arange(30))
    with pytest.warns(NeucmdsWarning, match="refit is due: 31 objects .* 30"):
        index.add([10 * x + 50 for x in points(31, seed=5)])


def test_ids_of_ones_own_name_objects_and_removed_ones_are_not_found():
    objects = points(120)
    names = [f"object {i}" for i in range(120)]
    index = MetricIndex(Counted(), n_components=4).fit(objects, ids=names)
    ids, distances, _ = index.query(objects[7:8], k=2)
    assert ids[0, 0] == "object 7"
    assert distances[0, 0] == 0
    index.remove(["object 7", "object 9"])
    later, _, _ = index.query(objects[7:8], k=2)
    assert later[0, 0] == ids[0, 1]
    assert len(index.objects_) == 118
    index.add(objects[7:8], ids=["again"])
    again, _, _ = index.query(objects[7:8], k=2)
    assert again[0, 0] == "again"
    with pytest.raises(InputError, match=r"no object .*object 7"):
        index.remove(["object 7"])
    with pytest.raises(InputError, match="twice"):
        index.add(objects[:1], ids=["object 3"])


def test_an_index_saved_by_a_process_answers_in_another(tmp_path):
    words = [a + b + c for a in "bcdfgh" for b in "aeiou" for c in "lmnrst"]

    index = MetricIndex(letters, n_components=6).fit(words)
    path = tmp_path / "words.npz"
    index.save(path)
    ids, distances, calls = index.query(["bat", "zot"], k=4)
    code = f"""
from neucmds import MetricIndex
def letters(a, b):
    return sum(x != y for x, y in zip(a, b))
index = MetricIndex.load({str(path)!r}, letters)
for part in index.query(["bat", "zot"], k=4):
    print(part.tolist())
"""
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert out == [str(part.tolist()) for part in (ids, distances, calls)]


def letters(a, b):
    return sum(x != y for x, y in zip(a, b, strict=True))


def test_one_long_text_takes_its_own_length_in_a_file(tmp_path):
    path = tmp_path / "index.npz"
    words = [*six_letters(), "a" * 10**5]
    index = MetricIndex(lambda a, b: letters(a[:6], b[:6]), 4).fit(words)
    index.save(path)
    assert path.stat().st_size < 4e5
    assert MetricIndex.load(path, letters).objects_ == words
    # An array of text, as it was written before.
    with np.load(path) as file:
        arrays = {x: file[x] for x in file.files if x not in ("text", "ends")}
    np.savez(path, **arrays, objects=np.array(words))
    assert MetricIndex.load(path, letters).objects_ == words


def test_objects_that_are_no_arrays_are_given_again_to_load(tmp_path):
    objects = [frozenset({i, i % 7, i % 11}) for i in range(60)]

    def jaccard(a, b):
        return 1 - len(a & b) / len(a | b)

    index = MetricIndex(jaccard, n_components=4).fit(objects)
    path = tmp_path / "sets.npz"
    with pytest.warns(NeucmdsWarning, match="holds no objects"):
        index.save(path)
    with pytest.raises(InputError, match="holds no objects"):
        MetricIndex.load(path, jaccard)
    with pytest.raises(InputError, match="60 objects, not of 2"):
        MetricIndex.load(path, jaccard, objects[:2])
    loaded = MetricIndex.load(path, jaccard, objects)
    for a, b in zip(
        loaded.query(objects[:3]), index.query(objects[:3]), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    (tmp_path / "no.npz").write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match="not an index saved"):
        MetricIndex.load(tmp_path / "no.npz", jaccard)


SLOW = """
import sys, time
import numpy as np
from neucmds import MetricIndex
x = list(np.random.default_rng(0).normal(size=(100, 3)))
def slow(a, b):
    time.sleep(0.005)
    return float(np.abs(a - b).sum())
MetricIndex(slow, n_components=4, calls_file=sys.argv[1]).fit(x)
"""


def test_a_killed_fit_goes_on_from_its_calls(tmp_path, all_starts):
    path = tmp_path / "calls"
    objects = list(np.random.default_rng(0).normal(size=(100, 3)))
    made = []

    def blocks(a, b):
        made.append((a, b))
        return float(np.abs(a - b).sum())

    fresh = MetricIndex(blocks, n_components=4).fit(objects)
    needed = len(made)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SLOW, str(path)]
    )
    deadline = time.monotonic() + 60
    while not (path.exists() and path.stat().st_size > 24 * 250):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = path.stat().st_size // 24 - 1
    # What a writer that was killed may leave.
    with path.open("ab") as file:
        file.write(b"half")
    made.clear()
    resumed = MetricIndex(blocks, n_components=4, calls_file=path)
    resumed.fit(objects)
    # It was written every second: 200 calls take one.
    assert 250 <= kept < 1000 < needed
    # Eight of these are called again, to see that it is the same function, and a few objects with
    # themselves by each fit.
    assert needed - kept < len(made) <= needed - kept + 8
    np.testing.assert_array_equal(resumed.coordinates_, fresh.coordinates_)


def test_a_file_of_calls_is_for_its_objects_alone(tmp_path):
    path = tmp_path / "calls"
    metric = Counted()
    index = MetricIndex(metric, n_components=4, calls_file=path)
    index.fit(points(60))
    made = metric.calls
    index.fit(points(60))
    # To see that it is the same function, and a distance, and to time it.
    assert index.n_calls_ == metric.calls - made <= 24
    with pytest.raises(InputError, match="calls of other objects"):
        index.fit(points(60, seed=1))


@pytest.mark.parametrize("size", [0, 1, 23])
def test_a_file_of_calls_that_was_just_begun_is_begun_again(tmp_path, size):
    path = tmp_path / "calls"
    index = MetricIndex(letters, 4, calls_file=path)
    index.fit(six_letters())
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    index.fit(six_letters())
    assert path.read_bytes() == whole
    path.write_bytes(b"notes")
    with pytest.raises(InputError, match="calls of other objects"):
        index.fit(six_letters())
    assert path.read_bytes() == b"notes"


def test_a_file_of_calls_is_where_a_file_can_be(tmp_path):
    for path, message in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "calls", "folder .* does not exist"),
        (5, "a path is expected"),
    ):
        with pytest.raises(InputError, match=message):
            MetricIndex(letters, 4, calls_file=path).fit(six_letters())


@pytest.mark.parametrize("failing_mode", ["r+b", "ab"])
def test_errors_of_the_file_system_name_the_file_of_calls(
    tmp_path, monkeypatch, failing_mode
):
    index = MetricIndex(letters, 4, calls_file=tmp_path / "calls")
    as_usual = Path.open
    problem = PermissionError(13, "Permission denied")

    def failing(self, mode="r", *args, **kwargs):
        if self.name == "calls" and mode == failing_mode:
            raise problem
        return as_usual(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", failing)
    with pytest.raises(InputError, match="calls: permission denied; pass ano"):
        index.fit(six_letters())
    problem = OSError(28, "No space left on device")
    with pytest.raises(OSError, match=r"No space left .*calls'"):
        index.fit(six_letters())


@pytest.mark.parametrize("n_jobs", [0, "a", 1.5, True])
def test_a_number_of_processes_is_not_zero(n_jobs):
    with pytest.raises(
        InputError, match=r"n_jobs=.* must be a positive integer"
    ):
        MetricIndex(letters, 4, n_jobs=n_jobs).fit(six_letters())


def test_a_file_of_calls_is_for_equal_objects_be_they_shared_or_not(tmp_path):
    def gap(a, b):
        return abs(a[0] - b[0])

    shared = (1, 5)
    path = tmp_path / "calls"
    others = [(i, 5) for i in range(40)]
    index = MetricIndex(gap, 2, calls_file=path)
    index.fit([shared, *others, shared])
    index.fit([(1, 5), *others, (*shared[:1], 5)])
    assert index.n_calls_ <= 24


FROZEN = """
import sys
from neucmds import MetricIndex
sets = [frozenset((f"w{i}", f"v{i % 7}", f"u{i % 11}")) for i in range(60)]
if sys.argv[2] == "nested":
    sets = [(x, frozenset((x, frozenset("ab"), "c"))) for x in sets]
def jaccard(a, b):
    global calls
    calls += 1
    if sys.argv[2] == "nested":
        a = a[0]
        b = b[0]
    return 1 - len(a & b) / len(a | b)
calls = 0
MetricIndex(jaccard, 2, calls_file=sys.argv[1]).fit(sets)
print(calls)
"""


@pytest.mark.parametrize("kind", ["plain", "nested"])
def test_a_file_of_calls_serves_sets_in_another_process(
    tmp_path, monkeypatch, kind
):
    calls = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        command = [sys.executable, "-W", "ignore", "-c", FROZEN]
        out = subprocess.run(
            [*command, tmp_path / "calls", kind],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        calls.append(int(out))
    assert calls[0] > 500
    assert calls[1] <= 24


def test_a_file_of_calls_is_for_its_function_alone(tmp_path):
    path = tmp_path / "calls"
    MetricIndex(letters, 4, calls_file=path).fit(six_letters())
    before = path.read_bytes()

    def first(a, b):
        return abs(ord(a[0]) - ord(b[0]))

    def rounded(a, b):
        return letters(a, b) * (1 + 1e-7)

    with pytest.raises(InputError, match=r"gives .* has .*, for ") as refusal:
        MetricIndex(first, 4, calls_file=path).fit(six_letters())
    assert f"where {path} has" in str(refusal.value)
    assert "pass another file as calls_file" in str(refusal.value)
    names = re.findall("'([abcd]{6})'", str(refusal.value))
    values = re.findall(r"(?:gives|has) ([\d.]+)", str(refusal.value))
    assert float(values[0]) == first(*names)
    assert float(values[1]) == letters(*names)
    assert path.read_bytes() == before
    index = MetricIndex(rounded, 4, calls_file=path).fit(six_letters())
    assert index.n_calls_ <= 24


def test_objects_that_a_file_of_calls_cannot_tell_apart_are_refused(tmp_path):
    objects = [(i, threading.Lock()) for i in range(60)]

    def metric(a, b):
        return abs(a[0] - b[0])

    index = MetricIndex(metric, 2, calls_file=tmp_path / "calls")
    with pytest.raises(InputError, match="calls_file needs objects that can"):
        index.fit(objects)
    assert MetricIndex(metric, 2).fit(objects).query([(7, None)])[1][0, 0] == 0


@pytest.mark.parametrize("call", ["query", "add", "fit"])
@pytest.mark.parametrize("count", [1, 400, 900])
def test_an_interrupted_call_leaves_the_index_as_it_was(call, count):
    objects = points(150)
    index = MetricIndex(Counted(), n_components=4).fit(objects[:100])
    queries = points(20, seed=1)
    before = index.query(queries)
    calls = itertools.count(1)

    def interrupted(a, b):
        if next(calls) == count:
            raise KeyboardInterrupt
        return Counted()(a, b)

    index.metric = interrupted
    with pytest.raises(KeyboardInterrupt):
        getattr(index, call)(objects[100:])
    index.metric = Counted()
    for a, b in zip(before, index.query(queries), strict=True):
        np.testing.assert_array_equal(a, b)
    index.add(objects[100:])
    assert index.query(objects[149:], k=1)[0] == [[149]]


def test_the_promise_is_kept_where_few_queries_miss_many():
    # Sixty groups: a query that is placed in another finds none of its nearest.
    rng = np.random.default_rng(0)
    centres = np.repeat(rng.normal(size=(60, 6)), 20, axis=0)
    every = centres + 0.2 * rng.normal(size=centres.shape)
    every = list(rng.permutation(every))
    objects = every[:1000]
    queries = every[1000:]

    def metric(a, b):
        return float(np.abs(a - b).sum())

    index = MetricIndex(metric, n_components=4).fit(objects)
    limits = np.sort(cdist(queries, objects, "cityblock"))[:, 9:10]
    for word, target in (("normal", 0.99), ("high", 0.997)):
        reached = recall(index.query(queries, recall=word)[1], limits)
        assert reached >= target - 0.01
        _, promised, error = index.tradeoff_[index._level(word)]
        assert error <= 0.02
        assert abs(reached - promised) <= error
        assert f"{promised:.3f} at" in index.summary_
        assert f"(standard error {error:.3f})" in index.summary_
    assert "100 objects that were held out" in index.summary_


def test_perfect_recall_of_few_objects_is_no_certainty():
    index = MetricIndex(letters, 4).fit(six_letters())
    m = -(-len(six_letters()) // 10)
    assert index.tradeoff_[-1, 1] == 1
    assert index.tradeoff_[-1, 2] == 1 / m


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"gives nan, for 'x\d+' and 'x\d+'"),
        (-1.0, r"gives -1, for 'x\d+' and 'x\d+'"),
        (None, r"gives None, for 'x\d+' and 'x\d+'"),
        ("1.5", r"gives '1\.5', for 'x\d+' and 'x\d+'"),
        (np.complex128(1 + 2j), r"gives .*1\+2j.*, for 'x\d+' and 'x\d+'"),
        (np.ones(2), r"gives array\(\[1., 1.\]\), for 'x\d+' and 'x\d+'"),
    ],
)
def test_a_bad_distance_is_one_line_that_names_the_two_objects(value, message):
    def metric(a, b):
        if "x7" in (a, b):
            return value
        return abs(len(a) - len(b)) + (a != b)

    objects = [f"x{i}" for i in range(40)]
    with pytest.raises(InputError, match=message) as refusal:
        MetricIndex(metric, n_components=2).fit(objects)
    assert "'x7'" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("factor", [1.0, 1e-20])
def test_less_than_zero_by_rounding_is_zero(tmp_path, factor):
    rng = np.random.default_rng(0)
    objects = rng.normal(size=(200, 16)).astype(np.float32)
    # Of every object an equal one, so that many pairs are below 0.
    objects = np.repeat(objects, 2, axis=0)
    objects /= np.linalg.norm(objects, axis=1, keepdims=True)
    values = []

    def cosine(a, b):
        values.append(factor * float(1 - a @ b))
        return values[-1]

    path = tmp_path / "calls"
    index = MetricIndex(cosine, 8, calls_file=path).fit(objects)
    assert -1e-6 * factor < min(values) < 0
    _, distances, _ = index.query(objects, k=2)
    assert distances.min() == 0
    assert np.mean(distances < 1e-6 * factor) > 0.95
    again = MetricIndex(cosine, 8, calls_file=path).fit(objects)
    np.testing.assert_array_equal(index.coordinates_, again.coordinates_)

    def similarity(a, b):
        return factor * float(a @ b)

    index.metric = similarity
    with pytest.raises(InputError, match=r"gives -.*, for .* from 0 to"):
        index.query(-objects[:1])
    with pytest.raises(InputError, match=r"gives -.*, for .* from 0 to"):
        MetricIndex(similarity, 8).fit(objects)


def test_it_is_said_when_a_linear_scan_is_cheaper():
    with pytest.warns(NeucmdsWarning, match="linear scan is cheaper: a query"):
        MetricIndex(Counted(), n_components=4).fit(points(60))


def test_it_is_said_when_a_linear_scan_is_cheaper_for_one_query_alone(
    monkeypatch,
):
    # Some 70 calls: a query takes 0.7 ms beyond them, and 7 ms alone; a scan 2.2 ms.
    monkeypatch.setattr(
        "neucmds.index.answers.Answers.seconds_per_call", lambda _: 5e-6
    )
    monkeypatch.setattr(
        "neucmds.index.measuring.HeldOut.seconds_beyond_calls",
        lambda _, count, effort: 1e-5 + 9e-5 * (count == 1),
    )
    with pytest.warns(
        NeucmdsWarning,
        match="linear scan is cheaper for a query alone.*pass many at a time",
    ):
        MetricIndex(Counted(), 8).fit(points(500))


def test_the_summary_tells_the_time_of_a_query_alone(fitted):
    index, _ = fitted
    alone, together = re.search(
        r"beyond its calls ([\d.]+) ms alone, ([\d.]+) ms among 50",
        index.summary_,
    ).groups()
    assert float(alone) > float(together)


def test_it_is_said_that_a_scan_is_cheaper_if_all_calls_are_in_a_file(
    tmp_path,
):
    index = MetricIndex(Counted(), 4, calls_file=tmp_path / "calls")
    for _ in range(2):
        with pytest.warns(NeucmdsWarning, match="linear scan is cheaper"):
            index.fit(points(300))
    assert index.n_calls_ < 30


def test_it_is_said_when_coordinates_do_not_hold_the_data():
    rng = np.random.default_rng(0)
    d = rng.uniform(1, 2, size=(150, 150))
    d = d + d.T

    def noise(a, b):
        return d[a, b] * (a != b)

    with pytest.warns(NeucmdsWarning, match="4 coordinates do not hold"):
        MetricIndex(noise, n_components=4).fit(range(150))


def test_queries_that_ask_for_most_objects_take_little_memory():
    n = 300
    d = np.random.default_rng(0).uniform(1, 2, size=(2 * n, 2 * n))
    index = MetricIndex(lambda a, b: d[min(a, b), max(a, b)] * (a != b), 4)
    index.fit(range(n))
    tracemalloc.start()
    _, _, calls = index.query(range(n, 2 * n))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 202 bytes when every query kept what all of its round had asked.
    assert peak / calls.sum() < 150


def test_it_is_said_when_normal_recall_is_hardly_reached():
    # Groups that four coordinates do not tell apart. Objects of a group are nearly tied, so
    # rounding decides what is found: three draws, of which some end below 0.975.
    rng = np.random.default_rng(0)
    centres = np.repeat(rng.normal(size=(60, 6)), 16, axis=0)

    def metric(a, b):
        return float(np.abs(a - b).sum())

    sums = []
    for width in (0.02, 0.05, 0.1):
        noise = width * rng.normal(size=centres.shape)
        objects = rng.permutation(centres + noise)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            index = MetricIndex(metric, n_components=4).fit(list(objects))
        calls, reached, error = index.tradeoff_[index._level("normal")]
        words = (
            f"is {reached:.3f} (standard error {error:.3f}) at {calls:.0f} of"
        )
        is_said = any(words in str(one.message) for one in said)
        assert calls < 450
        assert is_said == (reached + error < 0.975)
        sums.append(reached + error)
    assert min(sums) < 0.975


def test_the_recall_of_vectors_is_that_of_queries_that_it_places():
    rng = np.random.default_rng(0)
    every = rng.normal(size=(1700, 12)) @ rng.normal(size=(12, 20))
    objects = list(every[:1500])

    def metric(a, b):
        return float(np.abs(a - b).sum())

    index = MetricIndex(metric, n_components=16).fit(objects)
    promised = float(
        re.search(r"alone: recall@10 ([\d.]+);", index.summary_)[1]
    )
    limits = np.sort(cdist(every[1500:], objects, "cityblock"))[:, 9]
    vectors = index.vectors()
    shares = []
    for x, limit in zip(every[1500:], limits, strict=True):
        best = np.argsort(-vectors @ index.query_vector(x))[:10]
        shares.append(np.mean([metric(x, objects[i]) <= limit for i in best]))
    assert abs(np.mean(shares) - promised) < 0.03


def test_vectors_rank_objects_by_inner_product(fitted):
    index, _ = fitted
    query = points(1, seed=4)[0]
    scores = index.vectors() @ index.query_vector(query)
    ids, _, _ = index.query([query])
    best = np.argsort(-scores)[:50]
    assert len(set(best) & set(ids[0])) >= 9
    unit = index.vectors(unit=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1)
    assert unit.shape[1] == index.query_vector(query, unit=True).size


def test_statements_for_pgvector_hold_every_vector(fitted):
    index, _ = fitted
    statements = list(index.pgvector("things"))
    assert statements[1].startswith('CREATE TABLE "things" (id text')
    assert len(statements) == 2 + 500
    numbers = statements[2].split("[")[1].split("]")[0]
    np.testing.assert_allclose(
        np.array(numbers.split(","), dtype=float),
        index.vectors()[0],
        rtol=1e-6,
    )


def test_the_graph_of_neighbours_serves_estimators_that_take_it_precomputed(
    fitted,
):
    index, metric = fitted
    before = metric.calls
    graph = index.kneighbors_graph(n_neighbors=10)
    assert metric.calls == before
    assert graph.shape == (500, 500)
    assert graph.diagonal().sum() == 0
    limits = true_limits(index.objects_[:50], index.objects_, 11)
    near = graph.data.reshape(500, 10)[:50]
    assert recall(near, limits) >= 0.95
    groups = [x + shift for shift in (0, 100) for x in points(60)]
    pipeline = make_pipeline(
        KNeighborsGraph(MetricIndex(Counted(), 4), n_neighbors=6),
        DBSCAN(eps=20, metric="precomputed", min_samples=3),
    )
    labels = pipeline.fit_predict(groups)
    assert set(labels[:60]).isdisjoint(labels[60:])
    new = index.kneighbors_graph(points(2, seed=8), 3)
    assert new.shape == (2, 500)
    assert new.nnz == 6


@pytest.mark.parametrize("n_components", [2, 8])
def test_the_summary_tells_the_recall_of_the_known_graph(n_components):
    objects = points(1000)
    index = MetricIndex(Counted(), n_components).fit(objects)
    numbers = re.search(
        r"kneighbors_graph\(\) without calls: recall@10 (\d\.\d{3}) \(standard error "
        r"(\d\.\d{3}), 25 objects\)",
        index.summary_,
    )
    promised, error = map(float, numbers.groups())
    near = index.kneighbors_graph().data.reshape(1000, 10)[::4]
    true = recall(near, true_limits(objects[::4], objects, 11))
    assert abs(promised - true) <= 3 * error + 0.01
    # By calls.
    searched = index.kneighbors_graph(objects[::4], 11)
    searched = searched.data.reshape(250, 11)[:, 1:]
    assert recall(searched, true_limits(objects[::4], objects, 11)) >= true


def test_neighbours_that_are_held_out_together_are_known(fitted):
    index, _ = fitted
    near = index.kneighbors_graph().data.reshape(500, 10)
    # 0.989 if objects held out are compared with the others alone.
    limits = true_limits(index.objects_, index.objects_, 11)
    assert recall(near, limits) >= 0.995


def test_files_of_an_index_and_of_an_embedding_are_told_apart(
    fitted, tmp_path
):
    index, _ = fitted
    index.save(tmp_path / "index.npz")
    with pytest.raises(InputError, match="an index, not an embedding"):
        Embedding.load(tmp_path / "index.npz")
    objects = points(20)
    emb = neuc_mds(objects, 2, metric="euclidean")
    emb.save(tmp_path / "emb.npz")
    with pytest.raises(InputError, match="an embedding, not an index"):
        MetricIndex.load(tmp_path / "emb.npz", index.metric)


def test_an_embedding_becomes_an_index():
    objects = points(200)
    metric = Counted()
    emb = neuc_mds(objects, 8, metric=metric, loss="relative")
    index = MetricIndex.from_embedding(emb, objects, metric)
    queries = points(20, seed=1)
    _, distances, calls = index.query(queries)
    assert recall(distances, true_limits(queries, objects)) >= 0.95
    assert calls.mean() < 150
    with pytest.raises(InputError, match="the embedding has 200"):
        MetricIndex.from_embedding(emb, objects[:3], metric)
    # Only objects that were held out were compared with those near them.
    with pytest.raises(InputError, match=r"kneighbors_graph\(index.objects_"):
        index.kneighbors_graph(n_neighbors=5)
    graph = index.kneighbors_graph(objects, 5)
    assert (
        recall(graph.data.reshape(200, 5), true_limits(objects, objects, 5))
        > 0.95
    )


def test_an_index_of_an_embedding_has_its_labels_or_ids_and_a_file_of_calls(
    tmp_path,
):
    words = six_letters()
    emb = neuc_mds(words, 4, metric=letters, loss="relative")
    path = tmp_path / "calls"
    index = MetricIndex.from_embedding(emb, words, letters, calls_file=path)
    assert index.ids_.tolist() == words
    made = index.n_calls_
    assert path.stat().st_size > 24 * 0.9 * made
    again = MetricIndex.from_embedding(
        emb, words, letters, calls_file=path, ids=range(7, 7 + len(words))
    )
    assert again.n_calls_ < made / 4
    assert again.query(words[3:4], k=1)[0] == [[10]]
    assert again.add(["zzzzzz"]).ids_[-1] == 7 + len(words)
    with pytest.raises(InputError, match="ids has shape"):
        MetricIndex.from_embedding(emb, words, letters, ids=["a"])


def test_it_is_an_estimator():
    index = MetricIndex(letters, n_components=5, random_state=3)
    copy = clone(index)
    assert copy.get_params() == index.get_params()
    assert copy.set_params(n_components=7).n_components == 7
    with pytest.raises(InputError, match="too few for 5 coordinates"):
        index.fit(["a", "b"])


def test_progress_is_told():
    steps = []
    MetricIndex(Counted(), 4, callback=lambda *step: steps.append(step)).fit(
        points(60)
    )
    assert steps
    assert steps[-1][2] == "calls of the metric"


class Noted:
    """A slow distance that leaves a file per process which calls it."""

    def __init__(self, folder, seconds):
        self.folder = folder
        self.seconds = seconds

    def __call__(self, a, b):
        (self.folder / str(os.getpid())).touch()
        time.sleep(self.seconds)
        return letters(a, b)

    def processes(self):
        files = list(self.folder.iterdir())
        for file in files:
            file.unlink()
        return len(files)


@pytest.mark.parametrize("is_said_around", [False, True])
def test_processes_call_a_slow_function_and_give_the_same_answer(
    tmp_path, is_said_around
):
    metric = Noted(tmp_path, 0.005)
    words = six_letters()
    alone = MetricIndex(letters, 4).fit(words)
    index = MetricIndex(metric, 4)
    if not is_said_around:
        index.n_jobs = 2
    with joblib.parallel_config(n_jobs=2 if is_said_around else None):
        index.fit(words)
        # The first calls, which time the function, and the two processes.
        assert metric.processes() == 3
        # A single query: some 50 calls, 16 in a round.
        index.metric = Noted(tmp_path, 0.05)
        index.query(["abcdab"])
        assert metric.processes() == 3
    np.testing.assert_array_equal(alone.coordinates_, index.coordinates_)


@pytest.mark.parametrize(
    "ids",
    [["x"], [1.5], [True], [None]],
    ids=["text", "float", "bool", "none"],
)
def test_ids_of_another_kind_are_refused(ids):
    index = MetricIndex(letters, 4).fit(six_letters())
    with pytest.raises(InputError, match=r"text for all objects .*, or whole"):
        index.add(["dddddd"], ids=ids)
    with pytest.raises(InputError, match="id 3 is there twice"):
        index.add(["dddddd"], ids=[3])
    with pytest.raises(InputError, match="no object '0' to remove"):
        index.remove(["0"])
    index.remove([0])
    assert 0 not in index.ids_
    index.add(["dddddd"])
    assert index.ids_[-1] == len(six_letters())


def test_the_id_of_a_removed_object_is_not_given_again(tmp_path):
    words = six_letters()
    index = MetricIndex(letters, 4).fit(words)
    index.remove([len(words) - 1])
    index.save(tmp_path / "index.npz")
    index = MetricIndex.load(tmp_path / "index.npz", letters)
    index.add(["dddddd"])
    assert index.ids_[-1] == len(words)
    index.remove(index.ids_[-1:])
    index.add(["dddddd"], ids=[1000])
    index.remove([1000])
    index.add(["dddddd", "cccccc"])
    assert index.ids_[-2:].tolist() == [1001, 1002]


@pytest.mark.parametrize("ids", [[[7]], [True], [1.0], [None]])
def test_what_is_no_id_is_not_removed(ids):
    index = MetricIndex(letters, 4).fit(six_letters())
    with pytest.raises(InputError, match=r"there is no object .* to remove"):
        index.remove(ids)


def test_parameters_that_mean_nothing_are_refused(tmp_path):
    index = MetricIndex(letters, 4).fit(six_letters())
    queries = six_letters()[:2]
    with pytest.raises(InputError, match="recall=True must be"):
        index.query(queries, recall=True)
    index.query(queries, recall=np.float32(0.9))
    for seed in (-1, "a"):
        with pytest.raises(InputError, match=r"random_state=.* cannot seed"):
            MetricIndex(letters, 4, random_state=seed).fit(six_letters())
    index.save(tmp_path / "index.npz")
    with pytest.raises(TypeError, match=r"multiple values .*n_components"):
        MetricIndex.load(tmp_path / "index.npz", letters, n_components=3)


def test_text_beside_numbers_is_refused_by_fit():
    names = [*range(len(six_letters()) - 1), "last"]
    with pytest.raises(InputError, match=r"text for all objects .*, or whole"):
        MetricIndex(letters, 4).fit(six_letters(), ids=names)


def test_objects_that_are_all_equal_are_refused():
    with pytest.raises(InputError, match=r"all distances among .* are 0"):
        MetricIndex(letters, 4).fit(["a"] * 60)


def test_it_is_said_when_most_objects_are_equal():
    objects = np.random.default_rng(0).normal(size=(600, 4))
    objects[:540] = 0
    objects = list(np.random.default_rng(1).permutation(objects))

    def metric(a, b):
        return float(np.abs(a - b).sum())

    with pytest.warns(NeucmdsWarning, match="most objects have 10 others at"):
        MetricIndex(metric, 4).fit(objects)


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (1e-200, r"divide by (6e-200)\."),
        (1e-100, r"divide by (6e-100)\."),
        (1e100, r"gives (\de\+100), .* from 0 to 1e\+45"),
        (1e200, r"gives (\de\+200), .* from 0 to 1e\+45"),
    ],
)
def test_distances_out_of_range_are_refused_with_their_size(factor, message):
    divisor = 1.0

    def scaled(a, b):
        return factor * letters(a, b) / divisor

    index = MetricIndex(scaled, 4)
    with pytest.raises(InputError, match=message) as refusal:
        index.fit(six_letters())
    divisor = float(re.search(message, str(refusal.value))[1])
    assert index.fit(six_letters()).query(["abcdab"])[1][0, 0] <= 1


@pytest.mark.parametrize("value", [1e22, 1e44, 1e100])
def test_one_absurd_value_is_named_with_its_objects(value):
    calls = itertools.count()

    def metric(a, b):
        if next(calls) == 600:
            return value
        return letters(a, b)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            InputError, match=rf"gives {value:.4g}".replace("+", r"\+")
        ) as refusal:
            MetricIndex(metric, 8).fit(six_letters())
    assert len(re.findall("'[abcd]{6}'", str(refusal.value))) == 2


def test_a_query_beyond_the_range_of_floats_is_refused():
    numbers = np.random.default_rng(0).normal(size=60)
    index = MetricIndex(lambda a, b: abs(a - b), 2).fit(numbers)
    with pytest.raises(InputError, match=r"gives 1e\+160, .* to 1e\+45"):
        index.query([1e160])


@pytest.mark.parametrize("kind", [np.float32, np.int8, np.array, Fraction])
def test_numbers_of_every_kind_are_distances(kind):
    index = MetricIndex(lambda a, b: kind(letters(a, b)), 2)
    index.fit(six_letters())
    assert index.query(six_letters()[:1], k=1)[1] == [[0]]


@pytest.mark.parametrize("factor", [1e-44, 1e-30, 1e25, 1e44])
def test_the_unit_of_distances_does_not_matter(factor):
    objects = np.random.default_rng(0).normal(size=(200, 2))

    def scaled(a, b):
        return factor * float(np.hypot(*(a - b)))

    index = MetricIndex(scaled, 2).fit(list(objects))
    ids, _, calls = index.query(list(objects[:20] + 0.01), k=5)
    nearest = np.argsort(cdist(objects[:20] + 0.01, objects), axis=1)[:, :5]
    assert (
        np.mean([len({*a} & {*b}) for a, b in zip(ids, nearest, strict=True)])
        > 4.9
    )
    assert calls.mean() < 100


def in_another_group(a, b):
    return round(a[0]) != round(b[0])


def higher(a, b):
    return (a != b).any() and a[0] > b[0] - 0.5


@pytest.mark.parametrize("are_far", [in_another_group, higher])
def test_no_object_is_found_twice_where_most_are_1e45_apart(are_far):
    objects = 2 * np.random.default_rng(0).normal(size=(400, 8))

    def metric(a, b):
        if are_far(a, b):
            return 1e45
        return float(np.abs(a - b).sum())

    index = MetricIndex(metric, 6, directed=are_far is higher).fit(objects)
    ids, distances, _ = index.query(objects[:40], k=5)
    assert all(len(set(row)) == 5 for row in ids)
    limits = [sorted(metric(a, b) for b in objects)[4] for a in objects[:40]]
    assert np.mean(distances <= np.c_[limits]) > 0.9


@pytest.mark.parametrize("far", [1e15, 1e45])
def test_a_query_far_beyond_all_objects_finds_different_ones(far):
    objects = np.random.default_rng(0).normal(size=(300, 3))

    def metric(a, b):
        return float(np.abs(a - b).max())

    index = MetricIndex(metric, 3).fit(objects)
    ids, _, _ = index.query(far * objects[:5] / 4, k=5)
    assert all(len(set(row)) == 5 for row in ids)


@pytest.mark.parametrize("n_components", [2, 4])
def test_an_outlier_hides_no_object(n_components):
    numbers = [*np.random.default_rng(0).normal(size=200), 1e6]
    index = MetricIndex(lambda a, b: abs(a - b), n_components).fit(numbers)
    _, distances, _ = index.query(numbers[:30], k=5)
    limits = np.sort(cdist(np.c_[numbers[:30]], np.c_[numbers]))[:, 4]
    assert np.mean(distances <= limits[:, None] + 1e-9) > 0.95


def test_an_outlier_of_any_size_leaves_the_others_their_coordinates():
    objects = np.random.default_rng(0).normal(size=(400, 8))
    queries = np.random.default_rng(1).normal(size=(30, 8))
    objects[5] = 1e8

    def metric(a, b):
        return float(np.linalg.norm(a - b))

    index = MetricIndex(metric, 12).fit(objects)
    assert index.signs_.size >= 8
    _, distances, calls = index.query(queries)
    limits = np.sort(cdist(queries, objects))[:, 9:10]
    assert recall(distances, limits) > 0.97
    assert calls.mean() < 100


@pytest.mark.filterwarnings("ignore::neucmds.errors.NeucmdsWarning")
def test_distances_with_heavy_tails_have_an_index():
    sizes = np.exp(3 * np.random.default_rng(0).normal(size=100)).tolist()

    def product(a, b):
        return a * b * (a != b)

    index = MetricIndex(product, 2).fit(sizes)
    _, distances, _ = index.query(sizes[:5], recall=1.0)
    assert (np.diff(distances) >= 0).all()


def test_an_asymmetric_metric_is_refused_with_both_values_and_advice(tmp_path):
    calls = []

    def one_way(a, b):
        calls.append((a, b))
        return letters(a, b) + 0.5 * (a < b)

    path = tmp_path / "calls"
    with pytest.raises(InputError, match="not symmetric: it gives") as refusal:
        MetricIndex(one_way, 4, calls_file=path).fit(six_letters())
    values = re.findall(r"(?:gives|order) ([\d.]+)", str(refusal.value))
    first, second = (float(value) for value in values)
    assert abs(first - second) == 0.5
    assert len(set(calls)) == len(calls)
    assert "pass directed=True" in str(refusal.value)
    with pytest.raises(InputError, match="other value of directed"):
        MetricIndex(one_way, 4, directed=True, calls_file=path).fit(
            six_letters()
        )
    index = MetricIndex(one_way, 4, directed=True).fit(six_letters())
    ids, distances, _ = index.query(["aaaaaa"], k=1)
    assert distances == [[one_way("aaaaaa", index.objects_[ids[0, 0]])]]


@pytest.mark.parametrize("is_directed", [False, True])
def test_a_similarity_is_refused(is_directed):
    def alike(a, b):
        return 6 - letters(a, b)

    index = MetricIndex(alike, 4, directed=is_directed)
    with pytest.raises(
        InputError, match=r"gives 6, for .* 0 for an object"
    ) as refusal:
        index.fit(six_letters())
    first, second = re.findall("'([abcd]{6})'", str(refusal.value))
    assert first == second

    def rounded(a, b):
        return letters(a, b) - 1e-7 * (a == b)

    MetricIndex(rounded, 4, directed=is_directed).fit(six_letters())


def uphill(a, b):
    """Return a distance of which a rise costs more than a fall."""
    return float(np.abs(a - b).sum() + 3 * max(0.0, b[0] - a[0]))


def least(queries, objects, k=10):
    d = np.array([[uphill(q, x) for x in objects] for q in queries])
    return np.sort(d, axis=1)[:, k - 1 : k]


@pytest.fixture(scope="module")
def directed():
    return MetricIndex(uphill, n_components=8, directed=True).fit(points(300))


def test_a_directed_index_finds_what_is_near_from_the_query(
    directed, tmp_path
):
    queries = points(40, seed=1)
    ids, distances, calls = directed.query(queries)
    assert calls.mean() < 150
    assert recall(distances, least(queries, points(300))) >= 0.97
    assert distances[3, 4] == uphill(queries[3], directed.objects_[ids[3, 4]])
    # Those near to a query are others.
    back = np.array([[uphill(x, q) for x in points(300)] for q in queries])
    assert (
        recall(np.take_along_axis(back, ids, axis=1), np.sort(back)[:, 9:10])
        < 0.9
    )
    path = tmp_path / "uphill.npz"
    directed.save(path)
    loaded = MetricIndex.load(path, uphill)
    assert loaded.directed
    for a, b in zip(
        loaded.query(queries[:3]), directed.query(queries[:3]), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_neighbours_in_a_directed_index_are_those_from_the_object(directed):
    graph = directed.kneighbors_graph(n_neighbors=10)
    near = graph.data.reshape(300, 10)
    objects = directed.objects_
    assert recall(near[:50], least(objects[:50], objects, 11)) >= 0.95
    column = graph.indices[0]
    assert graph[0, column] == uphill(objects[0], objects[column])


def test_a_directed_index_grows_and_shrinks():
    index = MetricIndex(uphill, n_components=8, directed=True)
    index.fit(points(300)[:220])
    index.add(points(300)[220:])
    queries = points(40, seed=1)
    _, distances, _ = index.query(queries)
    assert recall(distances, least(queries, points(300))) >= 0.95
    # Added objects are compared with one another too.
    found = index.kneighbors_graph(n_neighbors=10).data.reshape(300, 10)
    objects = index.objects_
    assert recall(found[220:], least(objects[220:], objects, 11)) >= 0.9
    index.remove(np.arange(0, 300, 2))
    _, distances, _ = index.query(queries)
    assert recall(distances, least(queries, points(300)[1::2])) >= 0.95


def test_a_directed_embedding_becomes_a_directed_index():
    objects = points(200)
    d = np.array([[uphill(a, b) for b in objects] for a in objects])
    emb = neuc_mds(d, 8, loss="relative", directed=True)
    index = MetricIndex.from_embedding(emb, objects, uphill)
    assert index.directed
    queries = points(20, seed=1)
    _, distances, calls = index.query(queries)
    assert recall(distances, least(queries, objects)) >= 0.95
    assert calls.mean() < 150
    table = neuc_mds(d[:50, 50:], 4, directed=True)
    with pytest.raises(InputError, match="other objects than its departures"):
        MetricIndex.from_embedding(table, objects[:50], uphill)


@pytest.mark.parametrize("n", [4, 6, 11])
def test_few_objects_are_an_index_too(n):
    index = MetricIndex(letters, 1).fit(six_letters()[:n])
    ids, _, _ = index.query(six_letters()[1:2], k=1)
    assert ids == [[1]]


@pytest.mark.parametrize(
    ("n_components", "fewest"), [(1, 4), (3, 5), (8, 10), (16, 19), (32, 37)]
)
def test_the_fewest_objects_that_are_asked_for_are_enough(
    n_components, fewest
):
    index = MetricIndex(letters, n_components)
    with pytest.raises(InputError, match=f"pass at least {fewest}, fewer n_"):
        index.fit(six_letters()[: fewest - 1])
    ids, _, _ = index.fit(six_letters()[:fewest]).query(six_letters()[1:2], 1)
    assert ids == [[1]]


def test_a_number_of_neighbours_is_no_list_of_objects(fitted):
    index, _ = fitted
    with pytest.raises(InputError, match="pass n_neighbors=5"):
        index.kneighbors_graph(5)
    with pytest.raises(InputError, match=r"one object.*pass \[5\]"):
        index.query(5)


def test_a_table_has_the_name_of_a_table(fitted):
    index, _ = fitted
    for table in ("na;me", "a b", "a.b.c", "", "1a", 'a"'):
        with pytest.raises(InputError, match="no name of a table"):
            next(index.pgvector(table))
    statements = list(index.pgvector("public.order"))
    assert 'CREATE TABLE "public"."order" (' in statements[1]
    assert statements[2].startswith('INSERT INTO "public"."order" VALUES (')


def test_an_added_object_far_from_all_is_found_by_the_most_effort():
    index = MetricIndex(letters, 4).fit(six_letters())
    index.add(["zzzzzz"])
    ids, distances, _ = index.query(["zzzzzz"], k=1, recall=1.0)
    assert ids == [[index.ids_[-1]]]
    assert distances == [[0]]


def test_it_is_said_when_a_recall_was_not_reached():
    index = MetricIndex(letters, 4).fit(six_letters())
    index.tradeoff_[:, 1] = 0.9
    index.tradeoff_[:, 2] = 0.01
    with pytest.warns(NeucmdsWarning, match=r"recall=0\.95 was not reached"):
        index.query(["abcdab"], recall=0.95)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.query(["abcdab"], recall=0.9)
