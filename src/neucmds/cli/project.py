"""``neucmds project``: place new objects in a saved embedding."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from neucmds._backend.arrays import to_numpy
from neucmds._input import read_new_objects
from neucmds._methods import flat, sq_dissimilarities
from neucmds.cli.console import print_json, say, steps
from neucmds.cli.options import Force, Json
from neucmds.cli.outputs import check_file, coordinate_rows, write_csv, write_file, write_rows
from neucmds.embedding import Embedding
from neucmds.report.words import percent


def project(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="embedding.npz written by embed, or the folder it is in.",
            show_default=False,
        ),
    ],
    new: Annotated[
        str,
        typer.Argument(
            metavar="NEW",
            help="New objects: a row for each, a column for every fitted object.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="CSV file for the coordinates; standard output by default, and for -.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Place new objects in an embedding."""
    output = None if output == Path("-") else output
    if output is not None:
        check_file(output, force=force)
    with steps() as progress:
        progress.now("placing new objects")
        embedding = Embedding.load(model / "embedding.npz" if model.is_dir() else model)
        fitted = np.arange(embedding.n) if embedding.landmarks is None else embedding.landmarks
        known = None if embedding.labels is None else tuple(embedding.labels[i] for i in fitted)
        objects = read_new_objects(new, fitted.size).in_order(known)
        coordinates = to_numpy(embedding.transform(objects.values))
        errors = _errors(embedding, fitted, objects.values, coordinates)
    header, rows = coordinate_rows(embedding, coordinates, objects.names)
    if output is not None:
        write_file(output, lambda file: write_csv(file, header, rows), force=force)
    if as_json:
        names = objects.names or tuple(str(i) for i in range(len(coordinates)))
        print_json(
            {
                "command": "project",
                "model": str(model),
                "axes": embedding.axis_names,
                "signs": embedding.signs,
                "objects": names,
                "coordinates": coordinates,
                "normalized_stress": errors,
                "files": [] if output is None else [str(output)],
            }
        )
    elif output is None:
        write_rows(sys.stdout, header, rows)
    else:
        say(
            f"{len(coordinates):,} objects placed, {percent(float(np.mean(errors)))} of ‖D‖² "
            f"not explained on average. Written to {output}"
        )


def _errors(embedding: Embedding, fitted: Any, new: Any, coordinates: Any) -> Any:
    """STRESS of each new object against the fitted ones, as a share of its squared norm.

    Only dissimilarities that are known count.
    """
    sq_new = np.asarray(new, dtype=np.float64)
    sq_new = sq_new if embedding.squared else sq_new**2
    d_hat = sq_dissimilarities(
        np.asarray(coordinates, dtype=np.float64),
        np.asarray(to_numpy(embedding.coordinates)[fitted], dtype=np.float64),
        np.asarray(to_numpy(embedding.signs), dtype=np.float64),
    )
    d_hat = flat(d_hat, embedding.kappa)
    norm = np.nansum(sq_new**2, axis=1)
    return np.nansum((d_hat - sq_new) ** 2, axis=1) / np.where(norm > 0, norm, 1.0)
