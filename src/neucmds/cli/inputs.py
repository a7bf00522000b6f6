"""What is embedded: dissimilarities, weighted or not, a table of features, or a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from neucmds import api
from neucmds._input import (
    NComponents,
    as_labels,
    as_pairs,
    column_values,
    order_of,
    read_metadata,
    read_square,
    read_table,
)
from neucmds.api import Prepared
from neucmds.errors import InputError


def from_weighted(file: str, weights: Path, n_components: NComponents, **settings: Any) -> Prepared:
    """Read dissimilarities and how much each pair counts, matched by name if both have names."""
    (values, labels), (table, names) = read_square(file), read_square(weights)
    if labels is not None and names is not None:
        order = order_of(names, labels, f"weights of {weights.name}")
        table = table[np.ix_(order, order)]
    if len(table) != len(values):
        raise InputError(
            f"{weights.name} weights {len(table)} objects, but {file} has {len(values)}; give a "
            "row and a column for each."
        )
    return api.prepare(values, n_components, labels=labels, weights=table, **settings)


def read_features(file: str, metric: str) -> tuple[Any, tuple[str, ...] | None]:
    """Read a table of features for a metric, and the names of its rows."""
    if Path(file).suffix.lower() in (".npy", ".npz"):
        values, names = read_table(file)
        values = np.asarray(values, dtype=np.float64)
    else:
        table = read_metadata(file)
        if not len(table.columns):
            raise InputError(f"{Path(file).name} has no columns of numbers.")
        columns = [_feature(table, title, Path(file).name) for title in table.columns]
        values = np.stack(columns, axis=1)
        names = as_labels(None if table.index.name is None else table.index, len(table))
    if metric == "braycurtis":
        _refuse_negative_or_empty(values, names, file)
    return values, names


def read_graph(file: str) -> tuple[Any, tuple[str, ...] | None]:
    """Read edges, two nodes and a length a line, and the names of the nodes."""
    edges = as_pairs(file)
    return edges.graph(), edges.labels


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
            "found there."
        )
    return column


def _refuse_negative_or_empty(values: Any, names: tuple[str, ...] | None, file: str) -> None:
    """Refuse abundances for which Bray and Curtis's index is not defined."""
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
            f"{file}: {empty.size} objects hold nothing ({shown}), and --metric braycurtis is not "
            "defined between them; leave them out."
        )
