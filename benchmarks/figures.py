"""Make eight figures for a journal, and count what overlaps in them.

    NEUCMDS_DATA=… python benchmarks/figures.py [folder]

Four ordinations, dune and mite of vegan, enterotypes and moving pictures, at 89 and 180 mm, as PNG
(300 dpi) and PDF, into `folder` (figures by default), with methods and captions in text files. The
last two need NEUCMDS_DATA and are skipped without it. Of each figure it prints how many names are
written, and how many pairs of names, and names and points, overlap: none should.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from neucmds import neuc_mds
from neucmds.ecology import envfit, read_metadata
from neucmds.tools.plots import caption, methods_text, plot_coordinates

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures"
WIDTHS = ("89mm", "180mm")


def dune() -> tuple[Any, Any, dict[str, Any]]:
    species = pd.read_csv(FIXTURES / "dune_species.csv", index_col=0)
    sites = read_metadata(
        FIXTURES / "dune_env.csv", categories=["Moisture", "Manure"]
    )
    embedding = neuc_mds(species, 2, metric="braycurtis", loss="ordinal")
    fit = envfit(embedding, sites[["A1", "Moisture"]], random_state=0)
    look = {
        "title": "Management",
        "names": True,
        "hulls": True,
        "filled": True,
        "arrows": fit,
        "centroids": True,
        "p_max": 0.05,
    }
    return embedding, sites["Management"], look


def mite() -> tuple[Any, Any, dict[str, Any]]:
    species = pd.read_csv(FIXTURES / "mite_species.csv", index_col=0)
    sites = read_metadata(FIXTURES / "mite_env.csv")
    embedding = neuc_mds(species, 2, metric="braycurtis", loss="ordinal")
    fit = envfit(embedding, sites, random_state=0)
    look = {
        "title": "Topography",
        "ellipses": "sd",
        "arrows": fit,
        "variables": ["SubsDens", "WatrCont", "Shrub"],
        "centroids": True,
    }
    return embedding, sites["Topo"], look


def enterotypes() -> tuple[Any, Any, dict[str, Any]]:
    D = stored("enterotype280_braycurtis")
    embedding = neuc_mds(D, 2, "classical")
    groups = [re.split(r"[\d.]", str(name))[0] for name in D.index]
    look = {"title": "Study", "ellipses": "se", "filled": True}
    return embedding, groups, look


def moving_pictures() -> tuple[Any, Any, dict[str, Any]]:
    D = stored("moving_pictures_unifrac")
    embedding = neuc_mds(D, (2, 0), loss="distance")
    look = {"title": "Body site", "spiders": True, "names": True}
    return embedding, D.attrs["labels"], look


def stored(name: str) -> pd.DataFrame:
    """Read a matrix of the data folder, with its names."""
    folder = Path(os.environ["NEUCMDS_DATA"]) / "dissimilarities"
    with np.load(folder / f"{name}.npz") as arrays:
        names = arrays["names"].tolist()
        D = pd.DataFrame(arrays["D"], names, names)
        if "labels" in arrays:
            D.attrs["labels"] = arrays["labels"].tolist()
    return D


def overlaps(ax: Any, points: Any) -> tuple[int, int]:
    """Count pairs of overlapping texts, and texts that cover the middle of a point."""
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts if text.get_text()]
    of_texts = 0
    for i, box in enumerate(boxes):
        of_texts += sum(box.overlaps(other) for other in boxes[:i])
    of_points = 0
    for x, y in ax.transData.transform(points):
        of_points += sum(
            box.x0 < x < box.x1 and box.y0 < y < box.y1 for box in boxes
        )
    return of_texts, of_points


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{'figure':24}{'names':>8}{'left out':>10}{'overlaps':>10}")
    for make in (dune, mite, enterotypes, moving_pictures):
        name = make.__name__
        needs_data = make in (enterotypes, moving_pictures)
        if needs_data and not os.environ.get("NEUCMDS_DATA"):
            print(f"{name:24}  skipped: NEUCMDS_DATA is not set")
            continue
        embedding, groups, look = make()
        text = methods_text(embedding, permutations=999 * ("arrows" in look))
        about = f"{text}\n\n{caption(embedding, **look)}\n"
        (folder / f"{name}.txt").write_text(about)
        for width in WIDTHS:
            with warnings.catch_warnings(record=True) as raised:
                warnings.simplefilter("always")
                ax = plot_coordinates(embedding, groups, **look, size=width)
            counted = [re.match(r"\d+", str(w.message)) for w in raised]
            left_out = sum(int(count[0]) for count in counted if count)
            for kind in ("png", "pdf"):
                ax.figure.savefig(folder / f"{name}_{width}.{kind}")
            of_texts, of_points = overlaps(ax, embedding.coordinates[:, :2])
            written = sum(bool(text.get_text()) for text in ax.texts)
            print(
                f"{name + ' ' + width:24}{written:8}{left_out:10}"
                f"{of_texts + of_points:10}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "figures"))
