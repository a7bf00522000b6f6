"""Measure an embedding, and collect its files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import neucmds
from neucmds.embedding import Embedding
from neucmds.explore import PairErrors, Quality, evaluate, pair_errors
from neucmds.explore.diagnosis import largest_eigenpairs
from neucmds.explore.quality import measure_held_out
from neucmds.problem.dense import Dense
from neucmds.problem.directed import Directed
from neucmds.problem.names import Labels
from neucmds.tools.cli.drawing import AXES_PLOTS
from neucmds.tools.cli.options import PICTURES
from neucmds.tools.cli.outputs import Outputs, named_rows
from neucmds.tools.plots import plot_scree, plot_shepard, plot_spectrum
from neucmds.tools.report.words import axis_table

# Attributes of an embedding, and then of its `info`, that quality.json has.
FIT_FIELDS = (
    "n",
    "method",
    "loss",
    "floor",
    "curvature",
    "mean_distance",
    "requested",
    "k",
    "signature",
    "squared",
    "weights",
)
INFO_FIELDS = (
    "eigenvalues",
    "converged",
    "solver",
    "n_starts",
    "times_found",
)
TABLES = ("axes", "centroids", "coordinates", "envfit", "objects", "species")
PLOTS = ("spectrum", "scree", *AXES_PLOTS, "shepard")
# Every file that ``neucmds embed`` may write.
RESULT_FILES = (
    "embedding.npz",
    "quality.json",
    "methods.txt",
    *(f"{table}.csv" for table in TABLES),
    *(f"{plot}.{kind}" for plot in PLOTS for kind in PICTURES),
)


@dataclass(frozen=True, eq=False)
class Result:
    """An embedding, and what is measured of it when asked for.

    `measured` is the embedding, or that of a sample of its objects; `problem` is the D of the
    objects measured. `n_held_out` of these are left out of a second fit, to be placed.
    """

    embedding: Embedding
    measured: Embedding
    problem: Dense | Directed
    n_held_out: int

    @cached_property
    def quality(self) -> Quality:
        """How well the measured objects fit D."""
        return evaluate(self.measured, self.problem)

    @cached_property
    def errors(self) -> PairErrors:
        """Which of the pairs and objects measured are off."""
        return pair_errors(self.measured, self.problem)

    @cached_property
    def held_out_quality(self) -> Quality | None:
        """The quality on the objects held out; None if `n_held_out` is 0."""
        if not self.n_held_out:
            return None
        return measure_held_out(self.embedding, self.problem, self.n_held_out)

    @property
    def names(self) -> Labels:
        """Names of the measured objects; after them those of the columns, if these are others."""
        labels = self.measured.labels
        if labels is None:
            return None
        arrivals = self.measured.arrival_labels or ()
        return (*labels, *arrivals)

    def record(self, file: str) -> dict[str, Any]:
        """Return the fields of quality.json."""
        embedding = self.embedding
        record: dict[str, Any] = {
            "command": "embed",
            "version": neucmds.__version__,
            "input": file,
        }
        for name in FIT_FIELDS:
            record[name] = getattr(embedding, name)
        for name in INFO_FIELDS:
            record[name] = getattr(embedding.info, name)
        record |= self.quality.as_dict()
        record["pairs_off_by_10_percent"] = self.errors.pairs_off
        if self.held_out_quality is not None:
            record["held_out"] = self.held_out_quality.as_dict()
        record["axes"] = embedding.axis_names
        record["r2_lost"] = embedding.explained
        for name, shares in embedding.shares.items():
            record[f"share_of_{name}"] = shares
        record["measured_objects"] = self.measured.n
        if embedding.landmarks is not None:
            record["landmarks"] = len(embedding.landmarks)
            # Which objects the R² and the shares of the axes are computed from.
            record["axes_of"] = embedding._landmarks_alone
        return record

    def add_tables(self, outputs: Outputs) -> None:
        """Add the embedding, and tables of its coordinates, of its objects and of its axes."""
        columns = {
            "stress_share": self.errors.stress_share,
            "r2": self.errors.r2_of_object,
            "mean_relative_error": self.errors.of_object,
        }
        outputs.add_csv(
            "coordinates.csv",
            self.embedding.to_frame().reset_index(names="object"),
        )
        outputs.add_csv("objects.csv", named_rows(columns, self.names))
        outputs.add_csv("axes.csv", axis_table(self.embedding))
        outputs.files["embedding.npz"] = self.embedding.save

    def add_pictures_of_d(
        self, outputs: Outputs, kind: str, size: str | None
    ) -> None:
        """Add plots of the pairs and, if D is symmetric, whole and unweighted, of the spectrum."""
        ax = plot_shepard(
            self.problem, self.measured, quality=self.quality, size=size
        )
        outputs.add_plot(f"shepard.{kind}", ax)
        if isinstance(self.problem, Directed):
            return
        if self.embedding.landmarks is not None:
            return
        is_sample = self.measured.n < self.embedding.n
        if is_sample or self.problem.weights is not None:
            return
        spectrum = largest_eigenpairs(self.problem.gram)
        outputs.add_plot(
            f"spectrum.{kind}", plot_spectrum(spectrum, self.embedding)
        )
        # The trace is negative where squared dissimilarities are negative on average.
        if spectrum.trace > 0:
            outputs.add_plot(
                f"scree.{kind}", plot_scree(spectrum, self.embedding)
            )
