"""
Digits and the dimensionality paradox
=====================================

More coordinates should give a better embedding. Beyond some number, classical MDS gets *worse*,
because it keeps positive eigenvalues and drops the negative ones that would balance them.

The data are scikit-learn's 1,797 handwritten digits (UCI, CC BY 4.0). The dissimilarity is the
number of hops on the 5-nearest-neighbour graph, as in Isomap.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from neucmds import neuc_mds, stress_curve
from neucmds.datasets import hop_distances

images, digits = load_digits(return_X_y=True)
d = hop_distances(images, n_neighbors=5, connect=True)

# %%
# The paradox
# -----------
# STRESS against the number of coordinates; one spectrum serves the closed forms at every k.

curves = stress_curve(d)
fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
styles = {
    "classical": ("#d55e00", "-"),
    "neuc+": ("#0072b2", "--"),
    "exact": ("#009e73", "-."),
}
for method, (colour, line) in styles.items():
    ax.plot(
        curves.ks, curves.normalized(method), line, color=colour, label=method
    )
best_k = curves.best_k
ax.axvline(best_k, color="#999999", linewidth=0.8)
ax.annotate(f"classical MDS is best at k = {best_k}", (best_k, 0.25), xytext=(8, 0),
            textcoords="offset points", color="#555555")  # fmt: skip
ax.set(
    xscale="log",
    yscale="log",
    xlabel="coordinates",
    ylabel="STRESS, share of ‖D‖²",
)
ax.grid(color="#e6e6e6")
ax.legend(frameon=False)
_ = ax.set_title("S-STRESS of three closed forms, 1,797 digits", loc="left")

# %%
# The cause
# ---------
# The spectrum has a positive and a negative end. Classical MDS keeps only the positive end.

values = curves.eigenvalues
values = values[np.abs(values) > 1e-9 * values.max()]  # beyond rounding
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
rank = np.arange(1, values.size + 1)
ax.bar(
    rank[values > 0],
    values[values > 0],
    color="#0072b2",
    width=1,
    label="positive",
)
ax.bar(
    rank[values < 0],
    values[values < 0],
    color="#d55e00",
    width=1,
    label="negative",
)
ax.set(yscale="symlog", xlabel="rank", ylabel="eigenvalue of B")
ax.legend(frameon=False)
negative = -values[values < 0].sum() / np.abs(values).sum()
print(f"{np.sum(values < 0)} of {values.size} eigenvalues are negative,")
print(f"{negative:.0%} of the sum of absolute eigenvalues")
_ = ax.set_title("Spectrum of B", loc="left")

# %%
# Twenty coordinates
# ------------------
# The squared loss has the lowest STRESS, the relative loss the best recall.

print("method, loss       signs      STRESS     R²   recall@10")
tie = np.partition(d + np.diag(np.full(len(d), np.inf)), 9, axis=1)[:, 9:10]
for label, emb in {
    "classical": neuc_mds(d, 20, "classical"),
    "neuc+": neuc_mds(d, 20, "neuc+"),
    "exact": neuc_mds(d, 20, "exact"),
    "refined, squared": neuc_mds(d, 20),
    "refined, relative": neuc_mds(d, 20, loss="relative"),
}.items():
    nearest, _ = emb.neighbors(10)
    kept = np.mean(np.take_along_axis(d, nearest, axis=1) <= tie)
    share = emb.normalized_stress
    print(
        f"{label:17}  {emb.signature!s:8}  {share:7.2%}  {emb.r2:.3f}   {kept:.0%}"
    )

# %%
# A positive against a negative coordinate
# ----------------------------------------
# A difference in the first coordinate makes two digits further apart; a difference in the negative
# coordinate makes them closer. Colours show the digit.

emb = neuc_mds(d, 20, "neuc+")
first_negative = int(np.argmax(emb.signs < 0))
fig, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for ax, column in zip(axes, (1, first_negative), strict=True):
    x, y = emb.coordinates[:, [0, column]].T
    drawn = ax.scatter(x, y, c=digits, s=6, cmap="tab10")
    ax.set(xlabel=emb.axis_names[0], ylabel=emb.axis_names[column])
fig.suptitle("neuc+, k = 20: a positive and a negative coordinate")
_ = fig.colorbar(drawn, ax=axes, ticks=range(10), label="digit")
