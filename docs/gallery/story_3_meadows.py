"""
An ecologist's afternoon
========================

Twenty dune meadows, the plants on them, and what is known of each site: is the kind of management
visible in the plants? The same from the command line, and from R and back, is in
:doc:`/guide/ecologists_afternoon`.

The data are ``dune`` and ``dune.env``, which R's package vegan ships (GPL-2).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from scipy.spatial.distance import pdist, squareform

from neucmds import compare, inspect, neuc_mds
from neucmds.ordination import envfit

# Written in R: write.csv(dune, "dune_species.csv"); write.csv(dune.env, "dune_env.csv")
folder = Path("../../tests/fixtures")
plants = pd.read_csv(folder / "dune_species.csv", index_col=0)
sites = pd.read_csv(folder / "dune_env.csv", index_col=0)
print(f"{plants.shape[0]} sites, {plants.shape[1]} plants; known: {', '.join(sites.columns)}")

# %%
# Is Bray–Curtis Euclidean here?
# ------------------------------

D = squareform(pdist(plants, "braycurtis"))
found = inspect(D)
print(f"{found.negative_eigenvalues} of {found.n - 1} eigenvalues are negative,")
print(f"{found.negative_share:.1%} of the sum of their sizes")

# %%
# Which method?
# -------------
# STRESS as a share of what there is to explain, four coordinates.

for row in compare(D, 4).methods:
    print(f"{row.method:18} {row.quality.normalized_stress:6.2%}")

# %%
# The picture
# -----------
# Colours are kinds of management: biological farming (BF), hobby farming (HF), nature conservation
# (NM), standard farming (SF). The arrow points where the soil is thicker, as vegan's ``envfit``
# draws it.

names = [str(name) for name in plants.index]
emb = neuc_mds(pd.DataFrame(D, names, names), 4)
fitted = envfit(emb, sites[["A1", "Management"]], random_state=0)
fig, ax = plt.subplots(figsize=(7, 5.5), layout="constrained")
ax.grid(color="#e6e6e6")
emb.plot(list(sites["Management"]), names=True, ellipses=True, arrows=fitted, ax=ax)

# %%
# How far to trust it
# -------------------
# Given against fitted dissimilarities: a pair off the line is a pair that the picture shows wrong.

fig, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
emb.plot_shepard(D, ax=ax)
print(f"R² {emb.r2:.3f}")

# %%
# Tests belong on D, not on the picture: :doc:`/guide/statistics`.
