"""Options that commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from neucmds.api import ALL_METHODS


class Plots(StrEnum):
    """How plots are saved, if at all."""

    png = "png"
    svg = "svg"
    pdf = "pdf"
    none = "none"


PICTURES = tuple(kind.value for kind in Plots if kind is not Plots.none)


class Missing(StrEnum):
    """What to do about pairs that are not known."""

    error = "error"
    ignore = "ignore"


class WithoutRow(StrEnum):
    """What to do about objects that the metadata do not describe."""

    error = "error"
    grey = "grey"
    drop = "drop"


class Correction(StrEnum):
    """Constants that make D Euclidean."""

    none = "none"
    lingoes = "lingoes"
    cailliez = "cailliez"


File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Dissimilarities: npy, npz, csv, tsv, lsmat, PHYLIP, parquet, qza; - reads standard "
        "input.",
    ),
]
# The metric of a list of edges, which is no table of features.
GRAPH = "shortest_path"
OfGraph = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="shortest_path: FILE is a graph, two nodes and the length of their edge a line.",
        show_default=False,
    ),
]
Direction = Annotated[
    str | None,
    typer.Option(
        "--direction",
        metavar="NAME",
        help="Of a graph whose edges lead one way, or are longer back: mean, min or max of the "
        "shortest paths there and back, or out.",
        show_default=False,
    ),
]
Number = Annotated[
    str | None,
    typer.Option(
        "-k",
        "--components",
        metavar="K",
        help="Number of coordinates; p,q: at most p positive and q negative ones; 0.95: the "
        "fewest with an R² of 0.95; auto: the fewest that predict objects held out; 20 by default, "
        "or n − 1 if that is less.",
    ),
]
Squared = Annotated[
    bool,
    typer.Option("--squared", help="FILE holds squared dissimilarities, negative ones welcome."),
]
Symmetrize = Annotated[
    bool, typer.Option("--symmetrize", help="Average D and its transpose instead of refusing.")
]
Method = Annotated[
    str, typer.Option("--method", metavar="NAME", help=f"One of {', '.join(ALL_METHODS)}.")
]
Loss = Annotated[
    str,
    typer.Option(
        "--loss",
        metavar="NAME",
        help="What --method refined minimises: squared (the paper's STRESS, far pairs rule), "
        "distance (as SMACOF), relative (near pairs count like far ones).",
    ),
]
Curvature = Annotated[
    str,
    typer.Option(
        "--curvature",
        metavar="NUMBER",
        help="Of --loss distance and relative, in units of 1/(mean d)²: below 0 hyperbolic (trees, "
        "networks), above 0 spherical; auto: the one that fits best.",
    ),
]
MissingPairs = Annotated[
    Missing,
    typer.Option("--missing", help="What to do about pairs that are not known (NA, blank)."),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        help="A square table of how much each pair counts, matched by name if both have names.",
    ),
]
Metadata = Annotated[
    Path | None,
    typer.Option(
        "--metadata",
        metavar="FILE",
        help="A table of the objects with a line of column names, matched by name.",
    ),
]
MetadataMissing = Annotated[
    WithoutRow,
    typer.Option(
        "--metadata-missing",
        help="Objects without a row in --metadata: refuse, draw them in grey, or drop them.",
    ),
]
ColorBy = Annotated[
    str | None,
    typer.Option(
        "--color-by",
        metavar="COLUMN",
        help="The column of --metadata that colours the points.",
    ),
]
Categories = Annotated[
    str | None,
    typer.Option(
        "--categories",
        metavar="COLUMNS",
        help="Columns of --metadata, with commas between, whose numbers are categories.",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of everything random.")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="Folder for the results; FILE's name with -neucmds by default.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite results that are there already.")]
PlotsAs = Annotated[Plots, typer.Option("--plots", help="Format of the plots, or none.")]
