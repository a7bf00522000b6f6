"""Graphs as dissimilarities: lengths of shortest paths, row by row or for chosen pairs."""

from __future__ import annotations

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

# Both ends and the lengths of edges or paths.
Edges = tuple[Numbers, Numbers, Floats]

# Nodes whose nearest are searched together, in one subgraph, times √(number of the nearest).
NEAR_BLOCK = 1000
# Landmarks from which nodes near them are searched together.
SEARCHED = 64
# Edge visits from which searches run in processes: 5 s on one core, against 1 s to start these.
WORTH_PROCESSES = 250_000_000
# How the lengths of a path there and of one back become one length.
JOINED: dict[Any, Callable[[Floats, Floats], Floats]] = {
    "mean": lambda out, back: (out + back) / 2,
    "min": np.minimum,
    "max": np.maximum,
}
# "out": one length alone counts; "both": they stay two.
DIRECTIONS = (*JOINED, "out", "both")
# The column of a table of edges that tells which lead one way, and what it says of these.
ONE_WAY = "oneway"
NO_NODES = "the graph has no nodes; pass one with edges."
FORWARD = ("true", "yes", "1", "1.0")
# As OpenStreetMap has it: from the second node to the first.
BACKWARD = ("-1", "-1.0", "reverse")
BOTH_WAYS = ("false", "no", "0", "0.0", "none", "nan", "<na>", "")


class Graph(sparse.csr_array):  # type: ignore[misc]
    """Lengths of edges that `as_graph` checked: connected, and stored in both orders.

    With a direction edges lead one way, and the ways there and back are joined to one length.
    """

    direction: str | None = None
    # Numbers of the nodes among all, if some were left out.
    kept: Numbers | None = None

    def search(self, sources: Numbers, limit: float = inf) -> Floats:
        """Lengths of the shortest paths from some nodes to all, infinite beyond a limit."""
        # The graph is stored in both orders: directed=False would only search each edge twice.
        search = partial(csgraph.dijkstra, indices=sources, limit=limit)
        out: Floats = search(self)
        if self.direction in JOINED:
            out = JOINED[self.direction](out, search(self.T))
        return out

    def to_nearest(self, nodes: Numbers, **settings: Any) -> Any:
        """Search from the nearest of some nodes along edges in either direction."""
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
        """Return the nodes within a limit of some, in order, and lengths to them, a row for each.

        Paths up to the limit stay among the nodes within it: these have a subgraph of their own.
        """
        ball = np.flatnonzero(np.isfinite(self.to_nearest(nodes, limit=limit)))
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

    `labels` replace the names; `params` are `metric_params` of `neuc_mds`: "weight", "direction"
    and "part". With `both_directions` the direction is "both".
    """
    defaults = {"weight": "weight", "direction": None, "part": None}
    settings = defaults | (params or {})
    direction = settings["direction"]
    part = settings["part"]
    if (
        len(settings) > len(defaults)
        or direction not in (None, *DIRECTIONS)
        or part not in (None, "largest")
    ):
        raise InputError(
            f"{option('metric_params', params)} of {option('metric', 'shortest_path')} may hold "
            f"'weight', as 'direction' one of {', '.join(DIRECTIONS)}, and 'part': 'largest'."
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
        if direction is not None:
            data = _one_way_edges(data)
        data, names = edges_of(data, settings["weight"])
    elif "weight" in (params or {}):
        raise InputError(
            f"'weight' in {option('metric_params')} names an attribute or a column of lengths, "
            "which a sparse array stores itself; leave it out."
        )
    if labels is None:
        labels = names
    graph = as_graph(data, labels, direction, directed, part)
    if graph.kept is not None and len(labels or ()) != graph.kept.size:
        labels = _kept_names(graph.kept, labels)
    return graph, labels


def _one_way_edges(frame: Any) -> Any:
    """List edges that lead both ways in both orders, if a column tells which lead one way."""
    if ONE_WAY not in frame.columns[2:]:
        return frame
    texts = frame[ONE_WAY].astype(str).str.lower()
    unknown = ~texts.isin((*FORWARD, *BACKWARD, *BOTH_WAYS))
    if unknown.any():
        raise InputError(
            f"column {ONE_WAY!r} has {int(unknown.sum())} entries that are neither yes, no nor -1 "
            f"(backwards): {examples(texts[unknown].unique().tolist())}; repair them."
        )
    edges = frame.drop(columns=ONE_WAY)
    there = edges[~texts.isin(BACKWARD)]
    back = edges[~texts.isin(FORWARD)]
    first, second = edges.columns[:2]
    back = back.assign(**{first: back[second], second: back[first]})
    pandas = require_pandas("a table of edges")
    return pandas.concat([there, back], ignore_index=True)


def _kept_names(kept: Numbers, labels: Any) -> tuple[str, ...]:
    """Return the names of the nodes that are kept: their numbers, if the graph has no names."""
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
    """Check a sparse array of lengths, and make it a symmetric CSR array of float64, connected.

    Explicit zeros are edges of length 0. Of parallel edges the shortest counts. An edge may be
    stored in one order or in both; a warning says where both occur, and where the graph is
    `directed`. `labels` name the nodes in messages. The largest `part` of a graph that is not
    connected, along directed edges strongly, may be kept, with a warning.
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
        _without_loops(data), labels, both_orders=direction is None
    )
    if direction is None:
        i, j, length = _both_orders(n, i, j, length, labels, directed)
    # SciPy 1.13 searches graphs with indices of 32 bits alone.
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
            f"the largest part is 1 node: no two of {part_of.size} nodes reach each other; keep "
            "edges that lead back, or embed them without their direction."
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
    """Drop the edges of nodes to themselves, which are on no shortest path."""
    stored = data.tocoo()
    i, j = stored.coords
    between = i != j
    ends = i[between], j[between]
    return sparse.coo_array((stored.data[between], ends), shape=data.shape)


