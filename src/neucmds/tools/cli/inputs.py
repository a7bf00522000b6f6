"""Parse the arguments and read the files of commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from neucmds.ecology import EnvFit, envfit
from neucmds.ecology.metadata import (
    check_column,
    column_values,
    described,
    match_rows,
    read_metadata,
)
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.prepared import prepare
from neucmds.problem.components import AUTO, NComponents
from neucmds.problem.containers import read_square
from neucmds.problem.dense import Dense
from neucmds.problem.graph import named_graph
from neucmds.problem.metrics import BoundMetric, refuse_params
from neucmds.problem.names import order_of
from neucmds.problem.pairs import read_edges
from neucmds.problem.readers.files import read_table
from neucmds.problem.validation import as_labels
from neucmds.tools.cli.options import WithoutRow

# Metrics of dissimilarities and of a list of edges.
GIVEN, GRAPH = "precomputed", "shortest_path"

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


def parse_components(text: str) -> NComponents:
    """Read ``20``, ``12,8`` for 12 positive and 8 negative ones, ``0.95`` or ``auto``."""
    if text == AUTO:
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


def parse_metric(text: str) -> tuple[str, dict[str, Any]]:
    """Read the name of a metric and its parameters, as in ``minkowski,p=3``."""
    name, *settings = _listed(text)
    params: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise InputError(
                f"--metric {text} is not understood; pass parameters as in minkowski,p=3."
            )
        params[key] = value
        with suppress(ValueError):
            params[key] = float(value)
        if name != GRAPH and params[key] == value:
            raise InputError(f"--metric {text}: {key} must be a number.")
    if "weight" in params and name == GRAPH:
        raise InputError("a file of edges has one column of lengths; leave weight out of --metric.")
    if params and name == GIVEN:
        refuse_params(name)
    return name, params


def _listed(text: str) -> list[str]:
    """Cut a list at its commas."""
    return [part.strip() for part in text.split(",")]


@dataclass(frozen=True)
class Source:
    """Input as the library takes it; `table` holds features with names."""

    data: Any
    labels: Names = None
    metric: Any = GIVEN
    weights: Any = None
    table: Any = None

    @property
    def n(self) -> int:
        """Number of objects."""
        prepared = isinstance(self.data, Dense)
        return int(self.data.n if prepared else self.data.shape[0])

    def prepared(self, n_components: NComponents, **settings: Any) -> Source:
        """Read and validate the input, and put it behind its operator."""
        found = prepare(
            self.data,
            n_components,
            metric=self.metric,
            labels=self.labels,
            weights=self.weights,
            **settings,
        )
        return Source(found, found.labels, table=self.table)


def read_source(
    file: str,
    metric: str = GIVEN,
    weights: Path | None = None,
    keep: Keeper | None = None,
    *,
    whole: bool = False,
) -> Source:
    """Read a graph, features or dissimilarities, and weights matched by name.

    `keep` selects objects. Dissimilarities are left to the library, which may read them in blocks,
    unless they are needed here or as a `whole`.
    """
    name, params = parse_metric(metric)
    used: Any = name
    data: Any
    table = None
    if name == GRAPH:
        if keep is not None:
            raise InputError(
                "--metadata-missing drop would cut paths of the graph; pass grey, or leave the "
                "nodes out of FILE."
            )
        data, names = named_graph(*read_edges(file), params)
    elif name != GIVEN:
        data, names, table = _read_features(file, name)
        used = BoundMetric.of(name, params)
    elif weights is None and keep is None and not whole:
        return Source(file)
    else:
        data, names = read_square(file)
    if keep is not None:
        rows, names = keep(names)
        data = data[np.ix_(rows, rows)] if name == GIVEN else data[rows]
        table = table if table is None else table.iloc[rows]
    found = Source(data, names, used, table=table)
    if weights is None:
        return found
    return replace(found, weights=_read_weights(weights, found, keep is not None))


def _read_weights(file: Path, source: Source, others: bool) -> Any:
    """Read weights of pairs in the order of the objects; there may be those of `others`."""
    table, names = read_square(file)
    if source.labels is not None and names is not None:
        order = order_of(names, source.labels, f"weights of {file.name}", others=others)
        table = table[np.ix_(order, order)]
    if len(table) != source.n:
        raise InputError(
            f"{file.name} weights {len(table)} objects, but there are {source.n}; pass a row and a "
            "column for each."
        )
    return table


def _read_features(file: str, metric: str) -> tuple[Any, Names, pd.DataFrame | None]:
    """Read features, the names of their rows, and the table if it has names of columns."""
    table = None
    if Path(file).suffix.lower() in (".npy", ".npz"):
        values, names = read_table(file)
        values = np.asarray(values, dtype=np.float64)
    else:
        table = read_metadata(file)
        _refuse_text_and_blanks(table, Path(file).name)
        values = table.to_numpy(dtype=np.float64)
        names = as_labels(None if table.index.name is None else table.index, len(table))
    if values.shape[1:] == (0,):
        raise InputError(f"{file} has no columns of numbers; pass a table of features.")
    if metric == "braycurtis" and (low := values.min(initial=0.0)) < 0:
        raise InputError(
            f"{file} holds negative abundances, down to {low:.3g}, for which --metric braycurtis "
            "is not defined; pass another --metric."
        )
    return values, names, table


def _refuse_text_and_blanks(table: pd.DataFrame, source: str) -> None:
    for title in table.columns:
        column = table[title]
        if column.dtype == object:
            raise InputError(
                f"{source}: column {title!r} holds {next(iter(column.dropna()), '')!r}, which is "
                "not a number; leave the column out, or put it first if it names the objects."
            )
        if column.isna().any():
            raise InputError(
                f"{source}: column {title!r} is blank in row {int(column.isna().argmax()) + 1}; "
                "fill it, with 0 if nothing was found."
            )


@dataclass(frozen=True)
class Drawing:
    """Options that decide how objects are drawn, and the table of `metadata` once it is read.

    `categories` are columns and `draw` are parts of the plot, between commas.
    """

    metadata: Path | None = None
    without_row: WithoutRow = "error"
    color_by: str | None = None
    categories: str | None = None
    axes: tuple[int, int] | None = None
    draw: str = ""
    table: Any = None

    def __post_init__(self) -> None:
        """Refuse options that need others, before anything is read."""
        needs_table = {
            "--color-by": self.color_by is not None,
            "--draw arrows": self.draws("arrows"),
            "--categories": self.categories is not None,
            "--metadata-missing": self.without_row != "error",
        }
        asked = [flag for flag, given in needs_table.items() if given]
        if asked and self.metadata is None:
            raise InputError(f"{asked[0]} needs a table of the objects; pass --metadata FILE.")
        if self.draws("ellipses") and self.color_by is None:
            raise InputError("--draw ellipses needs groups; pass --color-by COLUMN.")
        if unknown := set(_listed(self.draw)) - {"", "arrows", "ellipses"}:
            raise InputError(f"--draw {unknown.pop()} is unknown; pass arrows, ellipses, or both.")

    def draws(self, what: str) -> bool:
        """Tell whether arrows or ellipses are asked for."""
        return what in _listed(self.draw)

    def read(self) -> Drawing:
        """Read the table, if there is one."""
        if self.metadata is None:
            return self
        categories = () if self.categories is None else _listed(self.categories)
        return replace(self, table=read_metadata(self.metadata, categories=categories))

    @property
    def keeper(self) -> Keeper | None:
        """A function that selects the objects to keep; None for all."""
        if self.without_row != "drop":
            return None

        def keep(names: Names) -> tuple[list[int], Names]:
            rows = described(self.table, names)
            return rows, names and tuple(names[i] for i in rows)

        return keep

    def matched(self, source: Source) -> Drawing:
        """Put the rows of the table in the order of the objects."""
        if self.table is None:
            return self
        how = self.without_row
        table = match_rows(self.table, source.labels, source.n, missing=how)
        if self.color_by is not None:
            check_column(table, self.color_by)
            numeric = isinstance(column_values(table, self.color_by), np.ndarray)
            if numeric and self.draws("ellipses"):
                raise InputError(
                    f"--draw ellipses needs categories, and {self.color_by} holds numbers; pass "
                    f"--categories {self.color_by} if these name groups."
                )
        return replace(self, table=table)

    @property
    def color(self) -> Sequence[object] | None:
        """Values that colour the points."""
        return None if self.color_by is None else list(column_values(self.table, self.color_by))

    def fits(
        self, embedding: Embedding, pairs: Sequence[tuple[int, int]], seed: int
    ) -> list[EnvFit]:
        """Fit the variables to each pair of axes, or to the only axis there is."""
        if not self.draws("arrows"):
            return []
        axes = pairs if embedding.k > 1 else [None] * len(pairs)
        return [envfit(embedding, self.table, axes=pair, random_state=seed) for pair in axes]
