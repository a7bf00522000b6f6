"""Tables with names are matched by name, or refused; never taken by position in silence."""

import numpy as np
import pytest

from neucmds import (
    InputError,
    LandmarkNeucMDS,
    NeucIsomap,
    NeucMDS,
    evaluate,
    neuc_mds,
    procrustes,
)
from neucmds.ecology import dispersion, envfit, protest, species_scores
from neucmds.errors import NeucmdsWarning

pd = pytest.importorskip("pandas")
NAMES, X = (
    [f"site {i}" for i in range(15)],
    np.random.default_rng(0).normal(size=(15, 3)),
)
ORDER = np.random.default_rng(1).permutation(15)
LANDMARKS = [0, 2, 3, 5, 7, 8, 11, 12, 14]


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(np.abs(X[:, None] - X[None]).sum(-1), NAMES, NAMES)


@pytest.fixture(scope="module")
def weights(frame):
    w = np.random.default_rng(2).uniform(0.1, 5, size=frame.shape)
    return pd.DataFrame(w + w.T, NAMES, NAMES)


def test_columns_of_new_objects_are_matched(frame):
    embedding = neuc_mds(frame, 3)
    expected = embedding.transform(frame.to_numpy()[:2])
    np.testing.assert_array_equal(
        embedding.transform(frame.iloc[:2, ORDER]), expected
    )
    np.testing.assert_array_equal(
        embedding.transform(pd.DataFrame(frame.to_numpy()[:2])), expected
    )
    with pytest.raises(
        InputError,
        match="columns of new objects and the objects have different",
    ):
        embedding.transform(
            frame.iloc[:2].rename(columns={"site 3": "elsewhere"})
        )
    with pytest.raises(
        InputError, match="columns of new objects have the name 'site 3' twice"
    ):
        embedding.transform(frame.iloc[:2, [*range(15), 3]])


def test_weights_are_matched(frame, weights):
    expected = neuc_mds(frame, 3, weights=weights.to_numpy(), random_state=0)
    by_columns = weights.iloc[:, ORDER].reset_index(drop=True)
    for other in (weights.iloc[ORDER, ORDER], by_columns):
        found = neuc_mds(frame, 3, weights=other, random_state=0)
        assert found.stress == expected.stress
        measured = evaluate(expected, frame.to_numpy(), weights=other)
        assert measured.stress == pytest.approx(expected.stress)
    x = pd.DataFrame(X, NAMES).add_prefix("feature ")
    est = NeucMDS(3, metric="cityblock", random_state=0)
    by_metric = est.fit(x, weights=weights.iloc[ORDER, ORDER])
    np.testing.assert_allclose(
        by_metric.embedding_, expected.coordinates, atol=1e-10
    )
    with pytest.raises(InputError, match="different names"):
        est.fit(x.set_axis(x.index + "!"), weights=weights)


def test_an_embedding_is_not_measured_against_objects_in_another_order(frame):
    embedding = neuc_mds(frame, 3)
    assert evaluate(embedding, frame).r2 > 0.8
    with pytest.raises(InputError, match="another order"):
        evaluate(embedding, frame.iloc[ORDER, ORDER])


def test_weights_of_new_objects_are_matched(frame, weights):
    est = NeucMDS(3)
    est.fit_transform(frame)
    new, w = frame.iloc[:4], weights.iloc[:4]
    expected = est.transform(new, weights=w.to_numpy())
    for place in (est.transform, est.result_.transform):
        for other in (
            w.iloc[:, ::-1],
            w.iloc[::-1],
            pd.DataFrame(w.to_numpy()),
        ):
            np.testing.assert_allclose(
                place(new, weights=other), expected, atol=1e-10
            )
        for changed in (
            {"columns": {w.columns[2]: "x"}},
            {"index": {w.index[2]: "x"}},
        ):
            with pytest.raises(
                InputError,
                match="weights and the objects have different names",
            ):
                place(new, weights=w.rename(**changed))
    found = est.result_.transform(new.iloc[:, ::-1], weights=w.iloc[:, ::-1])
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_rows_of_a_table_of_features_name_the_objects(frame):
    table = pd.DataFrame(X, NAMES, list("abc"))
    plain = neuc_mds(X, 2, metric="cityblock")
    for options in ({}, {"landmarks": LANDMARKS}, {"n_pairs": 12}):
        found = neuc_mds(table, 2, metric="cityblock", **options)
        assert found.labels == tuple(NAMES)
        if not options:
            np.testing.assert_array_equal(found.coordinates, plain.coordinates)
    square = neuc_mds(
        frame, 2, metric="cityblock", landmarks=LANDMARKS
    )  # 15 features
    assert (square.n, square.labels) == (15, tuple(NAMES))
    assert neuc_mds(pd.DataFrame(X), 2, metric="cityblock").labels is None


