"""Options that commands share."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from neucmds.fit import neuc_mds
from neucmds.options import ALL_METHODS

# The defaults of `neuc_mds`, so that an option left out means the same as in Python.
DEFAULTS: dict[str, Any] = {
    name: parameter.default
    for name, parameter in signature(neuc_mds).parameters.items()
}
# Text, as --components is parsed from text.
N_COMPONENTS = str(DEFAULTS["n_components"])
PICTURES = ("png", "svg", "pdf")
Correction = Literal["none", "lingoes", "cailliez"]

File = Annotated[
    str,
    Argument(
        metavar="FILE",
        help="Dissimilarities: npy, npz, csv, tsv, lsmat, PHYLIP, qza; - reads standard input.",
    ),
]
Metric = Annotated[
    str,
    Option(
        metavar="NAME",
        help="braycurtis, jaccard, cosine, minkowski,p=3, …: FILE is a table of features, such as "
        "abundances, with a row per object and names in the first column. shortest_path: FILE is a "
        "graph with an edge per line: two nodes and a length, or more columns, with names above; "
        "shortest_path,weight=COLUMN; shortest_path,direction=mean (min, max, out) for one-way "
        "edges, which --directed keeps; shortest_path,part=largest for a graph in parts.",
        show_default=False,
    ),
]
Components = Annotated[
    str,
    Option(
        "-k",
        "--components",
        metavar="K",
        help="Number of coordinates. p,q: at most p positive, q negative. "
        "0.95: the fewest with R² ≥ 0.95. auto: the fewest that predict held-out objects.",
    ),
]
Squared = Annotated[
    bool,
    Option(
        "--squared",
        help="FILE holds squared dissimilarities; they may be negative.",
    ),
]
Symmetrize = Annotated[
    bool,
    Option("--symmetrize", help="Average d and its transpose if they differ."),
]
Directed = Annotated[
    bool,
    Option(
        "--directed",
        help="Keep both directions of d, or fit a table from rows to other columns: each object "
        "has a departure and an arrival.",
    ),
]
Method = Annotated[
    str,
    Option(metavar="NAME", help=f"One of {', '.join(ALL_METHODS)}."),
]
Loss = Annotated[
    str,
    Option(
        metavar="NAME",
        help="Loss of --method refined: squared (S-STRESS, dominated by far pairs), distance "
        "(raw stress, as SMACOF; for plots), relative (for near neighbours), absolute "
        "(the mean relative error), ordinal (stress-1 of non-metric MDS, as metaMDS).",
    ),
]
Ties = Annotated[
    str,
    Option(
        metavar="NAME",
        help="Of --loss ordinal: whether equal dissimilarities may have different disparities "
        "(primary), or have one (secondary).",
    ),
]
Curvature = Annotated[
    str,
    Option(
        metavar="NUMBER",
        help="For losses but squared and ordinal, in units of 1/(mean d)²: below 0 hyperbolic "
        "(trees, networks), above 0 spherical; auto: the best fit, at two to four times the "
        "time up to 500 objects; for more, the time of three fits of 500 objects is added.",
    ),
]
HeldOut = Annotated[
    int,
    Option(
        metavar="M",
        min=0,
        help="Fit once more without M objects, place them, and print how well they find their "
        "neighbours.",
    ),
]
Heights = Annotated[
    Literal["no", "yes", "auto"],
    Option(
        help="For losses but squared and ordinal: whether one of the coordinates is a number that "
        "is added to all dissimilarities of an object; auto: if it lowers the loss by 2 %.",
    ),
]
HEIGHTS: dict[str, Any] = {"no": False, "yes": True, "auto": "auto"}
MissingPairs = Annotated[
    Literal["error", "ignore"],
    Option(help="Unknown pairs (NA, blank): an error, or ignored."),
]
Weights = Annotated[
    Path | None,
    Option(
        metavar="FILE",
        help="A square table with a weight per pair, matched by name if both have names.",
    ),
]
Tol = Annotated[
    float | None,
    Option(
        help="Share of the loss that iterations of --method refined must gain to go on; of closed "
        "forms, the largest error of the eigenpairs.",
    ),
]
MaxIter = Annotated[
    int | None, Option(help="Most iterations of the last descent of a fit.")
]
NInit = Annotated[
    int | None,
    Option(
        help="Most starts of a fit, as metaMDS's trymax; by default, of --loss ordinal, 32 for up "
        "to 600 objects and 4 for more.",
    ),
]
Init = Annotated[
    Path | None,
    Option(
        metavar="MODEL",
        help="Start from embedding.npz written by embed, or its folder; it sets the number of "
        "coordinates.",
    ),
]
Metadata = Annotated[
    Path | None,
    Option(
        metavar="FILE",
        help="A table with a row per object and a header line, matched by name.",
    ),
]
MetadataMissing = Annotated[
    Literal["error", "grey"],
    Option(
        help="Objects without a row in --metadata: an error, or drawn in grey.",
    ),
]
ColorBy = Annotated[
    str | None,
    Option(
        metavar="COLUMN",
        help="Column of --metadata that colours the points.",
    ),
]
Categories = Annotated[
    str | None,
    Option(
        metavar="COLUMNS",
        help="Numeric columns of --metadata to treat as categories, separated by commas.",
    ),
]
Axes = Annotated[
    str | None,
    Option(
        metavar="A,B",
        help="Axes to draw; 1,2 by default, and in a second plot the first positive and the "
        "first negative axis.",
    ),
]
Ellipses = Annotated[
    Literal["none", "sd", "se"],
    Option(
        help="An ellipse per group of --color-by: sd holds the share --conf of its objects, se is "
        "the confidence region of its mean.",
    ),
]
Conf = Annotated[
    float,
    Option(
        min=0.01,
        max=0.999,
        help="Share of --ellipses; 0.393 is one standard deviation or error.",
    ),
]
Hulls = Annotated[
    bool,
    Option("--hulls", help="The convex hull per group of --color-by."),
]
Spiders = Annotated[
    bool,
    Option(
        "--spiders", help="Lines from each object to the mean of its group."
    ),
]
Filled = Annotated[bool, Option("--filled", help="Fill ellipses and hulls.")]
Arrows = Annotated[
    bool,
    Option(
        "--arrows",
        help="The columns of --metadata fitted to the axes drawn, as vegan's envfit: arrows "
        "for numbers; envfit.csv has r² and p.",
    ),
]
Centroids = Annotated[
    bool,
    Option(
        "--centroids", help="Of --arrows: crosses at the means of categories."
    ),
]
Variables = Annotated[
    str | None,
    Option(
        metavar="COLUMNS",
        help="Columns that --arrows draws, separated by commas; all by default.",
    ),
]
PMax = Annotated[
    float,
    Option(help="--arrows draws variables up to this p.", min=0, max=1),
]
Size = Annotated[
    str | None,
    Option(
        metavar="WIDTH",
        help="Width of the plots of objects and of pairs, as in 89mm, 18cm or 7in.",
    ),
]
Seed = Annotated[
    int,
    Option(min=0, max=2**32 - 1, help="Seed of the random numbers."),
]
Folder = Annotated[
    Path | None,
    Option(
        "-o",
        "--output",
        metavar="DIR",
        help="Folder for the results; by default the name of FILE with -neucmds.",
    ),
]
Json = Annotated[
    bool,
    Option("--json", help="Print one JSON document instead of a table."),
]
Force = Annotated[bool, Option("--force", help="Overwrite existing results.")]
PlotsAs = Annotated[
    Literal["png", "svg", "pdf", "none"],
    Option(help="Format of the plots, or none."),
]
