"""Graphs as dissimilarities: lengths of shortest paths, row by row or for chosen pairs."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from math import inf, sqrt
from typing import Any

import numpy as np
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    EPS,
    Array,
    Floats,
    Numbers,
    k_smallest,
    row_blocks,
)
from neucmds.backend.memory import require_memory
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.problem.files import require_pandas
from neucmds.problem.names import are_row_numbers, examples, is_frame, text_of
from neucmds.problem.pairs import (
    NO_WAY_BACK,
    Connection,
    edges_of,
    key_groups,
    pair_keys,
    refuse_parts,
)
from neucmds.problem.sampled_pairs import (
    CHECKED,
    PARTNERS,
    Check,
    PairSample,
    Sampling,
    drawn_pairs,
    near_pairs,
)
from neucmds.problem.validation import entry_name, tolerance

# Nodes i, nodes j, and the lengths of the edges or paths between them.
Edges = tuple[Numbers, Numbers, Floats]

# Nodes that share a subgraph in a search for the k nearest: NEAR_BLOCK / √k of them.
NEAR_BLOCK = 1000
# Landmarks that share a subgraph in a search for the nodes near them.
LANDMARK_BLOCK = 64
# Visits of edges above which processes pay: 5 s on one core, 1 s to start processes.
WORTH_PROCESSES = 250_000_000
# How the lengths of a path there and of one back become one length.
JOINS: dict[Any, Callable[[Floats, Floats], Floats]] = {
    "mean": lambda out, back: (out + back) / 2,
    "min": np.minimum,
    "max": np.maximum,
}
# "out": the length there alone counts; "both": they stay two.
DIRECTIONS = (*JOINS, "out", "both")
NO_NODES = "the graph has no nodes; pass one with edges."
# The column of a table of edges that tells which lead one way, and its entries for these.
ONE_WAY = "oneway"
FORWARD = ("true", "yes", "1", "1.0")
# As OpenStreetMap has it: from the second node to the first.
BACKWARD = ("-1", "-1.0", "reverse")
BOTH_WAYS = ("false", "no", "0", "0.0", "none", "nan", "<na>", "")


class Graph(sparse.csr_array):  # type: ignore[misc]
    """Lengths of edges, n × n, of a connected graph that `as_graph` checked.

    Without a direction every edge is stored in both orders. With one of `DIRECTIONS`, the entry
    (i, j) is an edge that leads from i to j alone.
    """

    direction: str | None = None
    # If some nodes were left out: the numbers of the others in the graph that the user gave.
    kept: Numbers | None = None

    def search(self, sources: Numbers, limit: float = inf) -> Floats:
        """Lengths of the shortest paths from some nodes (rows) to all, infinite beyond a limit.

        With a direction of `JOINS` the lengths of the ways there and back become one length, which
        the limit is for.
        """
        search = partial(
            csgraph.dijkstra, indices=sources, limit=self._reach(limit)
        )
        lengths: Floats = search(self)
        if self.direction in JOINS:
            lengths = JOINS[self.direction](lengths, search(self.T))
            lengths[lengths > limit] = inf
        return lengths

    def _reach(self, limit: float) -> float:
        """Return how far to search for lengths up to a limit: one way may be twice the mean."""
        if self.direction == "mean":
            return 2 * limit
        return limit

    def to_nearest(self, nodes: Numbers, **settings: Any) -> Any:
        """Search, for every node, the nearest of some nodes along edges in either direction.

        Return lengths, and with `settings` what else `csgraph.dijkstra` returns.
        """
        # Without a direction both orders are stored: an undirected search would visit each twice.
        directed = self.direction is None
        return csgraph.dijkstra(
            self, directed=directed, indices=nodes, min_only=True, **settings
        )

    def turned(self) -> Graph:
        """Return the graph with every edge the other way."""
        turned = Graph(self.T.tocsr())
        turned.direction = self.direction
        return turned

    def search_around(
        self, nodes: Numbers, limit: float
    ) -> tuple[Numbers, Floats]:
        """Return the nodes within a limit of any of some nodes, and the lengths between.

        Lengths have a row for each of `nodes` and a column for each within the limit; numbers of
        these ascend. Paths up to the limit stay among them, so that their subgraph is searched.
        """
        to_nearest = self.to_nearest(nodes, limit=self._reach(limit))
        ball = np.flatnonzero(np.isfinite(to_nearest))
        subgraph: Graph = self[ball][:, ball]
        subgraph.direction = self.direction
        return ball, subgraph.search(np.searchsorted(ball, nodes), limit)


def named_graph(
    data: Any,
    labels: Any = None,
    params: dict[str, Any] | None = None,
    both_directions: bool = False,
) -> tuple[Graph, Any]:
    """Return the graph in a sparse array, networkx graph or table of edges, and its nodes' names.

    `labels` replace the names. `params` are `metric_params` of `neuc_mds`: "weight", "direction"
    and "part". With `both_directions`, for `directed=True`, the direction is "both".
    """
    defaults = {"weight": "weight", "direction": None, "part": None}
    settings = defaults | (params or {})
    direction = settings["direction"]
    part = settings["part"]
    unknown = {
        name: value
        for name, value in settings.items()
        if name not in defaults
        or (name == "direction" and value not in (None, *DIRECTIONS))
        or (name == "part" and value not in (None, "largest"))
    }
    if unknown:
        shown = " ".join(reprlib.repr(unknown).split())
        raise InputError(
            f"{option('metric_params')} of {option('metric', 'shortest_path')} may hold 'weight', "
            f"as 'direction' one of {', '.join(DIRECTIONS)}, and 'part': 'largest'; not {shown}."
        )
    if both_directions:
        if direction not in (None, "both"):
            raise InputError(
                f"{option('direction', direction)} makes one length of two directions, and "
                f"{option('directed', True)} keeps both; leave one out."
            )
        direction = "both"
    directed = False
    names = None
    if hasattr(data, "nodes") and hasattr(data, "adj"):
        directed = data.is_directed()
        if not are_row_numbers(data.nodes):
            names = tuple(text_of(node) for node in data.nodes)
        data = _networkx_lengths(data, settings["weight"])
    elif is_frame(data):
        data = _without_one_way(data, direction)
        data, names = edges_of(data, settings["weight"])
    elif "weight" in (params or {}):
        raise InputError(
            f"'weight' in {option('metric_params')} names an attribute or a column of lengths, "
            "which a sparse array stores itself; leave it out."
        )
    if labels is None:
        labels = names
    graph = as_graph(data, labels, direction, directed, part)
    # Labels may name all nodes, or those alone that are kept.
    if graph.kept is not None and len(labels or ()) != graph.kept.size:
        labels = _kept_names(graph.kept, labels)
    return graph, labels


def _without_one_way(frame: Any, direction: str | None) -> Any:
    """Drop the column that tells which edges lead one way.

    With a direction, list edges in the order in which they lead, others in both orders.
    """
    if ONE_WAY not in frame.columns[2:]:
        return frame
    edges = frame.drop(columns=ONE_WAY)
    texts = frame[ONE_WAY].astype(str).str.lower()
    if direction is None:
        one_way = int(texts.isin((*FORWARD, *BACKWARD)).sum())
        if one_way:
            _warn_of_one_way(one_way, len(frame), f"marked {ONE_WAY!r}")
        return edges
    unknown = ~texts.isin((*FORWARD, *BACKWARD, *BOTH_WAYS))
    if unknown.any():
        raise InputError(
            f"column {ONE_WAY!r} has {int(unknown.sum())} entries that are neither yes, no nor -1 "
            f"(backwards): {examples(texts[unknown].unique().tolist())}; repair them."
        )
    there = edges[~texts.isin(BACKWARD)]
    swapped = [1, 0, *range(2, edges.shape[1])]
    back = edges[~texts.isin(FORWARD)].iloc[:, swapped]
    back = back.set_axis(edges.columns, axis=1)
    pandas = require_pandas("a table of edges")
    return pandas.concat([there, back], ignore_index=True)


def _warn_of_one_way(count: int, n_edges: int, how: str) -> None:
    """Warn that edges which may lead one way count in both."""
    warnings.warn(
        f"{count} of {n_edges} edges are {how} and count both ways; pass "
        f"{option('direction', 'mean')}, 'min', 'max' or 'out', or {option('directed', True)}, if "
        "they are one-way.",
        NeucmdsWarning,
        stacklevel=5,
    )


def _kept_names(kept: Numbers, labels: Any) -> tuple[str, ...]:
    """Return the names of nodes by their numbers; without labels the numbers as text."""
    if labels is None:
        return tuple(str(node) for node in kept.tolist())
    return tuple(labels[node] for node in kept.tolist())


def as_graph(
    data: Any,
    labels: Any = None,
    direction: str | None = None,
    directed: bool = False,
    part: str | None = None,
) -> Graph:
    """Check a sparse array of lengths, and make it a graph.

    Explicit zeros are edges of length 0. Of parallel edges the shortest counts. Without a
    `direction` edges lead both ways, whether they are stored in one order or in both. A warning
    counts edges in one order alone, if others are in both or the user's graph was `directed`.
    `labels` name the nodes in messages. If ``part="largest"``, the largest connected part is kept,
    with a warning; along directed edges, the largest in which all nodes reach each other.
    """
    if isinstance(data, Graph):
        return data
    if not hasattr(data, "tocoo"):
        raise InputError(
            "the graph must be a scipy.sparse array of lengths, n × n, a table of edges, or "
            "networkx's."
        )
    n = data.shape[0]
    if data.shape != (n, n):
        raise InputError(
            f"the graph is not square: {' × '.join(map(str, data.shape))}."
        )
    if n == 0:
        raise InputError(NO_NODES)
    i, j, length = _shortest_edges(
        _without_loops(data), labels, count_once=direction is None
    )
    if direction is None:
        i, j, length = _both_orders(n, i, j, length, labels, directed)
    # SciPy 1.13 searches only graphs with indices of 32 bits.
    ends = i.astype(np.int32), j.astype(np.int32)
    graph: Graph = Graph((length, ends), shape=(n, n))
    connection: Connection = "weak" if direction is None else "strong"
    if part is not None:
        graph = _largest_part(graph, labels, connection)
    else:
        refuse_parts(graph, labels, "edge", connection)
    graph.direction = direction
    return graph


def _largest_part(graph: Graph, labels: Any, connection: Connection) -> Graph:
    """Keep the nodes of the largest connected part, and warn of the others."""
    count, part_of = csgraph.connected_components(graph, connection=connection)
    if count == 1:
        return graph
    is_kept = part_of == np.argmax(np.bincount(part_of))
    if is_kept.sum() == 1:
        raise InputError(
            f"the largest part is 1 node: no two of {part_of.size} nodes reach each other; "
            f"{NO_WAY_BACK}."
        )
    others = np.flatnonzero(~is_kept)
    names = examples(_kept_names(others, labels))
    warnings.warn(
        f"{others.size} of {part_of.size} nodes are left out: they are in {count - 1} other parts "
        f"of the graph ({names}); the labels of the embedding name the nodes that are kept.",
        NeucmdsWarning,
        stacklevel=4,
    )
    kept = np.flatnonzero(is_kept)
    largest: Graph = graph[kept][:, kept]
    largest.kept = kept
    return largest


def _without_loops(data: Any) -> Any:
    """Return a graph without edges of nodes to themselves, which are on no shortest path."""
    stored = data.tocoo()
    i, j = stored.coords
    is_edge = i != j
    ends = i[is_edge], j[is_edge]
    return sparse.coo_array((stored.data[is_edge], ends), shape=data.shape)


def _shortest_edges(
    edges: Any, labels: Any = None, count_once: bool = False
) -> Edges:
    """Return the edges in a sparse array, the shortest of parallel ones.

    With `count_once`, the message counts a bad edge once that is stored in both orders.
    """
    stored = edges.tocoo()
    i, j = (np.asarray(index, dtype=np.int64) for index in stored.coords)
    length = np.asarray(stored.data, dtype=np.float64)
    bad = ~(np.isfinite(length) & (length >= 0))
    if bad.any():
        first = int(np.argmax(bad))
        n_bad = int(bad.sum())
        if count_once:
            n_bad = len(set(pair_keys(stored.shape[0], i[bad], j[bad])))
        raise InputError(
            f"{n_bad} edges have lengths that are negative or not finite, the first "
            f"{length[first]:.4g} at {entry_name(i[first], j[first], labels)}; drop or repair them."
        )
    width = stored.shape[1]
    key, shortest, _ = _extremes_by_key(i * width + j, length)
    return key // width, key % width, shortest


def _extremes_by_key(
    key: Numbers, length: Floats
) -> tuple[Numbers, Floats, Floats]:
    """Return each key once, with its shortest and its longest length."""
    order, first = key_groups(key)
    length = length[order]
    return (
        key[order][first],
        np.minimum.reduceat(length, first),
        np.maximum.reduceat(length, first),
    )


def _both_orders(
    n: int, i: Numbers, j: Numbers, length: Floats, labels: Any, directed: bool
) -> Edges:
    """Return every edge in both orders, and refuse those with another length back."""
    entry_keys = pair_keys(n, i, j)
    edge_keys, shortest, longest = _extremes_by_key(entry_keys, length)
    n_edges = edge_keys.size
    gap = longest - shortest
    uneven = int(np.sum(gap > tolerance(longest.max(initial=0.0), EPS)))
    if uneven:
        worst = int(np.argmax(gap))
        where = entry_name(*divmod(int(edge_keys[worst]), n), labels)
        raise InputError(
            f"the graph is directed: {uneven} of {n_edges} edges have another length back, by up "
            f"to {gap[worst]:.4g} at {where}; pass {option('direction', 'mean')} for the mean of "
            f"both ways, or 'min', 'max' or 'out', or {option('directed', True)} to keep both."
        )
    # Each edge would have two entries if all were stored in both orders.
    one_way = 2 * n_edges - entry_keys.size
    if 0 < one_way < n_edges or (directed and one_way):
        _warn_of_one_way(one_way, n_edges, "stored in one order alone")
    low = edge_keys // n
    high = edge_keys % n
    return np.r_[low, high], np.r_[high, low], np.r_[shortest, shortest]


def _networkx_lengths(graph: Any, weight: str | None) -> Any:
    """Lengths of the edges of a networkx graph, nodes in its order, as a sparse array.

    The attribute `weight` has the length of an edge, or "length" if no edge has "weight". An edge
    without the attribute has length 1; so has every edge if `weight` is None. A warning counts
    edges that lack the attribute, if some edge has `weight`, "length", "cost" or "distance".
    """
    from networkx import (  # type: ignore[import-untyped]
        to_scipy_sparse_array,
    )

    if not len(graph):
        raise InputError(NO_NODES)
    edges = [attributes for *_, attributes in graph.edges(data=True)]
    names = set().union(*edges)
    advice = (
        f"'weight' in {option('metric_params')} must be one of "
        f"{examples(sorted(names, key=repr))}, or None for edges of length 1."
    )
    if weight not in (*names, "weight", None):
        raise InputError(f"no edge has {weight!r}; {advice}")
    if weight == "weight" and weight not in names and "length" in names:
        weight = "length"
    lacking = sum(weight not in attributes for attributes in edges)
    usual = names & {weight, "length", "cost", "distance"}
    if weight is not None and lacking and usual:
        warnings.warn(
            f"{lacking} of {len(edges)} edges have no {weight!r}, and count as 1; {advice}",
            NeucmdsWarning,
            stacklevel=4,
        )
    try:
        return to_scipy_sparse_array(
            graph, weight=weight, dtype=np.float64, format="coo"
        )
    except (TypeError, ValueError) as error:
        raise InputError(
            f"lengths of edges must be numbers ({error})."
        ) from error


def all_paths(graph: Graph) -> Floats:
    """Lengths of the shortest paths between all nodes, the same in both orders but for rounding.

    Of the direction "out" D_ij is the way from i to j for i < j.
    """
    paths = shortest_path_rows(graph, np.arange(graph.shape[0]))
    if graph.direction == "out":
        return np.triu(paths) + np.triu(paths, 1).T
    return paths


def joined_paths(edges: Any, paths: Callable[[Numbers], Floats]) -> Floats:
    """Lengths (m, n) of the shortest paths from new nodes to fitted ones.

    `edges` (m, n) are the lengths of edges from new nodes to fitted ones. ``paths(nodes)`` returns
    those of the shortest paths from fitted nodes, a row each, to all fitted nodes.
    """
    i, j, length = _shortest_edges(edges)
    n_edges = np.bincount(i, minlength=edges.shape[0])
    if not n_edges.all():
        raise InputError(
            f"new node {np.argmin(n_edges)} has no edge; give each at least one."
        )
    nodes, position = np.unique(j, return_inverse=True)
    # A row for each edge, edges in the order of the new nodes.
    lengths = length[:, None] + paths(nodes)[position]
    first_edge = np.cumsum(n_edges) - n_edges
    return np.asarray(np.minimum.reduceat(lengths, first_edge, axis=0))


def refuse_edge_rows(lengths: Floats, graph: Any) -> None:
    """Refuse rows that should be lengths of paths and are edges, with zeros where there is none.

    No new node is at length 0 from two nodes that are apart.
    """
    for i, row in enumerate(lengths):
        at_zero = np.flatnonzero(row == 0)
        if at_zero.size > 1:
            # If any two of these nodes are apart, the first is apart from one.
            apart = shortest_path_rows(graph, at_zero[:1])[0, at_zero].max()
            if apart > 0:
                raise InputError(
                    f"new node {i} is at length 0 from {at_zero.size} nodes that are up to "
                    f"{apart:.4g} apart; pass edges as a scipy.sparse array, or lengths of paths."
                )


def shortest_path_rows(
    graph: Any,
    nodes: Any,
    *,
    dtype: Any = np.float64,
    n_jobs: int | None = None,
) -> Floats:
    """Lengths of the shortest paths from some nodes, one row each, to all of a graph of `as_graph`.

    `n_jobs` processes search; None: as many as cores, where that saves time.
    """
    sources = np.asarray(nodes, dtype=np.int64)
    n = graph.shape[0]
    require_memory(
        sources.size * n * np.dtype(dtype).itemsize,
        f"shortest paths from {sources.size} nodes to {n}",
        "ask for fewer",
    )
    out = np.empty((sources.size, n), dtype=dtype)
    for block, rows in path_blocks(graph, sources, n_jobs):
        out[block] = rows
    return out


def path_blocks(
    graph: Graph, sources: Numbers, n_jobs: int | None = None
) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of the rows that `shortest_path_rows` returns, and their slices."""
    n = graph.shape[0]
    blocks = list(row_blocks(sources.size, n))
    visits = sources.size * (graph.nnz + n)
    parts = [sources[block] for block in blocks]
    yield from zip(
        blocks,
        _in_processes(Graph.search, graph, parts, visits, n_jobs),
        strict=True,
    )


