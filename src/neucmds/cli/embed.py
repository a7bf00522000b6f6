"""``neucmds embed``: coordinates, quality and plots in a folder."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from neucmds import api
from neucmds._input.components import Components, NComponents
from neucmds._spectrum import Spectrum
from neucmds.api import ALL_METHODS, DEFAULT_METHOD, Prepared
from neucmds.cli.annotations import Drawing, read_annotations
from neucmds.cli.console import Steps, print_json, print_table, say, steps
from neucmds.cli.facts import advice, facts
from neucmds.cli.inputs import Square, from_features, from_graph, from_weighted, read_square
from neucmds.cli.landmark_fit import embed_by_landmarks
from neucmds.cli.options import (
    Folder,
    Force,
    Json,
    Missing,
    NoPlots,
    PictureFormat,
    Pictures,
    Seed,
    Squared,
    Symmetrize,
    parse_axes,
    parse_components,
)
from neucmds.cli.outputs import Outputs, default_folder
from neucmds.cli.results import RESULT_FILES, Result, add_result, describe
from neucmds.cli.tables import facts_table
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.metrics import pair_errors

# The metric of a list of edges, which is no table of features.
GRAPH = "shortest_path"


def embed(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Dissimilarities: npy, npz, csv, tsv, lsmat, PHYLIP, parquet; - reads standard "
            "input. With --from-features a table of features: csv, tsv, txt, npy.",
            show_default=False,
        ),
    ],
    components: Annotated[
        str | None,
        typer.Option(
            "-k",
            "--components",
            metavar="K",
            help="Number of coordinates; p,q: p positive and q negative ones; 0.95: the fewest "
            "with an R² of 0.95; auto: the fewest that predict objects held out; 20 by default, "
            "or n − 1 if that is less.",
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
    features: Annotated[
        bool,
        typer.Option(
            "--from-features",
            help="FILE is a table of features, such as abundances, with the objects in rows and "
            "their names in the first column; dissimilarities are made by --metric.",
        ),
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Of --from-features: braycurtis, jaccard, cosine, euclidean, cityblock, … Or "
            "shortest_path: FILE is a graph, two nodes and the length of their edge a line.",
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
    color_by: Annotated[
        str | None,
        typer.Option(
            "--color-by",
            metavar="COLUMN",
            help="The column of --metadata that colours the points.",
            show_default=False,
        ),
    ] = None,
    name_column: Annotated[
        str | None,
        typer.Option(
            "--name-column",
            metavar="COLUMN",
            help="The column that names the objects; found by itself where names agree.",
            show_default=False,
        ),
    ] = None,
    categories: Annotated[
        str | None,
        typer.Option(
            "--categories",
            metavar="COLUMNS",
            help="Columns of --metadata, with commas between, whose numbers are categories.",
            show_default=False,
        ),
    ] = None,
    by_order: Annotated[
        bool,
        typer.Option("--by-order", help="Rows of --metadata are in the order of the objects."),
    ] = False,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="Groups that colour the points: one a line, or name,group.",
            show_default=False,
        ),
    ] = None,
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
    names: Annotated[
        bool | None,
        typer.Option(
            "--names/--no-names",
            help="Write names beside points, or none; by default if all fit.",
            show_default=False,
        ),
    ] = None,
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
    no_plots: NoPlots = False,
    picture_format: Pictures = PictureFormat.png,
) -> None:
    """Write coordinates, quality and plots."""
    folder = default_folder(file) if output is None else output
    outputs = Outputs(folder, RESULT_FILES, force=force)
    drawing = Drawing(
        labels=labels,
        metadata=metadata,
        color_by=color_by,
        name_column=None if features and metadata is None else name_column,
        categories=tuple(categories.split(",")) if categories else (),
        by_order=by_order,
        axes=parse_axes(axes),
        arrows=arrows,
        ellipses=ellipses,
        names=names,
    )
    job = Job(
        file,
        parse_components(components),
        method,
        loss=loss,
        missing=missing,
        weights=weights,
        squared=squared,
        symmetrize=symmetrize,
        metric=metric,
        features=features,
        name_column=name_column if metadata is None else None,
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
        result = job.fit(source, progress)
        _refuse_nothing(result.embedding, job.components)
        record = describe(result) | {"seconds": time.perf_counter() - start}
        tries = [] if as_json else advice(result, progress.now, seed)
        progress.now("writing the result")
        kind = None if no_plots else picture_format
        add_result(outputs, result, record, kind, known, drawing, seed)
        files = outputs.commit()
    if result.landmarks is None:  # which have warned for themselves
        api.warn_of_surprises(result.embedding)
    if as_json:
        print_json(record | {"files": [str(path) for path in files]})
        return
    print_table(facts_table(f"{file}: {source.n:,} objects", facts(result)))
    if tries:
        say("\n".join(tries))
    say(f"Written to {folder}/: {', '.join(path.name for path in files)}")


@dataclass(frozen=True)
class Job:
    """What is to be embedded, and how: the options of the command, as the command has them."""

    file: str
    components: NComponents
    method: str
    loss: str
    missing: Missing
    weights: Path | None
    squared: bool
    symmetrize: bool
    metric: str | None
    features: bool
    name_column: str | None
    landmarks: int | None
    seed: int
    max_iter: int | None

    def check(self) -> None:
        """Refuse options that exclude or need each other, before anything is read."""
        if self.features != (self.metric not in (None, GRAPH)):
            given, other = ("--from-features", "--metric NAME")[:: 1 if self.features else -1]
            raise InputError(f"{given} needs {other}: dissimilarities are made of features by it.")
        asked = {
            "--weights": self.weights is not None,
            "--missing ignore": self.missing is not Missing.error,
            "--symmetrize": self.symmetrize,
            "--squared": self.squared,
            "--landmarks": self.landmarks is not None,
            "--from-features": self.features,
            f"--metric {GRAPH}": self.metric == GRAPH,
            "--max-iter": self.max_iter is not None,
        }
        for one, others in _EXCLUDED.items():
            clash = next((other for other in others if asked[one] and asked[other]), None)
            if clash is not None:
                raise InputError(f"{one} and {clash} do not go together; leave one of them out.")

    def read(self, progress: Steps) -> Prepared | Square:
        """Read FILE."""
        progress.now(f"reading {self.file}")
        if self.landmarks is not None:
            return read_square(self.file)

        if self.metric == GRAPH:
            return from_graph(self.file, self.components)
        if self.features:
            return from_features(
                self.file,
                str(self.metric),
                self.components,
                name_column=self.name_column,
                callback=progress.hear,
            )
        options: dict[str, Any] = {
            "squared": self.squared,
            "symmetrize": self.symmetrize,
            "missing": self.missing.value,
            "keep_copy": self.method == "refined",
            "callback": progress.hear,
        }
        if self.weights is not None:
            return from_weighted(self.file, self.weights, self.components, **options)
        return api.prepare(self.file, self.components, **options)

    def fit(self, source: Prepared | Square, progress: Steps) -> Result:
        """Embed and measure what was read."""
        if isinstance(source, Square):
            progress.now(f"embedding {self.landmarks:,} landmarks and placing the others")
            return embed_by_landmarks(
                self.file,
                source,
                self.landmarks or 0,
                self.components,
                method=self.method,
                loss=self.loss,
                squared=self.squared,
                symmetrize=self.symmetrize,
                seed=self.seed,
            )
        options = api.Options(
            self.components,
            self.method,
            self.loss,
            random_state=self.seed,
            max_iter=self.max_iter,
            callback=progress.hear,
        )
        found = api.fit(source, options)
        progress.now("measuring the result")
        x, signs = found.embedding.coordinates, found.embedding.signs
        return Result(
            self.file,
            found.embedding,
            source,
            api.evaluate(found.embedding, source),
            pair_errors(source.gram, x, signs, weights=source.weights),
            self._spectrum(source, found.spectrum),
        )

    def _spectrum(self, source: Prepared, found: Spectrum | None) -> Spectrum | None:
        """Return eigenvalues for the pictures: of other losses B has them too, of gaps it has not.

        To the four digits that a picture shows.
        """
        if found is not None or source.weights is not None:
            return found
        wanted = Components.parse(self.components, source.n)
        return api.solve_for(source.gram, wanted, "exact", tol=1e-4, random_state=self.seed)


_MADE_HERE = ("--weights", "--missing ignore", "--symmetrize", "--squared")
_EXCLUDED = {
    "--from-features": _MADE_HERE,
    f"--metric {GRAPH}": _MADE_HERE,
    "--landmarks": (
        "--from-features", f"--metric {GRAPH}", "--weights", "--missing ignore", "--max-iter",
    ),
}  # fmt: skip


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
