"""Graphs as dissimilarities: lengths of shortest paths, row by row or for chosen pairs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from math import inf, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from neucmds.backend.memory import require_memory
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.problem.names import counts, is_frame, listed
from neucmds.problem.pairs import TOLERANCE, edges_of, refuse_parts
from neucmds.problem.sampled_pairs import PairSample, Sizes, Windows, drawn_pairs
from neucmds.problem.validation import entry_name

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# Bytes of the rows that are searched together.
BLOCK_BYTES = 70_000_000
# Nodes whose paths to all others measure a fit.
CHECKED_NODES = 200
# Nodes whose nearest are searched together, in one subgraph.
NEAR_BLOCK = 256
# Landmarks from which nodes near them are searched together.
SEARCHED = 64
# How the lengths of a path there and of one back become one length.
DIRECTIONS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "mean": lambda out, back: (out + back) / 2,
    "min": np.minimum,
    "max": np.maximum,
    "out": lambda out, back: out,
}
# Edge visits from which searches run in processes: scipy's hold Python's lock, and processes take
# a second to start. So many take 5 s on one core.
WORTH_PROCESSES = 300_000_000


class Graph(sparse.csr_array):  # type: ignore[misc]
    """Lengths of edges that `as_graph` checked: connected, and stored in both orders.

    With a direction edges lead one way, and the ways there and back are joined to one length.
    """

    direction: str | None = None

    def among(self, nodes: Ints) -> Graph:
        """Return the edges among some nodes."""
        part: Graph = self[nodes][:, nodes]
        part.direction = self.direction
        return part

    def to_any(self, nodes: Ints, **how: Any) -> Any:
        """Search from the nearest of some nodes along edges in either direction."""
        directed = self.direction is None
        return csgraph.dijkstra(self, directed=directed, indices=nodes, min_only=True, **how)


def named_graph(
    data: Any, labels: Any = None, params: dict[str, Any] | None = None
) -> tuple[Graph, Any]:
    """Return the graph in a sparse array, networkx graph or table of edges, and its nodes' names.

    `labels` replace the names; `params` are `metric_params` of `neuc_mds`: "weight" and
    "direction".
    """
    how = {"weight": "weight", "direction": None} | (params or {})
    if len(how) > 2 or how["direction"] not in (None, *DIRECTIONS):
        raise InputError(
            f"{option('metric_params', params)} of {option('metric', 'shortest_path')} may hold "
            f"'weight', and as 'direction' one of {', '.join(DIRECTIONS)}."
        )
    directed = False
    names = labels
    if hasattr(data, "nodes") and hasattr(data, "adj"):
        directed = data.is_directed()
        names = tuple(str(node) for node in data.nodes)
        if counts(names):
            names = None
        data = _networkx_lengths(data, how["weight"])
    elif is_frame(data):
        data, names = edges_of(data, how["weight"])
    if labels is None:
        labels = names
    return as_graph(data, labels, how["direction"], directed), labels


def as_graph(
    data: Any, labels: Any = None, direction: str | None = None, directed: bool = False
) -> Graph:
    """Check a sparse array of lengths, and make it a symmetric CSR array of float64, connected.

    Explicit zeros are edges of length 0. An edge may be stored in one order or in both; a warning
    says where both occur, where the graph is `directed`, and where parallel edges differ, of which
    the shortest counts. `labels` name the nodes in messages.
    """
    if isinstance(data, Graph):
        return data
    if not hasattr(data, "tocoo"):
        raise InputError(
            "the graph must be a scipy.sparse array of lengths, n × n, a table of edges, or "
            "networkx's."
        )
    if len(data.shape) != 2 or data.shape[0] != data.shape[1]:
        raise InputError(f"the graph is not square: {' × '.join(map(str, data.shape))}.")
    n, (i, j, length) = int(data.shape[0]), _edges_in(data, labels)
    between = i != j
    key, length, longest = _grouped((i * n + j)[between], length[between])
    several = int(np.sum(longest - length > TOLERANCE * float(longest.max())))
    if several:
        warnings.warn(
            f"{several} pairs of nodes have parallel edges of different lengths, of which the "
            "shortest counts; drop it if another one is meant.",
            NeucmdsWarning,
            stacklevel=2,
        )
    i = key // n
    j = key % n
    key, shortest, longest = _grouped(np.minimum(i, j) * n + np.maximum(i, j), length)
    gap = longest - shortest
    one_way = 2 * key.size - i.size
    uneven = int(np.sum(gap > TOLERANCE * float(length.max())))
    if direction is None or not (uneven or one_way):
        _refuse_two_lengths(n, key, gap, uneven, labels)
        _warn_of_one_way(one_way, key.size, directed)
        low = key // n
        high = key % n
        direction = None
        i = np.concatenate([low, high])
        j = np.concatenate([high, low])
        length = np.concatenate([shortest, shortest])
    # SciPy 1.13 searches graphs with indices of 32 bits alone.
    index = np.int32 if max(n, i.size) < 2**31 else np.int64
    ends: Any = (i.astype(index), j.astype(index))
    graph: Graph = Graph((length, ends), shape=(n, n))
    graph.direction = direction
    refuse_parts(graph, labels, "edge", "weak" if direction is None else "strong")
    return graph


def all_paths(graph: Graph) -> Floats:
    """Lengths of the shortest paths between all nodes, the same in both orders but for rounding."""
    paths = shortest_path_rows(graph, np.arange(graph.shape[0]))
    if graph.direction == "out":
        return np.triu(paths) + np.triu(paths, 1).T
    return paths


def joined_paths(edges: Any, paths: Callable[[Ints], Floats]) -> Floats:
    """Lengths of the shortest paths from new nodes over their edges to fitted nodes.

    `edges` (m, n) are lengths; ``paths(nodes)`` returns a row for each of the nodes they lead to.
    """
    (m, n), (i, j, length) = edges.shape, _edges_in(edges)
    if length.size:
        key, length, _ = _grouped(i * n + j, length)  # the shortest of parallel edges
        i = key // n
        j = key % n
    edges = sparse.csr_array((length, (i, j)), shape=(m, n))
    alone = np.flatnonzero(np.diff(edges.indptr) == 0)
    if alone.size:
        raise InputError(f"new node {alone[0]} has no edge; give each at least one.")
    nodes, at = np.unique(edges.indices, return_inverse=True)
    ways = edges.data[:, None] + paths(nodes)[at]
    return np.asarray(np.minimum.reduceat(ways, edges.indptr[:-1], axis=0))


def _networkx_lengths(graph: Any, weight: str | None) -> Any:
    """Lengths of the edges of a networkx graph, nodes in its order, as a sparse array.

    An edge is as long as its attribute `weight` says, else "length", else 1; None: 1 each. A
    warning counts edges without `weight`, unless no edge has a length by any usual name.
    """
    number = {node: at for at, node in enumerate(graph.nodes)}
    edges = list(graph.edges(data=True))
    names = () if weight is None else (weight, "length")
    used = [
        next((name for name in names if known.get(name) is not None), None) for *_, known in edges
    ]
    held = {name for *_, known in edges for name in known}
    lacking = len(edges) - used.count(weight)
    known_names = (
        f"weight of from_networkx, or 'weight' in {option('metric_params')}, must be one of "
        f"{listed(sorted(map(repr, held)))}, or None for edges of length 1."
    )
    if lacking == len(edges) > 0 and weight not in (None, "weight"):
        raise InputError(f"no edge has {weight!r}; {known_names}")
    if lacking and held & {*names, "cost", "distance"}:
        warnings.warn(
            f"{lacking} of {len(edges)} edges have no {weight!r}: {used.count('length')} count by "
            f"their 'length', {used.count(None)} as 1; {known_names}",
            NeucmdsWarning,
            stacklevel=4,
        )
    given = [known.get(name, 1.0) for name, (*_, known) in zip(used, edges, strict=True)]
    try:
        lengths = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"lengths of edges must be numbers ({error}).") from error
    ends = np.array([(number[a], number[b]) for a, b, _ in edges], dtype=np.int64).reshape(-1, 2)
    return sparse.coo_array((lengths, (ends[:, 0], ends[:, 1])), shape=(len(number),) * 2)


def shortest_path_rows(
    graph: Any,
    nodes: npt.ArrayLike,
    *,
    dtype: Any = np.float64,
    n_jobs: int | None = None,
) -> Floats:
    """Lengths of the shortest paths from some nodes, one row each, to all of a graph of `as_graph`.

    `n_jobs` processes search where the work is worth starting them; None: as many as cores.
    """
    sources = np.asarray(nodes, dtype=np.int64)
    n = int(graph.shape[0])
    needed = sources.size * n * np.dtype(dtype).itemsize + BLOCK_BYTES
    require_memory(needed, f"shortest paths from {sources.size} nodes to {n}", "ask for fewer")
    out = np.empty((sources.size, n), dtype=dtype)
    for part, rows in path_blocks(graph, sources, n_jobs):
        out[part] = rows
    return out


def path_blocks(
    graph: Any, sources: Ints, n_jobs: int | None = None
) -> Iterator[tuple[slice, Floats]]:
    """Search from some nodes as `shortest_path_rows` does, and hand on some rows at a time."""
    n = int(graph.shape[0])
    step = max(1, BLOCK_BYTES // (8 * n))
    parts = [slice(s, min(s + step, sources.size)) for s in range(0, sources.size, step)]

    def search(graph: Any, part: slice) -> Floats:
        return _search(graph, sources[part])

    work = float(sources.size) * (graph.nnz + n)
    yield from zip(parts, _mapped(search, graph, parts, work, n_jobs), strict=True)


def nearest_nodes(
    graph: Any, count: int, nodes: npt.ArrayLike | None = None, *, n_jobs: int | None = None
) -> tuple[Ints, Ints, Floats]:
    """Find the `count` nearest nodes of some nodes (None: all): node, neighbour and length.

    The searches end where the nearest are found.
    """
    n = int(graph.shape[0])
    count = min(count, n - 1)
    # Consecutive nodes of this order are near each other, so that they share a small subgraph.
    mode = graph.direction is None
    order = np.asarray(csgraph.reverse_cuthill_mckee(graph, symmetric_mode=mode))
    if nodes is not None:
        order = order[np.isin(order, np.asarray(nodes))]
    block = max(8, min(NEAR_BLOCK, 2**15 // count))
    # Blocks that follow each other in one process hand on how far they had to search.
    run = 64 * block
    runs = [order[s : s + run] for s in range(0, order.size, run)]
    first = float(np.median(graph.data)) * sqrt(count)

    def search(graph: Any, nodes: Ints) -> tuple[Ints, Ints, Floats]:
        limit = first
        found = []
        for start in range(0, nodes.size, block):
            part, limit = _nearest(graph, nodes[start : start + block], count, limit)
            found.append(part)
        i, j, length = (np.concatenate(column) for column in zip(*found, strict=True))
        return i, j, length

    # A search visits about twice as many nodes as it returns, and every block all of them once.
    work = 2.0 * order.size * count * graph.nnz / n + order.size / block * n
    parts = _mapped(search, graph, runs, work, n_jobs)
    i, j, length = (np.concatenate(column) for column in zip(*parts, strict=True))
    return i, j, length


def nearest_landmarks(
    graph: Any, landmarks: Ints, count: int, *, n_jobs: int | None = None
) -> tuple[Ints, Floats]:
    """Find the nearest landmarks of every node: numbers among these (n, count), and lengths.

    Searches run from the landmarks, so far that they reach a node `count` times on average, and
    farther around nodes that they reach less than half as often. A landmark that is not found is
    infinitely far.
    """
    n = int(graph.shape[0])
    most = min(count, landmarks.size)
    reach = min(n - 1, most * n // landmarks.size + 1)
    sample = landmarks[:: max(1, landmarks.size // 40)]
    farthest = nearest_nodes(graph, reach, sample, n_jobs=n_jobs)[2].reshape(-1, reach).max(axis=1)
    limit = float(np.median(farthest))
    wanted = np.arange(n)
    about = np.arange(landmarks.size)
    ids = np.zeros((n, most), np.int32)
    lengths = np.full((n, most), inf, np.float32)
    while True:
        lengths[wanted] = inf
        for part, ball, rows in _within(graph, landmarks[about], limit, n_jobs):
            inside = np.isin(ball, wanted, assume_unique=True)
            here = ball[inside]
            new = rows.T[inside]
            far = np.concatenate([lengths[here], new], axis=1)
            which = np.broadcast_to(about[part].astype(np.int32), new.shape)
            which = np.concatenate([ids[here], which], axis=1)
            order = np.argpartition(far, most - 1, axis=1)[:, :most]
            ids[here] = np.take_along_axis(which, order, axis=1)
            lengths[here] = np.take_along_axis(far, order, axis=1)
        wanted = wanted[2 * np.isfinite(lengths[wanted]).sum(axis=1) < most]
        if wanted.size == 0:
            return ids, lengths
        limit = 2 * limit or float(graph.data.mean())
        to_any = graph.to_any(wanted, limit=limit)
        about = np.flatnonzero(np.isfinite(to_any[landmarks]))


def graph_pairs(
    graph: Any,
    sizes: Sizes,
    *,
    n_landmarks: int,
    random_state: Any = None,
) -> PairSample:
    """Choose pairs of nodes that stand for all of them, with the lengths of their shortest paths.

    Paths are searched from all sources, `n_landmarks` landmarks among them, and a node keeps those
    to its own far partners; and from `CHECKED_NODES` others when a fit is measured.
    """
    n = int(graph.shape[0])
    rng = check_random_state(random_state)
    windows = Windows.draw(n, sizes, rng)
    far = []
    to_landmarks = np.empty((n, n_landmarks))
    for part, rows in path_blocks(graph, windows.sources):
        for place, row in enumerate(rows, part.start):
            nodes = windows.having(place)
            far.append((np.full(nodes.size, windows.sources[place]), nodes, row[nodes]))
            if place < n_landmarks:
                to_landmarks[:, place] = row

    i, j, length = (np.concatenate(column) for column in zip(*far, strict=True))
    pairs = drawn_pairs(n, sizes, windows, [(i, j, length)], partial(nearest_nodes, graph))
    chosen = rng.permutation(n)[:CHECKED_NODES]
    everyone = np.arange(n)
    checks = (
        (int(node), np.delete(everyone, node), np.delete(row, node))
        for part, rows in path_blocks(graph, chosen)
        for node, row in zip(chosen[part], rows, strict=True)
    )
    return PairSample(pairs, windows.sources[:n_landmarks], to_landmarks, checks)


def _search(graph: Graph, sources: Ints, limit: float = inf) -> Floats:
    # The graph is stored in both orders: directed=False would only search each edge twice.
    out = np.asarray(csgraph.dijkstra(graph, directed=True, indices=sources, limit=limit))
    if graph.direction in (None, "out"):
        return out
    back = np.asarray(csgraph.dijkstra(graph.T, directed=True, indices=sources, limit=limit))
    return np.asarray(DIRECTIONS[graph.direction](out, back))


def _within(
    graph: Any, sources: Ints, limit: float, n_jobs: int | None
) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Search up to a limit; yield numbers of some sources, the nodes in reach, and a row each."""
    # Sources in one Voronoi cell of a few seeds are near each other, and share a small subgraph.
    seeds = sources[::SEARCHED]
    cell = graph.to_any(seeds, return_predecessors=True)[2]
    order = np.argsort(cell[sources], kind="stable")
    parts = [order[s : s + SEARCHED] for s in range(0, order.size, SEARCHED)]

    def search(graph: Any, part: Ints) -> tuple[Ints, Ints, Floats]:
        ball, _, rows = _around(graph, sources[part], limit)
        return part, ball, rows.astype(np.float32)

    yield from _mapped(search, graph, parts, float(len(parts)) * graph.shape[0] * 8, n_jobs)


