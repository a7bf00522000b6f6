"""The files of a result: coordinates, the embedding, its quality, pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import neucmds
from neucmds._backend.arrays import to_numpy
from neucmds._spectrum import Spectrum
from neucmds.api import Prepared
from neucmds.cli.annotations import ENVFIT_HEADER, Annotations, Drawing, envfit_rows
from neucmds.cli.options import PictureFormat
from neucmds.cli.outputs import Outputs, axis_rows, coordinate_rows
from neucmds.embedding import Embedding
from neucmds.metrics import PairErrors, Quality
from neucmds.plots import default_axes, plot_coordinates, plot_scree, plot_shepard, plot_spectrum

# The first two axes, and a positive one against a negative one.
COORDINATES = ("coordinates", "coordinates_neg")
PLOTS = ("spectrum", "scree", *COORDINATES, "shepard")
RESULT_FILES = (
    "axes.csv",
    "coordinates.csv",
    "embedding.npz",
    "envfit.csv",
    "quality.json",
    *(f"{plot}.{kind.value}" for plot in PLOTS for kind in PictureFormat),
)


@dataclass(frozen=True)
class Result:
    """An embedding, what it was measured on, and what came out.

    Parameters
    ----------
    source : str
        The file.
    embedding : Embedding
        Of all objects.
    prepared : Prepared
        The D that `measured` is an embedding of.
    quality : Quality
    errors : PairErrors
    spectrum : Spectrum, ndarray or None
        Eigenvalues for the pictures.
    landmarks : Embedding, optional
        The embedding of the landmarks, if `embedding` was placed among them.
    sample : Embedding, optional
        The objects that were measured, if not all.
    """

    source: str
    embedding: Embedding
    prepared: Prepared
    quality: Quality
    errors: PairErrors
    spectrum: Any = None
    landmarks: Embedding | None = None
    sample: Embedding | None = None

    @property
    def measured(self) -> Embedding:
        """The embedding of the objects in `prepared`."""
        return self.embedding if self.sample is None else self.sample


def describe(result: Result) -> dict[str, Any]:
    """Return everything a machine may want to know of a result, but its coordinates."""
    embedding = result.embedding
    with np.errstate(divide="ignore", invalid="ignore"):  # objects that are all the same
        explained = to_numpy(embedding.explained)
    record = {
        "command": "embed",
        "version": neucmds.__version__,
        "input": result.source,
        "n": embedding.n,
        "method": embedding.method,
        "loss": embedding.loss,
        "loss_value": embedding.loss_value,
        "requested": embedding.requested,
        "k": embedding.k,
        "signature": embedding.signature,
        "squared": embedding.squared,
        **result.quality.as_dict(),
        "pairs_off_by_10_percent": result.errors.pairs_off,
        "stress_terms": embedding.stress_terms,
        "axes": embedding.axis_names,
        "explained": explained,
        "weights": embedding.weights,
        "eigenvalues": embedding.eigenvalues,
        "converged": embedding.converged,
        "solver": embedding.solver,
        "measured_objects": result.measured.n,
    }
    if result.landmarks is not None:
        # They are of the landmarks alone, and would pass for those of all objects.
        for name in ("loss_value", "stress_terms"):
            del record[name]
        record["landmarks"] = result.landmarks.n
    return record


def add_result(
    outputs: Outputs,
    result: Result,
    record: dict[str, Any],
    kind: PictureFormat | None,
    annotations: Annotations | None = None,
    drawing: Drawing | None = None,
    seed: int = 0,
) -> None:
    """Plan the files of one embedding; without a format, no pictures."""
    embedding = result.embedding
    drawing, known = drawing or Drawing(), annotations or Annotations()
    outputs.add_csv(
        "coordinates.csv", *coordinate_rows(embedding, embedding.coordinates, embedding.labels)
    )
    outputs.add_csv("axes.csv", *axis_rows(embedding))
    saved = embedding if result.landmarks is None else result.landmarks
    outputs.add("embedding.npz", saved.save)
    outputs.add_json("quality.json", record)
    pairs = default_axes(embedding) if drawing.axes is None else (drawing.axes,)
    fits = known.fits(embedding, pairs, seed)
    if known.variables is not None:
        outputs.add_csv("envfit.csv", ENVFIT_HEADER, envfit_rows(embedding, fits))
    if kind is None:
        return
    for name, pair, fit in zip(COORDINATES, pairs, fits, strict=False):
        ax = plot_coordinates(
            embedding,
            known.color,
            axes=pair,
            names=drawing.names,
            ellipses=drawing.ellipses,
            arrows=fit if embedding.k > 1 else None,
            title=known.title,
        )
        outputs.add_plot(f"{name}.{kind.value}", ax)
    for name, ax in _of_d(result).items():
        outputs.add_plot(f"{name}.{kind.value}", ax)


def _of_d(result: Result) -> dict[str, Any]:
    """Draw the spectrum and the pairs."""
    pictures = {"shepard": plot_shepard(result.prepared, result.measured)}
    spectrum = result.spectrum
    if spectrum is not None:
        kept = result.embedding.eigenvalues
        pictures["spectrum"] = plot_spectrum(spectrum, kept)
        total = spectrum.trace if isinstance(spectrum, Spectrum) else float(np.sum(spectrum))
        if total > 0:  # squared dissimilarities may be negative on average
            pictures["scree"] = plot_scree(spectrum, kept)
    return pictures
