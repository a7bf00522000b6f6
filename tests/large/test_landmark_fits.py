"""`neuc_mds(landmarks=…)`: an embedding of all objects, whatever the input."""

from dataclasses import replace

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
    np.testing.assert_allclose(
        embedding.coordinates[others], expected[others], atol=1e-9
    )
    np.testing.assert_allclose(
        embedding.coordinates[IDS], est.landmark_result_.coordinates, atol=1e-5
    )
    np.testing.assert_array_equal(embedding.landmarks, IDS)
    assert embedding.labels == (
        tuple(NAMES) if hasattr(data, "index") else None
    )


@pytest.mark.parametrize("loss", ["squared", "relative"])
def test_new_objects_need_dissimilarities_to_landmarks_alone(loss, tmp_path):
    frame = pd.DataFrame(D, NAMES, NAMES)
    embedding = neuc_mds(frame, 2, landmarks=12, loss=loss, random_state=0)
    others = np.setdiff1d(np.arange(N), embedding.landmarks)
    new = frame.iloc[others, embedding.landmarks]
    embedding.save(tmp_path / "e.npz")
    for one in (embedding, Embedding.load(tmp_path / "e.npz")):
        placed = one.transform(new.iloc[:, ::-1])
        np.testing.assert_allclose(
            placed, embedding.coordinates[others], atol=1e-8
        )
    with pytest.raises(InputError, match=r"expected \(m, 12\)"):
        embedding.transform(D[:3])


@pytest.mark.slow
def test_few_landmarks_of_the_relative_loss_keep_neighbours():
    """Negative coordinates that few landmarks tell make objects of different clusters near."""
    rng = np.random.default_rng(0)

    def mutated(reads, rate):
        return np.where(
            rng.random(reads.shape) < rate,
            rng.integers(4, size=reads.shape),
            reads,
        )

    species = rng.integers(4, size=(1, 100))
    for copies, rate in ((6, 0.4), (5, 0.2), (3, 0.06)):
        species = mutated(np.repeat(species, copies, axis=0), rate)
    abundance = rng.pareto(1.2, len(species)) + 0.2
    drawn = rng.choice(len(species), 400, p=abundance / abundance.sum())
    reads = mutated(species[drawn], 0.02)
    D = (reads[:, None] != reads).sum(axis=2) + np.diag(
        np.full(len(reads), np.inf)
    )
    limit = np.partition(D, 9, axis=1)[:, 9:10]
    np.fill_diagonal(D, 0)
    emb = neuc_mds(D, (12, 8), landmarks=90, loss="relative", random_state=0)
    plain = replace(emb.placement, shrinkage=0.0).place(
        D[:, emb.landmarks] ** 2
    )
    plain[emb.landmarks] = emb.coordinates[emb.landmarks]

    def kept(found):
        return np.mean(
            np.take_along_axis(D, found.neighbors(10)[0], axis=1) <= limit
        )

    assert kept(emb) >= kept(replace(emb, coordinates=plain))
    assert kept(emb) > 0.83


def test_landmarks_are_counted_drawn_spread_or_named():
    def chosen(landmarks):
        return neuc_mds(
            X, 2, metric="cityblock", landmarks=landmarks, random_state=0
        ).landmarks

    assert [chosen(wanted).size for wanted in (0.5, "random", "maxmin")] == [
        24,
        N,
        N,
    ]
    drawn = chosen(30)
    assert np.unique(drawn).size == drawn.size == 30
    assert not np.array_equal(drawn, np.arange(30))
    np.testing.assert_array_equal(chosen([5, 1, 9]), [5, 1, 9])
