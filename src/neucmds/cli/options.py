"""What commands share: the same option has the same name and the same words everywhere."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from neucmds._input.components import AUTO, NComponents
from neucmds.errors import InputError


class PictureFormat(StrEnum):
    """How plots are saved."""

    png = "png"
    svg = "svg"
    pdf = "pdf"


class Missing(StrEnum):
    """What to do about pairs that are not known."""

    error = "error"
    ignore = "ignore"


File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Dissimilarities: npy, npz, csv, tsv, lsmat, PHYLIP, parquet; - reads standard input.",
        show_default=False,
    ),
]
Number = Annotated[
    str | None,
    typer.Option(
        "-k",
        "--components",
        metavar="K",
        help="Number of coordinates; 0.95: the fewest with an R² of 0.95; auto: the fewest that "
        "predict objects held out; 20 by default, or n − 1 if that is less.",
        show_default=False,
    ),
]
Squared = Annotated[
    bool,
    typer.Option("--squared", help="FILE holds squared dissimilarities, negative ones welcome."),
]
Symmetrize = Annotated[
    bool, typer.Option("--symmetrize", help="Average D and its transpose instead of refusing.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="Folder for the results; FILE's name with -neucmds by default.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite results that are there already.")]
NoPlots = Annotated[bool, typer.Option("--no-plots", help="Write no plots.")]
Pictures = Annotated[PictureFormat, typer.Option("--format", help="Format of the plots.")]


def parse_components(text: str | None) -> NComponents:
    """Read ``20``, ``12,8`` for 12 positive and 8 negative ones, ``0.95`` or ``auto``."""
    if text is None or text == AUTO:
        return text
    try:
        parts = [int(part) for part in text.split(",")]
    except ValueError:
        parts = []
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        return parts[0], parts[1]
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if 0 < share < 1:
        return share
    raise InputError(
        f"-k {text} is not understood; pass a number such as 20, a pair p,q, a share of R² such as "
        "0.95, or auto."
    )


def parse_axes(text: str | None) -> tuple[int, int] | None:
    """Read ``1,4``: two different axes, counted from 1; None if not given."""
    if text is None:
        return None
    try:
        pair = tuple(int(part) for part in text.split(","))
    except ValueError:
        pair = ()
    if len(pair) != 2 or pair[0] == pair[1] or min(pair) < 1:
        raise InputError(f"--axes {text} is not understood; pass two different axes such as 1,4.")
    return pair[0], pair[1]
