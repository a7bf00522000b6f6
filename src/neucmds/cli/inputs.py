"""Parse the arguments and read the files of commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from neucmds import api
from neucmds._input import (
    AUTO,
    NComponents,
    as_labels,
    column_values,
    described,
    match_rows,
    order_of,
    read_edges,
    read_metadata,
    read_square,
    read_table,
)
from neucmds._operator import named_graph
from neucmds.api import Prepared
from neucmds.cli.options import GRAPH, WithoutRow
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.ordination import EnvFit, envfit

ENVFIT_HEADER = ("x", "y", "variable", "kind", "cos_x", "cos_y", "r2", "p", "n")
CENTROIDS_HEADER = ("x", "y", "variable", "class", "centroid_x", "centroid_y")

Names = tuple[str, ...] | None
# From the names of all objects to the numbers and names of those that are kept.
Keeper = Callable[[Names], tuple[list[int], Names]]


def parse_curvature(text: str) -> float | Literal["auto"]:
    """Read a number, or ``auto``."""
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"--curvature {text} is not understood; pass a number such as -4, or auto."
        ) from None


def parse_components(text: str | None) -> NComponents:
    """Read ``20``, ``12,8`` for 12 positive and 8 negative ones, ``0.95`` or ``auto``."""
    if text is None or text == AUTO:
        return text
    with suppress(ValueError):
        if "." in text and 0 < float(text) < 1:
            return float(text)
        if "," not in text:
            return int(text)
        positive, negative = map(int, text.split(","))
        return positive, negative
    raise InputError(
        f"-k {text} is not understood; pass a number such as 20, a pair p,q, a share of R² such as "
        "0.95, or auto."
    )


def parse_axes(text: str | None) -> tuple[int, int] | None:
    """Read ``1,4``: two different axes, counted from 1; None if not given."""
    if text is None:
        return None
    with suppress(ValueError):
        x, y = map(int, text.split(","))
        if x != y and min(x, y) >= 1:
            return x, y
    raise InputError(f"--axes {text} is not understood; pass two different axes such as 1,4.")


def read_kept(file: str, keep: Keeper | None) -> tuple[Any, Names]:
    """Read dissimilarities and names, of all objects or of those to keep."""
    values, labels = read_square(file)
    if keep is not None:
        rows, labels = keep(labels)
        values = values[np.ix_(rows, rows)]
    return values, labels


def prepare_file(
    file: str,
    n_components: NComponents,
    weights: Path | None = None,
    keep: Keeper | None = None,
    *,
    metric: str | None = None,
    direction: str | None = None,
    **settings: Any,
) -> Prepared:
    """Read a graph (with `metric`) or dissimilarities and weights, matched by name.

    `keep` selects objects.
    """
    if metric is not None or direction is not None:
        if metric != GRAPH or weights is not None or keep is not None:
            raise InputError(
                f"this command supports --metric {GRAPH} only, without --weights and "
                "--metadata-missing drop; use neucmds embed for features."
            )
        graph, names = read_graph(file, direction)
        return api.prepare(graph, n_components, metric=metric, labels=names, **settings)
    if weights is None and keep is None:
        return api.prepare(file, n_components, **settings)
    values, labels = read_kept(file, keep)
    table = None
    if weights is not None:
        table, names = read_square(weights)
        if labels is not None and names is not None:
            what = f"weights of {weights.name}"
            order = order_of(names, labels, what, others=keep is not None)
            table = table[np.ix_(order, order)]
        if len(table) != len(values):
            raise InputError(
                f"{weights.name} weights {len(table)} objects, but {file} has {len(values)}; pass "
                "a row and a column for each."
            )
    return api.prepare(values, n_components, labels=labels, weights=table, **settings)


def read_features(file: str, metric: str) -> tuple[Any, Names, tuple[str, ...] | None]:
    """Read a table of features for a metric, and the names of its rows and columns."""
    titles = None
    if Path(file).suffix.lower() in (".npy", ".npz"):
        values, names = read_table(file)
        values = np.asarray(values, dtype=np.float64)
    else:
        table = read_metadata(file)
        if not len(table.columns):
            raise InputError(f"{Path(file).name} has no columns of numbers.")
        columns = [_feature(table, title, Path(file).name) for title in table.columns]
        values, titles = np.stack(columns, axis=1), tuple(map(str, table.columns))
        names = as_labels(None if table.index.name is None else table.index, len(table))
    if metric == "braycurtis":
        _refuse_negative_or_empty(values, names, file)
    return values, names, titles


def read_graph(file: str, direction: str | None) -> tuple[Any, Names]:
    """Read edges, two nodes and a length a line, and the names of the nodes."""
    edges, names = read_edges(file)
    return named_graph(edges, names, {"direction": direction})


def _feature(table: Any, title: str, source: str) -> Any:
    column = column_values(table, title)
    if not isinstance(column, np.ndarray):
        text = next((cell for cell in column if cell is not None), "")
        raise InputError(
            f"{source}: column {title!r} holds {text!r}, which is not a number; leave the column "
            "out, or put it first if it names the objects."
        )
    if np.isnan(column).any():
        row = int(np.isnan(column).argmax())
        raise InputError(
            f"{source}: column {title!r} is blank in row {row + 1}; fill it, with 0 if nothing was "
            "found."
        )
    return column


def _refuse_negative_or_empty(values: Any, names: tuple[str, ...] | None, file: str) -> None:
    """Refuse abundances for which the Bray–Curtis index is not defined."""
    low = float(values.min())
    if low < 0:
        raise InputError(
            f"{file} holds negative abundances, down to {low:.3g}, for which --metric braycurtis "
            "is not defined; pass another --metric."
        )
    empty = np.flatnonzero(values.sum(axis=1) == 0)
    if empty.size > 1:
        shown = " and ".join(str(i) if names is None else repr(names[i]) for i in empty[:2])
        raise InputError(
            f"{file}: {empty.size} objects have no abundance ({shown}), and --metric braycurtis is "
            "not defined between them; leave them out."
        )


@dataclass(frozen=True)
class Drawing:
    """Options that decide how objects are drawn; `categories` are columns between commas."""

    metadata: Path | None = None
    without_row: WithoutRow = WithoutRow.error
    color_by: str | None = None
    categories: str | None = None
    axes: tuple[int, int] | None = None
    arrows: bool = False
    ellipses: bool = False

    def check(self) -> None:
        """Refuse options that need others, before anything is read."""
        needs_table = {
            "--color-by": self.color_by is not None,
            "--arrows": self.arrows,
            "--categories": self.categories is not None,
            "--metadata-missing": self.without_row is not WithoutRow.error,
        }
        asked = [flag for flag, given in needs_table.items() if given]
        if asked and self.metadata is None:
            raise InputError(f"{asked[0]} needs a table of the objects; pass --metadata FILE.")
        if self.ellipses and self.color_by is None:
            raise InputError("--ellipses need groups; pass --color-by COLUMN.")

    def read(self) -> Any:
        """Read the table, if there is one."""
        if self.metadata is None:
            return None
        categories = () if self.categories is None else self.categories.split(",")
        return read_metadata(self.metadata, categories=categories)

    def keeper(self, table: Any) -> Keeper | None:
        """Return a function that selects the objects to keep; None for all."""
        if self.without_row is not WithoutRow.drop:
            return None

        def keep(names: Names) -> tuple[list[int], Names]:
            rows = described(table, names)
            return rows, names and tuple(names[i] for i in rows)

        return keep

    def annotations(self, table: Any, n: int, names: Names) -> Annotations:
        """Return colours and variables in the order of the objects."""
        if table is None:
            return Annotations()
        table = match_rows(table, names, n, missing=self.without_row.value)
        if self.color_by is None and not self.arrows:
            raise InputError(
                f"--metadata needs --color-by or --arrows; {self.metadata} has the columns "
                f"{', '.join(map(repr, table.columns))}."
            )
        color = None if self.color_by is None else list(column_values(table, self.color_by))
        return Annotations(color, self.color_by or "", table if self.arrows else None)


@dataclass(frozen=True)
class Annotations:
    """Colours of the objects, the title of their legend, and variables to fit."""

    color: Sequence[object] | None = None
    title: str = ""
    variables: Any = None

    def fits(
        self, embedding: Embedding, pairs: Sequence[tuple[int, int]], seed: int
    ) -> list[EnvFit | None]:
        """Fit the variables to each pair of axes, or to the only axis there is."""
        if self.variables is None:
            return [None] * len(pairs)
        axes = pairs if embedding.k > 1 else [None] * len(pairs)
        return [envfit(embedding, self.variables, axes=pair, random_state=seed) for pair in axes]


def envfit_rows(embedding: Embedding, fits: Sequence[EnvFit | None]) -> Iterator[list[Any]]:
    """Rows of envfit.csv: direction, r², p and n of each variable on each pair of axes."""
    for fit, axes in _on_axes(embedding, fits):
        for row in fit.as_rows():
            cosines = [*map(repr, row["direction"] or ()), "", ""][:2]
            p = "" if np.isnan(row["p"]) else repr(row["p"])
            yield [*axes, row["variable"], row["kind"], *cosines, repr(row["r2"]), p, row["n"]]


def centroid_rows(embedding: Embedding, fits: Sequence[EnvFit | None]) -> Iterator[list[Any]]:
    """Rows of centroids.csv: the centroid of each class on each pair of axes."""
    for fit, axes in _on_axes(embedding, fits):
        for one in fit.factors:
            for level, at in zip(one.levels, one.centroids.tolist(), strict=True):
                yield [*axes, one.name, level, *[*map(repr, at), ""][:2]]


def _on_axes(
    embedding: Embedding, fits: Sequence[EnvFit | None]
) -> Iterator[tuple[EnvFit, list[str]]]:
    """Yield fits with the names of their two axes, or of the only one."""
    for fit in fits:
        if fit is not None:
            yield fit, [*(embedding.axis_names[a - 1] for a in fit.axes), ""][:2]
