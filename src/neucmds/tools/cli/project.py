"""``neucmds project``: place new objects in a saved embedding."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from neucmds.backend.arrays import to_numpy
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.problem.readers.new_objects import read_new_objects
from neucmds.tools.cli.console import print_json, say, steps
from neucmds.tools.cli.options import PICTURES, Force, Json
from neucmds.tools.cli.outputs import as_csv, check_file, object_table, save_figure, write_file
from neucmds.tools.plots import plot_coordinates
from neucmds.tools.report.words import percent


def project(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="embedding.npz written by embed, or its folder.",
        ),
    ],
    new: Annotated[
        str,
        typer.Argument(
            metavar="NEW",
            help="Dissimilarities of new objects: a row per new object, a column per fitted one. "
            "Named columns may come in any order, with others among them.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="CSV file for coordinates, share of STRESS and R² per new object; standard output "
            "by default.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Plot fitted and new objects: a png, svg or pdf file.",
        ),
    ] = None,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Place new objects in a saved embedding."""
    output = None if output == Path("-") else output
    for place in (output, plot):
        if place is not None:
            check_file(place, force=force)
    if plot is not None and plot.suffix[1:] not in PICTURES:
        raise InputError(f"--plot {plot} must end in one of .{', .'.join(PICTURES)}.")
    with steps() as progress:
        progress.now("placing new objects")
        embedding = Embedding.load(model / "embedding.npz" if model.is_dir() else model)
        fitted = np.arange(embedding.n) if embedding.landmarks is None else embedding.landmarks
        known = None if embedding.labels is None else tuple(embedding.labels[i] for i in fitted)
        objects = read_new_objects(new, fitted.size, known)
        coordinates = to_numpy(embedding.transform(objects.values))
        fits = _fits(embedding, fitted, objects.values, coordinates)
    names = objects.names or tuple(str(i) for i in range(len(coordinates)))
    columns = dict(zip(embedding.axis_names, coordinates.T, strict=True)) | fits
    text = as_csv(object_table(columns, names))
    if output is not None:
        write_file(output, lambda file: file.write(text.encode()), force=force)
    if plot is not None:
        ax = _drawn(embedding, coordinates, names)
        write_file(plot, lambda file: save_figure(ax, file, plot.suffix[1:]), force=force)
    if as_json:
        print_json(
            {
                "command": "project",
                "model": str(model),
                "axes": embedding.axis_names,
                "signs": embedding.signs,
                "objects": names,
                "coordinates": coordinates,
                **fits,
                "files": [str(place) for place in (output, plot) if place is not None],
            }
        )
    elif output is None:
        sys.stdout.write(text)
    else:
        stress = percent(float(np.mean(fits["normalized_stress"])))
        say(
            f"{len(names):,} objects placed; their mean STRESS / ‖D‖² is {stress}. Written to "
            f"{output}"
        )


def _fits(embedding: Embedding, fitted: Any, new: Any, coordinates: Any) -> dict[str, Any]:
    """Return STRESS / ‖d²‖² and R² of each new object, over its known dissimilarities."""
    sq_new = np.asarray(new, dtype=np.float64)
    sq_new = sq_new if embedding.squared else sq_new**2
    placed = np.asarray(coordinates, dtype=np.float64)
    landmarks = np.asarray(to_numpy(embedding.coordinates)[fitted], dtype=np.float64)
    missed = np.nansum(embedding.form.residuals(placed, landmarks, sq_new) ** 2, axis=1)
    around = sq_new - np.nanmean(sq_new, axis=1, keepdims=True)
    norm, spread = (np.nansum(part**2, axis=1) for part in (sq_new, around))
    return {
        "normalized_stress": missed / np.where(norm > 0, norm, 1.0),
        "r2": 1 - missed / np.where(spread > 1e-28 * norm, spread, np.nan),
    }


def _drawn(embedding: Embedding, coordinates: Any, names: Sequence[str]) -> Any:
    """Draw fitted and new objects on the first two axes, and name the new ones."""
    both = replace(
        embedding,
        coordinates=np.concatenate([to_numpy(embedding.coordinates), coordinates]),
        labels=None,
        landmarks=None,
    )
    groups = ["fitted"] * embedding.n + ["new"] * len(names)
    return plot_coordinates(both, groups, names=[""] * embedding.n + list(names))
