"""``neucmds embed``: coordinates, quality and plots in a folder."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated, Any

from typer import Option

from neucmds.ecology import envfit, species_scores
from neucmds.ecology.metadata import column_values
from neucmds.errors import InputError
from neucmds.explore.comparison import corrected
from neucmds.explore.quality import sample_of
from neucmds.fit import neuc_mds
from neucmds.options import SHORTEST_PATH, Options
from neucmds.prepared import prepare, read_directed, refuse_weights
from neucmds.problem.components import checked_size, total_of
from neucmds.problem.metrics import Metric
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import json_text, progress
from neucmds.tools.cli.inputs import (
    parse_value,
    read_data,
    read_embedding,
    read_objects,
    read_weights,
)
from neucmds.tools.cli.outputs import Outputs, default_place, tell
from neucmds.tools.cli.results import (
    AXES_PLOTS,
    RESULT_FILES,
    Result,
    add_envfit,
)
from neucmds.tools.cli.tables import facts, facts_table, suggestion
from neucmds.tools.files import objects_table
from neucmds.tools.plots import caption, methods_text, plot_coordinates
from neucmds.tools.plots.colours import Colours, as_colours
from neucmds.tools.plots.coordinates import (
    check_plane,
    default_axes,
    two_axes,
)
from neucmds.tools.plots.figures import inches


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
    if arrows and table is None:
        raise InputError(
            "--arrows needs a table of the objects; pass --metadata FILE."
        )
    # Called for its refusal of a wrong width, before the fit.
    if size is not None:
        inches(size)
    n_components = parse_value(components)
    with progress(f"reading {file}") as callback:
        data, names, measure = read_data(
            file, metric, whole=landmarks is not None, directed=directed
        )
        features = None
        if isinstance(measure, Metric):
            features = data
            data = features.to_numpy()
        reading_options: dict[str, Any] = {
            "metric": measure,
            "squared": squared,
            "symmetrize": symmetrize,
        }
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
            "init": read_embedding(init) if init else None,
            "random_state": seed,
            "callback": callback,
        }
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
        problem: Any = None
        if is_read_by_fit:
            n = data.shape[0]
        else:
            problem = prepare(
                data,
                n_components,
                labels=names,
                **reading_options,
                weights=read_weights(weights),
                missing=missing,
                callback=callback,
            )
            n = problem.n
            names = problem.labels
        table = objects_table(table, names, n, metadata_missing, color_by)
        # Axes and groups that do not exist are refused before the fit.
        most = n
        if directed:
            # As many coordinates as the shorter side has objects.
            most = min(data.shape) + 1
        if init:
            k = fit_options["init"].k
        else:
            k = total_of(checked_size(n_components, most))
        if arrows:
            check_plane(k)
        axes_pairs = None
        if axes is not None:
            axes_pairs = [two_axes(parse_value(axes), k)]
        color = None
        colours = Colours()
        if color_by is not None:
            color = column_values(table, color_by)
            colours = as_colours(color, n)
        if ellipses != "none" or hulls or spiders:
            colours.check_groups()
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
            if correction != "none":
                refuse_weights(
                    problem,
                    f"--correction {correction}",
                    "leave out --weights and --missing",
                )
                problem = corrected(problem, correction)
            embedding = neuc_mds(problem, **fit_options)
            if correction != "none":
                # New objects come without the constant, so they cannot be placed.
                embedding = replace(embedding, placement=None)
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
        # Features with names that are never negative may be abundances of species.
        if (
            features is not None
            and features.columns.inferred_type == "string"
            and (features >= 0).all(axis=None)
        ):
            scores = species_scores(embedding, features)
            outputs.add_csv("species.csv", scores.reset_index(names="species"))
        axes_pairs = axes_pairs or default_axes(embedding)
        # One for each pair of axes.
        envfits: list[Any] = [None] * len(axes_pairs)
        permutations = 0
        if arrows:
            # There may be fewer coordinates than asked for.
            check_plane(embedding.k)
            permutations = 999
            envfits = [
                envfit(
                    embedding,
                    table,
                    axes=pair,
                    permutations=permutations,
                    random_state=seed,
                )
                for pair in axes_pairs
            ]
            add_envfit(outputs, embedding, envfits)
        texts = [
            methods_text(
                embedding,
                _dissimilarity_words(measure, correction),
                permutations=permutations,
            )
        ]
        style: Any = {
            "title": color_by or "",
            "ellipses": ellipses,
            "conf": conf,
            "hulls": hulls,
            "spiders": spiders,
            "filled": filled,
            "centroids": centroids,
            "variables": variables.split(",") if variables else None,
            "p_max": p_max,
            "size": size,
        }
        if plots != "none":
            # There may be one pair of axes alone.
            for name, pair, fit in zip(
                AXES_PLOTS, axes_pairs, envfits, strict=False
            ):
                look = style | {"axes": pair, "arrows": fit}
                ax = plot_coordinates(embedding, color, **look)
                outputs.add_plot(f"{name}.{plots}", ax)
                texts.append(f"{name}: {caption(embedding, **look)}")
            result.add_pictures_of_d(outputs, plots, size)
        outputs.add_text("methods.txt", "\n\n".join(texts) + "\n")
        files = outputs.commit()
    printed = facts_table(f"{file}: {embedding.n:,} objects", facts(result))
    tell(files, record, as_json, printed, suggestion(result, n_components))


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