def nearest_nodes(
    graph: Graph,
    count: int,
    nodes: Numbers | None = None,
    *,
    n_jobs: int | None = None,
) -> Edges:
    """Return the paths from each of some nodes (None: all) to its `count` nearest.

    A search ends where these are found.
    """
    n = graph.shape[0]
    count = min(count, n - 1)
    # Consecutive nodes of this order are near each other: a block of them has a small subgraph.
    order = csgraph.reverse_cuthill_mckee(
        graph, symmetric_mode=graph.direction is None
    )
    if nodes is not None:
        order = order[np.isin(order, nodes)]
    block_size = max(1, int(NEAR_BLOCK / sqrt(count)))
    # Blocks that follow each other in one process hand on how far they had to search: runs of 64.
    run_size = 64 * block_size
    runs = [order[run] for run in row_blocks(order.size, 1, run_size)]
    # A search visits about twice as many nodes as it returns, and `to_nearest` writes n lengths for
    # every block.
    visits = (
        2 * order.size * count * graph.nnz / n + order.size / block_size * n
    )
    search = partial(_nearest, count=count, block_size=block_size)
    parts = _in_processes(search, graph, runs, visits, n_jobs)
    return _concatenated(parts)


def _nearest(
    graph: Graph, nodes: Numbers, count: int, block_size: int
) -> Edges:
    """Search the nearest of some nodes in one process, in blocks of `block_size` nodes.

    A block is searched up to the limit that 95 % of the block before needed, and farther for nodes
    that need more.
    """
    parts = []
    mean_edge = float(graph.data.mean())
    limit = mean_edge * sqrt(count)
    for block in row_blocks(nodes.size, 1, block_size):
        unfinished = nodes[block]
        limits_needed = np.empty(0)
        while unfinished.size:
            ball, rows = graph.search_around(unfinished, limit)
            # A node is not among its own nearest.
            own_column = np.searchsorted(ball, unfinished)
            rows[np.arange(unfinished.size), own_column] = inf
            has_all = np.isfinite(rows).sum(axis=1) >= count
            if has_all.any():
                rows = rows[has_all]
                ids = np.argpartition(rows, count - 1, axis=1)[:, :count]
                length = np.take_along_axis(rows, ids, axis=1)
                sources = unfinished[has_all].repeat(count)
                parts.append((sources, ball[ids].ravel(), length.ravel()))
                limits_needed = np.append(limits_needed, length.max(axis=1))
            unfinished = unfinished[~has_all]
            # For those that need more. The limit is 0 where many edges have length 0.
            limit = 1.5 * limit or mean_edge
        # For the next block.
        limit = 1.05 * float(np.quantile(limits_needed, 0.95))
    return _concatenated(parts)


