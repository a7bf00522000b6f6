"""Tables with names are matched by name, or refused; never taken by position in silence."""

import numpy as np
import pytest

from neucmds import InputError, evaluate, neuc_mds

pd = pytest.importorskip("pandas")
NAMES = [f"site {i}" for i in range(15)]
ORDER = np.random.default_rng(1).permutation(15)


@pytest.fixture(scope="module")
def frame():
    x = np.random.default_rng(0).normal(size=(15, 3))
    return pd.DataFrame(np.abs(x[:, None] - x[None]).sum(-1), NAMES, NAMES)


def test_columns_of_new_objects_are_matched(frame):
    embedding = neuc_mds(frame, 3)
    expected = embedding.transform(frame.to_numpy()[:2])
    np.testing.assert_array_equal(embedding.transform(frame.iloc[:2, ORDER]), expected)
    np.testing.assert_array_equal(embedding.transform(pd.DataFrame(frame.to_numpy()[:2])), expected)


def test_new_objects_with_other_columns_are_refused(frame):
    with pytest.raises(InputError, match="columns of new objects and the objects have different"):
        neuc_mds(frame, 3).transform(frame.iloc[:2].rename(columns={"site 3": "elsewhere"}))


def test_weights_are_matched(frame):
    w = np.random.default_rng(2).uniform(0.5, 2, size=(15, 15))
    weights = pd.DataFrame(w + w.T, NAMES, NAMES)
    expected = neuc_mds(frame, 3, weights=weights.to_numpy(), random_state=0)
    found = neuc_mds(frame, 3, weights=weights.iloc[ORDER, ORDER], random_state=0)
    assert found.stress == expected.stress


def test_an_embedding_is_not_measured_against_objects_in_another_order(frame):
    embedding = neuc_mds(frame, 3)
    assert evaluate(embedding, frame).r2 > 0.8
    with pytest.raises(InputError, match="another order"):
        evaluate(embedding, frame.iloc[ORDER, ORDER])
