"""Streets of towns that no file holds: random planar graphs, some of their edges one-way."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import Delaunay

Floats = np.ndarray
# Metres between crossings.
BLOCK = 100.0


def town(
    n: int, seed: int = 0, one_way: float = 0.5, closed: float = 0.35
) -> tuple[csr_array, Floats]:
    """Return lengths of streets between about n crossings, and where these are, in metres.

    They are the largest part of `streets` in which every crossing reaches every other.
    """
    graph, xy = streets(n, seed, one_way, closed)
    _, part = connected_components(graph, connection="strong")
    kept = np.flatnonzero(part == np.bincount(part).argmax())
    return graph[kept][:, kept], xy[kept]


def streets(
    n: int, seed: int, one_way: float, closed: float, no_length: float = 0.0
) -> tuple[csr_array, Floats]:
    """Return lengths of streets, some of which lead to places that one cannot leave, or reach.

    Crossings are drawn about the points of a grid, and joined by the edges of their Delaunay
    triangulation but a share, `closed`, and the longest. A share of the streets leads `one_way`,
    either way at random, and a share has the length 0.
    """
    rng = np.random.default_rng(seed)
    # One-way streets cut some crossings off.
    side = int(np.ceil(np.sqrt(1.08 * n)))
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1)
    xy = BLOCK * (grid.reshape(-1, 2) + rng.uniform(-0.4, 0.4, (side**2, 2)))
    corners = Delaunay(xy).simplices
    edges = np.concatenate(
        [corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]
    )
    edges = np.unique(np.sort(edges, axis=1), axis=0)
    length = np.linalg.norm(xy[edges[:, 0]] - xy[edges[:, 1]], axis=1)
    open_ = (rng.random(len(edges)) > closed) & (length < 2 * BLOCK)
    edges, length = edges[open_], length[open_]
    # Streets bend.
    length *= rng.uniform(1.0, 1.3, length.size)
    if no_length:
        length[rng.random(length.size) < no_length] = 0.0
    turned = rng.random(len(edges)) < 0.5
    edges[turned] = edges[turned, ::-1]
    both_ways = rng.random(len(edges)) > one_way
    i = np.concatenate([edges[:, 0], edges[both_ways, 1]])
    j = np.concatenate([edges[:, 1], edges[both_ways, 0]])
    lengths = np.concatenate([length, length[both_ways]])
    return csr_array((lengths, (i, j)), shape=(side**2, side**2)), xy
