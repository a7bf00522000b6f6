"""Draws the pictures of README, of the first page and of the maths.

    NEUCMDS_DATA=… python docs/picture.py

Without NEUCMDS_DATA, the folder of the benchmarks' data, the picture of the streets stays as it is.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from sklearn.datasets import load_digits

from neucmds import neuc_mds, stress_curve
from neucmds.datasets import hop_distances

PICTURES = Path(__file__).parent / "_static"
# Lines of closed forms, and of the default at a few k, in colours that the colour-blind tell apart.
STYLES = {
    "classical": ("#d55e00", "classical MDS, PCoA"),
    "neuc+": ("#0072b2", "neuc+ (the paper)"),
}
STRESS_COLOURS = {
    "neucmds": "#009e73",
    "s_gd2": "#d55e00",
    "pymde": "#0072b2",
    "scikit-learn": "#e69f00",
}
STRESS_CELLS = (
    ("dwt_1005", 2, "1/d²"),
    ("dwt_2680", 2, "1/d²"),
    ("1138_bus", 2, "1/d²"),
    ("harvard500", 10, "1"),
)
CALLS_COLOURS = {
    "MetricIndex": "#009e73",
    "anydist, m = 5": "#d55e00",
    "LAESA, 100 pivots": "#0072b2",
    "VP-tree": "#e69f00",
    "PyNNDescent, 15 neighbours": "#cc79a7",
}
REFINED_AT = (2, 3, 5, 10, 20, 50, 100)


def draw_paradox() -> Figure:
    """Draw STRESS against k on 1,797 digits."""
    D = hop_distances(load_digits().data, n_neighbors=5, connect=True)
    curves = stress_curve(D)
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    ax = figure.add_subplot()
    ends = {}
    for method, (colour, label) in STYLES.items():
        ax.plot(
            curves.ks, curves.normalized(method), color=colour, linewidth=2
        )
        ends[label] = (colour, curves.ks[-1], curves.normalized(method)[-1])
    refined = [neuc_mds(D, k).normalized_stress for k in REFINED_AT]
    ax.plot(
        REFINED_AT, refined, "o-", color="#009e73", linewidth=2, markersize=4
    )
    ends["refined (the default)"] = ("#009e73", REFINED_AT[-1], refined[-1])
    for label, (colour, k, value) in ends.items():
        ax.annotate(
            label,
            (k, value),
            (6, 0),
            textcoords="offset points",
            color=colour,
            va="center",
        )
    ax.set(xscale="log", yscale="log", xlim=(1.8, 1.02 * curves.ks[-1]))
    ax.set_xticks(REFINED_AT, [str(k) for k in REFINED_AT])
    ax.minorticks_off()
    ax.set_yticks([0.001, 0.01, 0.1], ["0.1 %", "1 %", "10 %"])
    ax.set(xlabel="coordinates per object", ylabel="share of ‖D‖² unexplained")
    ax.set_title(
        "Hops between 1,797 digits: more coordinates, worse?",
        loc="left",
        fontsize=11,
    )
    _tidy(ax)
    return figure


def draw_streets() -> Figure:
    """Draw a coordinate of either sign, and driving distances in Helsinki against fitted ones."""
    d = _driving()
    figure = Figure(figsize=(7.2, 3.1), layout="constrained")
    idea, *panels = figure.subplots(1, 3, width_ratios=[0.9, 1, 1])
    _draw_idea(idea)
    rows, columns = np.random.default_rng(0).integers(0, len(d), (2, 4000))
    shown = d[rows, columns] > 0
    true = d[rows, columns][shown] / 1000
    fits = {
        "PCoA, 16 numbers": neuc_mds((d + d.T) / 2, 16, "classical"),
        "neucmds, 16 numbers": neuc_mds(d, 8, loss="relative", directed=True),
    }
    for ax, (name, embedding), colour in zip(
        panels, fits.items(), ("#d55e00", "#009e73"), strict=True
    ):
        fitted = embedding.distance(rows, columns)[shown] / 1000
        error = np.median(np.abs(fitted / true - 1))
        # Thousands of points as one image keep the file small.
        ax.plot(
            true,
            fitted,
            ".",
            color=colour,
            markersize=2,
            alpha=0.4,
            rasterized=True,
        )
        ax.plot([0, true.max()], [0, true.max()], color="#555555", lw=0.8)
        ax.set(xlabel="by car, km", ylabel="fitted, km", aspect="equal")
        ax.set_title(f"{name}\nmedian error {100 * error:.1f} %", fontsize=9)
        _tidy(ax)
    return figure


def draw_stress() -> Figure:
    """Draw stress against CPU seconds, one line per program, from the record of the benchmark."""
    path = PICTURES.parents[1] / "benchmarks" / "records" / "stress.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    for ax, cell in zip(figure.subplots(2, 2).flat, STRESS_CELLS, strict=True):
        name, k, weights = cell
        for system, colour in STRESS_COLOURS.items():
            points = sorted(
                (row["cpu_seconds"], row["stress"])
                for row in rows
                if (row["set"], row["k"], row["weights"]) == cell
                and row["system"] == system
            )
            if points:
                ax.plot(
                    *zip(*points, strict=True),
                    "o",
                    color=colour,
                    markersize=5,
                    label=system,
                )
        ax.set(xscale="log", yscale="log")
        ax.set_title(f"{name}, k = {k}, w = {weights}", fontsize=9)
        ax.set(xlabel="CPU seconds", ylabel="stress")
        ax.legend(frameon=False, fontsize=8)
        _tidy(ax)
    return figure


def _driving() -> Any:
    """Return the distances by car between all crossings, in metres."""
    folder = Path(os.environ["NEUCMDS_DATA"]) / "networks"
    streets = np.load(folder / "helsinki_drive.npz")
    n = len(streets["xy"])
    edges = coo_array(
        (streets["length"].astype(float), (streets["rows"], streets["cols"])),
        shape=(n, n),
    )
    return shortest_path(edges.tocsr())


def _draw_idea(ax: Any) -> None:
    """Draw three pairs of points: equal, apart by a + coordinate, closer by a − coordinate."""
    ax.annotate("", (1, 0), (0, 0), arrowprops={"arrowstyle": "<->"})
    ax.annotate("", (1, 0.8), (0, 0), arrowprops={"arrowstyle": "<->"})
    ax.plot([0, 1, 1], [0, 0, 0.8], "o", color="#0072b2", markersize=7)
    ax.plot([1, 1], [0, 0.8], ":", color="#555555")
    ax.text(0.5, -0.14, "x", ha="center")
    ax.text(1.06, 0.38, "y", ha="left")
    ax.text(
        0.5,
        1.22,
        "+ moves apart:  D̂ = x² + y²\n− brings closer: D̂ = x² − y²",
        ha="center",
        fontsize=8,
    )
    ax.set(xlim=(-0.15, 1.25), ylim=(-0.3, 1.55), aspect="equal")
    ax.set_title("every coordinate has a sign", fontsize=9)
    ax.axis("off")


def draw_curvature() -> Figure:
    """Draw g(d), and the error of three sets of distances against κ."""
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    ax, beside = figure.subplots(1, 2)
    d = np.linspace(0, 2, 60)
    for kappa, colour in (
        (-4, "#0072b2"),
        (-1, "#56b4e9"),
        (0, "#555555"),
        (1, "#e69f00"),
    ):
        c = np.sqrt(abs(kappa)) or 1.0
        g = {
            -1: 4 * np.sinh(c * d / 2) ** 2 / c**2,
            0: d**2,
            1: 4 * np.sin(c * d / 2) ** 2 / c**2,
        }
        label = f"κ = {kappa}".replace("-", "−")
        ax.plot(d, g[np.sign(kappa)], color=colour, linewidth=2, label=label)
    ax.set(xlabel="d", ylabel="g(d)", ylim=(0, 8))
    ax.legend(frameon=False, fontsize=9)
    roots = np.array(
        [-6, -5, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.25, 1.5]
    )
    colours = ("#009e73", "#0072b2", "#e69f00")
    for (name, (D, signature, sign)), colour in zip(
        _spaces().items(), colours, strict=True
    ):
        mean = D.sum() / (len(D) * (len(D) - 1))
        shown = np.union1d(roots, sign * mean if sign else [])
        shown = shown[shown <= np.pi * mean / D.max()]
        errors = [100 * _error(D, signature, c * abs(c)) for c in shown]
        beside.plot(
            shown, errors, "o-", color=colour, markersize=4, label=name
        )
    beside.set(
        xlabel="±√|κ| · mean d", ylabel="mean error of d, %", ylim=(0, 32)
    )
    beside.legend(frameon=False, fontsize=9, loc="upper right")
    for one in (ax, beside):
        _tidy(one)
    return figure


def draw_calls() -> Figure:
    """Draw recall@10 against calls per query, of `MetricIndex` and of others."""
    path = Path(__file__).parents[1] / "benchmarks/records/metric_index.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    sets = list(dict.fromkeys(row["data"] for row in rows))
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots(1, len(sets), squeeze=False, sharey=True)
    for ax, data in zip(axes[0], sets, strict=True):
        for method, colour in CALLS_COLOURS.items():
            points = sorted(
                (row["distances_per_query"], row["recall_10"])
                for row in rows
                if (row["data"], row["method"]) == (data, method)
            )
            if points:
                x, y = zip(*points, strict=True)
                ax.plot(x, y, "o-", color=colour, markersize=3, label=method)
        ax.set(
            title=data,
            xlabel="calls per query",
            xlim=(50, 500),
            ylim=(0.9, 1.001),
        )
        _tidy(ax)
    axes[0, 0].set_ylabel("recall@10")
    lines, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        lines, names, loc="outside lower center", ncols=3, frameon=False
    )
    return figure


def _spaces(n: int = 80) -> dict[str, tuple[Any, tuple[int, int], int]]:
    """Distances in a tree, a hyperbolic disc and a sphere, a signature, and κ where it is ±1/d²."""
    rng, hollow = np.random.default_rng(0), 1 - np.eye(n)
    child = np.arange(1, n)
    edges = coo_array(
        (np.ones(n - 1), (rng.integers(0, child), child)), shape=(n, n)
    )
    x = rng.normal(size=(n, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]
    r, t = (
        np.arccosh(1 + rng.random(n) * (np.cosh(3) - 1)),
        rng.uniform(0, 2 * np.pi, n),
    )
    y = np.c_[np.cosh(r), np.sinh(r) * np.cos(t), np.sinh(r) * np.sin(t)]
    return {
        "tree": (shortest_path(edges.tocsr(), directed=False), (2, 1), 0),
        "hyperbolic disc": (
            np.arccosh(np.maximum(y * [1, -1, -1] @ y.T, 1)) * hollow,
            (2, 1),
            -1,
        ),
        "sphere": (np.arccos(np.clip(x @ x.T, -1, 1)) * hollow, (3, 0), 1),
    }


def _error(D: Any, signature: tuple[int, int], curvature: float) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = neuc_mds(
            D, signature, loss="relative", curvature=curvature, n_init=4
        )
    fitted, off = found.dissimilarities(), D > 0
    return float(np.mean(np.abs(fitted[off] / D[off] - 1)))


def _tidy(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#e6e6e6", linewidth=0.6)


if __name__ == "__main__":
    # Text as text keeps the file small; a fixed salt and no date keep it the same from run to run.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "neucmds"}):
        pictures = {
            "paradox": draw_paradox,
            "curvature": draw_curvature,
            "stress": draw_stress,
            "calls": draw_calls,
        }
        if "NEUCMDS_DATA" in os.environ:
            pictures["streets"] = draw_streets
        for name, draw in pictures.items():
            draw().savefig(
                PICTURES / f"{name}.svg",
                metadata={"Date": None},
                dpi=150,
                facecolor="white",
            )