def test_either_side_of_d_names_the_objects_of_weights(frame, weights):
    expected = (
        NeucMDS(3, random_state=0)
        .fit(frame, weights=weights.to_numpy())
        .embedding_
    )
    shuffled = weights.iloc[ORDER, ORDER]
    for D in (frame, frame.reset_index(drop=True)):
        found = NeucMDS(3, random_state=0).fit(D, weights=shuffled).embedding_
        np.testing.assert_array_equal(found, expected)
    unnamed = pd.DataFrame(frame.to_numpy())
    for D in (unnamed, frame.to_numpy()):
        found = NeucMDS(3, random_state=0).fit(D, weights=shuffled).embedding_
        other = (
            NeucMDS(3, random_state=0)
            .fit(D, weights=shuffled.to_numpy())
            .embedding_
        )
        np.testing.assert_array_equal(found, other)
    with pytest.raises(
        InputError,
        match="index that differs from its columns, and weights have",
    ):
        NeucMDS(3).fit(frame.add_suffix("!", axis=1), weights=weights)


def test_names_that_only_count_are_none_unless_the_objects_count_too(
    frame, weights
):
    counted = frame.set_axis(ORDER, axis=0).set_axis(ORDER, axis=1)
    unnamed = pd.DataFrame(weights.to_numpy())
    expected = neuc_mds(frame, 3, weights=weights, random_state=0)
    assert (
        neuc_mds(frame, 3, weights=unnamed, random_state=0).stress
        == expected.stress
    )
    found = neuc_mds(counted, 3, weights=unnamed, random_state=0)
    by_number = weights.to_numpy()[np.ix_(ORDER, ORDER)]
    assert (
        found.stress
        == neuc_mds(frame, 3, weights=by_number, random_state=0).stress
    )


def test_the_difference_of_names_is_said(frame):
    embedding = neuc_mds(
        frame.iloc[:3, :3].set_axis(list("abc")).set_axis(list("abc"), axis=1),
        2,
    )
    for names, said in (
        (
            "aba",
            r"columns of new objects have the name 'a' twice \(numbers 1 and 3\)",
        ),
        ("ab", r"1 of 3 objects are not among them \('c'\); name them alike"),
        ("abcd", r"different names: 1 of them name no object \('d'\);"),
        (
            "defghi",
            r"\('a', 'b', 'c'\), and 6 of them name no object \('d', 'e', 'f', 'g', …\)",
        ),
    ):
        with pytest.raises(InputError, match=said):
            embedding.transform(
                pd.DataFrame(np.ones((1, len(names))), columns=list(names))
            )


def test_objects_in_common_go_by_name_or_else_by_number(frame):
    named = neuc_mds(frame, 3)
    unnamed = neuc_mds(frame.to_numpy(), 3)
    for a, b in ((named, unnamed), (unnamed, named), (unnamed, unnamed)):
        assert procrustes(a, b).disparity == pytest.approx(0, abs=1e-12)
        with pytest.raises(InputError, match="there are 15 and 14 objects"):
            procrustes(a, b[:14])
    shuffled = named[ORDER.tolist()]
    assert procrustes(named, shuffled).disparity == pytest.approx(0, abs=1e-12)
    with pytest.warns(
        NeucmdsWarning, match="of 15 and 11 objects, 11 are in both"
    ):
        assert procrustes(named, shuffled[:11]).disparity == pytest.approx(
            0, abs=1e-12
        )
    with pytest.raises(
        InputError, match="1 of 15 and 1 objects have the same name"
    ):
        procrustes(named, shuffled[:1])