def _around(graph: Any, nodes: Ints, limit: float) -> tuple[Ints, Ints, Floats]:
    """Return nodes within a limit of some, the places of these among them, and a row from each."""
    # Shortest paths up to the limit stay among nodes within the limit: the subgraph has all.
    ball = np.flatnonzero(np.isfinite(graph.to_any(nodes, limit=limit)))
    own = np.searchsorted(ball, nodes)
    return ball, own, _search(graph.among(ball), own, limit)


def _nearest(
    graph: Any, nodes: Ints, count: int, limit: float
) -> tuple[tuple[Ints, Ints, Floats], float]:
    """Search the nearest of a block of nodes; also return how far the next block should search."""
    found: list[tuple[Ints, Ints, Floats]] = []
    reach = []
    n = int(graph.shape[0])
    todo = nodes
    while todo.size:
        ball, own, rows = _around(graph, todo, limit)
        rows[np.arange(todo.size), own] = inf
        enough = np.isfinite(rows).sum(axis=1) >= count
        if ball.size == n and limit >= graph.data.sum():
            enough[:] = True
        if enough.any():
            rows = rows[enough]
            ids = np.argpartition(rows, count - 1, axis=1)[:, :count]
            length = np.take_along_axis(rows, ids, axis=1)
            found.append((np.repeat(todo[enough], count), ball[ids].ravel(), length.ravel()))
            reach.append(length.max(axis=1))
        # Many edges may have length 0.
        todo = todo[~enough]
        limit = 1.5 * limit or float(graph.data.mean())
    i, j, length = (np.concatenate(column) for column in zip(*found, strict=True))
    return (i, j, length), 1.05 * float(np.quantile(np.concatenate(reach), 0.95))


