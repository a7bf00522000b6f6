"""``neucmds embed``: coordinates, quality and plots in a folder."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from neucmds import api
from neucmds._input import Components, NComponents, read_square
from neucmds.api import DEFAULT_METHOD
from neucmds.cli.console import Steps, print_json, print_table, say, steps
from neucmds.cli.inputs import (
    Drawing,
    from_weighted,
    parse_axes,
    parse_components,
    parse_curvature,
    read_annotations,
    read_features,
    read_graph,
)
from neucmds.cli.options import (
    Categories,
    ColorBy,
    Curvature,
    Folder,
    Force,
    Json,
    Loss,
    Method,
    Missing,
    MissingPairs,
    Number,
    Plots,
    PlotsAs,
    Seed,
    Squared,
    Symmetrize,
)
from neucmds.cli.outputs import Outputs, default_folder
from neucmds.cli.results import RESULT_FILES, Result, add_result, describe, measured
from neucmds.cli.tables import facts, facts_table, suggestion
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option

# The metric of a list of edges, which is no table of features.
GRAPH = "shortest_path"


def embed(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Dissimilarities: npy, npz, csv, tsv, lsmat, PHYLIP, parquet; - reads standard "
            "input. With --metric a table of features, or a graph.",
            show_default=False,
        ),
    ],
    components: Number = None,
    method: Method = DEFAULT_METHOD,
    loss: Loss = "squared",
    curvature: Curvature = "0",
    missing: MissingPairs = Missing.error,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            metavar="FILE",
            help="A square table of how much each pair counts, matched by name if both have names.",
            show_default=False,
        ),
    ] = None,
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
            show_default=False,
        ),
    ] = None,
    landmarks: Annotated[
        int | None,
        typer.Option(
            "--landmarks",
            metavar="L",
            help="Embed L objects and place all others among them: for very many objects.",
            show_default=False,
        ),
    ] = None,
    metadata: Annotated[
        Path | None,
        typer.Option(
            "--metadata",
            metavar="FILE",
            help="A table of the objects with a line of column names, matched by name.",
            show_default=False,
        ),
    ] = None,
    color_by: ColorBy = None,
    categories: Categories = None,
    axes: Annotated[
        str | None,
        typer.Option(
            "--axes",
            metavar="A,B",
            help="Axes to draw; by default 1,2, and in a second picture the first positive "
            "against the first negative one.",
            show_default=False,
        ),
    ] = None,
    arrows: Annotated[
        bool,
        typer.Option(
            "--arrows",
            help="Fit the columns of --metadata to the axes drawn: arrows of the numbers, and "
            "envfit.csv with r² and p.",
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
            show_default=False,
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
        squared=squared,
        symmetrize=symmetrize,
        metric=metric,
        landmarks=landmarks,
        seed=seed,
        max_iter=max_iter,
    )
    drawing.check()
    job.check()
    start = time.perf_counter()
    with steps() as progress:
        source = job.read(progress)
        _check_axes(drawing.axes, job.components, landmarks or source.n)
        known = read_annotations(drawing, source.n, source.labels)
        result = job.fit(source, progress, pictures=plots is not Plots.none)
        _refuse_nothing(result.embedding, job.components)
        record = describe(result) | {"seconds": time.perf_counter() - start}
        progress.now("writing the result")
        add_result(outputs, result, record, plots, known, drawing, seed)
        files = outputs.commit()
    if result.embedding.landmarks is None:  # which have warned for themselves
        api.warn_of_surprises(result.embedding)
    if as_json:
        print_json(record | {"files": [str(path) for path in files]})
        return
    print_table(facts_table(f"{file}: {source.n:,} objects", facts(result)))
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
    squared: bool
    symmetrize: bool
    metric: str | None
    landmarks: int | None
    seed: int
    max_iter: int | None

    def check(self) -> None:
        """Refuse options that exclude each other, before anything is read."""
        asked = {
            "--weights": self.weights is not None,
            "--missing ignore": self.missing is not Missing.error,
            "--symmetrize": self.symmetrize,
            "--squared": self.squared,
            "--landmarks": self.landmarks is not None,
            "--metric": self.metric is not None,
        }
        for one, others in _EXCLUDED.items():
            clash = next((other for other in others if asked[one] and asked[other]), None)
            if clash is not None:
                raise InputError(f"{one} and {clash} do not go together; leave one of them out.")

    def read(self, progress: Steps) -> Source:
        """Read FILE."""
        progress.now(f"reading {self.file}")
        if self.metric is not None:
            graph = self.metric == GRAPH
            data, names = read_graph(self.file) if graph else read_features(self.file, self.metric)
            return Source(data, int(data.shape[0]), names, self.metric)
        if self.landmarks is not None:
            values, names = read_square(self.file)
            return Source(values, len(values), names)
        settings: dict[str, Any] = {
            "squared": self.squared,
            "symmetrize": self.symmetrize,
            "missing": self.missing.value,
            "keep_copy": self.method == "refined",
            "callback": progress.hear,
        }
        if self.weights is None:
            prepared = api.prepare(self.file, self.components, **settings)
        else:
            prepared = from_weighted(self.file, self.weights, self.components, **settings)
        return Source(prepared, prepared.n, prepared.labels)

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
        progress.now("measuring the result")
        return measured(self.file, source, found, options, pictures=pictures, **scale)


_EXCLUDED = {
    "--metric": ("--weights", "--missing ignore", "--symmetrize", "--squared"),
    "--landmarks": ("--weights", "--missing ignore"),
}


def _check_axes(axes: tuple[int, int] | None, components: NComponents, n: int) -> None:
    total = Components.parse(components, n).total
    if axes is not None and max(axes) > total:
        raise InputError(
            f"{option('axes', axes)}: axis {max(axes)} does not exist; there are 1 to {total}."
        )


def _refuse_nothing(embedding: Embedding, wanted: object) -> None:
    """Refuse a result without coordinates, unless all objects are equal."""
    if embedding.k or not embedding.stress:
        return
    asked = f" ({option('n_components', wanted)})" if isinstance(wanted, tuple) else ""
    raise InputError(
        f"{embedding.method} finds no coordinate of the signs asked for{asked}: B has no such "
        "eigenvalues; pass a number for -k, and see neucmds inspect."
    )