def _shortest_edges(
    stored: Any, labels: Any = None, both_orders: bool = False
) -> Edges:
    """Return both ends and the lengths of edges, the shortest of parallel ones.

    With `both_orders` an edge may be stored in either order or both, and a message counts it once.
    """
    stored = stored.tocoo()
    i, j = (np.asarray(index, dtype=np.int64) for index in stored.coords)
    length = np.asarray(stored.data, dtype=np.float64)
    bad = ~(np.isfinite(length) & (length >= 0))
    if bad.any():
        first = int(np.argmax(bad))
        n_bad = int(bad.sum())
        if both_orders:
            n_bad = len(set(pair_keys(stored.shape[0], i[bad], j[bad])))
        raise InputError(
            f"{n_bad} edges have lengths that are negative or not finite, the first "
            f"{length[first]:.4g} at {entry_name(i[first], j[first], labels)}; drop or repair them."
        )
    width = stored.shape[1]
    key, shortest, _ = _grouped(i * width + j, length)
    return key // width, key % width, shortest


def _grouped(key: Numbers, length: Floats) -> tuple[Numbers, Floats, Floats]:
    """Return each key once, with the shortest and the longest length of it."""
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
    """Store every edge in both orders, and refuse those with another length back."""
    between = i != j
    keys = pair_keys(n, i, j)[between]
    key, shortest, longest = _grouped(keys, length[between])
    gap = longest - shortest
    uneven = int(np.sum(gap > tolerance(longest.max(initial=0.0), EPS)))
    if uneven:
        worst = int(np.argmax(gap))
        where = entry_name(*divmod(int(key[worst]), n), labels)
        raise InputError(
            f"the graph is directed: {uneven} of {key.size} edges have another length back, by up "
            f"to {gap[worst]:.4g} at {where}; pass {option('direction', 'mean')} for the mean of "
            f"both ways, or 'min', 'max' or 'out', or {option('directed', True)} to keep both."
        )
    # An edge that is stored in both orders has two entries.
    one_way = 2 * key.size - keys.size
    if 0 < one_way < key.size or (directed and one_way):
        warnings.warn(
            f"{one_way} of {key.size} edges are stored in one order alone and count both ways; "
            f"pass {option('direction', 'mean')}, 'min', 'max' or 'out', or "
            f"{option('directed', True)}, if they are one-way.",
            NeucmdsWarning,
            stacklevel=4,
        )
    low = key // n
    high = key % n
    return np.r_[low, high], np.r_[high, low], np.r_[shortest, shortest]


