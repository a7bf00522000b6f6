"""Directed dissimilarities, and those between two sets: departures and arrivals."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from matplotlib.quiver import Quiver
from scipy import sparse
from scipy.sparse import csgraph
from typer.testing import CliRunner

from neucmds import (
    Embedding,
    InputError,
    NeucMDS,
    evaluate,
    neuc_mds,
    procrustes,
)
from neucmds.ecology import protest
from neucmds.errors import FewerComponentsWarning, NeucmdsWarning
from neucmds.explore import pair_errors
from neucmds.tools.cli.app import app

LOSSES = ("squared", "distance", "relative")


def two_sided(m, n, signs, seed=0):
    """Return d of points u to points v that a form with these signs gives exactly."""
    rng = np.random.default_rng(seed)
    k = len(signs)
    scales = np.where(np.asarray(signs) > 0, 1.0, 0.25)
    u = rng.normal(size=(m, k)) * scales
    v = rng.normal(size=(n, k)) * scales + 5.0 * (np.arange(k) == 0)
    sq = ((u[:, None] - v[None]) ** 2) @ np.asarray(signs, dtype=float)
    assert sq.min() > 0
    return np.sqrt(sq)


def one_way(n, seed=0):
    """Return distances among n objects that differ there and back."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    uphill = np.maximum(x[None, :, 0] - x[:, None, 0], 0)
    return np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2)) + uphill


@pytest.fixture(scope="module")
def streets():
    D = one_way(24)
    return D, neuc_mds(D, 4, loss="distance", directed=True, n_init=4)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_form_of_two_sides_is_found_exactly(loss):
    D = two_sided(14, 12, (1, 1, -1))
    n_init = 1 if loss == "squared" else 4
    emb = neuc_mds(
        D, (2, 1), loss=loss, directed=True, tol=1e-12, n_init=n_init
    )
    assert emb.coordinates.shape == (14, 3)
    assert emb.arrivals.shape == (12, 3)
    np.testing.assert_allclose(emb.dissimilarities(), D, rtol=1e-3)


def test_the_signature_is_chosen_for_the_directed_loss():
    D = two_sided(25, 25, (1, 1, -1))
    rows = [f"r{i}" for i in range(25)]
    columns = [f"c{i}" for i in range(25)]
    emb = neuc_mds(
        pd.DataFrame(D, rows, columns), 3, loss="relative", directed=True
    )
    assert emb.signature == (2, 1)


def test_both_directions_are_nearer_than_their_mean(streets):
    D, emb = streets
    off = ~np.eye(len(D), dtype=bool)
    error = np.abs(emb.dissimilarities() - D)[off].mean()
    error_of_mean = np.abs((D + D.T) / 2 - D)[off].mean()
    assert error < 0.3 * error_of_mean
    np.testing.assert_array_equal(np.diag(emb.dissimilarities()), 0)


def test_distance_is_from_the_first_to_the_second():
    D = one_way(12)
    names = list("abcdefghijkl")
    emb = neuc_mds(
        pd.DataFrame(D, names, names), 3, loss="distance", directed=True
    )
    fitted = emb.dissimilarities()
    assert emb.distance("a", "c") == pytest.approx(fitted[0, 2])
    assert emb.distance("c", "a") == pytest.approx(fitted[2, 0])
    assert emb.distance("b", "b") == 0
    np.testing.assert_allclose(
        emb.distance(["a", "b"], ["b", "b"]), [fitted[0, 1], 0]
    )
    np.testing.assert_allclose(
        emb.dissimilarities(["a"], ["b", "c"]), fitted[:1, 1:3]
    )


def test_neighbors_are_targets_or_sources(streets):
    _, emb = streets
    sq = emb.dissimilarities(squared=True)
    np.fill_diagonal(sq, np.inf)
    to, _ = emb.neighbors(5)
    from_, distances = emb.neighbors(5, direction="from")
    np.testing.assert_array_equal(to, np.argsort(sq, axis=1)[:, :5])
    np.testing.assert_array_equal(from_, np.argsort(sq.T, axis=1)[:, :5])
    np.testing.assert_allclose(
        distances**2, np.clip(np.sort(sq.T, axis=1)[:, :5], 0, None), atol=1e-9
    )
    with pytest.raises(InputError, match="'to' or 'from'"):
        emb.neighbors(5, direction="back")