# Every kind of name that an index can hold; row numbers in another order are names as well.
INDEXES = {
    "text": pd.Index(NAMES),
    "integer": pd.Index(ORDER + 100),
    "shuffled row numbers": pd.Index(ORDER),
    "counted from 1": pd.RangeIndex(1, 16),
    "float": pd.Index(ORDER / 4),
    "tuple": pd.MultiIndex.from_tuples([(i % 3, i) for i in range(15)]),
    "bytes": pd.Index([bytes([97 + i]) for i in range(15)]),
    "date": pd.date_range("2020-01-01", periods=15),
}
OTHER_ORDER = np.random.default_rng(3).permutation(15)


@pytest.fixture(scope="module", params=INDEXES)
def index(request):
    return INDEXES[request.param]


@pytest.fixture(scope="module")
def named(frame, index):
    return pd.DataFrame(frame.to_numpy(), index, index)


@pytest.fixture(scope="module")
def embedding(named):
    return neuc_mds(named, 3)


def test_objects_of_any_name_are_asked_for_by_it(index, embedding):
    rows = embedding.unnamed
    assert embedding.labels == tuple(str(name) for name in index)
    assert embedding.distance(index[3], index[7]) == rows.distance(3, 7)
    expected = rows.distance([3, 5], [7, 0])
    for several in (index[[3, 5]], list(index[[3, 5]])):
        found = embedding.distance(several, index[[7, 0]])
        np.testing.assert_array_equal(found, expected)
    part = embedding[index[OTHER_ORDER]]
    np.testing.assert_array_equal(
        part.coordinates, embedding.coordinates[OTHER_ORDER]
    )
    assert part.labels == embedding.take(OTHER_ORDER).labels
    found = embedding.dissimilarities(index[[3]], index[[7]])
    assert found == rows.dissimilarities([3], [7])


@pytest.mark.parametrize("dtype", [bool, object, "boolean"])
def test_a_mask_and_colours_are_matched_by_their_index(
    index, embedding, dtype
):
    mask = pd.Series(np.arange(15) < 5, index, dtype=dtype)
    shuffled = mask.iloc[OTHER_ORDER]
    assert embedding[shuffled].labels == embedding.labels[:5]
    np.testing.assert_array_equal(
        embedding.neighbors(2, among=shuffled)[0],
        embedding.neighbors(2, among=slice(5))[0],
    )
    np.testing.assert_array_equal(
        embedding.dissimilarities(shuffled), embedding.dissimilarities(mask)
    )
    with pytest.raises(InputError, match="5 of 15 objects are not among"):
        embedding[mask[5:]]
    pytest.importorskip("matplotlib")
    values = pd.Series(X[:, 0], index)
    drawn = embedding.plot(color=values.iloc[OTHER_ORDER]).collections[0]
    np.testing.assert_array_equal(drawn.get_array(), X[:, 0])


@pytest.mark.parametrize(
    "estimator",
    [
        NeucMDS(3),
        NeucMDS(3, metric="cityblock"),
        LandmarkNeucMDS(3, 9),
        LandmarkNeucMDS(3, 9, metric="cityblock"),
        NeucIsomap(3),
    ],
    ids=str,
)
def test_estimators_keep_names_and_match_columns(named, estimator):
    table = named
    order = OTHER_ORDER
    if estimator.metric != "precomputed":
        table = pd.DataFrame(X, named.index, [30, 10, 20])
        order = [2, 0, 1]
    estimator.fit(table)
    assert estimator.result_.labels == tuple(map(str, named.index))
    new = table.iloc[:4]
    shuffled = new.iloc[:, order]
    np.testing.assert_allclose(
        estimator.transform(shuffled), estimator.transform(new), atol=1e-9
    )
    assert estimator.score(shuffled) == pytest.approx(estimator.score(new))
    np.testing.assert_array_equal(
        estimator.kneighbors(shuffled, 2)[1], estimator.kneighbors(new, 2)[1]
    )
    names = [*map(str, new.columns[:-1]), "elsewhere"]
    with pytest.raises(InputError, match="columns of X and the objects have"):
        estimator.transform(new.set_axis(names, axis=1))


