"""``neucmds embed``: coordinates, quality and plots in a folder."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from neucmds import api
from neucmds._input import Components, NComponents
from neucmds.api import DEFAULT_METHOD
from neucmds.cli.console import Steps, print_json, print_table, say, steps
from neucmds.cli.inputs import (
    Drawing,
    Keeper,
    parse_axes,
    parse_components,
    parse_curvature,
    prepare_file,
    read_features,
    read_graph,
    read_kept,
)
from neucmds.cli.options import (
    GRAPH,
    Categories,
    ColorBy,
    Correction,
    Curvature,
    Direction,
    File,
    Folder,
    Force,
    Json,
    Loss,
    Metadata,
    MetadataMissing,
    Method,
    Missing,
    MissingPairs,
    Number,
    Plots,
    PlotsAs,
    Seed,
    Squared,
    Symmetrize,
    Weights,
    WithoutRow,
)
from neucmds.cli.outputs import Outputs, axis_columns, default_folder, object_rows
from neucmds.cli.results import RESULT_FILES, Result, add_result, describe, measured
from neucmds.cli.tables import facts, facts_table, suggestion
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.ordination import checked_axes, species_scores


def embed(
    file: File,
    components: Number = None,
    method: Method = DEFAULT_METHOD,
    loss: Loss = "squared",
    curvature: Curvature = "0",
    missing: MissingPairs = Missing.error,
    weights: Weights = None,
    correction: Annotated[
        Correction,
        typer.Option("--correction", help="Make D Euclidean by a constant first, as ape's pcoa."),
    ] = Correction.none,
    squared: Squared = False,
    symmetrize: Symmetrize = False,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="braycurtis, jaccard, cosine, euclidean, cityblock, …: FILE is a table of "
            "features, such as abundances, with the objects in rows and their names in the first "
            "column. shortest_path: FILE is a graph, two nodes and the length of their edge a "
            "line.",
        ),
    ] = None,
    direction: Direction = None,
    landmarks: Annotated[
        int | None,
        typer.Option(
            "--landmarks",
            metavar="L",
            help="Embed L objects and place all others among them: for very many objects.",
        ),
    ] = None,
    metadata: Metadata = None,
    metadata_missing: MetadataMissing = WithoutRow.error,
    color_by: ColorBy = None,
    categories: Categories = None,
    axes: Annotated[
        str | None,
        typer.Option(
            "--axes",
            metavar="A,B",
            help="Axes to draw; by default 1,2, and in a second picture the first positive "
            "against the first negative one.",
        ),
    ] = None,
    arrows: Annotated[
        bool,
        typer.Option(
            "--arrows",
            help="Fit the columns of --metadata to the axes drawn: arrows of the numbers, "
            "centroids of the categories, envfit.csv with r² and p, and centroids.csv.",
        ),
    ] = False,
    ellipses: Annotated[
        bool, typer.Option("--ellipses", help="Draw the 95 % ellipse of each group.")
    ] = False,
    seed: Seed = 0,
    max_iter: Annotated[
        int | None,
        typer.Option(
            "--max-iter",
            min=1,
            help="Most iterations of --method refined; 200 for the squared loss, 500 for others.",
        ),
    ] = None,
    output: Folder = None,
    as_json: Json = False,
    force: Force = False,
    plots: PlotsAs = Plots.png,
) -> None:
    """Write coordinates, quality and plots."""
    folder = default_folder(file) if output is None else output
    outputs = Outputs(folder, RESULT_FILES, force=force)
    drawing = Drawing(
        metadata=metadata,
        without_row=metadata_missing,
        color_by=color_by,
        categories=tuple(categories.split(",")) if categories else (),
        axes=parse_axes(axes),
        arrows=arrows,
        ellipses=ellipses,
    )
    job = Job(
        file,
        parse_components(components),
        method,
        loss,
        parse_curvature(curvature),
        missing=missing,
        weights=weights,
        correction=correction,
        squared=squared,
        symmetrize=symmetrize,
        metric=metric,
        direction=direction,
        landmarks=landmarks,
        seed=seed,
        max_iter=max_iter,
    )
    drawing.check()
    job.check()
    start = time.perf_counter()
    with steps() as progress:
        table = drawing.read()
        source = job.read(progress, drawing.keeper(table))
        total = Components.parse(job.components, landmarks or source.n).total
        if drawing.axes is not None:
            checked_axes(drawing.axes, total)
        known = drawing.annotations(table, source.n, source.labels)
        result = job.fit(source, progress, pictures=plots is not Plots.none)
        _refuse_nothing(result.embedding, job.components)
        record = describe(result) | {"seconds": time.perf_counter() - start}
        if source.constant is not None:
            record |= {"correction": correction.value, "constant": source.constant}
        progress.now("writing the result")
        add_result(outputs, result, record, plots, known, drawing, seed)
        if source.columns is not None and float(source.data.min()) >= 0:
            table = dict(zip(source.columns, source.data.T, strict=True))
            scores = species_scores(result.embedding.coordinates, table)
            columns = axis_columns(result.embedding, scores.to_numpy())
            outputs.add_csv(
                "species.csv", *object_rows(source.columns, len(scores), columns, "species")
            )
        files = outputs.commit()
    if result.embedding.landmarks is None:  # which have warned for themselves
        api.warn_of_surprises(result.embedding)
    if as_json:
        print_json(record | {"files": [str(path) for path in files]})
        return
    known_facts = facts(result)
    if source.constant is not None:
        said = f"{correction.value}, constant {source.constant:.4g}; D is the corrected one below"
        known_facts.insert(0, ("correction", said))
    print_table(facts_table(f"{file}: {source.n:,} objects", known_facts))
    if (text := suggestion(result, job.components)) is not None:
        say(text)
    say(f"Written to {folder}/: {', '.join(path.name for path in files)}")


@dataclass(frozen=True)
class Source:
    """What was read: as the library takes it, with names, and what makes dissimilarities of it."""

    data: Any
    n: int
    labels: tuple[str, ...] | None
    metric: str = "precomputed"
    columns: tuple[str, ...] | None = None
    constant: float | None = None


@dataclass(frozen=True)
class Job:
    """What is to be embedded, and how: the options of the command, as the command has them."""

    file: str
    components: NComponents
    method: str
    loss: str
    curvature: float | Literal["auto"]
    missing: Missing
    weights: Path | None
    correction: Correction
    squared: bool
    symmetrize: bool
    metric: str | None
    direction: str | None
    landmarks: int | None
    seed: int
    max_iter: int | None

    def check(self) -> None:
        """Refuse options that exclude each other, before anything is read."""
        asked = {
            "--weights": self.weights is not None,
            "--missing ignore": self.missing is not Missing.error,
            "--correction": self.correction is not Correction.none,
            "--symmetrize": self.symmetrize,
            "--squared": self.squared,
            "--landmarks": self.landmarks is not None,
            "--metric": self.metric is not None,
        }
        if self.direction is not None and self.metric != GRAPH:
            raise InputError(f"--direction is for a graph; pass --metric {GRAPH}.")
        for one, others in _EXCLUDED.items():
            clash = next((other for other in others if asked[one] and asked[other]), None)
            if clash is not None:
                raise InputError(f"{one} and {clash} do not go together; leave one of them out.")

    def read(self, progress: Steps, keep: Keeper | None) -> Source:
        """Read FILE, or what is to be kept of it."""
        progress.now(f"reading {self.file}")
        if self.metric == GRAPH:
            if keep is not None:
                raise InputError(
                    "--metadata-missing drop would cut paths of the graph; take grey, or leave the "
                    "nodes out of FILE."
                )
            data, names = read_graph(self.file, self.direction)
            return Source(data, int(data.shape[0]), names, self.metric)
        if self.metric is not None:
            data, names, columns = read_features(self.file, self.metric)
            if keep is not None:
                rows, names = keep(names)
                data = data[rows]
            return Source(data, len(data), names, self.metric, columns)
        if self.landmarks is not None:
            values, names = read_kept(self.file, keep)
            return Source(values, len(values), names)
        settings: dict[str, Any] = {
            "squared": self.squared,
            "symmetrize": self.symmetrize,
            "missing": self.missing.value,
            "keep_copy": self.method == "refined",
            "callback": progress.hear,
        }
        prepared = prepare_file(self.file, self.components, self.weights, keep, **settings)
        if self.correction is Correction.none:
            return Source(prepared, prepared.n, prepared.labels)
        gram, constant = api.corrected(
            api.dense_gram(prepared, "--correction"), self.correction.value
        )
        prepared = replace(prepared, gram=gram)
        return Source(prepared, prepared.n, prepared.labels, constant=constant)

    def fit(self, source: Source, progress: Steps, *, pictures: bool) -> Result:
        """Embed and measure what was read."""
        options = api.Options(
            self.components,
            self.method,
            self.loss,
            curvature=self.curvature,
            random_state=self.seed,
            max_iter=self.max_iter,
            callback=progress.hear,
        )
        scale: dict[str, Any] = {"squared": self.squared, "symmetrize": self.symmetrize}
        reading = {} if isinstance(source.data, api.Prepared) else scale
        found = api.embed(
            source.data,
            options,
            metric=source.metric,
            landmarks=self.landmarks,
            labels=source.labels,
            **reading,
        )
        if self.correction is not Correction.none:
            # New objects come without the constant, and would be placed elsewhere.
            found = replace(found, embedding=replace(found.embedding, placement=None))
        progress.now("measuring the result")
        return measured(self.file, source, found, options, pictures=pictures, **scale)


_EXCLUDED = {
    "--metric": ("--weights", "--missing ignore", "--symmetrize", "--squared", "--correction"),
    "--landmarks": ("--weights", "--missing ignore", "--correction"),
    "--correction": ("--weights", "--missing ignore"),
}


def _refuse_nothing(embedding: Embedding, wanted: object) -> None:
    """Refuse a result without coordinates, unless all objects are equal."""
    if embedding.k or not embedding.stress:
        return
    asked = f" ({option('n_components', wanted)})" if isinstance(wanted, tuple) else ""
    raise InputError(
        f"{embedding.method} finds no coordinate of the signs asked for{asked}: B has no such "
        "eigenvalues; pass a number for -k, and see neucmds inspect."
    )
