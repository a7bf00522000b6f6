"""
Twenty dune meadows
===================

Plants of twenty meadows and a table of site variables: how do meadows under different management
lie relative to each other? :doc:`/guide/ecologists_afternoon` does the same from the command line,
and from R and back.

The data are ``dune`` and ``dune.env``, which R's package vegan ships (GPL-2).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from scipy.spatial.distance import pdist, squareform

from neucmds import compare, diagnose, neuc_mds
from neucmds.ecology import envfit

# Written in R: write.csv(dune, "dune_species.csv"); write.csv(dune.env, "dune_env.csv")
folder = Path("../../tests/fixtures")
plants = pd.read_csv(folder / "dune_species.csv", index_col=0)
sites = pd.read_csv(folder / "dune_env.csv", index_col=0)
print(
    f"{plants.shape[0]} sites, {plants.shape[1]} plants; variables: {', '.join(sites.columns)}"
)

# %%
# Is Bray–Curtis Euclidean here?
# ------------------------------

d = squareform(pdist(plants, "braycurtis"))
found = diagnose(d)
print(
    f"{found.negative_eigenvalues} of {found.n - 1} eigenvalues are negative;"
)
print(
    f"they make up {found.negative_share:.1%} of the sum of absolute eigenvalues"
)

# %%
# Which method?
# -------------
# S-STRESS with k = 4, as a share of ‖D‖², the sum of the squares of all squared dissimilarities.

for row in compare(d, 4).methods:
    print(f"{row.method:18} {row.quality.normalized_stress:6.2%}")

# %%
# The picture
# -----------
# Two positive axes, by the loss for plots. Colours show the management: biological farming (BF),
# hobby farming (HF), nature conservation (NM), standard farming (SF). The arrow, fitted as by
# vegan's ``envfit``, points to thicker soil.

names = [str(name) for name in plants.index]
emb = neuc_mds(pd.DataFrame(d, names, names), (2, 0), loss="distance")
fitted = envfit(emb, sites[["A1", "Management"]], random_state=0)
fig, ax = plt.subplots(figsize=(7, 5.5), layout="constrained")
ax.grid(color="#e6e6e6")
emb.plot(
    list(sites["Management"]), names=True, ellipses="sd", arrows=fitted, ax=ax
)

# %%
# How far to trust it
# -------------------
# The Shepard plot: pairs off the line are shown too near or too far in the embedding.

fig, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
emb.plot_shepard(d, ax=ax)
print(f"R² of the two axes {emb.r2:.3f}")

# %%
# Run tests such as PERMANOVA on d itself: :doc:`/guide/statistics`.