def test_columns_of_landmarks_alone_are_matched(named):
    estimator = LandmarkNeucMDS(3, landmarks=LANDMARKS).fit(named)
    new = named.iloc[:4, LANDMARKS]
    expected = estimator.transform(new)
    for place in (estimator, estimator.result_, estimator.landmark_result_):
        np.testing.assert_allclose(
            place.transform(new.iloc[:, ::-1]), expected, atol=1e-9
        )


def test_a_series_names_the_objects_of_a_function(index):
    words = pd.Series(["a" * (1 + i) for i in range(15)], index)

    def metric(a, b):
        return abs(len(a) - len(b))

    for options in ({}, {"landmarks": 9}):
        found = neuc_mds(words, 1, metric=metric, **options)
        assert found.labels == tuple(map(str, index))
    for estimator in (
        NeucMDS(1, metric=metric),
        LandmarkNeucMDS(1, 9, metric=metric),
    ):
        assert estimator.fit(words).result_.labels == tuple(map(str, index))


def test_statistics_match_the_index_of_both_sides(named, embedding):
    index = named.index
    groups = pd.Series(list("aab" * 5), index)
    expected = dispersion(named, list(groups), random_state=0).statistic
    shuffled = groups.iloc[OTHER_ORDER]
    assert dispersion(named, shuffled, random_state=0).statistic == expected
    points = embedding.to_frame().set_axis(index)
    assert protest(
        points, points.iloc[OTHER_ORDER], permutations=0
    ).statistic == pytest.approx(1)
    table = pd.DataFrame({"height": np.abs(X[:, 0])}, index)
    expected = envfit(
        embedding.coordinates, table.to_dict("list"), permutations=0
    )
    scores = species_scores(embedding.coordinates, table.to_dict("list"))
    for coordinates in (embedding, points, points.iloc[OTHER_ORDER]):
        for variables in (table, table.iloc[OTHER_ORDER]):
            found = envfit(coordinates, variables, permutations=0)
            assert found["height"].r2 == pytest.approx(expected["height"].r2)
            found = species_scores(coordinates, variables)
            np.testing.assert_allclose(found, scores)


def test_a_table_read_from_csv_has_the_names_of_its_first_column(
    frame, tmp_path
):
    numbers = range(1, 16)
    path = tmp_path / "table.csv"
    pd.DataFrame(frame.to_numpy(), numbers, numbers).to_csv(path)
    table = pd.read_csv(path, index_col=0)  # numbers beside, texts above
    estimator = NeucMDS(3).fit(table)
    assert estimator.result_.labels == neuc_mds(table, 3).labels
    expected = estimator.transform(table.iloc[:3])
    for columns in (table.columns, table.index):
        new = table.iloc[:3].set_axis(columns, axis=1).iloc[:, OTHER_ORDER]
        np.testing.assert_allclose(estimator.transform(new), expected)


def test_an_integer_is_the_node_of_that_name():
    networkx = pytest.importorskip("networkx")
    graph = networkx.path_graph([5, 3, 1, 4, 2, 0])
    embedding = neuc_mds(graph, 1, metric="shortest_path")
    assert embedding.distance(5, 3) == pytest.approx(1)
    assert embedding.distance([5, 5], [1, 0]) == pytest.approx([2, 5])
    estimator = LandmarkNeucMDS(1, 6, metric="shortest_path").fit(graph)
    np.testing.assert_array_equal(
        estimator.transform([0, 5]), estimator.embedding_[[5, 0]]
    )
    for ask in (
        lambda: embedding.distance(7, 1),
        lambda: estimator.transform([7]),
    ):
        with pytest.raises(
            InputError, match=r"'7' \(there are '5', '3', '1', '4', …\)"
        ):
            ask()
    edges = pd.DataFrame(
        {"from": [1, 2, 3], "to": [2, 3, 4], "length": [1, 2, 3]}
    )
    lengths = neuc_mds(edges, 1, metric="shortest_path")
    assert lengths.distance(edges["from"], edges["to"]) == pytest.approx(
        [1, 2, 3]
    )