def _networkx_lengths(graph: Any, weight: str | None) -> Any:
    """Lengths of the edges of a networkx graph, nodes in its order, as a sparse array.

    An edge is as long as its attribute `weight` says, or "length" if no edge has "weight", else 1;
    None: 1 each. A warning counts edges without it, unless no edge has a length by any usual name.
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
    """Lengths of the shortest paths between all nodes, the same in both orders but for rounding."""
    paths = shortest_path_rows(graph, np.arange(graph.shape[0]))
    if graph.direction == "out":
        return np.triu(paths) + np.triu(paths, 1).T
    return paths


def joined_paths(edges: Any, paths: Callable[[Numbers], Floats]) -> Floats:
    """Lengths of the shortest paths from new nodes over their edges to fitted nodes.

    `edges` (m, n) are lengths; ``paths(nodes)`` returns a row for each of the nodes they lead to.
    """
    i, j, length = _shortest_edges(edges)
    n_edges = np.bincount(i, minlength=edges.shape[0])
    if not n_edges.all():
        raise InputError(
            f"new node {np.argmin(n_edges)} has no edge; give each at least one."
        )
    nodes, column = np.unique(j, return_inverse=True)
    lengths = length[:, None] + paths(nodes)[column]
    return np.asarray(
        np.minimum.reduceat(lengths, np.cumsum(n_edges) - n_edges, axis=0)
    )


def refuse_edge_rows(lengths: Floats, graph: Any) -> None:
    """Refuse rows of edges, with zeros where there is none, that stand for lengths of paths.

    A new node cannot be at length 0 from two nodes that are apart.
    """
    for i, row in enumerate(lengths):
        at_zero = np.flatnonzero(row == 0)
        if at_zero.size > 1:
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

    `n_jobs` processes search where the work is worth starting them; None: as many as cores.
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
    """Search from some nodes as `shortest_path_rows` does, and hand on some rows at a time."""
    n = graph.shape[0]
    blocks = list(row_blocks(sources.size, n))
    visits = sources.size * (graph.nnz + n)
    parts = [sources[block] for block in blocks]
    yield from zip(
        blocks,
        _mapped(Graph.search, graph, parts, visits, n_jobs),
        strict=True,
    )


def nearest_nodes(
    graph: Graph,
    count: int,
    nodes: Numbers | None = None,
    *,
    n_jobs: int | None = None,
) -> Edges:
    """Find the `count` nearest nodes of some nodes (None: all): node, neighbour and length.

    The searches end where the nearest are found.
    """
    n = graph.shape[0]
    count = min(count, n - 1)
    # Consecutive nodes of this order are near each other, so that they share a small subgraph.
    order = csgraph.reverse_cuthill_mckee(
        graph, symmetric_mode=graph.direction is None
    )
    if nodes is not None:
        order = order[np.isin(order, nodes)]
    height = max(1, int(NEAR_BLOCK / sqrt(count)))
    # Blocks that follow each other in one process hand on how far they had to search.
    runs = [order[run] for run in row_blocks(order.size, 1, SEARCHED * height)]
    # A search visits about twice as many nodes as it returns, and every block all of them once.
    visits = 2 * order.size * count * graph.nnz / n + order.size / height * n
    search = partial(_nearest, count=count, height=height)
    parts = _mapped(search, graph, runs, visits, n_jobs)
    return _concatenated(parts)


def _nearest(graph: Graph, nodes: Numbers, count: int, height: int) -> Edges:
    """Search the nearest of some nodes in one process, block by block.

    The limit of a block is what 95 % of the block before needed; it grows for nodes that need more.
    """
    parts = []
    mean = float(graph.data.mean())
    limit = mean * sqrt(count)
    for block in row_blocks(nodes.size, 1, height):
        wanted = nodes[block]
        farthest = np.empty(0)
        while wanted.size:
            ball, rows = graph.search_around(wanted, limit)
            rows[np.arange(wanted.size), np.searchsorted(ball, wanted)] = inf
            enough = np.isfinite(rows).sum(axis=1) >= count
            if enough.any():
                rows = rows[enough]
                ids = np.argpartition(rows, count - 1, axis=1)[:, :count]
                length = np.take_along_axis(rows, ids, axis=1)
                sources = wanted[enough].repeat(count)
                parts.append((sources, ball[ids].ravel(), length.ravel()))
                farthest = np.append(farthest, length.max(axis=1))
            wanted = wanted[~enough]
            # Many edges may have length 0.
            limit = 1.5 * limit or mean
        limit = 1.05 * float(np.quantile(farthest, 0.95))
    return _concatenated(parts)


def nearest_landmarks(
    graph: Graph, landmarks: Numbers, count: int, *, n_jobs: int | None = None
) -> tuple[Numbers, Array]:
    """Find the nearest landmarks of every node: numbers among these (n, count), and lengths.

    Searches run from the landmarks, so far that they reach a node `count` times on average, and
    farther around nodes that they reach less than half as often. A landmark that is not found is
    infinitely far.
    """
    n = graph.shape[0]
    count = min(count, landmarks.size)
    reach = min(n - 1, count * n // landmarks.size + 1)
    # Some 40 landmarks tell how far a search must go.
    sample = landmarks[:: max(1, landmarks.size // 40)]
    farthest = (
        nearest_nodes(graph, reach, sample, n_jobs=n_jobs)[2]
        .reshape(-1, reach)
        .max(axis=1)
    )
    limit = float(np.median(farthest))
    wanted = np.arange(n)
    searched = np.arange(landmarks.size)
    ids = np.zeros((n, count), np.int32)
    lengths = np.full((n, count), inf, np.float32)
    while wanted.size:
        lengths[wanted] = inf
        # Landmarks in one Voronoi cell of a few seeds are near each other: they share a subgraph.
        seeds = landmarks[searched[::SEARCHED]]
        cell = graph.to_nearest(seeds, return_predecessors=True)[2]
        searched = searched[
            np.argsort(cell[landmarks[searched]], kind="stable")
        ]
        parts = [
            searched[block] for block in row_blocks(searched.size, 1, SEARCHED)
        ]
        sources = [landmarks[part] for part in parts]
        search = partial(Graph.search_around, limit=limit)
        results = _mapped(search, graph, sources, 8 * len(parts) * n, n_jobs)
        for part, (ball, rows) in zip(parts, results, strict=True):
            inside = np.isin(ball, wanted, assume_unique=True)
            nodes = ball[inside]
            new_lengths = rows.T[inside].astype(np.float32)
            new_ids = np.broadcast_to(part.astype(np.int32), new_lengths.shape)
            all_lengths = np.concatenate([lengths[nodes], new_lengths], axis=1)
            all_ids = np.concatenate([ids[nodes], new_ids], axis=1)
            lengths[nodes], nearest = k_smallest(all_lengths, count)
            ids[nodes] = np.take_along_axis(all_ids, nearest, axis=1)
        wanted = wanted[2 * np.isfinite(lengths[wanted]).sum(axis=1) < count]
        limit = 2 * limit or float(graph.data.mean())
        if wanted.size:
            to_wanted = graph.to_nearest(wanted, limit=limit)
            searched = np.flatnonzero(np.isfinite(to_wanted[landmarks]))
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

    Paths are searched from all sources, `n_landmarks` landmarks among them, and a node keeps those
    to its own far partners; and from others when a fit is measured.
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
    """Search from all sources: paths to the nodes that have these as partners, and to landmarks."""
    far = []
    to_landmarks = []
    for block, rows in path_blocks(graph, sampling.sources):
        if block.start < n_landmarks:
            to_landmarks.append(rows[: n_landmarks - block.start].T)
        for number, row in enumerate(rows, block.start):
            nodes = sampling.objects_of(number)
            source = np.full(nodes.size, sampling.sources[number])
            far.append((source, nodes, row[nodes]))
    return _concatenated(far), np.concatenate(to_landmarks, axis=1)


def _checked_paths(
    graph: Graph, rng: np.random.RandomState, first: int = 0
) -> Iterator[Check]:
    """Search from some nodes to all others, whose numbers begin with the first."""
    n = graph.shape[0]
    chosen = rng.permutation(n)[: CHECKED // PARTNERS]
    everyone = np.arange(first, first + n)
    return (
        (int(node), np.delete(everyone, node), np.delete(row, node) ** 2)
        for block, rows in path_blocks(graph, chosen)
        for node, row in zip(chosen[block], rows, strict=True)
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

    Points of arrival follow those of departure. Return with the sample the lengths (n, L) from
    landmarks; those of the sample are to them.
    """
    n = graph.shape[0]
    rng = check_random_state(random_state)
    sampling = Sampling.of(n, n_pairs, loss, rng)
    landmarks = sampling.sources[:n_landmarks]
    kinds = []
    to_and_from = []
    for searched, is_reverse in ((graph, False), (graph.turned(), True)):
        far, lengths = _far_paths(searched, sampling, n_landmarks)
        to_and_from.append(lengths)
        rings = list(near_pairs(sampling, partial(nearest_nodes, searched)))
        rings.append((far, 1 / sampling.far_share))
        for (center, nodes, length), weight in rings:
            departures, arrivals = center, nodes
            if is_reverse:
                departures, arrivals = nodes, center
            others = departures != arrivals
            listed = departures[others], n + arrivals[others], length[others]
            kinds.append((listed, weight))
    # Of a pair that is listed twice the first weight counts: that of near pairs.
    kinds.sort(key=lambda kind: kind[1])
    pairs = replace(drawn_pairs(2 * n, kinds), n_departures=n)
    checks = _checked_paths(graph, rng, first=n)
    from_landmarks, to_landmarks = to_and_from
    sample = PairSample(pairs, landmarks, to_landmarks, checks)
    return sample, from_landmarks


def _concatenated(parts: Iterable[Edges]) -> Edges:
    """Put lists of pairs together."""
    i, j, length = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    return i, j, length


def _mapped(
    work: Callable[[Any, Any], Any],
    graph: Graph,
    parts: list[Any],
    visits: float,
    n_jobs: Any,
) -> Iterator[Any]:
    """Return ``work(graph, part)`` of every part, in order; in processes where that is worth it.

    Threads would wait for each other: scipy's searches hold Python's lock.
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
    count, part = csgraph.connected_components(graph, directed=False)
    search = clone(neighbors).set_params(n_neighbors=1)
    for _ in range(count - 1):
        sizes = np.bincount(part, minlength=count)
        smallest = part == np.argmin(np.where(sizes > 0, sizes, n))
        inside = np.flatnonzero(smallest)
        outside = np.flatnonzero(~smallest)
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
        part[inside] = part[partner]
    both = (np.r_[i, j], np.r_[j, i])
    edges = sparse.coo_array((np.r_[length, length], both), shape=(n, n))
    return edges, int(count)
