"""What is handed over by mistake is refused by one `InputError`, and what is meant is obeyed."""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import dist
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from neucmds import (
    Embedding,
    InputError,
    LandmarkNeucMDS,
    MetricIndex,
    NeucMDS,
    bootstrap,
    compare,
    diagnose,
    ecology,
    evaluate,
    neuc_mds,
    stress_curve,
)
from neucmds.datasets import euclidean_ball, random_simplex
from neucmds.explore import stress_test

N = 12
X = np.random.default_rng(0).normal(size=(N, 3))
D = np.abs(X[:, None] - X).sum(axis=2)
PAIRS = sparse.csr_array(D)
GRAPH = SimpleNamespace(nodes=range(N), adj={})  # as networkx has them
NAMES = "abcdefghijkl"


def gap_of(a, b):
    return float(abs(a - b))


@pytest.fixture(autouse=True)
def _quiet():
    """No warnings, and D as it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    np.testing.assert_array_equal(D, np.abs(X[:, None] - X).sum(axis=2))


@pytest.fixture(scope="module")
def plain() -> Embedding:
    return neuc_mds(D, 2)


@pytest.fixture(scope="module")
def named() -> Embedding:
    return neuc_mds(pd.DataFrame(D, list(NAMES), list(NAMES)), 2)


def refused(call, match):
    with pytest.raises(InputError, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)


# Objects of a result


def test_objects_are_chosen_by_name_number_mask_or_slice(named):
    by_number = named.dissimilarities([0, 2], [1])
    np.testing.assert_array_equal(
        named.dissimilarities(["a", "c"], "b"), by_number
    )
    np.testing.assert_array_equal(
        named.dissimilarities(slice(0, 3, 2), [1 - N]), by_number
    )
    mask = np.isin(np.arange(N), [0, 2])
    np.testing.assert_array_equal(
        named.dissimilarities(mask, np.array([1])), by_number
    )
    objects = (
        np.array([0, np.int32(2)], dtype=object),
        np.array([1, -2], dtype=object),
    )
    np.testing.assert_array_equal(
        named.distance(*objects), named.distance([0, 2], [1, -2])
    )


REFUSED = [
    (lambda emb: emb.transform(D[:1], to=D[5:6]), "both are given"),
    (lambda emb: emb.transform(from_=D[:1]), "this embedding is symmetric"),
    (lambda emb: emb.save(3), "a path is expected, not of type int"),
    (lambda _: Embedding.load(None), "expected, not of type NoneType"),
    (lambda emb: emb.neighbors(2, among=[]), "among 0 other objects"),
    (lambda emb: emb.distance(D[0] > 1, 2), "pass masks to dissimilarities"),
    (lambda emb: emb.distance([[0, 1], [2]], 0), "pass one flat list"),
    (lambda emb: emb.to_distance("a"), "values of D̂"),
    (lambda emb: emb.dissimilarities(["a"], [0]), "no object is called 'a'"),
    (
        lambda emb: emb.dissimilarities([N], [0]),
        f"there is no object {N} among {N}",
    ),
    (
        lambda emb: emb.dissimilarities([0.5], [0]),
        r"no object is called '0.5' \(there are '0', '1', '2', '3', …\)",
    ),
    (
        lambda emb: emb.dissimilarities([True, False], [0]),
        r"a mask has shape \(2,\); pass 12 values, or names",
    ),
    (
        lambda emb: emb.dissimilarities([[0, 1], [1, 2]]),
        r"shape \(2, 2\); pass one flat",
    ),
    (
        lambda emb: replace(emb, labels=tuple(NAMES)).distance("z", 0),
        "no object is called 'z'",
    ),
    (lambda emb: emb.distance([0, 1, 2], [2, 3]), r"\(3,\) and j has \(2,\)"),
    (
        lambda emb: emb.between(np.zeros((2, 3)), emb.coordinates),
        r"expected \(m, 2\)",
    ),
    *[(lambda emb, k=k: emb.neighbors(k), "k=") for k in (0, N, 2.0, True)],
    (lambda emb: emb.transform(np.ones((2, N - 1))), r"expected \(m, 12\)"),
    (lambda emb: emb.transform(np.ones(N)), r"expected \(m, 12\)"),
    (lambda emb: emb.transform(np.full((1, N), np.nan)), "NaN"),
    (lambda emb: emb.transform(-np.ones((1, N))), "negative entry"),
    (lambda emb: emb.transform("f.csv"), "given as a path"),
    (lambda _: neuc_mds(D, 2, weights=[["a"] * N] * N), "not a real number"),
    (lambda _: NeucMDS(2).fit_transform(D, weights={}), "are not numbers"),
    (
        lambda _: neuc_mds(D, 2, landmarks=6, weights=D),
        "landmarks leave most pairs out",
    ),
    (lambda emb: emb.save("nowhere/at/all/e.npz"), "nowhere"),
    (lambda _: neuc_mds(D, 2, "nuec"), "refined"),
    *[
        (
            lambda _, name=name: neuc_mds(D, 2, **{name: X}),
            rf"^{name}=array.*\.\.\..* is an array; pass",
        )
        for name in (
            "method",
            "loss",
            "curvature",
            "missing",
            "metric",
            "metric_params",
        )
    ],
    *[
        (lambda _, p=p: NeucMDS(2, **{p: X}).fit(D), "is an array")
        for p in ("metric", "missing")
    ],
    (lambda _: neuc_mds(D * 1e120, 2), "too large"),
    (lambda _: neuc_mds(D * 1e-120, 2), "too small"),
    (lambda _: neuc_mds(PAIRS, 2, missing="no"), "missing='no' is unknown"),
    *[
        (lambda _, m=m: neuc_mds(D, 2, max_iter=m), "max_iter=")
        for m in (0, 2.5)
    ],
    *[(lambda _, t=t: neuc_mds(D, 2, tol=t), "tol=") for t in (-1, "x")],
    *[
        (lambda _, t=t: neuc_mds(D, 2, "neuc+", tol=t), "tol=")
        for t in (0, 1, -1e-3, np.nan, "x")
    ],
    (lambda _: neuc_mds(D, 2, init=[[1, 2], [3]]), "shape"),
    (lambda _: neuc_mds(D, 2, init="pca"), "init is str"),
    (
        lambda _: neuc_mds(D, 2, init=[[["a"] * 2] * N, [1, 1]]),
        "not a real number",
    ),
    (
        lambda _: neuc_mds(D, 2, init=(X[:, :2] * 1j, [1, 1])),
        "not a real number",
    ),
    (lambda _: neuc_mds(D, 2, init=(X[:, :2] * 1e150, [1, 1])), "too large"),
    (
        lambda _: neuc_mds(D, 2, init=(X[:, [0] * (N + 1)], [1] * (N + 1))),
        "n_components",
    ),
    (
        lambda _: neuc_mds(D, 2, "neuc+", init=(X[:, :2], [1, 1])),
        r"^init needs method='refined'",
    ),
    (
        lambda _: neuc_mds(D, 2, "neuc+", loss="relative"),
        "needs method='refined'",
    ),
    *[
        (lambda _, x=x: NeucMDS(2, metric=dist).fit(x), "a list")
        for x in ({1}, iter(X), {}, "ab")
    ],
    (
        lambda _: LandmarkNeucMDS(2, 6, metric=dist).fit(X).transform("abc"),
        "X is of type str",
    ),
    (lambda _: neuc_mds(D, 2, loss="relative", n_init=0), "n_init=0 must be"),
    (lambda _: neuc_mds(D, 2, n_init=3), "n_init=3 is for other losses"),
    (lambda _: neuc_mds(D, 2, random_state=-1), "cannot seed a generator"),
    (lambda _: neuc_mds(D, 2, callback=1), "callback=1 must be a function"),
    *[
        (lambda _, f=f: f(D, callback=1), "callback=1 must be a fu")
        for f in (compare, diagnose)
    ],
    (
        lambda _: NeucMDS(2, verbose=1, callback=1).fit(D),
        "callback=1 must be a function",
    ),
    (lambda emb: emb.neighbors(3, np.full((2, 2), np.nan)), "hold NaN"),
    (lambda emb: emb.neighbors(3, [["a", "b"]]), "not a real number"),
    (
        lambda emb: emb.neighbors(1, among=[1]),
        "k=1 neighbours are asked for among 0 other objects",
    ),
    (
        lambda _: NeucMDS(2).fit(D * np.nan),
        "contains NaN; drop .* fit with missing='ignore'",
    ),
    (
        lambda _: LandmarkNeucMDS(2, 6).fit(D).transform(D * np.nan),
        r"contains NaN; .* rows\.$",
    ),
    (
        lambda _: NeucMDS(2).fit(D).transform(D[0]),
        "Expected 2D array.* Reshape your data",
    ),
    (
        lambda _: NeucMDS(2, metric="l1").fit([["a"]] * N),
        "X cannot be used: could not convert",
    ),
    (
        lambda _: NeucMDS(2, metric="cityblock", metric_params=5).fit(X),
        "must be a dict",
    ),
    (lambda _: neuc_mds(X, 2, metric=lambda a, b: "near"), "returns str"),
    (lambda _: neuc_mds(X, 2, metric=lambda a, b: a - b), "returns ndarray"),
    (
        lambda _: NeucMDS(2).fit(GRAPH),
        "X is a graph; .* metric='shortest_path'",
    ),
    (
        lambda _: LandmarkNeucMDS(2, 5).fit(GRAPH),
        "X is a graph; .* metric='shortest_path'",
    ),
    (
        lambda _: neuc_mds(GRAPH, 2, metric="cityblock"),
        "X is a graph; .* metric='shortest_path'",
    ),
    *[
        (
            lambda _, s=s: LandmarkNeucMDS(
                2, metric="cityblock", **s
            ).fit_transform(X),
            match,
        )
        for s, match in (
            ({"n_landmarks": 13}, "n_landmarks=13 of 12 objects"),
            (
                {"landmarks": [0, 1]},
                "2 landmarks are too few for 2 coordinates",
            ),
            ({"landmarks": "grid"}, "landmarks='grid' must be"),
            (
                {"landmarks": np.ones((N, 9), bool)},
                r"landmarks=array.*\.\.\..* must be",
            ),
            ({"placement": "best"}, "placement='best' is unknown"),
            ({"method": "best"}, "method='best' is unknown"),
            ({"n_jobs": 0}, "n_jobs=0"),
        )
    ],
    (
        lambda _: neuc_mds(pd.DataFrame({"a": [*NAMES]}), 1, metric="path"),
        "metric='path' is unknown; known are angular, .* bray, .* shortest_path",
    ),
    (
        lambda _: neuc_mds(
            pd.DataFrame(
                np.eye(N)[[0, 1, *[N - 1] * 10]] * (np.arange(N) < 2), [*NAMES]
            ),
            1,
            metric="braycurtis",
        ),
        "first for objects c and d; drop those objects .rows of zeros",
    ),
    (
        lambda _: neuc_mds([*NAMES], 2, metric="levenshtein"),
        "metric='levenshtein' is unknown",
    ),
    (
        lambda _: neuc_mds([*NAMES], 2),
        "dtype <U1, not a real number; .* a function of two objects as metric",
    ),
    *[
        (lambda _, call=call: call(GRAPH), "D is a graph; pass metric")
        for call in (neuc_mds, diagnose)
    ],
    (
        lambda _: neuc_mds(dict.fromkeys(range(10)).keys()),
        "entries of D are not numbers",
    ),
    (
        lambda _: NeucMDS(2, metric="euclidean").fit(sparse.csr_array(X)),
        r"toarray\(\)",
    ),
    (lambda _: LandmarkNeucMDS(2, 6).fit(PAIRS), r"toarray\(\)"),
    (
        lambda _: NeucMDS(2, metric_params={"p": 3}).fit(D),
        "metric_params are arg",
    ),
    (
        lambda _: LandmarkNeucMDS(2, 6, metric_params={"p": 3}).fit(D),
        "metric_params are arg",
    ),
    (lambda _: NeucMDS(2).fit(D).transform(PAIRS), r"array \(m, n\)"),
    *[
        (lambda _, f=f: f(PAIRS), "square array, with NaN")
        for f in (diagnose, compare, stress_curve)
    ],
    (lambda _: stress_curve(D, []), "at least one"),
    (lambda _: stress_curve(D, [0.5]), "whole numbers"),
    (
        lambda _: neuc_mds([1, 2, 4, 8], 1, metric=gap_of, n_pairs=3),
        "n_pairs=3 are too few .* at least 8",
    ),
    (lambda _: stress_curve(D, [(2, 1), 3]), "whole numbers"),
    (
        lambda emb: evaluate(emb, PAIRS),
        "square array, with NaN .* missing='ignore'",
    ),
    (lambda _: random_simplex(dim=5), "dim=5 at least 10"),
    (lambda _: euclidean_ball(1), "n=1 must be at least 2"),
]


@pytest.mark.parametrize(("call", "match"), REFUSED)
def test_what_cannot_be_had_is_refused(plain, call, match):
    refused(lambda: call(plain), match)


def test_too_little_memory_is_told_before_d_is_squared(monkeypatch):
    monkeypatch.setattr(
        "neucmds.backend.memory.available_memory", lambda: 1000
    )
    refused(
        lambda: neuc_mds(D, 2), "beyond D, but 1 kB are free; ask for fewer"
    )


@pytest.mark.slow
def test_a_generator_seeds_like_a_random_state():
    generator = np.random.default_rng(5)
    state = np.random.RandomState(np.random.default_rng(5).bit_generator)
    found = [
        neuc_mds(D, 2, landmarks=6, random_state=seed)
        for seed in (generator, state)
    ]
    np.testing.assert_array_equal(found[0].landmarks, found[1].landmarks)
    assert (
        diagnose(D, random_state=generator).n
        == compare(D, 2, random_state=generator).n
    )


def test_a_start_of_lists_is_taken_with_all_its_columns():
    start = (X.tolist(), [1, 1, -1])
    assert neuc_mds(D, 2, init=start).signature == (2, 1)
    assert neuc_mds(D, (2, 1), init=start).signature == (2, 1)
    refused(
        lambda: neuc_mds(D, (3, 0), init=start),
        r"has the signature \(2, 1\), not n_components=\(3, 0\)",
    )


def test_a_floor_above_every_dissimilarity_is_refused():
    def fit(floor):
        return neuc_mds(D, 2, loss="relative", floor=floor, n_init=1)

    assert fit(D.max()).n == N
    refused(lambda: fit(1.01 * D.max()), "floor=.* is above all dissimilarit")


def test_a_cell_that_is_no_number_is_refused_by_the_name_of_its_column():
    table = pd.DataFrame(X, columns=["a", "b", "c"]).astype({"b": object})
    assert neuc_mds(table, 2, metric="cityblock").n == N
    table.loc[3, "b"] = "low"
    refused(
        lambda: neuc_mds(table, 2, metric="cityblock"), "column 'b' .*'low'"
    )


# Numbers that go along with D


def test_masked_new_dissimilarities_are_not_known(plain):
    rows = np.ma.masked_greater(D[:2], 2.0)
    refused(lambda: plain.transform(rows), "contain NaN")
    gaps = neuc_mds(D, 2, missing="ignore")
    expected = gaps.transform(rows.filled(np.nan))
    np.testing.assert_array_equal(gaps.transform(rows), expected)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_tensors_are_refused(layout):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    dense = torch.asarray(D)
    tensor = getattr(dense, layout)()
    for call in (
        lambda: neuc_mds(tensor, 2),
        lambda: diagnose(tensor),
        lambda: NeucMDS(2).fit(tensor),
        lambda: LandmarkNeucMDS(2, 6).fit(tensor),
        lambda: neuc_mds(dense, 2).transform(tensor),
        lambda: neuc_mds(dense, 2, weights=tensor),
    ):
        refused(call, "sparse tensor")


# Parameters


@pytest.mark.parametrize(
    "value", ["no", "False", None, 2, [], np.array([True])]
)
def test_flags_are_true_or_false(plain, value):
    calls = [
        lambda: neuc_mds(D, 2, squared=value),
        lambda: neuc_mds(D, 2, symmetrize=value),
        lambda: neuc_mds(PAIRS, 2, squared=value),
        lambda: NeucMDS(2, squared=value).fit(D),
        lambda: LandmarkNeucMDS(2, 6, squared=value).fit(D),
        *(
            lambda look=look: look(D, squared=value)
            for look in (diagnose, stress_curve, compare)
        ),
    ]
    if value is not None:
        calls.append(lambda: evaluate(plain, D, squared=value))
    for call in calls:
        refused(call, r"must be True or False|is an array")


def test_flags_of_numpy_and_numbers_are_flags():
    for value in (True, 1, np.True_):
        assert neuc_mds(D, 2, squared=value).squared is True


def test_triangulation_is_refused_in_a_curved_form():
    model = LandmarkNeucMDS(
        2, 10, placement="linear", loss="relative", curvature=-0.5
    )
    refused(lambda: model.fit(D), "placement='least_squares'")


# A sparse D


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.coo_matrix])
def test_the_estimator_takes_known_pairs(container):
    est = NeucMDS(2, random_state=0).fit(container(D))
    np.testing.assert_array_equal(
        est.embedding_, neuc_mds(PAIRS, 2, random_state=0).coordinates
    )
    assert est.n_features_in_ == N
    assert est.transform(D[:3]).shape == (3, 2)


@pytest.mark.slow
def test_pairs_obey_gaps():
    known = sparse.coo_array(np.where(D > 4, np.nan, D))
    refused(lambda: neuc_mds(known, 2), "not finite")
    found = neuc_mds(known, 2, missing="ignore", random_state=0)
    fewer = sparse.coo_array(np.where(D > 4, 0.0, D))
    expected = neuc_mds(fewer, 2, random_state=0)
    np.testing.assert_array_equal(found.coordinates, expected.coordinates)
    row = np.where(np.arange(N) == 5, np.nan, D[0])[None]
    assert np.isfinite(found.transform(row)).all()
    refused(lambda: expected.transform(row), "contain NaN")


# Advice that can be followed wherever it is given


@pytest.mark.parametrize(
    "call", [diagnose, compare, stress_curve, ecology.cailliez]
)
def test_gaps_and_two_directions_are_answered_with_what_every_call_takes(call):
    gaps = D.copy()
    gaps[0, 1] = gaps[1, 0] = np.nan
    refused(lambda: call(gaps), "fill them in, or embed with missing='ignore'")
    uneven = D + np.triu(D)
    refused(lambda: call(uneven), r"pass \(D \+ D.T\) / 2, or embed a D")
    call((uneven + uneven.T) / 2)


@pytest.mark.parametrize("call", [bootstrap, stress_test])
def test_options_of_resampling_are_checked_before_d(call):
    uneven = D + np.triu(D)
    refused(
        lambda: call(uneven, 2, 2, directed=True),
        "directed cannot be given here: D must be symmetric",
    )
    refused(lambda: call(D, 2, 2, zzz=3), "zzz is unknown; choose from method")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "classical", "max_iter": 3}, "max_iter=3 needs method"),
        ({"curvature": -1.0}, "needs loss 'relative', 'absolute' or"),
    ],
)
def test_options_that_a_fit_would_ignore_are_refused(options, said):
    refused(lambda: neuc_mds(D, 2, **options), said)
    refused(lambda: NeucMDS(2, **options).fit(D), said)


@pytest.mark.parametrize("metric", ["minkowski", "jaccard", "correlation"])
def test_arguments_that_a_metric_does_not_take_are_named(metric):
    wrong = {"zz": 3}
    refused(
        lambda: neuc_mds(X, 2, metric=metric, metric_params=wrong),
        r"cannot be used here: it does not take zz=3\.$",
    )


def test_a_table_that_is_an_array_is_refused(plain):
    refused(
        lambda: ecology.species_scores(plain, X), "^the table is ndarray; pass"
    )


# One mistake in D, and objects that are no list


@pytest.mark.parametrize("loss", ["relative", "absolute"])
def test_one_huge_entry_leaves_the_coordinates_of_all_others(loss):
    points = np.random.default_rng(0).normal(size=(N, 3))
    d = np.linalg.norm(points[:, None] - points, axis=2)
    d[0, 1] = 1e8
    d[1, 0] = 1e8
    fitted = neuc_mds(d, 3, loss=loss)
    ratios = fitted.dissimilarities() / np.where(d > 0, d, 1.0)
    errors = np.abs(ratios - 1)[np.triu_indices(N, 1)]
    assert fitted.signature == (3, 0)
    assert np.median(errors) < 1e-6
    assert fitted.loss_value == pytest.approx(
        (errors**2).sum(), rel=1e-6, abs=0
    )


@pytest.mark.parametrize("kind", [pd.DataFrame, pd.Series, list])
def test_objects_of_an_index_are_a_list(kind):
    def gap(a, b):
        return float(np.abs(np.asarray(a) - np.asarray(b)).sum())

    index = MetricIndex(gap, 2)
    objects = kind(list(X))
    if kind is pd.DataFrame:
        refused(lambda: index.fit(objects), "of type DataFrame; pass a list")
        objects = objects.to_numpy()
    assert len(index.fit(objects).objects_) == N
    refused(lambda: index.fit(dict.fromkeys(NAMES)), "of type dict; pass a")


def test_new_objects_can_have_names_that_are_tuples(named):
    names = [("d", 1), ("d", 2)]
    longer = named.append(named.coordinates[:2], names)
    assert longer.labels[-2:] == ("('d', 1)", "('d', 2)")
    assert longer.distance(("d", 1), "a") == 0


def test_two_objects_have_no_outlying_entry():
    report = diagnose(D[:2, :2])
    assert report.outliers.entries == ()
    assert str(report.negative_share) == "0.0"
