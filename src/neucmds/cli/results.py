"""Measure and write the result of ``embed``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import neucmds
from neucmds import api
from neucmds._input import Components
from neucmds._spectrum import Spectrum
from neucmds.api import Prepared
from neucmds.cli.inputs import (
    CENTROIDS_HEADER,
    ENVFIT_HEADER,
    Annotations,
    Drawing,
    centroid_rows,
    envfit_rows,
)
from neucmds.cli.options import PICTURES, Plots
from neucmds.cli.outputs import Outputs, axis_columns, axis_rows, object_rows
from neucmds.embedding import Embedding
from neucmds.metrics import PairErrors, Quality, pair_errors
from neucmds.plots import default_axes, plot_coordinates, plot_scree, plot_shepard, plot_spectrum

if TYPE_CHECKING:
    from neucmds.cli.embed import Source

# Objects measured where D is not stored: a million pairs.
MEASURED_OBJECTS = 1500
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
    prepared: Prepared
    quality: Quality
    errors: PairErrors
    spectrum: Any = None


def measured(
    file: str,
    source: Source,
    found: api.Fit,
    options: api.Options,
    *,
    pictures: bool,
    squared: bool,
    symmetrize: bool,
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
        prepared = api.prepare_some(
            source.data, some, metric=source.metric, squared=squared, symmetrize=symmetrize
        )
    spectrum = found.spectrum
    if pictures and spectrum is None and found.prepared is not None and prepared.weights is None:
        # Other losses do not need the spectrum, but its plots do.
        wanted = Components.parse(options.n_components, prepared.n)
        spectrum = api.solve_for(prepared.gram, wanted, "exact", tol=1e-4, random_state=0)
    return Result(
        file,
        embedding,
        seen,
        prepared,
        api.evaluate(seen, prepared),
        pair_errors(**prepared.beside(seen)),
        spectrum,
    )


def describe(result: Result) -> dict[str, Any]:
    """Return the fields of quality.json."""
    embedding = result.embedding
    record = {
        "command": "embed",
        "version": neucmds.__version__,
        "input": result.source,
        "n": embedding.n,
        "method": embedding.method,
        "loss": embedding.loss,
        "loss_value": embedding.loss_value,
        "floor": embedding.floor,
        "curvature": embedding.curvature,
        "mean_distance": embedding.mean_distance,
        "requested": embedding.requested,
        "k": embedding.k,
        "signature": embedding.signature,
        "squared": embedding.squared,
        **result.quality.as_dict(),
        "pairs_off_by_10_percent": result.errors.pairs_off,
        "stress_terms": embedding.stress_terms,
        "axes": embedding.axis_names,
        "r2_lost": embedding.explained,
        **{f"share_of_{name}": share for name, share in embedding.shares.items()},
        "weights": embedding.weights,
        "eigenvalues": embedding.eigenvalues,
        "converged": embedding.converged,
        "solver": embedding.solver,
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
    known: Annotations,
    drawing: Drawing,
    seed: int = 0,
) -> None:
    """Plan the files of one embedding."""
    embedding = result.embedding
    columns, errors = axis_columns(embedding, embedding.coordinates), result.errors
    outputs.add_csv("coordinates.csv", *object_rows(embedding.labels, embedding.n, columns))
    fitted = {
        "stress_share": errors.stress_share,
        "r2": errors.r2_of_object,
        "mean_relative_error": errors.of_object,
    }
    measured = result.measured
    outputs.add_csv("objects.csv", *object_rows(measured.labels, measured.n, fitted))
    outputs.add_csv("axes.csv", *axis_rows(embedding))
    outputs.files["embedding.npz"] = embedding.save
    outputs.add_json("quality.json", record)
    pairs = default_axes(embedding) if drawing.axes is None else (drawing.axes,)
    fits = known.fits(embedding, pairs, seed)
    if known.variables is not None:
        outputs.add_csv("envfit.csv", ENVFIT_HEADER, envfit_rows(embedding, fits))
        outputs.add_csv("centroids.csv", CENTROIDS_HEADER, centroid_rows(embedding, fits))
    if plots is Plots.none:
        return
    pictures = {
        name: plot_coordinates(
            embedding,
            known.color,
            axes=pair,
            ellipses=drawing.ellipses,
            arrows=fit if embedding.k > 1 else None,
            title=known.title,
        )
        for name, pair, fit in zip(COORDINATES, pairs, fits, strict=False)
    }
    for name, ax in (pictures | _of_d(result)).items():
        outputs.add_plot(f"{name}.{plots.value}", ax)


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