def _grouped(key: Ints, length: Floats) -> tuple[Ints, Floats, Floats]:
    """Return each key once, with the shortest and the longest length of it."""
    order = np.argsort(key, kind="stable")
    key = key[order]
    length = length[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    if first.size == 0:
        raise InputError("the graph has no edges.")
    return key[first], np.minimum.reduceat(length, first), np.maximum.reduceat(length, first)


def _edges_in(stored: Any, labels: Any = None) -> tuple[Ints, Ints, Floats]:
    """Return both ends and the lengths of edges, none negative, in a sparse array."""
    stored = stored.tocoo()
    i, j = (np.asarray(index, dtype=np.int64) for index in stored.coords)
    length = np.asarray(stored.data, dtype=np.float64)
    bad = ~(np.isfinite(length) & (length >= 0))
    if bad.any():
        at = int(np.argmax(bad))
        raise InputError(
            f"{int(bad.sum())} edges have lengths that are negative or not finite, the first "
            f"{length[at]:.4g} at {entry_name(i[at], j[at], labels)}; drop or repair them."
        )
    return i, j, length


def _refuse_two_lengths(n: int, key: Ints, gap: Floats, uneven: int, labels: Any) -> None:
    """Refuse edges with another length back."""
    if uneven:
        at = int(np.argmax(gap))
        where = entry_name(*divmod(int(key[at]), n), labels)
        raise InputError(
            f"the graph is directed: {uneven} of {key.size} edges have another length back, by up "
            f"to {gap[at]:.4g} at {where}; pass {option('direction', 'mean')} for the mean of both "
            "ways, or 'min', 'max' or 'out'."
        )


def _warn_of_one_way(one_way: int, edges: int, directed: bool) -> None:
    """Warn of edges stored in one order, if others are stored in both or the graph is directed."""
    if 0 < one_way < edges or (directed and one_way):
        warnings.warn(
            f"{one_way} of {edges} edges are stored in one order alone and count both ways; pass "
            f"{option('direction', 'mean')}, 'min', 'max' or 'out' if they are one-way.",
            NeucmdsWarning,
            stacklevel=4,
        )


def _mapped(
    work: Callable[[Any, Any], Any], graph: Any, parts: list[Any], visits: float, n_jobs: int | None
) -> Iterator[Any]:
    """Do a piece of work on every part, in processes where that is worth it; in order."""
    if len(parts) < 2 or visits < WORTH_PROCESSES or n_jobs == 1:
        yield from (work(graph, part) for part in parts)
        return
    from joblib import Parallel, delayed, effective_n_jobs  # type: ignore[import-untyped]

    if n_jobs is None:
        n_jobs = -1
    # Few at a time: joblib's generators do not wait for whoever takes the results.
    several = 4 * effective_n_jobs(n_jobs)
    with Parallel(n_jobs=n_jobs, return_as="generator") as run:
        for start in range(0, len(parts), several):
            yield from run(delayed(work)(graph, part) for part in parts[start : start + several])


def neighbor_graph(neighbors: NearestNeighbors, X: Any) -> tuple[Any, int]:
    """Join every object to its nearest, and parts of the graph at their closest pairs.

    `neighbors` is fitted to X: features, or dissimilarities if its metric is "precomputed". Return
    the lengths of the edges, each once, and the number of parts before they were joined.
    """
    n = int(X.shape[0])
    graph = neighbors.kneighbors_graph(mode="distance").tocoo()
    i = [graph.row]
    j = [graph.col]
    length = [graph.data]
    count, found = csgraph.connected_components(graph, directed=False)
    part: Any = found
    for _ in range(count - 1):
        inside = np.flatnonzero(part == np.argmin(np.bincount(part)))
        outside = np.flatnonzero(part != part[inside[0]])
        a, b, gap = _closest(neighbors, X, inside, outside)
        i.append([inside[a]])
        j.append([outside[b]])
        length.append([gap])
        part[inside] = part[outside[b]]
        part = np.unique(part, return_inverse=True)[1]
    ends = np.concatenate(i).astype(np.int64), np.concatenate(j).astype(np.int64)
    # The two orders of a pair differ by rounding.
    key, shortest, _ = _grouped(np.minimum(*ends) * n + np.maximum(*ends), np.concatenate(length))
    return sparse.coo_array((shortest, (key // n, key % n)), shape=(n, n)), int(count)


def _closest(
    neighbors: NearestNeighbors, X: Any, inside: Any, outside: Any
) -> tuple[int, int, float]:
    """Return the closest pair of two sets, by the places of its objects there, and its length."""
    if neighbors.metric == "precomputed":
        block = X[np.ix_(inside, outside)]
        a, b = np.unravel_index(int(np.argmin(block)), block.shape)
        return int(a), int(b), float(block[a, b])
    search = NearestNeighbors(
        n_neighbors=1, metric=neighbors.metric, metric_params=neighbors.metric_params
    )
    gaps, ids = search.fit(X[outside]).kneighbors(X[inside])
    nearest = int(np.argmin(gaps[:, 0]))
    return nearest, int(ids[nearest, 0]), float(gaps[nearest, 0])
