"""`neuc_mds(landmarks=…)`: an embedding of all objects, whatever the input."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

from neucmds import Embedding, InputError, LandmarkNeucMDS, neuc_mds

N, IDS = 48, np.arange(0, 48, 4)
X = np.random.default_rng(0).normal(size=(N, 5))
D = cdist(X, X, "cityblock")
NAMES = [f"object {i}" for i in range(N)]


def ring():
    i = np.arange(N)
    return sparse.csr_array((1.0 + i % 3, (i, (i + 1) % N)), shape=(N, N))


@pytest.mark.parametrize(
    ("data", "how"),
    [
        (D, {}),
        (D[:, IDS], {}),
        (X, {"metric": "cityblock"}),
        (pd.DataFrame(D, NAMES, NAMES), {}),
        (ring(), {"metric": "shortest_path"}),
    ],
    ids=["matrix", "block", "features", "frame", "graph"],
)
def test_all_objects_are_where_the_estimator_places_them(data, how):
    embedding = neuc_mds(data, 2, landmarks=IDS, random_state=0, **how)
    est = LandmarkNeucMDS(2, landmarks=IDS, random_state=0, **how)
    expected = est.fit_transform(data)
    others = np.setdiff1d(np.arange(N), IDS)
    np.testing.assert_allclose(embedding.coordinates[others], expected[others], atol=1e-9)
    np.testing.assert_allclose(
        embedding.coordinates[IDS], est.landmark_result_.coordinates, atol=1e-5
    )
    np.testing.assert_array_equal(embedding.landmarks, IDS)
    assert embedding.labels == (tuple(NAMES) if hasattr(data, "index") else None)


@pytest.mark.parametrize("loss", ["squared", "relative"])
def test_new_objects_need_dissimilarities_to_landmarks_alone(loss, tmp_path):
    frame = pd.DataFrame(D, NAMES, NAMES)
    embedding = neuc_mds(frame, 2, landmarks=12, loss=loss, random_state=0)
    others = np.setdiff1d(np.arange(N), embedding.landmarks)
    new = frame.iloc[others, embedding.landmarks]
    embedding.save(tmp_path / "e.npz")
    for one in (embedding, Embedding.load(tmp_path / "e.npz")):
        placed = one.transform(new.iloc[:, ::-1])
        np.testing.assert_allclose(placed, embedding.coordinates[others], atol=1e-8)
    with pytest.raises(InputError, match=r"expected \(m, 12\)"):
        embedding.transform(D[:3])


def test_landmarks_are_counted_drawn_spread_or_named():
    def chosen(landmarks):
        return neuc_mds(X, 2, metric="cityblock", landmarks=landmarks, random_state=0).landmarks

    assert [chosen(wanted).size for wanted in (0.5, "random", "maxmin")] == [24, N, N]
    drawn = chosen(30)
    assert np.unique(drawn).size == drawn.size == 30
    assert not np.array_equal(drawn, np.arange(30))
    np.testing.assert_array_equal(chosen([5, 1, 9]), [5, 1, 9])
