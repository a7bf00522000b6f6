"""Measure and write the result of ``embed``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

import neucmds
from neucmds.ecology import EnvFit
from neucmds.embedding import Embedding
from neucmds.explore import PairErrors, Quality, evaluate, pair_errors
from neucmds.fitting import Fit
from neucmds.options import Options
from neucmds.prepared import prepare_some
from neucmds.problem.components import Components
from neucmds.problem.dense import Dense
from neucmds.spectrum.solve import solve_for
from neucmds.spectrum.spectrum import Spectrum
from neucmds.tools.cli.inputs import Drawing, Source
from neucmds.tools.cli.options import PICTURES, Plots
from neucmds.tools.cli.outputs import Outputs, axis_table, object_table
from neucmds.tools.plots import plot_coordinates, plot_scree, plot_shepard, plot_spectrum
from neucmds.tools.plots.coordinates import default_axes

# Objects measured where D is not stored: a million pairs.
MEASURED_OBJECTS = 1500
DESCRIBED = (
    "n method loss loss_value floor curvature mean_distance requested k signature squared "
    "stress_terms weights"
)
FOUND_BY = "eigenvalues converged solver"
ENVFIT_HEADER = ["x", "y", "variable", "kind", "cos_x", "cos_y", "r2", "p", "n"]
CENTROIDS_HEADER = ["x", "y", "variable", "class", "centroid_x", "centroid_y"]
COORDINATES = ("coordinates", "coordinates_neg")
PLOTTED = ("spectrum", "scree", *COORDINATES, "shepard")
RESULT_FILES = (
    "axes.csv",
    "centroids.csv",
    "coordinates.csv",
    "embedding.npz",
    "envfit.csv",
    "objects.csv",
    "quality.json",
    "species.csv",
    *(f"{plot}.{kind}" for plot in PLOTTED for kind in PICTURES),
)


@dataclass(frozen=True)
class Result:
    """An embedding, its quality, and the sample of objects and the D that were measured."""

    source: str
    embedding: Embedding
    measured: Embedding
    prepared: Dense
    quality: Quality
    errors: PairErrors
    spectrum: Any = None


def measured(
    file: str,
    source: Source,
    found: Fit,
    options: Options,
    reading: dict[str, Any],
    *,
    pictures: bool,
) -> Result:
    """Measure an embedding against D, or against D of a sample of objects."""
    embedding, prepared = found.embedding, found.prepared
    seen = embedding
    if prepared is None:
        some = np.arange(source.n)
        if source.n > MEASURED_OBJECTS:
            rng = np.random.default_rng(options.random_state)
            some = np.sort(rng.choice(source.n, MEASURED_OBJECTS, replace=False))
            names = source.labels
            seen = replace(
                embedding,
                coordinates=embedding.coordinates[some],
                landmarks=None,
                labels=None if names is None else tuple(names[i] for i in some),
            )
        prepared = prepare_some(source.data, some, metric=source.metric, **reading)
    spectrum = found.spectrum
    if pictures and spectrum is None and found.prepared is not None and prepared.weights is None:
        # Other losses do not need the spectrum, but its plots do.
        wanted = Components.parse(options.n_components, prepared.n)
        spectrum = solve_for(prepared.gram, wanted, "exact", tol=1e-4, random_state=0)
    return Result(
        file,
        embedding,
        seen,
        prepared,
        evaluate(seen, prepared),
        pair_errors(seen, prepared),
        spectrum,
    )


def describe(result: Result) -> dict[str, Any]:
    """Return the fields of quality.json."""
    embedding = result.embedding
    record = {
        "command": "embed",
        "version": neucmds.__version__,
        "input": result.source,
        **{name: getattr(embedding, name) for name in DESCRIBED.split()},
        **{name: getattr(embedding.info, name) for name in FOUND_BY.split()},
        **result.quality.as_dict(),
        "pairs_off_by_10_percent": result.errors.pairs_off,
        "axes": embedding.axis_names,
        "r2_lost": embedding.explained,
        **{f"share_of_{name}": share for name, share in embedding.shares.items()},
        "measured_objects": result.measured.n,
    }
    if embedding.landmarks is not None:
        # These describe the landmarks alone.
        for name in ("loss_value", "stress_terms"):
            del record[name]
        record |= {"landmarks": len(embedding.landmarks), "axes_of": embedding._landmarks_alone}
    return record


def add_result(
    outputs: Outputs,
    result: Result,
    record: dict[str, Any],
    plots: Plots,
    drawing: Drawing,
    seed: int = 0,
) -> None:
    """Plan the files of one embedding."""
    embedding, errors = result.embedding, result.errors
    outputs.add_csv("coordinates.csv", embedding.to_frame().reset_index(names="object"))
    fitted = {
        "stress_share": errors.stress_share,
        "r2": errors.r2_of_object,
        "mean_relative_error": errors.of_object,
    }
    outputs.add_csv("objects.csv", object_table(fitted, result.measured.labels))
    outputs.add_csv("axes.csv", axis_table(embedding))
    outputs.files["embedding.npz"] = embedding.save
    outputs.add_json("quality.json", record)
    pairs = default_axes(embedding) if drawing.axes is None else [drawing.axes]
    fits = drawing.fits(embedding, pairs, seed)
    if fits:
        variables, classes = _envfit_tables(embedding, fits)
        outputs.add_csv("envfit.csv", variables)
        outputs.add_csv("centroids.csv", classes)
    if plots == "none":
        return
    pictures = {
        name: plot_coordinates(
            embedding,
            drawing.color,
            axes=pair,
            ellipses=drawing.draws("ellipses"),
            arrows=fit if embedding.k > 1 else None,
            title=drawing.color_by or "",
        )
        for name, pair, fit in zip_longest(COORDINATES[: len(pairs)], pairs, fits)
    }
    for name, ax in (pictures | _of_d(result)).items():
        outputs.add_plot(f"{name}.{plots}", ax)


def _envfit_tables(
    embedding: Embedding, fits: Sequence[EnvFit]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return r² and p of variables, and centroids of classes, on each pair of axes."""
    variables: list[list[Any]] = []
    classes: list[list[Any]] = []
    for fit in fits:
        # There may be one axis alone.
        axes = [*(embedding.axis_names[a - 1] for a in fit.axes), ""][:2]
        for row in fit.as_rows():
            cosines = [*(row["direction"] or ()), None, None][:2]
            numbers = [row["r2"], row["p"], row["n"]]
            variables.append([*axes, row["variable"], row["kind"], *cosines, *numbers])
        for one in fit.factors:
            for level, at in zip(one.levels, one.centroids.tolist(), strict=True):
                classes.append([*axes, one.name, level, *[*at, None][:2]])
    return (
        pd.DataFrame(variables, columns=ENVFIT_HEADER),
        pd.DataFrame(classes, columns=CENTROIDS_HEADER),
    )


def _of_d(result: Result) -> dict[str, Any]:
    """Plot the spectrum and the pairs."""
    pictures = {"shepard": plot_shepard(result.prepared, result.measured)}
    spectrum = result.spectrum
    if spectrum is not None:
        pictures["spectrum"] = plot_spectrum(spectrum, result.embedding)
        total = spectrum.trace if isinstance(spectrum, Spectrum) else float(np.sum(spectrum))
        if total > 0:  # squared dissimilarities may be negative on average
            pictures["scree"] = plot_scree(spectrum, result.embedding)
    return pictures