def test_integers_are_row_numbers_where_no_name_is_a_number(frame):
    named = neuc_mds(frame, 3)
    unnamed = neuc_mds(frame.to_numpy(), 3)
    assert named.distance(3, -1) == unnamed.distance("3", 14)
    assert neuc_mds(pd.DataFrame(frame.to_numpy()), 3).labels is None


def test_row_numbers_in_another_order_are_matched_with_unnamed_objects(frame):
    embedding = neuc_mds(frame.to_numpy(), 3)
    new = pd.DataFrame(frame.to_numpy()[:4]).iloc[:, OTHER_ORDER]
    expected = embedding.transform(frame.to_numpy()[:4])
    np.testing.assert_allclose(embedding.transform(new), expected)
    estimator = NeucMDS(3).fit(frame.to_numpy())
    np.testing.assert_allclose(estimator.transform(new), expected)


@pytest.mark.parametrize("kind", [np.array, pd.Index, pd.Series, list])
def test_names_of_appended_objects_may_be_any_sequence(frame, kind):
    embedding = neuc_mds(frame, 3)
    longer = embedding.append(embedding.coordinates[:2], kind(["x", "y"]))
    assert longer.labels == (*NAMES, "x", "y")


def test_embeddings_compare_and_align_without_a_traceback(frame):
    embedding = neuc_mds(frame, 3)
    assert embedding == embedding
    assert embedding != neuc_mds(frame, 3)
    with pytest.raises(InputError, match=r"not of type ndarray; .*protest"):
        procrustes(embedding, X)


@pytest.mark.parametrize(
    "fit",
    [
        lambda table, start: neuc_mds(table, 3, init=start, max_iter=1),
        lambda table, start: (
            LandmarkNeucMDS(3, 15, init=start).fit(table).result_
        ),
    ],
    ids=["all", "landmarks"],
)
def test_a_start_is_matched_by_name(frame, fit):
    start = neuc_mds(frame, 3, loss="relative", n_init=1)
    shuffled = frame.iloc[OTHER_ORDER, OTHER_ORDER]
    np.testing.assert_allclose(
        fit(shuffled, start)[NAMES].dissimilarities(),
        fit(frame, start).dissimilarities(),
        atol=1e-9,
    )
    others = [*NAMES[1:], "another"]
    renamed = frame.set_axis(others).set_axis(others, axis=1)
    with pytest.raises(InputError, match="objects of init and the objects"):
        fit(renamed, start)


def test_dates_of_numpy_are_dates(frame):
    dates = pd.date_range("2024-02-27", periods=15)
    embedding = neuc_mds(frame.set_axis(dates).set_axis(dates, axis=1), 3)
    first, second = dates.to_numpy()[:2]
    assert embedding.distance(first, second) == embedding.distance(*dates[:2])


def test_nodes_may_be_tuples():
    edges = pd.DataFrame({"from": [(0, 0), (0, 1)], "to": [(0, 1), (1, 1)]})
    edges["length"] = [1.0, 2.0]
    embedding = neuc_mds(edges, 1, metric="shortest_path")
    assert embedding.distance((0, 0), (1, 1)) == pytest.approx(3)


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_landmarks_are_read_from_a_file_with_its_names(
    frame, suffix, tmp_path
):
    path = tmp_path / f"d.{suffix}"
    np.save(tmp_path / "d.npy", frame.to_numpy())
    frame.to_csv(tmp_path / "d.csv")
    estimator = LandmarkNeucMDS(3, 9).fit(path)
    expected = LandmarkNeucMDS(3, 9).fit(frame)
    np.testing.assert_allclose(estimator.embedding_, expected.embedding_)
    if suffix == "csv":
        assert estimator.result_.labels == tuple(NAMES)
        new = frame.iloc[:2]
        np.testing.assert_allclose(
            estimator.transform(new.iloc[:, OTHER_ORDER]),
            expected.transform(new),
        )
