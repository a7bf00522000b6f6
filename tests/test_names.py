"""Tables with names are matched by name, or refused; never taken by position in silence."""

import numpy as np
import pytest

from neucmds import (
    InputError,
    NeucMDS,
    evaluate,
    neuc_mds,
    procrustes,
)
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
            r"columns of new objects have the name 'a' twice \(rows 1 and 3\)",
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
