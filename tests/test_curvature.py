"""Curved embeddings as users see them: exact spaces, the choice of κ, and what follows a fit."""

import warnings

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from neucmds import Embedding, LandmarkNeucMDS, NeucMDS, evaluate, neuc_mds
from neucmds.errors import ConvergenceWarning, InputError, NeucmdsWarning


def sphere(n=60):
    x = np.random.default_rng(0).normal(size=(n, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]
    return np.arccos(np.clip(x @ x.T, -1, 1)) * (1 - np.eye(n))


def disc(n=60, radius=3.0):
    """Points of a disc of the hyperbolic plane, uniform by area."""
    rng = np.random.default_rng(1)
    r, t = (
        np.arccosh(1 + rng.random(n) * (np.cosh(radius) - 1)),
        rng.uniform(0, 2 * np.pi, n),
    )
    x = np.c_[np.cosh(r), np.sinh(r) * np.cos(t), np.sinh(r) * np.sin(t)]
    product = x * [1, -1, -1] @ x.T
    return np.arccosh(np.maximum(product, 1)) * (1 - np.eye(n))


def ball(n):
    x = np.random.default_rng(0).normal(size=(n, 3))
    return np.linalg.norm(x[:, None] - x, axis=2)


def mean_of(D):
    return D.sum() / (len(D) * (len(D) - 1))


def errors(emb, D):
    off = ~np.eye(len(D), dtype=bool)
    return np.abs(np.asarray(emb.dissimilarities())[off] / D[off] - 1)


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Take 40 steps at each curvature that is tried, not 150."""
    monkeypatch.setattr("neucmds.refine.scouting.SCOUT_ITERATIONS", 40)


@pytest.fixture(scope="module")
def hyperbolic():
    D = disc()
    return D, neuc_mds(
        D, (2, 1), loss="relative", curvature=-(mean_of(D) ** 2), n_init=4
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("D", "k", "sign"), [(sphere(), (3, 0), 1), (disc(), (2, 1), -1)]
)
def test_spheres_and_hyperbolic_planes_are_exact(D, k, sign):
    emb = neuc_mds(
        D, k, loss="relative", curvature=sign * mean_of(D) ** 2, n_init=4
    )
    assert errors(emb, D).mean() < 1e-6
    assert emb.r2 == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("D", "sign"), [(sphere(30), 1), (disc(30), -1), (ball(30), 0)]
)
def test_the_curvature_is_found(D, sign):
    emb = neuc_mds(D, 3, loss="relative", curvature="auto", n_init=2)
    assert emb.curvature == pytest.approx(sign * mean_of(D) ** 2, rel=0.03)
    assert errors(emb, D).mean() < 0.005


@pytest.mark.slow
def test_trees_are_curved_and_perfect_fits_are_not():
    parent = np.random.default_rng(0).integers(0, np.arange(1, 40))
    edges = (np.ones(39), (parent, np.arange(1, 40)))
    D = shortest_path(csr_array(edges, shape=(40, 40)), directed=False)
    flat = neuc_mds(D, 3, loss="relative", n_init=2)
    emb = neuc_mds(D, 3, loss="relative", curvature="auto", n_init=2)
    assert emb.curvature < -4
    assert errors(emb, D).mean() < 0.8 * errors(flat, D).mean()
    assert np.max(emb.explained) < 100  # of R², also where D̂ is far below zero
    assert (
        neuc_mds(
            [[0, 1.0], [1.0, 0]], 1, loss="distance", curvature="auto"
        ).curvature
        == 0
    )


def test_everything_after_the_fit_knows_it(hyperbolic, tmp_path):
    D, emb = hyperbolic
    n, unit = len(D), mean_of(D)
    assert emb.curvature == pytest.approx(-(unit**2))
    assert emb.mean_distance == pytest.approx(unit)
    np.testing.assert_allclose(
        emb.dissimilarities(squared=True),
        2 * (np.cosh(D) - 1),
        rtol=1e-4,
        atol=1e-5,
    )
    np.testing.assert_allclose(emb.distance(0, range(n)), D[0], atol=1e-3)
    ids, nearest = emb.neighbors(5)
    np.testing.assert_allclose(
        nearest, np.take_along_axis(D, ids, axis=1), rtol=1e-3
    )
    quality = evaluate(emb, D)
    assert quality.relative_error_mean == pytest.approx(
        errors(emb, D).mean(), rel=1e-6, abs=1e-9
    )
    assert quality.stress == pytest.approx(emb.stress, rel=1e-3, abs=1e-9)
    np.testing.assert_allclose(
        emb.transform(D[:5]), emb.coordinates[:5], atol=1e-3
    )
    emb.save(tmp_path / "curved.npz")
    again = Embedding.load(tmp_path / "curved.npz")
    assert (again.curvature, again.floor) == (emb.curvature, emb.floor)
    assert neuc_mds(
        D, 2, loss="relative", floor=1.5, n_init=1
    ).floor == pytest.approx(1.5)
    np.testing.assert_array_equal(
        again.distance(0, range(n)), emb.distance(0, range(n))
    )
    np.testing.assert_array_equal(again.transform(D[:3]), emb.transform(D[:3]))


def test_stress_and_explained_are_those_of_d(hyperbolic):
    D, _ = hyperbolic
    emb = neuc_mds(D, 2, loss="distance", curvature=-2.0, n_init=1)
    fitted = np.asarray(emb.dissimilarities()) ** 2
    assert emb.stress == pytest.approx(((fitted - D**2) ** 2).sum(), rel=1e-9)
    x = np.asarray(emb.coordinates)[:, 1:]
    without = (
        np.arccosh(1 - emb.kappa / 2 * emb.signs[1] * (x - x.T) ** 2) ** 2
        / -emb.kappa
    )
    total = np.var((D**2)[~np.eye(len(D), dtype=bool)]) * (
        len(D) ** 2 - len(D)
    )
    rise = ((without - D**2) ** 2).sum() - emb.stress
    assert emb.explained[0] == pytest.approx(rise / total, rel=1e-6)


def test_the_page_tells_it(hyperbolic, tmp_path):
    _, emb = hyperbolic
    page = emb.report(tmp_path / "a.html").read_text("utf-8")
    assert f"−{-emb.curvature:.3g} / (mean d)²" in page
    assert "hyperbolic, with curvature" in page


def test_estimators_landmarks_and_sampled_pairs_take_it():
    D = disc(120)
    how = {"loss": "relative", "curvature": -(mean_of(D) ** 2)}
    est = LandmarkNeucMDS((2, 1), n_landmarks=80, random_state=0, **how)
    est.fit_transform(D)
    assert errors(est.result_, D).mean() < 0.02
    assert NeucMDS((2, 1), n_init=2, **how).fit(D).score(D[:4]) > 0.999
    graph = np.where(np.sort(D, axis=1)[:, [12]] >= D, D, 0)
    graph = np.maximum(graph, graph.T)
    emb = neuc_mds(
        csr_array(graph), (3, 1), metric="shortest_path", n_pairs=60, **how
    )
    assert emb.info.held_out_pairs
    assert emb.curvature == pytest.approx(how["curvature"])


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (
            {"curvature": -1.0},
            "curvature=-1.0 needs loss 'relative', 'absolute' or 'distance'",
        ),
        (
            {"curvature": "auto", "method": "classical"},
            "curvature='auto' needs",
        ),
        (
            {"loss": "relative", "curvature": "often"},
            "must be a number or 'auto'",
        ),
        (
            {"loss": "relative", "curvature": np.nan},
            "must be a number or 'auto'",
        ),
        (
            {"loss": "relative", "curvature": 9.0},
            "times too long; pass at most",
        ),
        (
            {"loss": "relative", "curvature": -1e4},
            "times too long; pass at least",
        ),
        (
            {"loss": "relative", "floor": 0.0},
            "floor=0.0 must be a positive number",
        ),
        (
            {"loss": "distance", "floor": 1.0},
            "floor=1.0 needs loss='relative'",
        ),
    ],
)
def test_what_cannot_be_is_refused(how, says):
    with pytest.raises(InputError, match=says):
        neuc_mds(disc(20), 2, **how)


@pytest.mark.slow
def test_a_curvature_found_on_a_sample_is_that_of_all_objects(monkeypatch):
    """Its unit and its bound used to be the sample's mean and largest d."""
    monkeypatch.setattr("neucmds.refine.scouting.SCOUTS", 60)
    n = 90
    rng = np.random.default_rng(1)
    x = rng.normal([0, 0, 1], 0.2, (n, 3))
    x[:4] = rng.normal([0, 0, -1], 0.5, (4, 3))  # most d are short
    x /= np.linalg.norm(x, axis=1)[:, None]
    D = np.arccos(np.clip(x @ x.T, -1, 1)) * (1 - np.eye(n))
    # 60 objects are drawn as a fit draws them: they lack the largest d.
    drawn = np.random.default_rng(0).choice(n, 60, replace=False)
    assert D[np.ix_(drawn, drawn)].max() < 0.999 * D.max()
    emb = neuc_mds(D, (3, 0), loss="relative", curvature="auto", n_init=2)
    assert emb.kappa == pytest.approx((np.pi / D.max()) ** 2, rel=1e-6)


def test_scores_in_single_precision_that_lose_distances_are_told():
    D = np.abs(np.subtract.outer(np.arange(40.0), np.arange(40.0)))
    emb = neuc_mds(D, (2, 1), loss="relative", curvature=-60.0, n_init=1)
    with pytest.warns(NeucmdsWarning, match="float32 are off by"):
        index = emb.to_inner_product()
    scores = index.queries(emb.coordinates) @ index.vectors.T
    sq = index.sq_dissimilarities(scores, emb.coordinates)
    off = ~np.eye(40, dtype=bool)
    np.testing.assert_allclose(
        emb.to_distance(sq)[off], emb.dissimilarities()[off], rtol=1e-3
    )
    single = index.queries(emb.coordinates).astype(np.float32)
    rounded = single @ index.vectors.astype(np.float32).T
    found = emb.to_distance(index.sq_dissimilarities(rounded, emb.coordinates))
    lost = found[off] / emb.dissimilarities()[off] - 1
    assert np.mean(np.abs(lost)) > 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        neuc_mds(D, 2, loss="relative", n_init=1).to_inner_product()


def test_a_curved_fit_of_a_tree_that_has_little_to_gain_has_converged():
    child = np.arange(1, 127)
    edges = (np.ones(126), ((child - 1) // 2, child))
    D = shortest_path(csr_array(edges, shape=(127, 127)), directed=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        emb = neuc_mds(D, 10, loss="relative", curvature=-50.0, n_init=1)
    assert errors(emb, D).mean() < 0.005
    assert emb.info.relative_gradient**2 < 6e-4
    short = {"loss": "relative", "curvature": -50.0, "n_init": 1}
    with pytest.warns(ConvergenceWarning):
        neuc_mds(D, 10, max_iter=2, **short)


def grid_of_roads(side=15, seed=0):
    """Return lengths of roads between crossings of a grid, a quarter of which are closed."""
    rng = np.random.default_rng(seed)
    graph = nx.grid_2d_graph(side, side)
    for edge in graph.edges:
        graph.edges[edge]["length"] = rng.uniform(1, 1.5)
    closed = [edge for edge in graph.edges if rng.random() < 0.25]
    graph.remove_edges_from(closed)
    largest = max(nx.connected_components(graph), key=len)
    return nx.to_scipy_sparse_array(graph.subgraph(largest), weight="length")


def hops_of_tree(n=120):
    tree = nx.random_labeled_tree(n, seed=0)
    return nx.to_scipy_sparse_array(tree, dtype=float)


@pytest.mark.parametrize(
    ("graph", "share"), [(grid_of_roads(), 1.0), (hops_of_tree(), 0.8)]
)
def test_a_curvature_of_sampled_pairs_predicts_the_others_no_worse(
    graph, share
):
    options = {"metric": "shortest_path", "loss": "relative", "n_pairs": 40}
    options["max_iter"] = 60
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat = neuc_mds(graph, 4, **options)
        chosen = neuc_mds(graph, 4, curvature="auto", **options)
    assert chosen.loss_value <= share * flat.loss_value
    assert (chosen.curvature < 0) == (share < 1)