def test_gaps_and_weights_leave_entries_out():
    D = two_sided(30, 20, (1, 1))
    hidden = np.random.default_rng(1).random(D.shape) < 0.2
    gaps = np.where(hidden, np.nan, D)
    emb = neuc_mds(
        gaps, (2, 0), loss="distance", directed=True, missing="ignore"
    )
    np.testing.assert_allclose(emb.dissimilarities(), D, rtol=1e-3)
    spoilt = np.where(hidden, 100.0, D)
    emb = neuc_mds(
        spoilt, (2, 0), loss="distance", directed=True, weights=~hidden * 1.0
    )
    np.testing.assert_allclose(emb.dissimilarities(), D, rtol=1e-3)


def test_one_negative_entry_is_refused_where_the_loss_needs_none():
    sq = one_way(12) ** 2
    sq[2, 5] = -0.5
    with pytest.raises(InputError, match="pairs with D < 0: 1, the lowest"):
        neuc_mds(sq, 2, loss="relative", directed=True, squared=True)


def test_new_sources_and_targets_are_placed_on_their_side():
    D = two_sided(30, 20, (1, 1, -1))
    emb = neuc_mds(D[:25, :16], (2, 1), loss="relative", directed=True)
    sources = emb.transform(to=D[25:, :16])
    targets = emb.transform(from_=D[:25, 16:].T)
    np.testing.assert_allclose(
        emb.between(sources, emb.arrivals), D[25:, :16], rtol=1e-2
    )
    both = emb.append(sources, arrivals=targets)
    np.testing.assert_allclose(both.dissimilarities(), D, rtol=1e-2)
    again = both.transform(to=D[25:, :16])
    np.testing.assert_allclose(again, sources)
    np.testing.assert_allclose(both.transform(from_=D[:25, 16:].T), targets)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_placed_object_fits_as_well_as_a_fitted_one(loss):
    D = one_way(60)
    emb = neuc_mds(D[:50, :50], (3, 1), loss=loss, directed=True, n_init=1)
    departures, arrivals = emb.transform(to=D[50:, :50], from_=D[:50, 50:].T)
    fitted = np.abs(emb.dissimilarities() - D[:50, :50]).sum() / (50 * 49)
    there = np.abs(emb.between(departures, emb.arrivals) - D[50:, :50])
    back = np.abs(emb.between(emb.coordinates, arrivals) - D[:50, 50:])
    assert there.mean() < 1.6 * fitted
    assert back.mean() < 1.6 * fitted


def test_a_directed_embedding_is_saved_and_loaded(tmp_path, streets):
    D, emb = streets
    more = emb.append(
        *(emb.coordinates[:2],), arrivals=emb.arrivals[:2], labels=None
    )
    more.save(tmp_path / "streets.npz")
    loaded = Embedding.load(tmp_path / "streets.npz")
    np.testing.assert_array_equal(
        loaded.dissimilarities(), more.dissimilarities()
    )
    for direction in ({"to": D[:3]}, {"from_": D.T[:3]}):
        np.testing.assert_array_equal(
            loaded.transform(**direction), emb.transform(**direction)
        )


def test_a_part_keeps_both_sides(streets):
    _, emb = streets
    part = emb[[3, 1, 8]]
    np.testing.assert_allclose(
        part.dissimilarities(), emb.dissimilarities([3, 1, 8], [3, 1, 8])
    )


def test_an_inner_product_ranks_arrivals_by_departures(streets):
    _, emb = streets
    index = emb.to_inner_product()
    scores = index.queries(emb.coordinates) @ index.vectors.T
    sq = index.sq_dissimilarities(scores, emb.coordinates)
    expected = emb.form.sq(emb.coordinates, emb.arrivals)
    np.testing.assert_allclose(sq, expected, atol=1e-9)
    sources = emb.to_inner_product(direction="from")
    scores = sources.queries(emb.arrivals) @ sources.vectors.T
    sq = sources.sq_dissimilarities(scores, emb.arrivals)
    np.testing.assert_allclose(sq, expected.T, atol=1e-9)


def test_a_symmetric_d_has_arrivals_at_its_departures():
    D = one_way(20)
    D = (D + D.T) / 2
    with pytest.warns(NeucmdsWarning, match="D is symmetric"):
        emb = neuc_mds(D, 3, loss="distance", directed=True)
    np.testing.assert_array_equal(emb.arrivals, emb.coordinates)
    assert emb.loss_value == neuc_mds(D, 3, loss="distance").loss_value


