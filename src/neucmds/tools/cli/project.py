"""``neucmds project``: place new objects in a saved embedding."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from neucmds.backend.arrays import to_numpy
from neucmds.backend.files import atomic_file
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.problem.files import read_new_objects
from neucmds.problem.names import row_numbers
from neucmds.tools.cli.console import progress, say
from neucmds.tools.cli.inputs import read_embedding
from neucmds.tools.cli.options import PICTURES, Force
from neucmds.tools.cli.outputs import as_csv, named_rows
from neucmds.tools.files import check_new
from neucmds.tools.plots import plot_coordinates
from neucmds.tools.report.words import percent


def project(
    model: Annotated[
        Path,
        Argument(
            metavar="MODEL",
            help="embedding.npz written by embed, or its folder.",
        ),
    ],
    new: Annotated[
        str,
        Argument(
            metavar="NEW",
            help="Dissimilarities of new objects: a row per new object, a column per fitted one. "
            "Named columns may come in any order, with others among them.",
        ),
    ],
    arrivals: Annotated[
        bool,
        Option(
            "--arrivals",
            help="Of a model by --directed: NEW holds dissimilarities from the fitted objects to "
            "the new ones, and places where these are arrived at. Without it NEW holds those to "
            "the fitted ones, and places where new ones depart from.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="CSV file for coordinates, share of STRESS and R² per new object; standard output "
            "by default.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Plot fitted and new objects: a png, svg or pdf file.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Place new objects in a saved embedding."""
    for path in (output, plot):
        if path is not None:
            check_new(path, overwrite=force)
    if plot is not None and plot.suffix[1:] not in PICTURES:
        raise InputError(
            f"--plot {plot} must end in one of .{', .'.join(PICTURES)}."
        )
    with progress("placing new objects"):
        embedding = read_embedding(model)
        if arrivals and embedding.arrivals is None:
            raise InputError(
                "--arrivals is for a model by --directed; leave it out."
            )
        direction = "to"
        if arrivals:
            direction = "from"
        # The side, departures or arrivals, that NEW has dissimilarities to: all of a symmetric
        # model.
        _, fitted = embedding._sides(direction)
        # NEW has a column for each of these.
        references = fitted
        if fitted.landmarks is not None:
            references = fitted.take(fitted.landmarks)
        d_given, names = read_new_objects(new, references.n, references.labels)
        coordinates = to_numpy(fitted.transform(d_given))
        quality = _quality(references, d_given, coordinates)
    names = names or row_numbers(len(coordinates))
    columns = dict(zip(embedding.axis_names, coordinates.T, strict=True))
    text = as_csv(named_rows(columns | quality, names))
    if output is not None:
        with atomic_file(output, overwrite=force) as file:
            file.write(text.encode())
    if plot is not None:
        fitted_and_new = fitted.unnamed.append(coordinates)
        groups = ["fitted"] * fitted.n + ["new"] * len(names)
        # Only new objects are named.
        texts = [""] * fitted.n + list(names)
        ax: Any = plot_coordinates(fitted_and_new, groups, names=texts)
        with atomic_file(plot, overwrite=force) as file:
            ax.figure.savefig(file, format=plot.suffix[1:])
    if output is None:
        sys.stdout.write(text)
        return
    stress = percent(float(np.mean(quality["normalized_stress"])))
    say(
        f"{len(names):,} objects placed; their mean STRESS / ‖D‖² is {stress}. Written to {output}"
    )


def _quality(
    references: Embedding, d_given: Any, coordinates: Any
) -> dict[str, Any]:
    """Return STRESS / ‖D‖² and R² of each new object at its coordinates.

    `d_given` has its dissimilarities to the references, on the scale of the fit, NaN if unknown.
    """
    sq_given = np.asarray(d_given, dtype=np.float64)
    if not references.squared:
        sq_given = sq_given**2
    residuals = references.form.residuals(
        coordinates, to_numpy(references.coordinates), sq_given
    )
    sq_residuals = residuals**2
    stress = np.nansum(sq_residuals, axis=1)
    # An object whose dissimilarities are all equal has no R², one with zeros alone no share.
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = np.nanvar(sq_given, axis=1)
        return {
            "normalized_stress": stress / np.nansum(sq_given**2, axis=1),
            "r2": 1 - np.nanmean(sq_residuals, axis=1) / variance,
        }
