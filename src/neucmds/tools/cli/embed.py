"""``neucmds embed``: coordinates, quality and plots in a folder."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated, Any

import pandas as pd
from typer import Option

from neucmds.ecology import species_scores
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.explore.comparison import corrected
from neucmds.explore.quality import sample_of
from neucmds.fit import neuc_mds
from neucmds.options import SHORTEST_PATH, Options
from neucmds.prepared import prepare, read_directed, refuse_weights
from neucmds.problem.components import checked_size, total_of
from neucmds.problem.dense import Dense
from neucmds.problem.metrics import Metric
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import json_text, progress
from neucmds.tools.cli.drawing import Drawing
from neucmds.tools.cli.inputs import (
    parse_value,
    read_data,
    read_embedding,
    read_objects,
    read_weights,
)
from neucmds.tools.cli.outputs import Outputs, default_place, tell
from neucmds.tools.cli.results import RESULT_FILES, Result
from neucmds.tools.cli.tables import facts, facts_table, suggestion
from neucmds.tools.files import objects_table
from neucmds.tools.plots import methods_text


def embed(
    file: opt.File,
    components: opt.Components = opt.N_COMPONENTS,
    method: opt.Method = opt.DEFAULTS["method"],
    loss: opt.Loss = opt.DEFAULTS["loss"],
    ties: opt.Ties = opt.DEFAULTS["ties"],
    curvature: opt.Curvature = "0",
    heights: opt.Heights = "no",
    missing: opt.MissingPairs = "error",
    weights: opt.Weights = None,
    tol: opt.Tol = None,
    max_iter: opt.MaxIter = None,
    n_init: opt.NInit = None,
    init: opt.Init = None,
    correction: Annotated[
        opt.Correction,
        Option(
            help="First add a constant that makes d Euclidean (ape's pcoa).",
        ),
    ] = "none",
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    directed: opt.Directed = False,
    metric: opt.Metric = opt.DEFAULTS["metric"],
    landmarks: Annotated[
        int | None,
        Option(
            metavar="L",
            help="Embed L objects and place all others among them; for very many objects.",
        ),
    ] = None,
    held_out: opt.HeldOut = 0,
    metadata: opt.Metadata = None,
    metadata_missing: opt.MetadataMissing = "error",
    color_by: opt.ColorBy = None,
    categories: opt.Categories = None,
    axes: opt.Axes = None,
    ellipses: opt.Ellipses = "none",
    conf: opt.Conf = 0.95,
    hulls: opt.Hulls = False,
    spiders: opt.Spiders = False,
    filled: opt.Filled = False,
    arrows: opt.Arrows = False,
    centroids: opt.Centroids = False,
    variables: opt.Variables = None,
    p_max: opt.PMax = 1.0,
    size: opt.Size = None,
    seed: opt.Seed = 0,
    output: opt.Folder = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
    plots: opt.PlotsAs = "png",
) -> None:
    """Embed FILE: write coordinates, quality and plots."""
    start = time.perf_counter()
    outputs = Outputs(output or default_place(file), RESULT_FILES, force=force)
    table = read_objects(metadata, categories)
    drawing = Drawing(
        axes=parse_value(axes) if axes is not None else None,
        color_by=color_by,
        arrows=arrows,
        seed=seed,
        style={
            "ellipses": ellipses,
            "conf": conf,
            "hulls": hulls,
            "spiders": spiders,
            "filled": filled,
            "centroids": centroids,
            "variables": variables.split(",") if variables else None,
            "p_max": p_max,
            "size": size,
        },
    )
    drawing.check_options(table)
    n_components = parse_value(components)
    with progress(f"reading {file}") as callback:
        data, names, measure = read_data(
            file, metric, whole=landmarks is not None, directed=directed
        )
        features = None
        if isinstance(measure, Metric):
            features = data
            data = features.to_numpy()
        # Landmarks take rows of D and graphs paths as needed; a directed D is not symmetric. All
        # else is prepared here.
        is_read_by_fit = (
            landmarks is not None or measure == SHORTEST_PATH or directed
        )
        if is_read_by_fit and (correction != "none" or weights is not None):
            raise InputError(
                "--correction and --weights go without --landmarks, --directed and graphs; leave "
                "one out."
            )
        if held_out and (landmarks is not None or directed):
            raise InputError(
                "--held-out goes without --landmarks and --directed; leave one out."
            )
        reading_options: dict[str, Any] = {
            "metric": measure,
            "squared": squared,
            "symmetrize": symmetrize,
        }
        problem: Any = None
        if not is_read_by_fit:
            problem = prepare(
                data,
                n_components,
                labels=names,
                **reading_options,
                weights=read_weights(weights),
                missing=missing,
                callback=callback,
            )
            names = problem.labels
        start_embedding = read_embedding(init) if init else None
        n = data.shape[0] if problem is None else problem.n
        table = objects_table(table, names, n, metadata_missing, color_by)
        # Axes and groups that do not exist are refused before the fit.
        most = n
        if directed:
            # As many coordinates as the shorter side has objects.
            most = min(data.shape) + 1
        if start_embedding is not None:
            k = start_embedding.k
        else:
            k = total_of(checked_size(n_components, most))
        drawing.check_objects(table, n, k)
        fit_options: dict[str, Any] = {
            "n_components": n_components,
            "method": method,
            "loss": loss,
            "ties": ties,
            "curvature": parse_value(curvature),
            "heights": opt.HEIGHTS[heights],
            "tol": tol,
            "max_iter": max_iter,
            "n_init": n_init,
            "init": start_embedding,
            "random_state": seed,
            "callback": callback,
        }
        if problem is None:
            embedding = neuc_mds(
                data,
                landmarks=landmarks,
                missing=missing,
                directed=directed,
                **fit_options,
                **reading_options,
            )
            if names is not None:
                embedding = replace(embedding, labels=names)
        else:
            problem, embedding = _fitted(problem, correction, fit_options)
        measured = embedding
        if directed:
            options = Options(
                missing=missing, directed=True, **reading_options
            )
            problem = read_directed(data, options, names)
        elif problem is None:
            measured, problem = sample_of(
                embedding, data, seed, **reading_options
            )
        result = Result(embedding, measured, problem, held_out)
        callback(0, None, "writing the result")
        record = result.record(file) | {"seconds": time.perf_counter() - start}
        outputs.add_text("quality.json", json_text(record))
        result.add_tables(outputs)
        if features is not None:
            _add_species(outputs, embedding, features)
        captions = drawing.add_to(outputs, embedding, table, plots)
        if plots != "none":
            result.add_pictures_of_d(outputs, plots, size)
        methods = methods_text(
            embedding,
            _dissimilarity_words(measure, correction),
            permutations=drawing.permutations,
        )
        outputs.add_text(
            "methods.txt", "\n\n".join([methods, *captions]) + "\n"
        )
        files = outputs.commit()
    printed = facts_table(f"{file}: {embedding.n:,} objects", facts(result))
    tell(files, record, as_json, printed, suggestion(result, n_components))


def _fitted(
    problem: Dense, correction: str, fit_options: dict[str, Any]
) -> tuple[Dense, Embedding]:
    """Return a problem, corrected if that is asked for, and its embedding."""
    if correction == "none":
        return problem, neuc_mds(problem, **fit_options)
    refuse_weights(
        problem,
        f"--correction {correction}",
        "leave out --weights and --missing",
    )
    problem = corrected(problem, correction)
    embedding = neuc_mds(problem, **fit_options)
    # New objects come without the constant, so they cannot be placed.
    return problem, replace(embedding, placement=None)


def _add_species(
    outputs: Outputs, embedding: Embedding, features: pd.DataFrame
) -> None:
    """Add scores of species, if features have names and are never negative: as abundances are."""
    has_names = features.columns.inferred_type == "string"
    if has_names and (features >= 0).all(axis=None):
        scores = species_scores(embedding, features)
        outputs.add_csv("species.csv", scores.reset_index(names="species"))


def _dissimilarity_words(measure: Any, correction: str) -> str:
    """Name the embedded dissimilarities, at the start of a sentence."""
    words = "Dissimilarities"
    if isinstance(measure, Metric):
        words = f"Dissimilarities ({measure.metric})"
    if measure == SHORTEST_PATH:
        words = "Lengths of shortest paths"
    if correction != "none":
        words += f", with the correction of {correction.capitalize()},"
    return words
