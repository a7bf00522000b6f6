"""What is embedded: dissimilarities, weighted or not, a table of features, or a graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from neucmds import api
from neucmds._input import read_table
from neucmds._input.components import Components, NComponents
from neucmds._input.containers import as_labels, to_square
from neucmds._input.pairs import as_pairs
from neucmds._input.validation import working_dtype
from neucmds._operator.choose import feature_operator
from neucmds._operator.graph import as_graph, shortest_path_rows
from neucmds.api import Callback, Prepared, on_pass
from neucmds.errors import InputError
from neucmds.ordination import read_metadata


@dataclass(frozen=True)
class Square:
    """A square matrix as it stands in a file, and the names of its objects."""

    values: Any
    labels: tuple[str, ...] | None

    @property
    def n(self) -> int:
        """Number of objects."""
        return len(self.values)


def read_square(file: str) -> Square:
    """Read a square or condensed matrix without checking what it holds."""
    values, labels = read_table(file, mmap=True)
    square, _ = to_square(np.asarray(values), working_dtype(values))
    return Square(square, as_labels(labels, len(square)))


def from_weighted(file: str, weights: Path, n_components: NComponents, **settings: Any) -> Prepared:
    """Read dissimilarities and how much each pair counts, matched by name if both have names."""
    given, table = read_square(file), read_square(str(weights))
    if given.labels is not None and table.labels is not None:
        table = _in_order(table.values, table.labels, given.labels, weights.name)
    if table.n != given.n:
        raise InputError(
            f"{weights.name} weights {table.n} objects, but {file} has {given.n}; give a row and "
            "a column for each."
        )
    return api.prepare(
        given.values, n_components, labels=given.labels, weights=table.values, **settings
    )


def _in_order(table: Any, names: tuple[str, ...], labels: tuple[str, ...], source: str) -> Square:
    place = {name: i for i, name in enumerate(names)}
    lost = [label for label in labels if label not in place]
    if lost:
        raise InputError(
            f"{source}: {len(lost)} of {len(labels)} objects have no row ({lost[0]!r}); name the "
            "rows and columns as in the dissimilarities."
        )
    order = [place[label] for label in labels]
    return Square(table[np.ix_(order, order)], labels)


def from_features(
    file: str,
    metric: str,
    n_components: NComponents,
    *,
    name_column: str | None = None,
    callback: Callback | None = None,
) -> Prepared:
    """Read a table of features, and put the dissimilarities between its rows behind an operator."""
    values, names = _read_features(file, name_column)
    if metric == "braycurtis":
        _refuse_negative_or_empty(values, names, file)
    Components.parse(n_components, max(2, len(values)))
    gram, _ = feature_operator(values, n_components, metric, progress=on_pass(callback))
    return api.prepare(gram, n_components, labels=names)


def from_graph(file: str, n_components: NComponents) -> Prepared:
    """Read edges, two nodes and a length a line; D holds the shortest paths of all pairs."""
    edges = as_pairs(file)
    graph = as_graph(edges.graph())
    paths = shortest_path_rows(graph, np.arange(edges.n))
    # The two ways along a path are added up in another order.
    return api.prepare(
        paths, n_components, labels=edges.labels, symmetrize=True, copy=False, keep_copy=True
    )


def _read_features(file: str, name_column: str | None) -> tuple[Any, tuple[str, ...] | None]:
    if Path(file).suffix.lower() in (".npy", ".npz"):
        values, names = read_table(file)
        return np.asarray(values, dtype=np.float64), names
    table = read_metadata(file, name_column)
    first = next(iter(table.cells))
    if name_column is None and (first == "name" or table.names is not None):
        table = replace(table, name_column=first)
    columns = []
    for title, column in table.columns.items():
        if not isinstance(column, np.ndarray):
            text = next((cell for cell in column if cell is not None), "")
            raise InputError(
                f"{table.source}: column {title!r} holds {text!r}, which is not a number; leave "
                "the column out, or pass it as --name-column if it names the objects."
            )
        if np.isnan(column).any():
            row = int(np.isnan(column).argmax())
            raise InputError(
                f"{table.source}: column {title!r} is blank in row {row + 1}; fill it, with 0 if "
                "nothing was found there."
            )
        columns.append(column)
    if not columns:
        raise InputError(f"{table.source} has no columns of numbers.")
    names = table.names if table.name_column is not None else None
    return np.stack(columns, axis=1), as_labels(names, len(table))


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
