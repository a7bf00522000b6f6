"""``neucmds embed``: coordinates, quality and plots in a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

import neucmds
from neucmds import api
from neucmds._methods.refined.descent import Callback
from neucmds._methods.refined.starts import RefineSettings
from neucmds._operator import DenseGram
from neucmds.api import ALL_METHODS, DEFAULT_METHOD
from neucmds.cli.console import Steps, print_json, print_table, say, steps
from neucmds.cli.groups import read_groups
from neucmds.cli.options import (
    File,
    Folder,
    Force,
    Json,
    MaxMemory,
    Missing,
    NoPlots,
    PictureFormat,
    Pictures,
    Seed,
    Squared,
    Symmetrize,
    parse_components,
)
from neucmds.cli.outputs import Outputs, coordinate_rows, default_folder
from neucmds.cli.tables import count, facts_table, percent, significant
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.metrics import Quality

__all__ = ["RESULT_FILES", "add_result", "embed"]

PLOTS = ("spectrum", "coordinates", "shepard")
RESULT_FILES = (
    "coordinates.csv",
    "embedding.npz",
    "quality.json",
    *(f"{plot}.{kind.value}" for plot in PLOTS for kind in PictureFormat),
)


def embed(
    file: File,
    components: Annotated[
        str | None,
        typer.Option(
            "-k",
            "--components",
            metavar="K",
            help="Number of coordinates, or p,q for p positive and q negative ones; "
            "20 by default, or n − 1 if that is less.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help=f"One of {', '.join(ALL_METHODS)}.")
    ] = DEFAULT_METHOD,
    loss: Annotated[
        str,
        typer.Option(
            "--loss",
            metavar="NAME",
            help="What --method refined minimises: squared (the paper's STRESS, far pairs rule), "
            "distance (as SMACOF), relative (near pairs count like far ones).",
        ),
    ] = "squared",
    missing: Annotated[
        Missing,
        typer.Option("--missing", help="What to do about pairs that are not known (NA, blank)."),
    ] = Missing.error,
    squared: Squared = False,
    symmetrize: Symmetrize = False,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="Groups that colour the plot: one a line, or name,group.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    max_iter: Annotated[
        int | None,
        typer.Option(
            "--max-iter",
            min=1,
            help="Most iterations of --method refined; 100 for the squared loss, 500 for others.",
            show_default=False,
        ),
    ] = None,
    max_memory: MaxMemory = None,
    output: Folder = None,
    as_json: Json = False,
    force: Force = False,
    no_plots: NoPlots = False,
    picture_format: Pictures = PictureFormat.png,
) -> None:
    """Write coordinates, quality and plots."""
    folder = default_folder(file) if output is None else output
    outputs = Outputs(folder, RESULT_FILES, force=force)
    start = time.perf_counter()
    with steps() as progress:
        progress.now(f"reading {file}")
        wanted = parse_components(components)
        limit = max_iter or (100 if loss == "squared" else 500)
        settings = RefineSettings(max_iter, callback=_counter(progress, limit), loss=loss)
        prepared = api.prepare(
            file,
            wanted,
            squared=squared,
            symmetrize=symmetrize,
            missing=missing.value,
            max_memory=max_memory,
            keep_copy=method == "refined",
            progress=lambda number, done, n: progress.describe(
                f"pass {number} over D: {100 * done // n} %"
            ),
        )
        groups = None if labels is None else read_groups(labels, prepared.n, prepared.labels)
        found = api.fit(
            prepared,
            wanted,
            method,
            random_state=seed,
            settings=settings,
            on_step=progress.now,
        )
        embedding = found.embedding
        _refuse_nothing(embedding, wanted)
        progress.now("measuring the result")
        quality = api.evaluate(embedding, prepared)
        record = describe(file, embedding, quality) | {"seconds": time.perf_counter() - start}
        progress.now("writing the result")
        kind = None if no_plots else picture_format
        gram = prepared.gram
        sq_dissimilarity = gram.sq_dissimilarity if isinstance(gram, DenseGram) else None
        spectrum = found.spectrum
        add_result(
            outputs,
            embedding,
            record,
            None if spectrum is None else spectrum.ends.values,
            sq_dissimilarity,
            groups,
            kind,
        )
        files = outputs.commit()
    api.warn_of_surprises(embedding)
    if as_json:
        print_json(record | {"files": [str(path) for path in files]})
    else:
        print_table(facts_table(f"{file}: {embedding.n:,} objects", _facts(embedding, quality)))
        say(f"Written to {folder}/: {', '.join(path.name for path in files)}")


def _counter(progress: Steps, max_iter: int) -> Callback:
    """Return a callback that shows the iterations of a refinement as a bar."""

    def tell(iteration: int, stress: float) -> None:
        if iteration <= 1:
            progress.begin("refining", max_iter)
        progress.advance(f"refining: STRESS {stress:.4g}")

    return tell


def _refuse_nothing(embedding: Embedding, wanted: object) -> None:
    """Refuse a result without coordinates, unless all objects are equal."""
    if embedding.k or not embedding.stress:
        return
    asked = f" ({option('n_components', wanted)})" if isinstance(wanted, tuple) else ""
    raise InputError(
        f"{embedding.method} finds no coordinate of the signs asked for{asked}: B has no such "
        "eigenvalues; pass a number for -k, and see neucmds inspect."
    )


def describe(source: str, embedding: Embedding, quality: Quality) -> dict[str, Any]:
    """Return everything a machine may want to know of a result, but its coordinates."""
    return {
        "command": "embed",
        "version": neucmds.__version__,
        "input": source,
        "n": embedding.n,
        "method": embedding.method,
        "loss": embedding.loss,
        "loss_value": embedding.loss_value,
        "requested": embedding.requested,
        "k": embedding.k,
        "signature": embedding.signature,
        "squared": embedding.squared,
        **quality.as_dict(),
        "stress_terms": embedding.stress_terms,
        "weights": embedding.weights,
        "eigenvalues": embedding.eigenvalues,
        "converged": embedding.converged,
        "solver": embedding.solver,
    }


def add_result(
    outputs: Outputs,
    embedding: Embedding,
    record: dict[str, Any],
    eigenvalues: Any,
    sq_dissimilarity: Any,
    groups: list[str] | None,
    kind: PictureFormat | None,
    group_title: str = "label",
) -> None:
    """Plan the files of one embedding."""
    outputs.add_csv(
        "coordinates.csv", *coordinate_rows(embedding, embedding.coordinates, embedding.labels)
    )
    outputs.add("embedding.npz", embedding.save)
    outputs.add_json("quality.json", record)
    if kind is None:
        return
    from neucmds.plots import plot_coordinates, plot_shepard, plot_spectrum

    pictures = {"coordinates": plot_coordinates(embedding, groups, title=group_title)}
    if eigenvalues is not None:
        complete = len(eigenvalues) == embedding.n - 1
        pictures["spectrum"] = plot_spectrum(eigenvalues, embedding.eigenvalues, complete=complete)
    # Pairs at random from a file that does not fit in memory would be one read each.
    if sq_dissimilarity is not None:
        pictures["shepard"] = plot_shepard(sq_dissimilarity, embedding, squared=True)
    for name, ax in pictures.items():
        outputs.add_plot(f"{name}.{kind.value}", ax)


def _facts(embedding: Embedding, quality: Quality) -> list[tuple[str, str]]:
    positive, negative = embedding.signature
    pairs = embedding.n * (embedding.n - 1) // 2
    return [
        ("method", embedding.method),
        (
            "coordinates",
            f"{embedding.k}: {positive} positive, {negative} negative",
        ),
        ("STRESS", significant(quality.stress)),
        ("normalised STRESS", f"{percent(quality.normalized_stress)} of ‖D‖² is not explained"),
        ("R²", f"{significant(quality.r2)} (1 is perfect, 0 no better than a constant)"),
        (
            "relative error",
            f"{percent(quality.relative_error_mean)} on average, at most "
            f"{percent(quality.relative_error_p95)} for 95 % and "
            f"{percent(quality.relative_error_p99)} for 99 % of the pairs",
        ),
        ("neighbours", f"{percent(quality.neighbors_kept)} of the 10 nearest are kept"),
        ("scaled additive error", significant(quality.scaled_additive_error)),
        ("distortion", f"{significant(quality.distortion)} (1 is perfect)"),
        ("undefined pairs", f"{count(quality.undefined_pairs)} of {count(pairs)}"),
        (
            "negative dissimilarities",
            f"{count(quality.negative_dissimilarities)} of {count(pairs)}",
        ),
    ]
