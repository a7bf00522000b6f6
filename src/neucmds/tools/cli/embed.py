"""``neucmds embed``: coordinates, quality and plots in a folder."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated, Any

import typer

from neucmds import fit
from neucmds.ecology import species_scores
from neucmds.ecology.variables import checked_axes
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.explore.comparison import CORRECTIONS
from neucmds.fitting import warn_of_surprises
from neucmds.options import DEFAULT_METHOD, Options
from neucmds.prepared import dense_gram
from neucmds.problem.components import Components
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import print_json, print_table, say, steps
from neucmds.tools.cli.inputs import (
    GIVEN,
    GRAPH,
    Drawing,
    parse_axes,
    parse_components,
    parse_curvature,
    read_source,
)
from neucmds.tools.cli.outputs import Outputs, default_place
from neucmds.tools.cli.results import RESULT_FILES, add_result, describe, measured
from neucmds.tools.cli.tables import facts, facts_table, suggestion


def embed(
    file: opt.File,
    components: opt.Number = opt.N_COMPONENTS,
    method: opt.Method = DEFAULT_METHOD,
    loss: opt.Loss = "squared",
    floor: opt.Floor = None,
    curvature: opt.Curvature = "0",
    n_init: opt.Starts = None,
    missing: opt.MissingPairs = "error",
    weights: opt.Weights = None,
    correction: Annotated[
        opt.Correction,
        typer.Option(
            "--correction", help="First add a constant that makes D Euclidean (ape's pcoa)."
        ),
    ] = "none",
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    metric: opt.Metric = GIVEN,
    landmarks: Annotated[
        int | None,
        typer.Option(
            "--landmarks",
            metavar="L",
            help="Embed L objects and place all others among them; for very many objects.",
        ),
    ] = None,
    metadata: opt.Metadata = None,
    metadata_missing: opt.MetadataMissing = "error",
    color_by: opt.ColorBy = None,
    categories: opt.Categories = None,
    axes: Annotated[
        str | None,
        typer.Option(
            "--axes",
            metavar="A,B",
            help="Axes to draw; 1,2 by default, and in a second plot the first positive and the "
            "first negative axis.",
        ),
    ] = None,
    draw: Annotated[
        str,
        typer.Option(
            "--draw",
            metavar="PARTS",
            help="ellipses: a 95 % ellipse per group. arrows: the columns of --metadata fitted to "
            "the axes drawn, as vegan's envfit: arrows for numbers, centroids for categories; "
            "envfit.csv has r² and p. Or both, with a comma.",
        ),
    ] = "",
    seed: opt.Seed = 0,
    output: opt.Folder = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
    plots: opt.PlotsAs = "png",
) -> None:
    """Embed FILE: write coordinates, quality and plots."""
    folder = default_place(file) if output is None else output
    outputs = Outputs(folder, RESULT_FILES, force=force)
    drawing = Drawing(metadata, metadata_missing, color_by, categories, parse_axes(axes), draw)
    if metadata is not None and color_by is None and not drawing.draws("arrows"):
        raise InputError("--metadata needs --color-by COLUMN or --draw arrows.")
    incomplete = weights is not None or missing != "error"
    if correction != "none" and (incomplete or landmarks is not None):
        raise InputError(
            "--correction needs every pair, with equal weight; leave out --weights, --missing and "
            "--landmarks."
        )
    if landmarks is not None and weights is not None:
        raise InputError("--landmarks and --weights do not go together; leave one of them out.")
    start = time.perf_counter()
    with steps() as progress:
        options = Options(
            parse_components(components),
            method,
            loss,
            floor=floor,
            curvature=parse_curvature(curvature),
            random_state=seed,
            n_init=n_init,
            callback=progress.show,
        )
        progress.now(f"reading {file}")
        drawing = drawing.read()
        source = read_source(file, metric, weights, drawing.keeper, whole=landmarks is not None)
        reading: dict[str, Any] = {
            "squared": squared,
            "symmetrize": symmetrize,
            "missing": missing,
        }
        constant = None
        if landmarks is None and (source.metric != GRAPH or correction != "none"):
            copy = method == "refined"
            how = reading | {"keep_copy": copy, "callback": progress.show}
            source, reading = source.prepared(options.n_components, **how), {}
        if correction != "none":
            dense = dense_gram(source.data, "--correction")
            euclidean = CORRECTIONS[correction](dense.sq_dissimilarity, squared=True)
            constant = euclidean.constant
            gram = DenseGram(euclidean.sq_dissimilarity)
            source = replace(source, data=replace(source.data, gram=gram))
        if drawing.axes is not None:
            total = Components.parse(options.n_components, landmarks or source.n).total
            checked_axes(drawing.axes, total)
        drawing = drawing.matched(source)
        how = {"metric": source.metric, "landmarks": landmarks, "weights": source.weights}
        found = fit.embed(source.data, replace(options, **how, **reading), source.labels)
        if constant is not None:
            # New objects come without the constant, so they cannot be placed.
            found = replace(found, embedding=replace(found.embedding, placement=None))
        progress.now("measuring the result")
        result = measured(file, source, found, options, reading, pictures=plots != "none")
        _refuse_empty(result.embedding, options.n_components)
        record = describe(result) | {"seconds": time.perf_counter() - start}
        if constant is not None:
            record |= {"correction": correction, "constant": constant}
        progress.now("writing the result")
        add_result(outputs, result, record, plots, drawing, seed)
        if source.table is not None and (source.table >= 0).all(axis=None):
            scores = species_scores(result.embedding, source.table)
            outputs.add_csv("species.csv", scores.reset_index(names="species"))
        files = outputs.commit()
    if result.embedding.landmarks is None:  # their fit has warned already
        warn_of_surprises(result.embedding)
    if as_json:
        print_json(record | {"files": [str(path) for path in files]})
        return
    rows = facts(result)
    if constant is not None:
        name = f"{correction}, constant {constant:.4g}"
        rows.insert(0, ("correction", f"{name}; all below is measured against the corrected D"))
    print_table(facts_table(f"{file}: {source.n:,} objects", rows))
    if (text := suggestion(result, options.n_components)) is not None:
        say(text)
    say(f"Written to {folder}/: {', '.join(path.name for path in files)}")


def _refuse_empty(embedding: Embedding, wanted: object) -> None:
    """Refuse a result without coordinates, unless all objects are equal."""
    if embedding.k or not embedding.stress:
        return
    asked = f" ({option('n_components', wanted)})" if isinstance(wanted, tuple) else ""
    raise InputError(
        f"{embedding.method} finds no coordinate of these signs{asked}: B has no such "
        "eigenvalues; pass a number for -k, and see neucmds diagnose."
    )