def test_both_orders_of_a_function_are_called():
    calls = []

    def uphill(a, b):
        calls.append((a, b))
        return abs(a - b) + max(b - a, 0.0) + 0.1 * (a != b)

    heights = [0.0, 1.0, 2.5, 4.0, 7.0, 7.5]
    emb = neuc_mds(
        [(h,) for h in heights],
        2,
        metric=lambda a, b: uphill(a[0], b[0]),
        directed=True,
        loss="distance",
    )
    assert len(calls) == 30
    assert emb.distance(0, 4) > 1.5 * emb.distance(4, 0)


def test_a_start_may_be_an_earlier_fit(streets):
    D, emb = streets
    again = neuc_mds(D, loss="distance", directed=True, init=emb)
    assert again.signature == emb.signature
    assert again.loss_value <= emb.loss_value * (1 + 1e-9)


def test_a_start_of_other_objects_is_refused(streets):
    _, emb = streets
    options = {"loss": "distance", "directed": True, "init": emb}
    message = "48 departures and arrivals, but D has 40"
    with pytest.raises(InputError, match=message):
        neuc_mds(one_way(20), **options)
    options["init"] = (emb.coordinates, emb.signs)
    with pytest.raises(InputError, match="24 departures and arrivals"):
        neuc_mds(one_way(24), **options)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_two_sets_in_one_place_have_no_coordinates():
    with pytest.warns(FewerComponentsWarning, match="0 of 2 coordinates"):
        emb = neuc_mds(np.zeros((4, 5)), 2, loss="relative", directed=True)
    np.testing.assert_array_equal(emb.dissimilarities(), np.zeros((4, 5)))


def test_a_row_without_entries_is_named():
    D = two_sided(4, 5, (1,))
    D[2] = np.nan
    with pytest.raises(InputError, match="outside the largest: 'row 2'"):
        neuc_mds(D, 1, directed=True, missing="ignore")


def test_a_graph_without_a_way_back_is_refused():
    graph = nx.DiGraph([("a", "b"), ("b", "c"), ("a", "c")])
    with pytest.raises(InputError, match=r"3 parts .*; keep edges that lead"):
        neuc_mds(graph, 1, directed=True, **GRAPH)
    options = GRAPH | {"metric_params": {"part": "largest"}}
    with pytest.raises(InputError, match="no two of 3 nodes reach each other"):
        neuc_mds(graph, 1, directed=True, **options)


def test_a_condensed_triangle_is_refused():
    with pytest.raises(InputError, match="condensed triangle has one"):
        neuc_mds(one_way(6)[np.triu_indices(6, 1)], 2, directed=True)


