"""Draws the picture of README and of the first page: `python docs/picture.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from neucmds import curve, neuc_mds
from neucmds.datasets import hop_distances

PICTURE = Path(__file__).parent / "_static" / "paradox.svg"
# Lines of closed forms, and of the default at a few k, in colours that the colour-blind tell apart.
STYLES = {
    "classical": ("#d55e00", "classical MDS, PCoA"),
    "neuc+": ("#0072b2", "neuc+ (the paper)"),
}
REFINED_AT = (2, 3, 5, 10, 20, 50, 100)


def draw() -> Figure:
    """Draw STRESS against k on 1,797 digits."""
    D = hop_distances(load_digits().data, n_neighbors=5, connect=True)
    curves = curve(D)
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    ax = figure.add_subplot()
    ends = {}
    for method, (colour, label) in STYLES.items():
        ax.plot(curves.ks, curves.normalized(method), color=colour, linewidth=2)
        ends[label] = (colour, curves.ks[-1], curves.normalized(method)[-1])
    refined = [neuc_mds(D, k).normalized_stress for k in REFINED_AT]
    ax.plot(REFINED_AT, refined, "o-", color="#009e73", linewidth=2, markersize=4)
    ends["refined (the default)"] = ("#009e73", REFINED_AT[-1], refined[-1])
    for label, (colour, k, value) in ends.items():
        ax.annotate(
            label, (k, value), (6, 0), textcoords="offset points", color=colour, va="center"
        )
    ax.set(xscale="log", yscale="log", xlim=(1.8, 1.02 * curves.ks[-1]))
    ax.set_xticks(REFINED_AT, [str(k) for k in REFINED_AT])
    ax.minorticks_off()
    ax.set_yticks([0.001, 0.01, 0.1], ["0.1 %", "1 %", "10 %"])
    ax.set(xlabel="coordinates an object", ylabel="share of ‖D‖² unexplained")
    ax.set_title("Hops between 1,797 digits: more coordinates, worse?", loc="left", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#e6e6e6", linewidth=0.6)
    return figure


if __name__ == "__main__":
    # Text as text keeps the file small; a fixed salt and no date keep it the same from run to run.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "neucmds"}):
        draw().savefig(PICTURE, metadata={"Date": None}, facecolor="white")
