"""``neucmds embed``: coordinates, quality and plots in a folder."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from neucmds import api
from neucmds._input import Components
from neucmds.api import DEFAULT_METHOD
from neucmds.cli.console import print_json, print_table, say, steps
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
        typer.Option(
            "--correction", help="First add a constant that makes D Euclidean (ape's pcoa)."
        ),
    ] = Correction.none,
    squared: Squared = False,
    symmetrize: Symmetrize = False,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="braycurtis, jaccard, cosine, euclidean, cityblock, …: FILE is a table of "
            "features, such as abundances, with a row per object and names in the first column. "
            "shortest_path: FILE is a graph with an edge per line: two nodes and a length.",
        ),
    ] = None,
    direction: Direction = None,
    landmarks: Annotated[
        int | None,
        typer.Option(
            "--landmarks",
            metavar="L",
            help="Embed L objects and place all others among them; for very many objects.",
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
            help="Axes to draw; 1,2 by default, and in a second plot the first positive and the "
            "first negative axis.",
        ),
    ] = None,
    arrows: Annotated[
        bool,
        typer.Option(
            "--arrows",
            help="Fit the columns of --metadata to the axes drawn, as vegan's envfit: arrows for "
            "numbers, centroids for categories; envfit.csv has r² and p.",
        ),
    ] = False,
    ellipses: Annotated[
        bool, typer.Option("--ellipses", help="Draw a 95 % ellipse per group.")
    ] = False,
    seed: Seed = 0,
    max_iter: Annotated[
        int | None,
        typer.Option(
            "--max-iter",
            min=1,
            help="Most iterations of --method refined; 200 by default, 500 for --loss distance "
            "and relative.",
        ),
    ] = None,
    output: Folder = None,
    as_json: Json = False,
    force: Force = False,
    plots: PlotsAs = Plots.png,
) -> None:
    """Embed FILE: write coordinates, quality and plots."""
    folder = default_folder(file) if output is None else output
    outputs = Outputs(folder, RESULT_FILES, force=force)
    drawing = Drawing(
        metadata, metadata_missing, color_by, categories, parse_axes(axes), arrows, ellipses
    )
    drawing.check()
    if direction is not None and metric != GRAPH:
        raise InputError(f"--direction is for a graph; pass --metric {GRAPH}.")
    _refuse_clashes(
        {
            "--weights": weights is not None,
            "--missing ignore": missing is not Missing.error,
            "--correction": correction is not Correction.none,
            "--symmetrize": symmetrize,
            "--squared": squared,
            "--landmarks": landmarks is not None,
            "--metric": metric is not None,
        }
    )
    scale = {"squared": squared, "symmetrize": symmetrize}
    start = time.perf_counter()
    with steps() as progress:
        options = api.Options(
            parse_components(components),
            method,
            loss,
            curvature=parse_curvature(curvature),
            random_state=seed,
            max_iter=max_iter,
            callback=progress.show,
        )
        progress.now(f"reading {file}")
        table = drawing.read()
        keep = drawing.keeper(table)
        if metric is not None:
            source = _read_rows(file, metric, direction, keep)
        elif landmarks is not None:
            source = Source(*read_kept(file, keep))
        else:
            settings = {**scale, "missing": missing.value, "callback": progress.show}
            source = _read_matrix(file, options, weights, keep, correction, settings)
        if drawing.axes is not None:
            total = Components.parse(options.n_components, landmarks or source.n).total
            checked_axes(drawing.axes, total)
        known = drawing.annotations(table, source.n, source.labels)
        result = _fit(file, source, options, landmarks, scale, plots is not Plots.none)
        _refuse_empty(result.embedding, options.n_components)
        record = describe(result) | {"seconds": time.perf_counter() - start}
        if source.constant is not None:
            record |= {"correction": correction.value, "constant": source.constant}
        progress.now("writing the result")
        add_result(outputs, result, record, plots, known, drawing, seed)
        if source.columns is not None and float(source.data.min()) >= 0:
            _add_species(outputs, source, result.embedding)
        files = outputs.commit()
    if result.embedding.landmarks is None:  # their fit has warned already
        api.warn_of_surprises(result.embedding)
    if as_json:
        print_json(record | {"files": [str(path) for path in files]})
        return
    rows = facts(result)
    if source.constant is not None:
        added = f"{correction.value}, constant {source.constant:.4g}; below, D is the corrected one"
        rows.insert(0, ("correction", added))
    print_table(facts_table(f"{file}: {source.n:,} objects", rows))
    if (text := suggestion(result, options.n_components)) is not None:
        say(text)
    say(f"Written to {folder}/: {', '.join(path.name for path in files)}")


@dataclass(frozen=True)
class Source:
    """Input as the library takes it, the names of its objects, and its metric."""

    data: Any
    labels: tuple[str, ...] | None
    metric: str = "precomputed"
    columns: tuple[str, ...] | None = None
    constant: float | None = None

    @property
    def n(self) -> int:
        """Number of objects."""
        prepared = isinstance(self.data, api.Prepared)
        return int(self.data.n if prepared else self.data.shape[0])


def _refuse_clashes(asked: dict[str, bool]) -> None:
    """Refuse options that exclude each other, before anything is read."""
    for one, others in _EXCLUDED.items():
        clash = next((other for other in others if asked[one] and asked[other]), None)
        if clash is not None:
            raise InputError(f"{one} and {clash} do not go together; leave one of them out.")


_EXCLUDED = {
    "--metric": ("--weights", "--missing ignore", "--symmetrize", "--squared", "--correction"),
    "--landmarks": ("--weights", "--missing ignore", "--correction"),
    "--correction": ("--weights", "--missing ignore"),
}


def _read_rows(file: str, metric: str, direction: str | None, keep: Keeper | None) -> Source:
    """Read a graph, or a table of features."""
    if metric == GRAPH:
        if keep is not None:
            raise InputError(
                "--metadata-missing drop would cut paths of the graph; pass grey, or leave the "
                "nodes out of FILE."
            )
        return Source(*read_graph(file, direction), metric)
    data, names, columns = read_features(file, metric)
    if keep is not None:
        rows, names = keep(names)
        data = data[rows]
    return Source(data, names, metric, columns)


def _read_matrix(
    file: str,
    options: api.Options,
    weights: Path | None,
    keep: Keeper | None,
    correction: Correction,
    settings: dict[str, Any],
) -> Source:
    """Read dissimilarities, and make them Euclidean where a correction is asked for."""
    copy = options.method == "refined"
    prepared = prepare_file(file, options.n_components, weights, keep, keep_copy=copy, **settings)
    constant = None
    if correction is not Correction.none:
        dense = api.dense_gram(prepared, "--correction")
        gram, constant = api.corrected(dense, correction.value)
        prepared = replace(prepared, gram=gram)
    return Source(prepared, prepared.labels, constant=constant)


def _fit(
    file: str,
    source: Source,
    options: api.Options,
    landmarks: int | None,
    scale: dict[str, Any],
    pictures: bool,
) -> Result:
    """Embed the input, and measure the result."""
    found = api.embed(
        source.data,
        options,
        metric=source.metric,
        landmarks=landmarks,
        labels=source.labels,
        **({} if isinstance(source.data, api.Prepared) else scale),
    )
    if source.constant is not None:
        # New objects come without the constant, so they cannot be placed.
        found = replace(found, embedding=replace(found.embedding, placement=None))
    api.notify(options.callback, "measuring the result")
    return measured(file, source, found, options, pictures=pictures, **scale)


def _add_species(outputs: Outputs, source: Source, embedding: Embedding) -> None:
    """Plan a table of species scores."""
    assert source.columns is not None
    table = dict(zip(source.columns, source.data.T, strict=True))
    scores = axis_columns(embedding, species_scores(embedding.coordinates, table).to_numpy())
    n = len(source.columns)
    outputs.add_csv("species.csv", *object_rows(source.columns, n, scores, "species"))


def _refuse_empty(embedding: Embedding, wanted: object) -> None:
    """Refuse a result without coordinates, unless all objects are equal."""
    if embedding.k or not embedding.stress:
        return
    asked = f" ({option('n_components', wanted)})" if isinstance(wanted, tuple) else ""
    raise InputError(
        f"{embedding.method} finds no coordinate of these signs{asked}: B has no such "
        "eigenvalues; pass a number for -k, and see neucmds inspect."
    )