REFUSED = [
    ({"method": "neuc"}, "needs a symmetric D"),
    ({"n_components": "auto"}, "pass a number"),
    ({"symmetrize": True}, "leave one out"),
    ({"landmarks": 5}, "leave one out"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_of_symmetric_input_are_refused(options, message):
    with pytest.raises(InputError, match=message) as error:
        neuc_mds(one_way(10), directed=True, **options)
    assert "\n" not in str(error.value)


def test_names_that_overlap_in_part_are_refused():
    D = pd.DataFrame(two_sided(3, 4, (1,)), list("abc"), list("cdef"))
    message = (
        "1 of 3 rows and 4 columns.*rows alone 'a', 'b', columns alone 'd'"
    )
    with pytest.raises(InputError, match=message) as error:
        neuc_mds(D, 1, directed=True)
    assert "\n" not in str(error.value)


def test_nodes_that_are_not_reached_both_ways_are_counted_and_named():
    ways = {(0, 1): 1.0, (1, 2): 1.0, (2, 0): 1.0, (2, 3): 1.0}
    i, j = zip(*ways, strict=True)
    graph = sparse.coo_array((list(ways.values()), (i, j)), shape=(4, 4))
    with pytest.raises(InputError, match=r"2 parts.*both ways.*3") as error:
        neuc_mds(graph, 2, metric="shortest_path", directed=True)
    assert "\n" not in str(error.value)


def test_new_objects_are_appended_by_name_on_both_sides():
    D = one_way(12)
    names = [f"n{i}" for i in range(12)]
    table = pd.DataFrame(D, names, names)
    emb = neuc_mds(
        table.iloc[:10, :10], 3, loss="distance", directed=True, n_init=1
    )
    departures, arrivals = emb.transform(to=D[10:, :10], from_=D[:10, 10:].T)
    both = emb.append(departures, names[10:], arrivals=arrivals)
    assert both.labels == tuple(names)
    expected = emb.between(departures, emb.arrivals)
    np.testing.assert_allclose(
        both.dissimilarities(names[10:], names[:10]), expected
    )


REFUSED_COMMANDS = [
    (["--method", "neuc"], "--method"),
    (["--symmetrize"], "--symmetrize"),
]


@pytest.mark.parametrize(("arguments", "word"), REFUSED_COMMANDS)
def test_commands_refuse_options_of_symmetric_input(tmp_path, arguments, word):
    file = tmp_path / "ways.csv"
    pd.DataFrame(one_way(8), list("abcdefgh"), list("abcdefgh")).to_csv(file)
    command = ["embed", str(file), "--directed", "--plots", "none"]
    command += ["--output", str(tmp_path / "out"), *arguments]
    result = CliRunner().invoke(app, command)
    assert result.exit_code != 0
    assert word in result.output
    assert "Traceback" not in result.output


def test_columns_are_put_in_the_order_of_the_rows():
    D = one_way(8)
    names = list("abcdefgh")
    frame = pd.DataFrame(D, names, names)
    emb = neuc_mds(frame, 2, loss="distance", directed=True)
    turned = neuc_mds(frame[names[::-1]], 2, loss="distance", directed=True)
    np.testing.assert_allclose(emb.dissimilarities(), turned.dissimilarities())


BAD_ENTRIES = [
    (np.nan, "missing"),
    (np.inf, "infinite"),
    (-1.0, "negative"),
]


@pytest.mark.parametrize(("entry", "message"), BAD_ENTRIES)
def test_bad_entries_are_refused(entry, message):
    D = one_way(6)
    D[2, 4] = entry
    with pytest.raises(InputError, match=rf"1 {message}.* at \(2, 4\)"):
        neuc_mds(D, 2, directed=True)


def test_a_diagonal_that_is_not_zero_is_refused():
    with pytest.raises(InputError, match="diagonal"):
        neuc_mds(one_way(6) + 1, 2, directed=True)


def test_an_asymmetric_d_is_told_of_both_ways():
    message = r"differ by 0\.\d+ of their mean.*symmetrize=True.*directed=True"
    with pytest.raises(InputError, match=message):
        neuc_mds(one_way(6), 2)


UNEVEN = sparse.coo_array(one_way(6))
TOLD = {
    "a sparse D": (UNEVEN, {"loss": "distance"}),
    "a table": (two_sided(5, 4, (1,)), {}),
    "a sparse table": (sparse.coo_array(two_sided(5, 4, (1,))), {}),
    "edges": (UNEVEN, {"metric": "shortest_path"}),
    "a function": (
        np.arange(6.0)[:, None],
        {"metric": lambda x, y: float(max(x[0] - y[0], 0))},
    ),
}


@pytest.mark.parametrize(("data", "options"), TOLD.values(), ids=TOLD)
def test_input_with_two_directions_is_told_how_to_keep_them(data, options):
    with pytest.raises(InputError, match="directed=True") as error:
        neuc_mds(data, 2, **options)
    assert "\n" not in str(error.value)
    neuc_mds(data, 2, directed=True, n_init=1, **options)


def test_an_estimator_places_and_finds_by_direction():
    D = two_sided(16, 12, (1, 1, -1))
    frame = pd.DataFrame(
        D, [f"person {i}" for i in range(16)], list("abcdefghijkl")
    )
    fitted = NeucMDS((2, 1), loss="relative", directed=True, n_init=4)
    fitted.fit(frame[:12])
    assert fitted.result_.arrival_labels == tuple("abcdefghijkl")
    assert fitted.score(frame[12:]) > 0.99
    ids = fitted.kneighbors(frame[12:], 3, return_distance=False)
    np.testing.assert_array_equal(ids, np.argsort(D[12:], axis=1)[:, :3])


def test_quality_is_that_of_every_ordered_pair(streets):
    D, emb = streets
    quality = evaluate(emb, D)
    off = ~np.eye(len(D), dtype=bool)
    errors = np.abs(emb.dissimilarities() / np.where(off, D, 1) - 1)[off]
    assert quality.stress == pytest.approx(emb.stress)
    assert quality.r2 == pytest.approx(emb.r2)
    assert quality.relative_error_mean == pytest.approx(errors.mean())
    ids, _ = emb.neighbors(10)
    nearest = np.argsort(np.where(off, D, np.inf), axis=1)[:, :10]
    kept = [len({*a} & {*b}) for a, b in zip(ids, nearest, strict=True)]
    assert quality.neighbors_kept == pytest.approx(np.mean(kept) / 10)
    off_by_much = pair_errors(emb, D).pairs_off
    assert off_by_much == int((errors > 0.1).sum())


def test_another_d_is_no_measure(streets):
    _, emb = streets
    with pytest.raises(InputError, match="24 departures and 24 arrivals"):
        evaluate(emb, one_way(20))


def ring(n, back=()):
    """Return edges of length 1 around a ring, and back between some nodes."""
    i = np.arange(n)
    edges = [(a, (a + 1) % n, 1.0) for a in i.tolist()]
    edges += [(b, a, 1.0) for a, b in back]
    return edges


def as_sparse(edges, n):
    i, j, length = zip(*edges, strict=True)
    return sparse.coo_array((length, (i, j)), shape=(n, n))


GRAPH = {"metric": "shortest_path", "loss": "relative", "n_init": 2}


def test_one_way_edges_of_every_kind_of_graph_are_the_same():
    edges = ring(12, back=[(3, 4), (8, 9)])
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(edges)
    table = pd.DataFrame(edges, columns=["from", "to", "length"])
    two_way = table["from"].isin([3, 8])
    one_way_table = table[:12].assign(oneway=~two_way[:12])
    once = GRAPH | {"n_init": 1}
    embeddings = [
        neuc_mds(data, (3, 1), directed=True, **once)
        for data in (as_sparse(edges, 12), graph, table, one_way_table)
    ]
    by_params = once | {"metric_params": {"direction": "both"}}
    embeddings.append(neuc_mds(graph, (3, 1), **by_params))
    fitted = embeddings[0].dissimilarities()
    assert fitted[4, 3] < 2 < fitted[3, 2]
    for emb in embeddings:
        np.testing.assert_allclose(emb.dissimilarities(), fitted)


def test_edges_lead_as_their_column_says():
    table = pd.DataFrame(
        {
            "from": ["a", "b", "d", "d", "a"],
            "to": ["b", "c", "c", "a", "c"],
            "length": [1.0, 2.0, 1.0, 1.0, 5.0],
            "oneway": ["yes", True, "-1", 1, "no"],
        }
    )
    options = GRAPH | {"n_init": 1, "directed": True}
    emb = neuc_mds(table, (3, 0), **options)
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(
        [
            *(("a", "b", 1.0), ("b", "c", 2.0), ("c", "d", 1.0)),
            *(("d", "a", 1.0), ("a", "c", 5.0), ("c", "a", 5.0)),
        ]
    )
    expected = neuc_mds(graph, (3, 0), **options)
    assert emb.distance("b", "c") == pytest.approx(expected.distance("b", "c"))
    np.testing.assert_allclose(emb.loss_value, expected.loss_value)
    table["oneway"] = ["yes", "maybe", "-1", "yes", "no"]
    with pytest.raises(InputError, match=r"1 entries that are neither.*maybe"):
        neuc_mds(table, 2, **options)


def test_the_column_of_one_way_edges_is_never_a_length():
    ends = {"from": [0, 1, 2, 3], "to": [1, 2, 3, 0]}
    table = pd.DataFrame(ends | {"metres": [10.0, 20.0, 10.0, 20.0]})
    marked = table.assign(oneway=[True, False, True, False])
    options = {"metric": "shortest_path", "method": "neuc"}
    expected = neuc_mds(table, 2, **options).dissimilarities()
    with pytest.warns(
        NeucmdsWarning, match="2 of 4 edges are marked 'oneway'"
    ):
        found = neuc_mds(marked, 2, **options).dissimilarities()
    np.testing.assert_array_equal(found, expected)
    with pytest.warns(NeucmdsWarning, match="4 edges count as 1"):
        hops = neuc_mds(marked.drop(columns="metres"), 2, **options)
    unit = neuc_mds(table.assign(metres=1), 2, **options)
    np.testing.assert_array_equal(
        hops.dissimilarities(), unit.dissimilarities()
    )
    params = {"weight": "oneway"}
    with pytest.raises(InputError, match="no column 'oneway'"):
        neuc_mds(marked, 2, metric_params=params, **options)


@pytest.mark.parametrize("titles", [[0, 1], ["self", "to"]])
def test_columns_of_nodes_may_have_any_title(titles):
    table = pd.DataFrame(ring(8), columns=["from", "to", "length"])
    table["oneway"] = [True, False] * 4
    options = {
        "metric": "shortest_path",
        "method": "neuc",
        "metric_params": {"direction": "mean"},
    }
    expected = neuc_mds(table, 2, **options).dissimilarities()
    table.columns = [*titles, "length", "oneway"]
    found = neuc_mds(table, 2, **options).dissimilarities()
    np.testing.assert_array_equal(found, expected)


def test_the_largest_part_is_kept_and_named():
    edges = [*ring(10), (4, 10, 1.0), (11, 2, 1.0)]
    graph = as_sparse(edges, 12)
    with pytest.raises(InputError, match=r"3 parts .*'part': 'largest'"):
        neuc_mds(graph, 2, directed=True, **GRAPH)
    options = GRAPH | {"metric_params": {"part": "largest"}}
    with pytest.warns(NeucmdsWarning, match="2 of 12 nodes are left out"):
        emb = neuc_mds(graph, 2, directed=True, **options)
    assert emb.labels == tuple(map(str, range(10)))
    with pytest.raises(InputError, match="no object is called '11'"):
        emb.distance(11, 0)


def test_the_largest_part_of_an_undirected_graph_is_kept():
    edges = [(i, i + 1, 1.0) for i in (0, 1, 3, 4, 5)]
    options = GRAPH | {"metric_params": {"part": "largest"}}
    with pytest.warns(NeucmdsWarning, match="3 of 7 nodes are left out"):
        emb = neuc_mds(as_sparse(edges, 7), 1, **options)
    assert emb.labels == ("3", "4", "5", "6")
    assert emb.distance(3, 6) == pytest.approx(3, rel=1e-3)


def test_a_direction_that_joins_both_is_refused_with_directed():
    options = GRAPH | {"metric_params": {"direction": "mean"}}
    with pytest.raises(InputError, match="leave one out"):
        neuc_mds(as_sparse(ring(6), 6), 2, directed=True, **options)


def test_edges_that_all_lead_both_ways_are_symmetric():
    edges = ring(8, back=[(i, (i + 1) % 8) for i in range(8)])
    graph = as_sparse(edges, 8)
    with pytest.warns(NeucmdsWarning, match="D is symmetric"):
        emb = neuc_mds(graph, 2, directed=True, **GRAPH)
    plain = neuc_mds(graph, 2, **GRAPH)
    np.testing.assert_allclose(emb.dissimilarities(), plain.dissimilarities())


def test_an_estimator_takes_edges_of_new_nodes():
    graph = as_sparse(ring(12), 12)
    fitted = NeucMDS((3, 1), directed=True, **GRAPH).fit(graph)
    edge = sparse.coo_array(([0.5], ([0], [3])), shape=(1, 12))
    to_fitted = fitted.result_.between(
        fitted.transform(edge), fitted.result_.arrivals
    )
    np.testing.assert_allclose(to_fitted[0, 5], 2.5, rtol=0.3)


def test_listed_pairs_are_entries_from_rows_to_columns():
    D = two_sided(20, 16, (1, 1))
    known = np.random.default_rng(0).random(D.shape) < 0.6
    stored = sparse.coo_array(np.where(known, D, 0))
    emb = neuc_mds(stored, (2, 0), loss="distance", directed=True, n_init=1)
    np.testing.assert_allclose(emb.dissimilarities(), D, rtol=1e-2)


def test_many_listed_pairs_take_no_matrix():
    D = one_way(310)
    known = np.random.default_rng(0).random(D.shape) < 0.5
    stored = sparse.coo_array(np.where(known, D, 0))
    emb = neuc_mds(stored, (3, 1), loss="distance", directed=True)
    assert emb.info.solver == "pairs"
    off = ~np.eye(len(D), dtype=bool)
    error = np.abs(emb.dissimilarities() - D)[off].mean()
    dense = neuc_mds(D, (3, 1), loss="distance", directed=True, n_init=1)
    assert error < 1.2 * np.abs(dense.dissimilarities() - D)[off].mean()


def test_a_sample_of_both_directions_stands_for_all():
    rng = np.random.default_rng(0)
    x = rng.random((160, 2))
    near = np.argsort(((x[:, None] - x) ** 2).sum(axis=2), axis=1)[:, 1:5]
    i = np.repeat(np.arange(160), 4)
    j = near.ravel()
    length = np.sqrt(((x[i] - x[j]) ** 2).sum(axis=1))
    graph = sparse.coo_array((length, (i, j)), shape=(160, 160))
    options = {
        "metric": "shortest_path",
        "metric_params": {"part": "largest"},
        "loss": "relative",
        "directed": True,
    }
    with pytest.warns(NeucmdsWarning, match="nodes are left out"):
        emb = neuc_mds(graph, (4, 2), n_pairs=60, **options)
    with pytest.warns(NeucmdsWarning, match="nodes are left out"):
        whole = neuc_mds(graph, (4, 2), n_init=1, **options)
    assert emb.info.solver == "sampled pairs"
    assert emb.labels == whole.labels
    kept = np.array(emb.labels, dtype=int)
    D = csgraph.dijkstra(graph.tocsr()[kept][:, kept])
    sampled_error = evaluate(emb, D).relative_error_mean
    assert sampled_error < 1.5 * evaluate(whole, D).relative_error_mean
    assert emb.stress == pytest.approx(evaluate(emb, D).stress, rel=0.3)


def test_landmarks_of_a_graph_place_both_sides_of_all_nodes(tmp_path):
    graph = as_sparse(ring(80, back=[(a, a + 1) for a in range(60)]), 80)
    D = csgraph.dijkstra(graph.tocsr())
    landmarks = np.arange(0, 80, 2)
    options = {"metric": "shortest_path", "loss": "relative", "directed": True}
    emb = neuc_mds(graph, (4, 2), landmarks=landmarks, **options)
    whole = neuc_mds(graph, (4, 2), n_init=1, **options)
    assert emb.arrivals.shape == (80, 6)
    np.testing.assert_array_equal(emb.landmarks, landmarks)
    error = evaluate(emb, D).relative_error_mean
    assert error < 2 * evaluate(whole, D).relative_error_mean
    departures, arrivals = emb.transform(
        to=D[1:2, landmarks], from_=D[landmarks, 1:2].T
    )
    np.testing.assert_allclose(departures[0], emb.coordinates[1], atol=1e-5)
    np.testing.assert_allclose(arrivals[0], emb.arrivals[1], atol=1e-5)
    emb.save(tmp_path / "ring.npz")
    loaded = Embedding.load(tmp_path / "ring.npz")
    np.testing.assert_array_equal(loaded.arrivals, emb.arrivals)


def test_a_frame_has_both_sides(streets):
    _, emb = streets
    frame = emb.to_frame()
    assert frame.shape == (24, 8)
    assert frame.columns[4].startswith("arrival1")
    np.testing.assert_array_equal(frame.to_numpy()[:, 4:], emb.arrivals)
    rectangle = neuc_mds(
        two_sided(9, 7, (1, 1)), (2, 0), directed=True
    ).to_frame()
    assert rectangle["side"].value_counts().to_dict() == {
        "departure": 9,
        "arrival": 7,
    }


def test_a_plot_has_an_arrow_from_departure_to_arrival(streets):
    _, emb = streets
    ax = emb.plot()
    (arrows,) = [c for c in ax.collections if isinstance(c, Quiver)]
    np.testing.assert_allclose(
        arrows.U, (emb.arrivals - emb.coordinates)[:, 0]
    )


def test_a_command_embeds_a_table_from_rows_to_columns(tmp_path):
    D = two_sided(9, 7, (1, 1))
    people = [f"p{i}" for i in range(9)]
    table = pd.DataFrame(D, people, list("abcdefg"))
    table.to_csv(tmp_path / "ratings.csv")
    arguments = ["embed", str(tmp_path / "ratings.csv"), "--directed"]
    arguments += ["-k", "2,0", "--loss", "distance", "--plots", "none"]
    arguments += ["--output", str(tmp_path / "out")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    saved = Embedding.load(tmp_path / "out" / "embedding.npz")
    assert saved.arrival_labels == tuple("abcdefg")
    np.testing.assert_allclose(saved.dissimilarities(), D, rtol=1e-2)
    coordinates = pd.read_csv(tmp_path / "out" / "coordinates.csv")
    assert list(coordinates["object"]) == [*people, *"abcdefg"]


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_a_command_reads_what_python_reads(tmp_path, kind):
    D = one_way(8)
    file = tmp_path / f"d.{kind}"
    if kind == "csv":
        np.savetxt(file, D, delimiter=",")
    else:
        np.savez(file, D=D, names=list("abcdefgh"))
    command = ["embed", str(file), "--directed", "--plots", "none"]
    out = tmp_path / "out"
    result = CliRunner().invoke(app, [*command, "--output", str(out)])
    assert result.exit_code == 0
    saved = Embedding.load(out / "embedding.npz")
    expected = neuc_mds(file, directed=True, random_state=0)
    assert saved.labels == expected.labels
    assert saved.arrival_labels is None
    np.testing.assert_array_equal(saved.arrivals, expected.arrivals)


@pytest.mark.parametrize("side", ["to", "from"])
def test_a_command_places_departures_or_arrivals(tmp_path, side):
    D = two_sided(16, 12, (1, 1, -1))
    people = [f"p{i}" for i in range(16)]
    table = pd.DataFrame(D, people, list("abcdefghijkl"))
    emb = neuc_mds(
        table.iloc[:13, :10], (2, 1), loss="relative", directed=True, n_init=2
    )
    emb.save(tmp_path / "emb.npz")
    new = table.iloc[13:, :10] if side == "to" else table.iloc[:13, 10:].T
    new.to_csv(tmp_path / "new.csv")
    out = tmp_path / "placed.csv"
    command = ["project", str(tmp_path / "emb.npz"), str(tmp_path / "new.csv")]
    command += ["-o", str(out), "--plot", str(tmp_path / "new.png")]
    if side == "from":
        command.append("--arrivals")
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    placed = pd.read_csv(out, index_col=0)
    key = {"to": "to", "from": "from_"}[side]
    expected = emb.transform(**{key: new})
    np.testing.assert_allclose(placed.iloc[:, :3], expected, atol=1e-6)
    assert placed["r2"].min() > 0.99


def test_a_file_is_a_table_from_rows_to_columns(tmp_path):
    D = two_sided(6, 4, (1, 1))
    table = pd.DataFrame(D, list("abcdef"), list("wxyz"))
    file = tmp_path / "table.csv"
    table.to_csv(file)
    with pytest.raises(InputError, match="directed=True"):
        neuc_mds(file, 2)
    emb = neuc_mds(file, 2, directed=True, n_init=1)
    assert emb.labels == tuple("abcdef")
    assert emb.arrival_labels == tuple("wxyz")


def test_a_command_embeds_the_largest_part_of_one_way_edges(tmp_path):
    names = np.array([f"corner {a}" for a in range(10)])
    edges = pd.DataFrame(ring(8, back=[(1, 2)]), columns=["from", "to", "m"])
    out_of_it = pd.DataFrame([(3, 8, 2.0), (9, 4, 1.0)], columns=edges.columns)
    edges = pd.concat([edges, out_of_it])
    edges[["from", "to"]] = names[edges[["from", "to"]].to_numpy()]
    file = tmp_path / "edges.csv"
    edges.to_csv(file, index=False)
    metric = "shortest_path,part=largest,weight=m"
    command = ["embed", str(file), "-k", "3", "--metric", metric]
    out = tmp_path / "out"
    more = ["--directed", "--loss", "relative", "--plots", "none", "-o"]
    result = CliRunner().invoke(app, [*command, *more, str(out)])
    assert result.exit_code == 0, result.output
    table = pd.read_csv(out / "coordinates.csv", index_col=0)
    assert list(table.index) == list(names[:8])
    assert table.shape[1] == 6


def test_two_sets_of_points_are_not_laid_over_others(streets):
    _, emb = streets
    for call in (procrustes, protest):
        with pytest.raises(InputError, match="departures and arrivals"):
            call(emb, emb)
    assert protest(emb.coordinates, emb.arrivals, permutations=0).statistic > 0