def nearest_landmarks(
    graph: Graph, landmarks: Numbers, count: int, *, n_jobs: int | None = None
) -> tuple[Numbers, Array]:
    """Return the positions of the `count` nearest landmarks of every node, and lengths (n, count).

    Searches run from the landmarks, so far that `count` of them reach a node on average, and
    farther around nodes that less than half as many reach. A missing landmark has infinite length.
    """
    n = graph.shape[0]
    count = min(count, landmarks.size)
    reach = min(n - 1, count * n // landmarks.size + 1)
    # Some 40 landmarks tell how far a search goes until it reaches so many nodes.
    sample = landmarks[:: max(1, landmarks.size // 40)]
    _, _, sample_lengths = nearest_nodes(graph, reach, sample, n_jobs=n_jobs)
    radii = sample_lengths.reshape(-1, reach).max(axis=1)
    limit = float(np.median(radii))
    # Nodes that lack landmarks, and positions in `landmarks` of those to search from.
    unfinished = np.arange(n)
    positions = np.arange(landmarks.size)
    ids = np.zeros((n, count), np.int32)
    lengths = np.full((n, count), inf, np.float32)
    while unfinished.size:
        lengths[unfinished] = inf
        # Landmarks in one Voronoi cell of a few seeds are near each other: they share a subgraph.
        seeds = landmarks[positions[::LANDMARK_BLOCK]]
        _, _, cell = graph.to_nearest(seeds, return_predecessors=True)
        by_cell = np.argsort(cell[landmarks[positions]], kind="stable")
        positions = positions[by_cell]
        parts = [
            positions[block]
            for block in row_blocks(positions.size, 1, LANDMARK_BLOCK)
        ]
        sources = [landmarks[part] for part in parts]
        search = partial(Graph.search_around, limit=limit)
        # What every part does with arrays of all n nodes counts as eight visits of each.
        visits = 8 * len(parts) * n
        results = _in_processes(search, graph, sources, visits, n_jobs)
        for part, (ball, rows) in zip(parts, results, strict=True):
            is_unfinished = np.isin(ball, unfinished, assume_unique=True)
            nodes = ball[is_unfinished]
            # The nearest so far, and those of this part: the nearest of both stay.
            new_lengths = rows.T[is_unfinished].astype(np.float32)
            new_ids = np.broadcast_to(part.astype(np.int32), new_lengths.shape)
            all_lengths = np.concatenate([lengths[nodes], new_lengths], axis=1)
            all_ids = np.concatenate([ids[nodes], new_ids], axis=1)
            lengths[nodes], nearest = k_smallest(all_lengths, count)
            ids[nodes] = np.take_along_axis(all_ids, nearest, axis=1)
        n_found = np.isfinite(lengths[unfinished]).sum(axis=1)
        unfinished = unfinished[2 * n_found < count]
        limit = 2 * limit or float(graph.data.mean())
        if unfinished.size:
            to_unfinished = graph.to_nearest(unfinished, limit=limit)
            positions = np.flatnonzero(np.isfinite(to_unfinished[landmarks]))
    return ids, lengths


def graph_pairs(
    graph: Graph,
    n_pairs: int,
    loss: str,
    *,
    n_landmarks: int,
    random_state: Any = None,
) -> PairSample:
    """Choose pairs of nodes that stand for all of them, with the lengths of their shortest paths.

    Paths are searched from all sources to all nodes. The first `n_landmarks` sources are landmarks;
    of the others a node keeps the paths to its far partners. Checks are searched when used.
    """
    n = graph.shape[0]
    rng = check_random_state(random_state)
    sampling = Sampling.of(n, n_pairs, loss, rng)
    landmarks = sampling.sources[:n_landmarks]
    far, to_landmarks = _far_paths(graph, sampling, n_landmarks)
    near = near_pairs(sampling, partial(nearest_nodes, graph))
    pairs = drawn_pairs(n, [*near, (far, 1 / sampling.far_share)])
    pairs = replace(pairs, one_way=graph.direction == "out")
    checks = _checked_paths(graph, rng)
    return PairSample(pairs, landmarks, to_landmarks, checks)


def _far_paths(
    graph: Graph, sampling: Sampling, n_landmarks: int
) -> tuple[Edges, Floats]:
    """Return the paths from sources to their far partners, and lengths (n, L) from landmarks."""
    far = []
    from_landmarks = []
    for block, rows in path_blocks(graph, sampling.sources):
        if block.start < n_landmarks:
            from_landmarks.append(rows[: n_landmarks - block.start].T)
        for position, row in enumerate(rows, block.start):
            nodes = sampling.objects_of(position)
            source = np.full(nodes.size, sampling.sources[position])
            far.append((source, nodes, row[nodes]))
    return _concatenated(far), np.concatenate(from_landmarks, axis=1)


def _checked_paths(
    graph: Graph, rng: np.random.RandomState, first: int = 0
) -> Iterator[Check]:
    """Yield nodes drawn at random with all others and the squared lengths to these.

    The others are numbered from `first` on: for directed pairs from n, where arrivals begin.
    """
    n = graph.shape[0]
    drawn = rng.permutation(n)[: CHECKED // PARTNERS]
    numbers = np.arange(first, first + n)
    return (
        (int(node), np.delete(numbers, node), np.delete(row, node) ** 2)
        for block, rows in path_blocks(graph, drawn)
        for node, row in zip(drawn[block], rows, strict=True)
    )


def directed_pairs(
    graph: Graph,
    n_pairs: int,
    loss: str,
    *,
    n_landmarks: int,
    random_state: Any = None,
) -> tuple[PairSample, Floats]:
    """Choose ordered pairs of nodes as `graph_pairs` does, by searches along and against edges.

    Node i is the departure i and the arrival n + i. Return the sample, whose lengths (n, L) are to
    landmarks, and the lengths (n, L) from landmarks.
    """
    n = graph.shape[0]
    rng = check_random_state(random_state)
    sampling = Sampling.of(n, n_pairs, loss, rng)
    landmarks = sampling.sources[:n_landmarks]
    kinds = []
    # Searches along edges start from landmarks; those of the turned graph end there.
    lengths_by_search = []
    for searched, is_reverse in ((graph, False), (graph.turned(), True)):
        far, lengths = _far_paths(searched, sampling, n_landmarks)
        lengths_by_search.append(lengths)
        near = near_pairs(sampling, partial(nearest_nodes, searched))
        kinds_one_way = [*near, (far, 1 / sampling.far_share)]
        for (sources, nodes, length), weight in kinds_one_way:
            departures, arrivals = sources, nodes
            if is_reverse:
                departures, arrivals = nodes, sources
            is_pair = departures != arrivals
            listed = (
                departures[is_pair],
                n + arrivals[is_pair],
                length[is_pair],
            )
            kinds.append((listed, weight))
    # Of a pair that is listed twice the first weight counts: the least, that of near pairs.
    kinds.sort(key=lambda kind: kind[1])
    pairs = replace(drawn_pairs(2 * n, kinds), n_departures=n)
    checks = _checked_paths(graph, rng, first=n)
    from_landmarks, to_landmarks = lengths_by_search
    sample = PairSample(pairs, landmarks, to_landmarks, checks)
    return sample, from_landmarks


def _concatenated(parts: Iterable[Edges]) -> Edges:
    """Put lists of edges together."""
    i, j, length = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    return i, j, length


def _in_processes(
    work: Callable[[Any, Any], Any],
    graph: Graph,
    parts: list[Any],
    visits: float,
    n_jobs: Any,
) -> Iterator[Any]:
    """Yield ``work(graph, part)`` of every part, in order, in processes where `visits` pay.

    Threads would wait for each other: SciPy's searches hold Python's lock.
    """
    if n_jobs is None:
        n_jobs = -1 if visits > WORTH_PROCESSES else 1
    run = Parallel(n_jobs=n_jobs, return_as="generator")
    yield from run(delayed(work)(graph, part) for part in parts)


def neighbor_graph(neighbors: NearestNeighbors, X: Any) -> tuple[Any, int]:
    """Join every object to its nearest, and parts of the graph at their closest pairs.

    `neighbors` is fitted to X: features, or dissimilarities if its metric is "precomputed". Return
    the lengths of the edges, each in both orders, and the number of parts before they were joined.
    """
    n = X.shape[0]
    graph = neighbors.kneighbors_graph(mode="distance").tocoo()
    i = graph.row
    j = graph.col
    length = graph.data
    count, part_of = csgraph.connected_components(graph, directed=False)
    search = clone(neighbors).set_params(n_neighbors=1)
    for _ in range(count - 1):
        # The smallest part is joined to another; a part that was joined has size 0.
        sizes = np.bincount(part_of, minlength=count)
        is_inside = part_of == np.argmin(np.where(sizes > 0, sizes, n))
        inside = np.flatnonzero(is_inside)
        outside = np.flatnonzero(~is_inside)
        if neighbors.metric == "precomputed":
            search.fit(X[np.ix_(outside, outside)])
            gaps, ids = search.kneighbors(X[np.ix_(inside, outside)])
        else:
            gaps, ids = search.fit(X[outside]).kneighbors(X[inside])
        closest = int(np.argmin(gaps))
        partner = outside[ids[closest, 0]]
        i = np.append(i, inside[closest])
        j = np.append(j, partner)
        length = np.append(length, gaps[closest])
        part_of[inside] = part_of[partner]
    both = (np.r_[i, j], np.r_[j, i])
    edges = sparse.coo_array((np.r_[length, length], both), shape=(n, n))
    return edges, int(count)
